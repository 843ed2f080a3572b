//! What the ledger's loop remembers across restarts: the memos that its own decisions carry, and what they add up to.

use super::docs::Op;
use super::words::AgentType;
use crate::engine::{Hold, Holds, Remember as _, Session, Work};
use crate::memos;
use crate::model::{Bytes, Cause, CommitId, Decision, Digest, RunId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

memos! {
    /// The forms that the journal keeps. `None` forgets.
    pub enum Memo {
        one {
            Count("count"): u64,
            Main("main"): String,
            Spec("spec"): String,
            Turn("turn"): Box<Turn>,
            Rest("rest"): CommitId,
            Refused("refused"): Vec<String>,
            Holds("holds"): Vec<Hold>,
            Epoch("epoch"): u64,
        }
        each {
            Known("known"): Digest,
            Standing("standing"): Standing,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// How many decisions were journalled; the next one's number.
    pub(super) decisions: u64,
    /// The branch that the loop belongs to; `None`: no loop was begun.
    pub(super) main: Option<String>,
    /// What is to be built, for the INITIALIZER.
    pub(super) spec: Option<String>,
    pub(super) activity: Activity,
    /// What was last refused, for the next prompt.
    pub(super) refusals: Vec<String>,
    /// The owner's files as we last saw or wrote them.
    pub(super) known: BTreeMap<String, Digest>,
    pub(super) holds: Holds,
    /// Features that were rejected too often, and those that the owner lets try again (LG-08).
    pub(super) standing: BTreeMap<String, Standing>,
}

/// What the loop is at.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Activity {
    /// It looks for the next session.
    #[default]
    Choosing,
    Session(Box<Turn>),
    /// There was nothing to do at this commit.
    Resting(CommitId),
}

/// One session: one agent on one branch, in one or more tries.
pub(super) type Turn = Session<Sessions>;
pub(super) type Ended = crate::engine::Ended<Sessions>;
pub(super) type Looked = crate::engine::Looked<Sessions>;
pub(super) type Stage = crate::engine::Stage<Sessions>;

#[derive(Clone, Debug, PartialEq)]
pub struct Sessions;

impl Work for Sessions {
    type Task = Task;
    type Base = Base;
    type Found = Found;
    type Landing = Moving;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub(super) agent: AgentType,
    pub(super) feature: Option<String>,
    pub(super) branch: String,
    /// The main branch when the session was decided on.
    pub(super) main_at: CommitId,
    /// The owner has seen what was wrong with it and lets it go on.
    pub(super) excused: bool,
}

/// Where the branch stands when the session begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Base {
    #[serde(rename = "base")]
    pub(super) commit: CommitId,
}

/// Everything that the session left is in commits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    pub(super) tip: CommitId,
    /// It left its branch, or changed code that is not its to change.
    pub(super) strayed: bool,
}

/// A judged session on its way into the main branch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moving {
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
pub enum Standing {
    /// It waits for the owner.
    Parked { cause: Cause, rejects: usize },
    /// The owner let it try again after so many rejections.
    Retried { rejects: usize },
}

impl Memo {
    pub(super) fn turn(turn: Turn) -> Self {
        Self::Turn(Some(Box::new(turn)))
    }
}

impl Memory {
    /// Takes in what a journalled decision says that we know now.
    pub(super) fn take(&mut self, decision: &Decision) {
        self.decisions += 1;
        for memo in &decision.memo {
            self.set(Memo::from_memo(memo));
        }
    }

    fn set(&mut self, memo: Memo) {
        match memo {
            Memo::Count(count) => self.decisions = count.unwrap_or_default(),
            Memo::Main(main) => self.main = main,
            Memo::Spec(spec) => self.spec = spec,
            Memo::Turn(Some(turn)) => self.activity = Activity::Session(turn),
            Memo::Turn(None) if self.turn().is_none() => {}
            Memo::Rest(Some(commit)) => self.activity = Activity::Resting(commit),
            Memo::Rest(None) if self.rest().is_none() => {}
            Memo::Turn(None) | Memo::Rest(None) => self.activity = Activity::Choosing,
            Memo::Refused(refusals) => self.refusals = refusals.unwrap_or_default(),
            Memo::Known(file, digest) => put(&mut self.known, file, digest),
            Memo::Holds(open) => self.holds.open = open.unwrap_or_default(),
            Memo::Standing(feature, standing) => put(&mut self.standing, feature, standing),
            Memo::Epoch(epoch) => self.holds.epoch = epoch.unwrap_or_default(),
        }
    }

    pub(super) fn turn(&self) -> Option<&Turn> {
        match &self.activity {
            Activity::Session(turn) => Some(turn),
            Activity::Choosing | Activity::Resting(_) => None,
        }
    }

    /// The commit at which there was nothing to do.
    pub(super) fn rest(&self) -> Option<&CommitId> {
        match &self.activity {
            Activity::Resting(commit) => Some(commit),
            Activity::Choosing | Activity::Session(_) => None,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.holds.is_held()
    }
}

fn put<T>(known: &mut BTreeMap<String, T>, key: String, value: Option<T>) {
    match value {
        Some(value) => drop(known.insert(key, value)),
        None => drop(known.remove(&key)),
    }
}

impl Turn {
    /// The worktree of this session. One at a time, and a name that says what it is.
    pub(super) fn tree(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let branch: String = self.task.branch.chars().map(plain).take(60).collect();
        format!("ledger-{branch}")
    }

    /// What it works on, for people.
    pub(super) fn subject(&self) -> &str {
        self.task.feature.as_deref().unwrap_or(&self.task.branch)
    }
}
