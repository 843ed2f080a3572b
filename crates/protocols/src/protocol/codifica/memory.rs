//! What the keeper remembers across restarts: typed views of the memos that its own decisions carry.

use crate::model::{
    Cause, CommitId, Decision, Memo, Moment, Outage, Outcome, RelPath, RunId, Timestamp, TreeId,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// How many decisions were journalled; the next one's number.
    pub(super) decisions: u64,
    pub(super) accepted: Option<Accepted>,
    /// By task.
    pub(super) jobs: BTreeMap<String, Job>,
    /// The claims that somebody was told of, by task: when they were last active.
    pub(super) stale: BTreeMap<String, Timestamp>,
    /// Agents whose last claim failed.
    pub(super) rests: BTreeMap<String, Rest>,
    /// Warnings that are due in tasks whose dependency fell back.
    pub(super) warnings: BTreeMap<String, String>,
    /// The warning that is being written.
    pub(super) noting: Option<Noting>,
    pub(super) holds: Vec<Hold>,
    /// What differs from the accepted version and is in no commit.
    pub(super) draft: Option<Draft>,
    /// The images on record, by path: their marks.
    pub(super) images: BTreeMap<String, String>,
    /// What the owner was told of what is in the way, while it is.
    pub(super) away: Option<Cause>,
    /// Rises with each `resume`, so that a cause that comes back is a new one.
    pub(super) epoch: u64,
}

/// The last version of the state files that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Accepted {
    pub(super) branch: String,
    pub(super) commit: CommitId,
    /// The state files that it has.
    #[serde(default)]
    pub(super) paths: Vec<RelPath>,
}

/// Edits of the main tree that are in no commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Draft {
    /// What they are an edit of.
    pub(super) head: CommitId,
    /// Each file that differs: its mark, or `None` where it is gone.
    pub(super) marks: BTreeMap<RelPath, Option<String>>,
    /// Files and branch change one after the other; before this nobody is accused.
    pub(super) until: Moment,
    pub(super) judged: bool,
    /// What the owner was told of it, or of the version before this one.
    #[serde(default)]
    pub(super) refused: Option<Cause>,
}

/// One task in the hands of one agent, from the wish to claim it until its run is dealt with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) task: String,
    pub(super) agent: String,
    pub(super) stage: Stage,
    pub(super) failures: u32,
    pub(super) not_before: Option<Moment>,
    /// Why it waits until then, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) paused: String,
    /// The agent's provider has not served it since then (SU-09).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outage: Option<Outage>,
    pub(super) branch: String,
    /// Where the task's branch began.
    pub(super) base: Option<CommitId>,
    /// The worktree as the first run found it.
    pub(super) start: Option<TreeId>,
    /// The commit that the first run found there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<CommitId>,
    /// The tasks before it whose work its branch begins with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) inherited: Vec<Inherited>,
    /// Its task was taken away while it worked, and it was asked to end.
    #[serde(default)]
    pub(super) stopping: bool,
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// Waits for the main tree, to claim.
    Claim,
    Claiming {
        run: RunId,
    },
    /// Has the task; the branches of the tasks before it are merged, one after the other.
    Base {
        base: CommitId,
        left: Vec<Unmerged>,
    },
    /// Has the task; waits for its own tree.
    Tree,
    Working {
        run: RunId,
    },
    /// Its run has ended; what it left is looked at.
    Ended {
        run: RunId,
        outcome: Outcome,
        tail: String,
    },
}

/// The branch of a task that another depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unmerged {
    pub(super) task: String,
    pub(super) branch: String,
    pub(super) tip: CommitId,
}

/// Work of another task that a branch begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Inherited {
    pub(super) task: String,
    pub(super) branch: String,
    /// The owner's branch had it already.
    pub(super) merged: bool,
}

/// After a claim that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Rest {
    pub(super) failures: u32,
    pub(super) not_before: Moment,
    /// The head at which it failed; a new one is a new chance.
    pub(super) head: Option<CommitId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Noting {
    pub(super) task: String,
    /// `None`: it waits for the main tree.
    pub(super) run: Option<RunId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hold {
    pub(super) cause: Cause,
    pub(super) summary: String,
}

/// The subject of holds about git itself.
pub(super) const GIT: &str = "git";

impl Hold {
    pub(super) fn is_of_git(&self) -> bool {
        self.waits_for_trust() || self.cause.subject == GIT
    }

    /// Only `agency trust` ends it (SE-01).
    pub(super) fn waits_for_trust(&self) -> bool {
        self.cause.rule.as_str() == "SE-01"
    }
}

impl Memory {
    pub(super) fn take(&mut self, decision: &Decision) {
        self.decisions += 1;
        for memo in &decision.memo {
            self.take_memo(memo);
        }
    }

    fn take_memo(&mut self, Memo { name, value }: &Memo) {
        let value = value.as_ref();
        match name.split_once('/') {
            None => match name.as_str() {
                "count" => self.decisions = read(value).unwrap_or(self.decisions),
                "accepted" => self.accepted = read(value),
                "noting" => self.noting = read(value),
                "holds" => self.holds = read(value).unwrap_or_default(),
                "draft" => self.draft = read(value),
                "away" => self.away = read(value),
                "epoch" => self.epoch = read(value).unwrap_or_default(),
                _ => {}
            },
            Some(("job", id)) => put(&mut self.jobs, id, read(value)),
            Some(("stale", id)) => put(&mut self.stale, id, read(value)),
            Some(("image", path)) => put(&mut self.images, path, read(value)),
            Some(("rest", id)) => put(&mut self.rests, id, read(value)),
            Some(("warning", id)) => put(&mut self.warnings, id, read(value)),
            Some(_) => {}
        }
    }

    /// The main tree is ours at the moment, or asked for.
    pub(super) fn uses_main(&self) -> bool {
        let claiming = |job: &Job| matches!(job.stage, Stage::Claim | Stage::Claiming { .. });
        self.noting.is_some() || self.jobs.values().any(claiming)
    }

    /// A command of ours changes the main tree right now.
    pub(super) fn writes_main(&self) -> bool {
        let claiming = |job: &Job| matches!(job.stage, Stage::Claiming { .. });
        let noting = self.noting.as_ref().is_some_and(|noting| noting.run.is_some());
        noting || self.jobs.values().any(claiming)
    }

    /// Git says nothing until the owner has looked.
    pub(super) fn is_git_held(&self) -> bool {
        self.holds.iter().any(|hold| hold.is_of_git())
    }
}

fn read<T: DeserializeOwned>(value: Option<&serde_json::Value>) -> Option<T> {
    value.and_then(|value| serde_json::from_value(value.clone()).ok())
}

fn put<T>(map: &mut BTreeMap<String, T>, id: &str, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(id.to_owned(), value)),
        None => drop(map.remove(id)),
    }
}
