//! Why a protocol looks again. A wake carries facts; it never carries an order.

use super::{Checkout, Decision, Effect, Fact, FileSeen, Key, RunId, Timestamp, TreeRef};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub enum Wake {
    /// A watched file, as it is now.
    File(FileSeen),
    /// The owner's checkout, as it is now.
    Checkout(Checkout),
    Run(RunEvent),
    /// The answer to an `Ask`.
    Fact {
        key: Key,
        value: Fact,
    },
    /// One of our own decisions is in the journal.
    Decided(Decision),
    /// An effect is finished and journalled.
    Done {
        key: Key,
    },
    /// A `Lease` was granted: one run may be started now. Not said again after a restart.
    Leased {
        tree: TreeRef,
    },
    /// An effect failed. The protocol decides what follows.
    Failed {
        key: Key,
        effect: Effect,
        failure: Failure,
    },
    Command(Command),
    /// A deadline came.
    Deadline,
}

/// Why an effect could not be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub kind: FailureKind,
    /// What the system said, for people.
    pub said: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The branch is no longer where the plan expected it.
    Moved,
    /// The remote has commits that we do not have.
    NotFastForward,
    /// Somebody's files are in the way for now.
    Busy,
    /// Git is not run here until the owner trusts what changed; each line says one change (SE-01).
    GitHeld,
    /// Disk, network, process: it may work later.
    Broken,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEvent {
    Started {
        run: RunId,
        at: Timestamp,
    },
    /// Boxed: a channel keeps room for many, in every repository.
    Ended(Box<RunEnd>),
}

/// The longest last message that is an answer, in bytes. A longer one is not taken, and never cut into something else.
pub const SAID_MAX: usize = 256 * 1024;

/// How a run ended, as we saw it; its structured output counts only where it explains a failure or counts costs, and where an
/// agent that may not write has no other way to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    pub run: RunId,
    pub outcome: Outcome,
    pub ended_at: Timestamp,
    /// The end of its output, for people and for evidence.
    #[serde(default)]
    pub tail: String,
    /// The exit code of the process, where it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// What it took, as far as the agent's structured output says so.
    #[serde(default)]
    pub usage: Usage,
    /// The last message of an agent that was started read-only, at most `SAID_MAX`. A claim like any file that one writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
}

/// What an agent used. `None`: it did not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// The agent's own name for the conversation, by which it can be resumed.
    pub session: Option<String>,
    /// Cached ones included.
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// Millionths of a US dollar.
    pub cost_microusd: Option<u64>,
    /// The cost is ours, from tokens and the owner's prices; the agent named none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub estimated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_false(value: &bool) -> bool {
    !value
}

impl Usage {
    /// What came on top of `previous`, where both count the same conversation from its beginning.
    pub fn since(&self, previous: &Self) -> Self {
        let minus = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        Self {
            session: self.session.clone(),
            input_tokens: minus(self.input_tokens, previous.input_tokens),
            output_tokens: minus(self.output_tokens, previous.output_tokens),
            cost_microusd: minus(self.cost_microusd, previous.cost_microusd),
            estimated: self.estimated,
        }
    }

    /// Input and output together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0))
    }
}

/// Classes of ends (SU-05). Whether the expected file is there is for the protocol to see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It exited with 0.
    Ok,
    Crash {
        how: String,
    },
    /// One of our limits ended it: `first-output`, `silence`, `wall-clock`.
    Timeout {
        limit: String,
    },
    /// We stopped it; `why` is the reason given then.
    Stopped {
        why: String,
    },
    /// Nobody knows how it ended. Never a success.
    Lost,
    /// The provider gives no more for now; `until` where it says so.
    UsageLimit {
        until: Option<Timestamp>,
    },
    /// The provider does not serve the agent for now; the agent did nothing wrong (SU-09). `what` goes on from its name.
    Provider {
        what: String,
        /// When the provider wants to be asked again, where it says so.
        retry_at: Option<Timestamp>,
    },
    Auth {
        said: String,
        /// What the owner is asked to do, in one sentence.
        #[serde(default)]
        ask: String,
    },
    /// It ended well, but was refused something on the way. It counts only when the expected file is missing.
    Denied {
        what: String,
        /// As in `Auth`.
        #[serde(default)]
        ask: String,
    },
    /// The agent's program is not there (SU-11).
    NotFound {
        program: String,
        ask: String,
    },
}

impl Outcome {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Crash { .. } => "crash",
            Self::Timeout { .. } => "timeout",
            Self::Stopped { .. } => "stopped",
            Self::Lost => "lost",
            Self::UsageLimit { .. } => "usage-limit",
            Self::Provider { .. } => "provider",
            Self::Auth { .. } => "auth",
            Self::Denied { .. } => "denied",
            Self::NotFound { .. } => "not-found",
        }
    }

    /// The word, and what is known beyond it.
    pub fn sentence(&self) -> String {
        match self {
            Self::Ok => "exited with 0".to_owned(),
            Self::Crash { how } => format!("crashed: {how}"),
            Self::Timeout { limit } => format!("passed its {limit} limit and was ended"),
            Self::Stopped { why } => format!("was stopped: {why}"),
            Self::Lost => "is lost: nobody saw how it ended".to_owned(),
            Self::UsageLimit { until: Some(until) } => {
                format!("hit a usage limit until {}", until.format("%Y-%m-%dT%H:%M:%SZ"))
            }
            Self::UsageLimit { until: None } => "hit a usage limit".to_owned(),
            Self::Provider { what, .. } => format!("was ended: the agent {what}"),
            Self::Auth { said, .. } => format!("could not sign in: {said}"),
            Self::Denied { what, ask } if ask.is_empty() => format!("was denied: {what}"),
            Self::Denied { ask, .. } => format!("was denied something: {ask}"),
            Self::NotFound { program, .. } => format!("did not start: `{program}` is not there"),
        }
    }

    /// What the owner must do before `agent` can work again.
    pub fn request(&self, agent: &str) -> String {
        match self {
            Self::Auth { ask, .. } | Self::Denied { ask, .. } | Self::NotFound { ask, .. }
                if !ask.is_empty() =>
            {
                ask.clone()
            }
            Self::Auth { said, .. } => {
                format!("{agent} cannot sign in ({said}). Sign in once, then: agency resume")
            }
            Self::Denied { .. }
            | Self::NotFound { .. }
            | Self::Ok
            | Self::Crash { .. }
            | Self::Timeout { .. }
            | Self::Stopped { .. }
            | Self::Lost
            | Self::UsageLimit { .. }
            | Self::Provider { .. } => format!("the last run of {agent} {}", self.sentence()),
        }
    }
}

/// Something a person asks for. Judged by the same tables as everything else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub id: String,
    /// The protocol it is for; `None`: whichever it concerns.
    pub protocol: Option<String>,
    pub verb: Verb,
    #[serde(default)]
    pub args: BTreeMap<String, String>,
    /// Who asked, for the journal.
    pub by: String,
    /// From where: the command line, the dashboard and its address.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
}

impl Command {
    pub fn arg(&self, name: &str) -> Option<&str> {
        self.args.get(name).map(String::as_str)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Begin: the protocol's files do not exist yet.
    Init,
    /// The owner has seen why the repository is held, and lets it go on.
    Resume,
    /// Take what is in the repository as the truth.
    Adopt,
    /// Put back what the journal knows.
    Restore,
    /// Move by hand, past the table.
    Inject,
    /// End a run.
    Stop,
    /// The owner has seen an escalation. The shell's matter.
    Ack,
    /// The repository's own settings, and git's, count as they are now. The shell's matter; a protocol that waited for it
    /// goes on.
    Trust,
    /// No new run is started until `Unpause`. The shell's matter.
    Pause,
    /// Ends a pause. The shell's matter.
    Unpause,
    /// The daemon leaves the repository, and its state is deleted. The shell's matter.
    Forget,
    /// A verb of one protocol's own: the argument `do` names it.
    Do,
}
