//! What happened since a time (OP-09): read from the journals, the runs and the outboxes, for people who were away. It decides
//! nothing, prints nothing and changes nothing.

mod daily;
mod page;
mod repository;

pub(crate) use daily::send_daily;
pub(crate) use page::html;

use crate::model::Timestamp;
use crate::repository::Known;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Lines of one kind that are kept of one repository; the rest is counted.
const LINES: usize = 40;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Digest {
    pub(crate) since: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) repos: Vec<RepoDigest>,
    pub(crate) runs: u64,
    /// Runs by their outcome.
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) cost_usd: f64,
    /// Of that, estimated from tokens and prices.
    pub(crate) estimated_usd: f64,
    pub(crate) tokens: u64,
    /// Seconds that runs of each agent took.
    pub(crate) time_per_agent: BTreeMap<String, f64>,
    /// Dollars by the hour in which a run ended.
    pub(crate) cost_by_hour: Vec<(Timestamp, f64)>,
    pub(crate) longest_waits: Vec<Wait>,
    /// What waits for the owner now.
    pub(crate) waiting: Vec<Waiting>,
}

/// One repository in which something happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct RepoDigest {
    pub(crate) path: String,
    pub(crate) name: String,
    /// What a task or loop moved to.
    pub(crate) done: Vec<String>,
    pub(crate) committed: Vec<String>,
    pub(crate) merged: Vec<String>,
    pub(crate) refused: Vec<String>,
    pub(crate) held: Vec<String>,
    /// What the owner did.
    pub(crate) asked: Vec<String>,
    /// Lines that are left out above.
    pub(crate) left_out: u64,
}

/// Work that stood still until the owner, or what it waited for, came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Wait {
    pub(crate) repo: String,
    pub(crate) what: String,
    pub(crate) seconds: f64,
    pub(crate) over: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Waiting {
    pub(crate) repo: String,
    pub(crate) id: String,
    pub(crate) rule: String,
    pub(crate) summary: String,
    pub(crate) holds: bool,
    pub(crate) since: Timestamp,
    /// The command that resolves it.
    pub(crate) resolve: String,
}

impl Digest {
    /// `outboxes`: of the daemons, which tell of repositories that they cannot open.
    pub(crate) fn of(
        known: &[Known],
        outboxes: &[PathBuf],
        since: Timestamp,
        until: Timestamp,
    ) -> Self {
        let mut digest = Self { since, until, ..Self::default() };
        for one in known {
            repository::read(one, &mut digest);
        }
        for outbox in outboxes {
            repository::read_daemon(outbox, &mut digest);
        }
        digest.longest_waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        digest.longest_waits.truncate(8);
        digest.waiting.sort_by_key(|one| (!one.holds, one.since));
        digest
    }

    /// One sentence: what matters first.
    pub(crate) fn headline(&self) -> String {
        let holds = self.waiting.iter().filter(|one| one.holds).count();
        let done: usize =
            self.repos.iter().map(|repo| repo.committed.len() + repo.merged.len()).sum();
        let waits = match holds {
            0 => "Nothing waits for you".to_owned(),
            1 => "1 thing waits for you".to_owned(),
            holds => format!("{holds} things wait for you"),
        };
        let landed =
            if done == 1 { "1 commit landed".to_owned() } else { format!("{done} commits landed") };
        format!("{waits}; {landed}")
    }
}
