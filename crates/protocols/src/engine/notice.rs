//! What the owner is told, and why a protocol waits for them: one notice, one hold, and the way out of it. It sends nothing.

use crate::model::{Cause, Effect, Escalation, Failure, FailureKind, RuleId, Severity, clip};
use serde::{Deserialize, Serialize};

/// Something to tell the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub rule: &'static str,
    /// What it is about. The same rule about the same subject is told once.
    pub subject: String,
    pub summary: String,
    pub did: String,
    pub wont: String,
    pub evidence: Vec<String>,
    pub way_out: WayOut,
}

/// How an owner ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WayOut {
    Resume,
    Adopt,
    /// Git is not run until the owner trusts it (SE-01).
    Trust,
}

/// How much depends on the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The protocol waits.
    Hold,
    /// One thing waits, the rest goes on.
    Ask,
    /// Nothing waits.
    Tell(Severity),
}

/// Why a protocol waits for its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub cause: Cause,
    pub summary: String,
    pub way_out: WayOut,
}

/// Everything that a protocol waits for its owner for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    pub open: Vec<Hold>,
    /// Rises with each release, so that a cause that comes back is a new one.
    pub epoch: u64,
}

impl WayOut {
    pub fn verb(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Adopt => "adopt",
            Self::Trust => "trust",
        }
    }

    pub fn command(self) -> String {
        format!("agency {}", self.verb())
    }
}

impl Notice {
    pub fn new(rule: &'static str, subject: impl Into<String>, summary: String) -> Self {
        Self {
            rule,
            subject: subject.into(),
            summary,
            did: "Nothing was started and nothing was thrown away.".to_owned(),
            wont: "We start no agent here until you say so.".to_owned(),
            evidence: Vec::new(),
            way_out: WayOut::Resume,
        }
    }

    pub fn escalation(self, protocol: &str, epoch: u64, weight: Weight) -> Escalation {
        let (severity, waits) = match weight {
            Weight::Hold => (Severity::Critical, true),
            Weight::Ask => (Severity::Warning, true),
            Weight::Tell(severity) => (severity, false),
        };
        let over = || "nothing to do; `agency ack ID` closes it".to_owned();
        let resolve = if waits { self.way_out.command() } else { over() };
        Escalation {
            cause: Cause {
                protocol: protocol.to_owned(),
                rule: RuleId::new(self.rule),
                subject: clip(&self.subject, 200),
                epoch,
            },
            severity,
            holds: weight == Weight::Hold,
            what: self.summary.clone(),
            summary: clip(&self.summary, 200),
            did: self.did,
            wont: if waits { self.wont } else { "Nothing waits for you here.".to_owned() },
            resolve,
            options: waits.then(|| self.way_out.verb().to_owned()).into_iter().collect(),
            evidence: self.evidence,
            everywhere: false,
        }
    }
}

impl Holds {
    pub fn is_held(&self) -> bool {
        !self.open.is_empty()
    }

    /// With one more: a cause is listed once.
    pub(super) fn with(&self, hold: Hold) -> Vec<Hold> {
        let mut open = self.open.clone();
        open.retain(|known| known.cause != hold.cause);
        open.push(hold);
        open
    }
}

/// SE-01: each line of `said` is one change in what git runs, includes or obeys here.
pub fn git_held(notice: Notice, said: &str) -> Notice {
    let first = said.lines().next().unwrap_or_default();
    Notice {
        rule: "SE-01",
        subject: first.to_owned(),
        summary: format!("git is held: {}", clip(first, 180)),
        wont: "We run no git here until you have looked and said `agency trust`.".to_owned(),
        evidence: said.lines().take(20).map(str::to_owned).collect(),
        way_out: WayOut::Trust,
        ..notice
    }
}

/// DM-10: an effect failed in a way that the protocol has no answer to. `notice` gives the protocol's own words.
pub fn broken(notice: Notice, effect: &Effect, failure: &Failure) -> Notice {
    if failure.kind == FailureKind::GitHeld {
        return git_held(notice, &failure.said);
    }
    let doing = effect.doing();
    let summary = format!("{doing} failed: {}", clip(&failure.said, 160));
    let evidence = vec![failure.said.clone()];
    Notice { rule: "DM-10", subject: doing, summary, evidence, ..notice }
}
