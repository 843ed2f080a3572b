//! What a run's output has said so far: its session, what it used, what stands in its way. It reads no output itself.

use super::Profile;
use crate::model::{SAID_MAX, Timestamp, Usage, clip};
use chrono::{Local, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone as _, Utc};

/// Different tools that are named when something was denied.
const DENIED_MAX: usize = 5;
const MINUTE: TimeDelta = TimeDelta::minutes(1);
/// How long after the named minute a limit that is still reported counts as one that ends now.
const JUST_OVER: TimeDelta = TimeDelta::hours(1);

/// What an agent's own events say, current while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub profile: Option<Profile>,
    pub usage: Usage,
    pub counting: Counting,
    pub class: Option<Class>,
    /// How often the provider has refused it since the model last answered.
    pub refusals: u32,
    pub finish: Finish,
    /// The model as the CLI names it.
    pub model: Option<String>,
}

impl Report {
    pub fn session(&self) -> Option<&str> {
        self.usage.session.as_deref()
    }

    /// What this run used; `previous`: what its resumed session had used before.
    pub fn usage_since(&self, previous: &Usage) -> Usage {
        match self.counting {
            Counting::Run => self.usage.clone(),
            Counting::Session => self.usage.since(previous),
        }
    }
}

/// From where the numbers of a report count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// From the start of this run.
    #[default]
    Run,
    /// From the beginning of the session, earlier runs included.
    Session,
}

/// Whether the agent came to the end of its work, whatever that end was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finish {
    /// It tells nothing of the kind, or we did not see all that it told.
    #[default]
    Unknown,
    Open,
    Done,
}

/// What stands in an agent's way. All but `Denied` are over as soon as the model answers again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    UsageLimit {
        until: Reset,
    },
    /// A plain 429. With an API key a spent allowance looks the same.
    RateLimited {
        /// In how many seconds the provider wants to be asked again.
        retry_after_s: Option<u64>,
    },
    Auth {
        said: String,
    },
    Denied {
        what: String,
    },
    /// The provider answers, but cannot serve: 5xx, overload.
    Overloaded {
        said: String,
    },
    Unreachable,
    /// The agent says that it failed, for another reason.
    Failed {
        how: String,
    },
}

/// When a usage limit ends, as the CLI writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    Unknown,
    At(Timestamp),
    /// The next time that the local clock shows this.
    Clock(NaiveTime),
    /// A local date.
    Date(NaiveDateTime),
}

impl Reset {
    /// The moment that is meant in something said at `said_at`.
    pub fn after(self, said_at: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Unknown => None,
            Self::At(at) => Some(at),
            Self::Clock(time) => {
                let today = said_at.with_timezone(&Local).date_naive();
                // The clock shows no seconds, so the limit ends within that minute.
                let end = |day: NaiveDate| Some(local(day.and_time(time))? + MINUTE);
                let first = end(today)?;
                // A reset on another day has a date, so a minute that is just over means that the limit ends now.
                if first <= said_at && said_at - first < JUST_OVER {
                    return Some(said_at + MINUTE);
                }
                [Some(first), end(today.succ_opt()?)].into_iter().flatten().find(|at| *at > said_at)
            }
            Self::Date(date) => local(date),
        }
    }
}

fn local(date: NaiveDateTime) -> Option<Timestamp> {
    Local.from_local_datetime(&date).earliest().map(|at| at.with_timezone(&Utc))
}

impl Class {
    pub fn word(&self) -> &'static str {
        match self {
            Self::UsageLimit { .. } => "usage-limit",
            Self::RateLimited { .. } => "rate-limited",
            Self::Auth { .. } => "auth",
            Self::Denied { .. } => "denied",
            Self::Overloaded { .. } => "overloaded",
            Self::Unreachable => "unreachable",
            Self::Failed { .. } => "failed",
        }
    }

    /// What an HTTP status means for a run; `None`: nothing in particular.
    pub(super) fn of_status(status: u64) -> Option<Self> {
        match status {
            401 | 403 => Some(Self::Auth { said: status.to_string() }),
            429 => Some(Self::RateLimited { retry_after_s: None }),
            500..=599 => Some(Self::Overloaded { said: status.to_string() }),
            _ => None,
        }
    }

    pub(super) fn failed(how: impl Into<String>) -> Self {
        Self::Failed { how: how.into() }
    }
}

/// What a reader collects.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) usage: Usage,
    pub(super) counting: Counting,
    pub(super) finish: Finish,
    trouble: Option<Class>,
    refusals: u32,
    denied: Vec<String>,
    model: Option<String>,
    /// The model's message that was counted last, so that its parts are not counted again.
    pub(super) counted: Option<String>,
    /// What the model says now; its last message if nothing comes after it.
    saying: String,
    /// It says more than is kept.
    rambles: bool,
    /// Its last message, once the CLI says that the work has ended well.
    said: Option<String>,
}

impl Seen {
    pub(super) fn session(&mut self, id: &str) {
        if is_session(id) {
            self.usage.session = Some(id.to_owned());
        }
    }

    /// The first model that is named does the work; helpers may come after it.
    pub(super) fn work_of(&mut self, model: Option<&str>) {
        let model = model.map(str::trim).filter(|model| !model.is_empty());
        if self.model.is_none() {
            self.model = model.map(|model| clip(model, 100));
        }
    }

    pub(super) fn model(&self) -> Option<String> {
        self.model.clone()
    }

    /// The model has answered: what stood in the way does so no more.
    pub(super) fn progress(&mut self) {
        (self.trouble, self.refusals) = (None, 0);
    }

    /// Tokens of one more answer.
    pub(super) fn add(&mut self, input: u64, output: u64) {
        let plus = |sum: &mut Option<u64>, more| *sum = Some(sum.unwrap_or(0).saturating_add(more));
        plus(&mut self.usage.input_tokens, input);
        plus(&mut self.usage.output_tokens, output);
    }

    /// A limit that says until when is not forgotten for the plain 429 that it comes with.
    pub(super) fn trouble(&mut self, class: Class) {
        self.refusals = self.refusals.saturating_add(1);
        let known = matches!(self.trouble, Some(Class::UsageLimit { .. }));
        if !(known && matches!(class, Class::RateLimited { .. })) {
            self.trouble = Some(class);
        }
    }

    pub(super) fn refusals(&self) -> u32 {
        self.refusals
    }

    pub(super) fn in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    pub(super) fn deny(&mut self, tool: &str) {
        let tool = clip(tool, 120);
        if tool.starts_with("run \"") {
            self.denied.retain(|known| known != "run a command");
        }
        if self.denied.len() < DENIED_MAX && !self.denied.contains(&tool) {
            self.denied.push(tool);
        }
    }

    /// One more piece of what the model says.
    pub(super) fn say(&mut self, text: &str) {
        if self.saying.len() + text.len() > SAID_MAX {
            self.rambles = true;
        } else {
            self.saying.push_str(text);
        }
    }

    /// Something came after it, or may have: what was said so far is not the last message.
    pub(super) fn hush(&mut self) {
        (self.saying, self.rambles, self.said) = (String::new(), false, None);
    }

    /// The work has ended, and this is what was said last.
    pub(super) fn conclude(&mut self) {
        let said = std::mem::take(&mut self.saying);
        let whole = !std::mem::take(&mut self.rambles) && !said.trim().is_empty();
        self.said = whole.then_some(said);
    }

    pub(super) fn said(&self) -> Option<&str> {
        self.said.as_deref()
    }

    pub(super) fn class(&self) -> Option<Class> {
        let denied = || Class::Denied { what: self.denied.join(", ") };
        self.trouble.clone().or_else(|| (!self.denied.is_empty()).then(denied))
    }
}

/// Ids become arguments of later command lines: nothing that could be taken for a flag.
pub(super) fn is_session(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=128).contains(&id.len()) && !id.starts_with('-') && id.chars().all(plain)
}

/// Dollars as an agent writes them, in millionths.
pub(super) fn microusd(dollars: f64) -> Option<u64> {
    whole(dollars * 1e6)
}

/// Beyond a million millions it is no count but a mistake.
pub(super) fn whole(number: f64) -> Option<u64> {
    (0.0..1e12).contains(&number).then(|| number.round() as u64)
}
