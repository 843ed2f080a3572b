//! Keeps what a run's output says current in `usage.json`, and judges its end by it; keeps the last message of an agent that
//! cannot write in `said.md`. It reads no agent's format itself.

use super::exit::{ExitRecord, How};
use super::folder::{Folder, Stop, USAGE};
use super::follow::Follow;
use super::profile::{Class, Counting, Reader, Situation, by_word, outcome, refusal};
use super::usage::UsageFile;
use crate::clock::{boottime, wall};
use crate::config::Price;
use crate::model::{Access, Outcome, Ticks, Timestamp, Usage, clip};
use agency_supervisor::run_file::VERSION;
use chrono::TimeDelta;
use std::collections::BTreeMap;
use std::time::Duration;

const WRITE_EVERY: Duration = Duration::from_secs(1);
/// The longest windows are weekly. A later reset than this would park a run on a mistake.
const RESET_MAX: TimeDelta = TimeDelta::days(8);

/// CLIs retry for minutes or for ever. A provider that refuses a run so often in a row, or for so long, will not serve it soon.
const REFUSALS_MAX: u32 = 4;
const REFUSED_MAX: Duration = Duration::from_secs(20);
/// The reason in `exit.json` of a run that was ended because its provider refuses it.
const REFUSED: &str = "its provider refuses it";
const GRACE_S: u64 = 5;
/// As much of an agent's last message as is shown to people.
const LAST_MAX: usize = 500;

#[derive(Debug)]
pub(super) struct Listener {
    folder: Folder,
    follow: Follow,
    reader: Reader,
    /// What its session had used before it.
    before: Usage,
    written: UsageFile,
    /// Such a file of ours is in the folder.
    is_written: bool,
    write_at: Ticks,
    access: Access,
    /// The agent's name in the configuration.
    agent: String,
    price: Option<Price>,
    /// By model, where the owner configured none.
    prices: BTreeMap<String, (f64, f64)>,
    /// Since when the provider has refused it without a break.
    refused_since: Option<Ticks>,
    refused: Option<Outcome>,
    /// The order to end it was given.
    ordered: bool,
}

/// What an earlier observer of the run may have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Earlier {
    /// The run was started just now: a file that is there is not ours.
    Nothing,
    /// The daemon was restarted.
    AsWritten,
}

/// All that a run's output says of its end.
pub(super) struct Heard {
    pub(super) outcome: Outcome,
    pub(super) usage: Usage,
    pub(super) said: Option<String>,
    /// Its last message, for people who ask why it left no result.
    pub(super) last: Option<String>,
}

impl Listener {
    /// `None`: it is nobody's output that we understand.
    pub(super) fn of(folder: &Folder, earlier: Earlier) -> Option<Self> {
        let known = match earlier {
            Earlier::Nothing => None,
            Earlier::AsWritten => folder.usage(),
        };
        let run = folder.intent().ok()?;
        let profile = by_word(run.profile.as_deref()?)?;
        Some(Self {
            folder: folder.clone(),
            follow: Follow::new(folder),
            reader: Reader::new(profile),
            before: run.before.unwrap_or_default(),
            refused: known.as_ref().and_then(|file| file.refused.clone()),
            is_written: known.is_some(),
            written: known.unwrap_or_default(),
            write_at: boottime(),
            access: run.access,
            price: run.price.map(|(input, output)| Price { input, output }),
            prices: run.prices,
            agent: run.agent.unwrap_or_else(|| run.seat.to_string()),
            refused_since: None,
            ordered: false,
        })
    }

    /// Returns how the run is to be ended now, if it is.
    pub(super) fn listen(&mut self) -> Option<Stop> {
        self.follow.read(&mut self.reader);
        let stop = self.refused();
        if stop.is_some() || boottime() >= self.write_at {
            let file = self.file();
            self.write(file);
        }
        stop
    }

    /// SE-09: a `usage.json` that is not what we wrote. It is replaced by the next one.
    pub(super) fn forged(&mut self) -> Option<String> {
        let there = self.folder.has(USAGE);
        let ours = self.is_written && self.folder.usage().as_ref() == Some(&self.written);
        if !there || ours {
            return None;
        }
        self.is_written = false;
        self.write_at = boottime();
        let written = std::mem::take(&mut self.written);
        let kept = self.folder.set_aside(USAGE).ok()?;
        self.write(written);
        Some(format!("`{USAGE}` is kept as `{}`", kept.display()))
    }

    /// SU-09, SU-10: a refusal ends the run early, a failed sign-in at once. What it was is in `usage.json` before the order.
    fn refused(&mut self) -> Option<Stop> {
        let report = self.reader.report();
        let Some(outcome) = refusal(&report, self.situation(wall())) else {
            self.refused_since = None;
            return None;
        };
        let now = boottime();
        let since = *self.refused_since.get_or_insert(now);
        let hopeless = matches!(outcome, Outcome::Auth { .. })
            || report.refusals >= REFUSALS_MAX
            || now.since(since) >= REFUSED_MAX;
        if !hopeless || self.ordered {
            return None;
        }
        self.ordered = true;
        self.refused = Some(believable(outcome, wall()));
        Some(Stop { why: REFUSED.to_owned(), grace_s: GRACE_S })
    }

    /// SU-13: a cost that the agent does not name, from its tokens and the owner's price.
    fn priced(&self, mut usage: Usage, model: Option<&str>) -> Usage {
        let tokens = usage.input_tokens.zip(usage.output_tokens);
        if let (None, Some(price), Some((input, output))) =
            (usage.cost_microusd, self.price.or_else(|| self.reported_price(model)), tokens)
        {
            usage.cost_microusd = Some(price.microusd(input, output));
            usage.estimated = true;
        }
        usage
    }

    /// By the model that the CLI names, with or without the provider before it (`openai/gpt-4o`).
    fn reported_price(&self, model: Option<&str>) -> Option<Price> {
        let model = model?;
        let bare = model.split_once('/').map_or(model, |(_, bare)| bare);
        let (input, output) = *self.prices.get(model).or_else(|| self.prices.get(bare))?;
        Some(Price { input, output })
    }

    fn situation(&self, now: Timestamp) -> Situation<'_> {
        Situation { agent: &self.agent, now }
    }

    /// The class of the end, what the run used and its answer, from everything that it said.
    pub(super) fn end(mut self, record: &ExitRecord) -> Heard {
        let follow = std::mem::replace(&mut self.follow, Follow::new(&self.folder));
        follow.finish(&mut self.reader);
        let outcome = match (&record.how, self.refused.clone()) {
            (How::Stopped(why), Some(refused)) if why == REFUSED => refused,
            (how, _) => {
                let report = self.reader.report();
                believable(outcome(how, &report, self.situation(record.ended_at)), record.ended_at)
            }
        };
        let file = UsageFile { outcome: Some(outcome.clone()), ..self.file() };
        let usage = file.usage.clone();
        self.write(file);
        let last = self.reader.said().map(|said| clip(&said, LAST_MAX));
        Heard { outcome, usage, said: self.said(), last }
    }

    /// Of one that writes files, the files are the answer. What an earlier look kept counts where the logs tell no more.
    fn said(&self) -> Option<String> {
        if self.access != Access::ReadOnly {
            return None;
        }
        let said = self.reader.said();
        if let Some(Err(cause)) = said.as_deref().map(|said| self.folder.keep_said(said)) {
            let folder = self.folder.path().display();
            tracing::debug!(%folder, %cause, "its last message cannot be kept");
        }
        said.or_else(|| self.folder.said())
    }

    fn file(&self) -> UsageFile {
        let report = self.reader.report();
        let total = (report.counting == Counting::Session).then(|| report.usage.clone());
        let file = UsageFile {
            version: VERSION,
            usage: self.priced(report.usage_since(&self.before), report.model.as_deref()),
            model: report.model.clone(),
            total,
            trouble: report.class.as_ref().map(Class::word).map(str::to_owned),
            refused: self.refused.clone(),
            // Only a run that has ended has one.
            outcome: self.written.outcome.clone(),
        };
        file.or(&self.written)
    }

    /// It can be made again from the logs, so a failure costs nothing but the view from outside.
    fn write(&mut self, file: UsageFile) {
        if file == self.written {
            return;
        }
        self.write_at = boottime().after(WRITE_EVERY);
        match self.folder.publish_json_lazily(USAGE, &file) {
            Ok(()) => (self.written, self.is_written) = (file, true),
            Err(cause) => {
                let folder = self.folder.path().display();
                tracing::debug!(%folder, %cause, "usage.json cannot be written");
            }
        }
    }
}

fn believable(outcome: Outcome, ended_at: Timestamp) -> Outcome {
    match outcome {
        Outcome::UsageLimit { until: Some(until) } if until - ended_at > RESET_MAX => {
            Outcome::UsageLimit { until: None }
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SU-05
    #[test]
    fn a_reset_in_the_far_future_is_not_believed() {
        let now = Timestamp::from_timestamp(1_800_000_000, 0).unwrap();
        let of = |days| {
            let until = Some(now + TimeDelta::days(days));
            believable(Outcome::UsageLimit { until }, now) == Outcome::UsageLimit { until }
        };
        assert!(of(7));
        assert!(!of(400));
    }
}
