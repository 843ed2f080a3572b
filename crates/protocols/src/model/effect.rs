//! What the shell must do, in order. Values only: comparable, printable, storable. Nothing here does anything.

use super::{
    Bytes, Cause, CommitId, Digest, Escalation, PlannedCommit, RelPath, RunId, Seat, Timestamp,
    TreeId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    /// Puts a new file where nothing below `under` has a name that begins with `start`, which makes that beginning its own.
    /// It is looked for and written under the lock of `under`, which our commands take too. It fails `Moved` when somebody
    /// was faster, `Busy` when the lock was not to be had; the very same file is no other.
    Create {
        path: RelPath,
        bytes: Bytes,
        under: RelPath,
        start: String,
    },
    /// Takes a file away into quarantine. Other bytes than the ones seen are put back: a new fact, not a rejection.
    Take {
        path: RelPath,
        seen: Option<Digest>,
        why: String,
    },
    /// Moves a file on with new bytes: these are durable before the old name goes. It fails `Moved` when what lies there is
    /// not what was seen.
    Move {
        from: RelPath,
        to: RelPath,
        bytes: Bytes,
        seen: Digest,
    },
    /// Sets fields of a JSON object that others write too; the rest of it stays.
    Amend {
        path: RelPath,
        fields: Vec<Field>,
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
    /// Moves a branch to a planned merge and, where it is checked out, brings its files along. It fails `Moved` when the
    /// branch is elsewhere by now, `Busy` when files of somebody's are in the way.
    Merge(PlannedCommit),
    /// Makes a worktree of ours on a branch of its own. One that is there stays as it is.
    Worktree(Box<NewWorktree>),
    /// Takes a worktree of ours away; what is in no commit is kept as a snapshot.
    DropWorktree {
        name: String,
        /// Its branch, which goes along unless it has left this commit; `None`: it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        branch: Option<(String, CommitId)>,
    },
    /// Creates, moves or deletes a ref that is where we think it is; `None`: there is none.
    Ref {
        name: String,
        was: Option<CommitId>,
        to: Option<CommitId>,
    },
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

impl Effect {
    /// What was under way when it failed, for people.
    pub fn doing(&self) -> String {
        let at = |verb: &str, path: &RelPath| format!("{verb} `{path}`");
        match self {
            Self::Replace { path, .. } => at("writing", path),
            Self::Create { path, .. } => at("creating", path),
            Self::Take { path, .. } => at("taking away", path),
            Self::Move { from, .. } => at("moving", from),
            Self::Amend { path, .. } => at("changing", path),
            Self::Copy { from, .. } => at("archiving", from),
            Self::Ask { .. } => "asking git".to_owned(),
            Self::Lease { .. } | Self::Release { .. } => "leasing the tree".to_owned(),
            Self::Spawn(spawn) => format!("starting `{}`", spawn.seat),
            Self::Stop { run, .. } => format!("stopping `{run}`"),
            Self::Commit(_) => "committing".to_owned(),
            Self::Merge(planned) => format!("merging into `{}`", planned.branch),
            Self::Worktree(wanted) => format!("making the worktree `{}`", wanted.name),
            Self::DropWorktree { name, .. } => format!("removing the worktree `{name}`"),
            Self::Ref { name, .. } => format!("moving `{name}`"),
            Self::Push { branch, .. } => format!("pushing `{branch}`"),
            Self::Escalate(_) | Self::Resolve { .. } => "recording an escalation".to_owned(),
            Self::Reply { .. } => "answering a command".to_owned(),
            Self::Log(_) => "writing the event log".to_owned(),
        }
    }
}

/// A working tree of a repository: the owner's own, or one of ours.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeRef {
    Main,
    Worktree(String),
}

/// A worktree of ours that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewWorktree {
    pub name: String,
    /// A new branch, or one that is there already and is then left where it is.
    pub branch: String,
    /// Where a new branch begins.
    pub base: CommitId,
    /// Ignored files of the owner's that it needs.
    pub copy: Vec<RelPath>,
    /// It is not made when less space than this would be free, in bytes.
    pub disk_floor: u64,
}

/// One field of a JSON object, by the names that lead to it. `None` removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    pub at: Vec<String>,
    pub value: Option<Value>,
}

/// A question to the shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Query {
    /// The tree as it is now; `since`: what changed from that earlier snapshot. Kept under `refs/agency/<label>`.
    /// Without `since` it is the beginning of something: where a commit of ours has just taken everything that the last
    /// snapshot found, that snapshot and the commit answer it, and nobody looks.
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
    /// The commit that brings `theirs` into the branch `target`, which stands at `onto`; merged in no one's working tree.
    /// `Fact::Planned`, or `Fact::Conflict` with the files that both changed.
    Merge {
        target: String,
        onto: CommitId,
        theirs: CommitId,
        style: MergeStyle,
        message: String,
        date: Timestamp,
        /// A folder at the top that stays as the target has it, whatever the other side made of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<RelPath>,
    },
    /// Those of these files that the owner keeps out of git: `Fact::Paths`.
    Ignored {
        paths: Vec<RelPath>,
    },
    /// Where a full ref name points to: `Fact::Tip`.
    Tip {
        name: String,
    },
    /// The branch of this name, and the remote-tracking branches that end with it: `Fact::Branches`.
    Branches {
        name: String,
    },
    /// Every file that a commit changed which `to` has and `from` has not, also where a later one undid it: `Fact::Paths`.
    Touched {
        from: CommitId,
        to: CommitId,
    },
    /// The commits that `to` has and `from` has not: `Fact::Commits`, the oldest first.
    Range {
        from: Option<CommitId>,
        to: CommitId,
    },
    /// Files before and after a change, between two trees or commits: `Fact::Sides`. More than 1 MiB of a file is not shown.
    Sides {
        from: Option<CommitId>,
        to: TreeId,
        paths: Vec<RelPath>,
    },
    /// A file of a tree as it is now: `Fact::File`.
    Read {
        tree: TreeRef,
        path: RelPath,
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
    /// The files of a commit that have one of these names (`*.sln`: that ending), in its top folder and two folders deep:
    /// `Fact::Paths`.
    Named {
        commit: CommitId,
        names: Vec<String>,
    },
    /// Changes whenever a file of a tree was written, also with the bytes that it had: `Fact::Digest`.
    Stamp {
        tree: TreeRef,
        path: RelPath,
    },
    Lines {
        path: RelPath,
    },
    Digest {
        path: RelPath,
    },
}

/// How a branch is brought into another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergeStyle {
    /// One commit with all of it.
    Squash,
    /// A commit with both as parents.
    Merge,
    /// The branch itself; `Fact::No` where that cannot be, since the target moved or a folder that is kept differs.
    FastForward,
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
    /// A command line of the owner's instead of an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<CommandLine>,
    /// Journals of before it existed mean `Write`.
    #[serde(default, skip_serializing_if = "Access::is_write")]
    pub access: Access,
}

/// What an agent is let do to the files of its tree, as far as its CLI can be told. A promise of flags: what really changed is
/// looked at all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    #[default]
    Write,
    /// It also makes the commits itself, so it writes to the repository's git folders.
    Commit,
    /// It brings what it is asked for as its last message (`RunEnd::said`).
    ReadOnly,
}

impl Access {
    pub fn is_write(&self) -> bool {
        *self == Self::Write
    }
}

/// Who wrote a command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrittenBy {
    /// It runs code of the repository, so it gets a sandbox.
    #[default]
    Owner,
    /// Our own program and nothing else: it does what the daemon may do.
    Agency,
}

impl WrittenBy {
    fn is_owner(&self) -> bool {
        *self == Self::Owner
    }
}

/// A command line for `sh -c`: the owner's (a gate, a check, a set-up) or one of our own verbs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    pub line: String,
    pub timeout_s: u64,
    #[serde(default, skip_serializing_if = "WrittenBy::is_owner")]
    pub by: WrittenBy,
    /// Set where it runs in a clean checkout and not in its tree as that is (LP-34).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<CleanTree>,
}

/// The name of the worktree that the loop's gates run in.
pub const CHECKS_TREE: &str = "loop-checks";

/// What a command line finds in its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanTree {
    /// `None`: the tree of HEAD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeId>,
    pub state: CleanState,
    /// Command lines that prepare the checkout; `None`: those that its lock files call for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CleanState {
    /// Checked out anew.
    Fresh,
    /// As the command before it left it; only the tree's own files are put back.
    Continued,
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

const NO_ARTIFACT: &str = "run.no-artifact";

impl Event {
    /// A run exited with 0 and left nothing of what was expected (SU-05): the one class that only a protocol can see.
    pub fn no_artifact(run: &RunId, agent: Seat) -> Self {
        let context = [("run".to_owned(), run.to_string())].into();
        Self { event: NO_ARTIFACT.to_owned(), agent: Some(agent), context }
    }

    /// The run that left nothing, if this says so of one.
    pub fn without_artifact(&self) -> Option<RunId> {
        let run = self.context.get("run").filter(|_| self.event == NO_ARTIFACT);
        run.map(RunId::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A journal of before agents could be started read-only says nothing of it.
    // covers: DM-08
    #[test]
    fn a_spawn_of_an_older_journal_may_write() {
        let old = serde_json::json!({"run": "r-1", "seat": "gemini", "role": "auditor", "tree": "main",
            "task": "T0001", "phase": "auditor", "prompt": "look", "why": "because"});
        let spawn: Spawn = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(spawn.access, Access::Write);
        assert_eq!(serde_json::to_value(&spawn).unwrap(), old, "and is written as it was");
        let reads = Spawn { access: Access::ReadOnly, ..spawn };
        let text = serde_json::to_value(&reads).unwrap();
        assert_eq!(text["access"], "read-only");
        assert_eq!(serde_json::from_value::<Spawn>(text).unwrap(), reads);
    }
}
