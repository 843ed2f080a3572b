//! What the shell must do, in order. Values only: comparable, printable, storable. Nothing here does anything.

use super::{
    Bytes, Cause, CommitId, Digest, Escalation, PlannedCommit, RelPath, RunId, Seat, Timestamp,
    TreeId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Each effect has a key, is idempotent, and ends in a journalled `done`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Writes a file of ours. A file that changed since we read it is swapped out and kept, never overwritten.
    Replace {
        path: RelPath,
        bytes: Bytes,
        seen: Option<Digest>,
    },
    /// Takes a file away into quarantine. Other bytes than the ones seen are put back: a new fact, not a rejection.
    Take {
        path: RelPath,
        seen: Option<Digest>,
        why: String,
    },
    /// Keeps a copy under a name that is still free.
    Copy {
        from: RelPath,
        to: RelPath,
        seen: Digest,
    },
    /// A question; `Wake::Fact` answers it.
    Ask {
        query: Query,
    },
    /// Wants to start one run in a tree; `Wake::Leased` says when. The tree stays this protocol's until it is released,
    /// so the next try waits only for the seat.
    Lease {
        tree: TreeRef,
        seat: Seat,
        role: String,
    },
    /// Gives a tree back. Of one that is not held, nothing happens.
    Release {
        tree: TreeRef,
    },
    Spawn(Box<Spawn>),
    Stop {
        run: RunId,
        why: String,
    },
    Commit(PlannedCommit),
    Push {
        branch: String,
        commit: CommitId,
    },
    Escalate(Box<Escalation>),
    Resolve {
        cause: Cause,
        how: String,
    },
    /// The answer to a command.
    Reply {
        command: String,
        answer: Answer,
    },
    /// One line of the event log.
    Log(Event),
}

/// A working tree of a repository: the owner's own, or one of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeRef {
    Main,
    Worktree(String),
}

/// A question to the shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Query {
    /// The tree as it is now; `since`: what changed from that earlier snapshot. Kept under `refs/agency/<label>`.
    Snapshot {
        tree: TreeRef,
        label: String,
        since: Option<TreeId>,
    },
    /// The commit that puts `take` (from a snapshot) and `write` (our own files) on top of `parent`.
    Plan {
        branch: String,
        parent: Option<CommitId>,
        take: Vec<super::Change>,
        write: Vec<(RelPath, Bytes)>,
        message: String,
        date: Timestamp,
    },
    /// Is `commit` in the history of `branch`?
    Contains {
        branch: String,
        commit: CommitId,
    },
    Diff {
        from: TreeId,
        to: TreeId,
    },
    FileAt {
        commit: CommitId,
        path: RelPath,
    },
    Lines {
        path: RelPath,
    },
    Digest {
        path: RelPath,
    },
}

/// A run to start. Seats are mapped to agents by the shell's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    pub run: RunId,
    pub seat: Seat,
    pub role: String,
    pub tree: TreeRef,
    /// The step, task, message or feature that it works on.
    pub task: String,
    pub phase: String,
    pub prompt: String,
    /// Why it was started, for people.
    pub why: String,
    /// The agent's own session to go on with, as an earlier run's `Usage` named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<String>,
}

/// What a command is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub accepted: bool,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub event: String,
    pub agent: Option<Seat>,
    pub context: BTreeMap<String, String>,
}
