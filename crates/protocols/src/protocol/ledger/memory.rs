//! What the ledger's loop remembers across restarts: typed views of the memos that its own decisions carry.

use super::docs::Op;
use super::words::AgentType;
use crate::model::{
    Bytes, Cause, CommitId, Decision, Digest, Memo, Moment, Outage, Outcome, RunId, Timestamp,
    TreeId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// How many decisions were journalled; the next one's number.
    pub(super) decisions: u64,
    /// The branch that the loop belongs to; `None`: no loop was begun.
    pub(super) main: Option<String>,
    /// What is to be built, for the INITIALIZER.
    pub(super) spec: Option<String>,
    pub(super) turn: Option<Turn>,
    /// The commit at which there was nothing to do.
    pub(super) rest: Option<CommitId>,
    /// What was last refused, for the next prompt.
    pub(super) refusals: Vec<String>,
    /// The owner's files as we last saw or wrote them.
    pub(super) known: BTreeMap<String, Digest>,
    pub(super) holds: Vec<Hold>,
    /// Features that were rejected too often, and those that the owner lets try again (LG-08).
    pub(super) standing: BTreeMap<String, Standing>,
    /// Rises with each `resume`, so that a cause that comes back is a new one.
    pub(super) epoch: u64,
}

/// One session: one agent on one branch, in one or more tries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) agent: AgentType,
    pub(super) feature: Option<String>,
    pub(super) branch: String,
    /// The main branch when the session was decided on.
    pub(super) main_at: CommitId,
    pub(super) failures: u32,
    pub(super) not_before: Option<Moment>,
    /// Why it waits until then, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) paused: String,
    /// The agent's provider has not served it since then (SU-09).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outage: Option<Outage>,
    /// The owner has seen what was wrong with it and lets it go on.
    pub(super) excused: bool,
    pub(super) stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// Its branch is brought up to date with the main branch's documents.
    Opening,
    /// The branch stands where the session begins.
    Based {
        base: CommitId,
    },
    Running {
        base: CommitId,
        start: TreeId,
        run: RunId,
        since: Timestamp,
    },
    Ended(Ended),
    /// Everything that it left is in commits.
    Left {
        ended: Ended,
        tip: CommitId,
        strayed: bool,
    },
    Moving(Box<Moving>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) base: CommitId,
    pub(super) start: TreeId,
    pub(super) run: RunId,
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
    pub(super) outcome: Outcome,
    pub(super) tail: String,
}

/// A judged session on its way into the main branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Moving {
    pub(super) row: String,
    pub(super) at: Timestamp,
    pub(super) run: RunId,
    pub(super) ops: Vec<Op>,
    /// Where the branch belongs: what a builder left, or where a reviewer found it.
    pub(super) stand: CommitId,
    /// Where it was found; `None`: it was deleted.
    pub(super) found: Option<CommitId>,
    pub(super) fate: Fate,
    /// Worktree and branch are put in order.
    pub(super) cleaned: bool,
    /// The branch needs the main branch's documents before it can be merged.
    pub(super) resync: bool,
    pub(super) merged: Option<CommitId>,
    pub(super) recorded: Option<CommitId>,
    /// Why it counts as a failed try, if it does.
    pub(super) failure: Option<String>,
    /// Ledger files that a REVIEW merged with its work. What we record replaces them (LG-14).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) superseded: Vec<Superseded>,
}

/// A ledger file as the agent left it, and what the main branch had before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Superseded {
    pub(super) file: String,
    pub(super) left: Digest,
    pub(super) before: Option<Bytes>,
}

/// What becomes of the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fate {
    /// It stays as the session left it.
    Keep,
    /// It is merged, then deleted.
    Merge,
    /// It is kept aside, then deleted.
    Reject,
    /// It was only a place to look from.
    Drop,
}

/// What is known of a feature that was rejected twice (LG-08).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Standing {
    /// It waits for the owner.
    Parked { cause: Cause, rejects: usize },
    /// The owner let it try again after so many rejections.
    Retried { rejects: usize },
}

/// Why the loop waits for its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) cause: Cause,
    pub(super) summary: String,
    pub(super) way_out: WayOut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum WayOut {
    Resume,
    Adopt,
    /// Git is not run until the owner trusts it (SE-01).
    Trust,
}

impl WayOut {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Adopt => "adopt",
            Self::Trust => "trust",
        }
    }
}

impl Memory {
    /// Takes in what a journalled decision says that we know now.
    pub(super) fn take(&mut self, decision: &Decision) {
        self.decisions += 1;
        for memo in &decision.memo {
            self.set(memo);
        }
    }

    fn set(&mut self, memo: &Memo) {
        let value = memo.value.as_ref();
        match memo.name.split_once('/').unwrap_or((&memo.name, "")) {
            ("count", _) => self.decisions = read(value).unwrap_or_default(),
            ("main", _) => self.main = read(value),
            ("spec", _) => self.spec = read(value),
            ("turn", _) => self.turn = read(value),
            ("rest", _) => self.rest = read(value),
            ("refused", _) => self.refusals = read(value).unwrap_or_default(),
            ("known", file) => {
                self.known.remove(file);
                self.known.extend(read(value).map(|digest| (file.to_owned(), digest)));
            }
            ("holds", _) => self.holds = read(value).unwrap_or_default(),
            ("standing", feature) => {
                self.standing.remove(feature);
                self.standing.extend(read(value).map(|standing| (feature.to_owned(), standing)));
            }
            ("epoch", _) => self.epoch = read(value).unwrap_or_default(),
            (other, _) => panic!("BUG: this version does not know the memo `{other}`"),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }
}

/// A memo that cannot be read means that this version cannot know the truth: freezing is right, guessing is not.
fn read<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    value.map(|value| T::deserialize(value).expect("BUG: a memo in the journal must be readable"))
}

impl Turn {
    pub(super) fn at(&self, stage: Stage) -> Self {
        Self { stage, ..self.clone() }
    }

    /// The worktree of this session. One at a time, and a name that says what it is.
    pub(super) fn tree(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let branch: String = self.branch.chars().map(plain).take(60).collect();
        format!("ledger-{branch}")
    }
}
