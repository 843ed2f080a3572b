//! What the board remembers across restarts: typed views of the memos that its own decisions carry. It decides nothing.

use super::names::TaskId;
use super::scope::Scope;
use super::state::State;
use super::table::Status;
use crate::model::{Cause, Decision, Digest, Memo, RelPath, Timestamp, TreeId};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// How many decisions this board has journalled; the next one's number.
    pub(super) decisions: u64,
    /// The owner began it here, or adopted it.
    pub(super) ours: Option<Ours>,
    /// Tasks whose state the owner vouched for when they adopted the board.
    pub(super) adopted: BTreeMap<TaskId, Status>,
    /// Tasks that we have moved.
    pub(super) tasks: BTreeMap<TaskId, Known>,
    /// STATE.md's frontmatter as we wrote it last.
    pub(super) state: Option<State>,
    /// Documents that are refused, each with the digest that was judged.
    pub(super) refused: BTreeMap<RelPath, Digest>,
    pub(super) holds: Vec<Hold>,
    /// The manifest that nobody can work by, and what the owner was told.
    pub(super) frozen: Option<(Digest, Cause)>,
    /// Since when something else lies in the place of STATE.md, while we wait whether it stays.
    pub(super) suspect: Option<Timestamp>,
    /// Requests of builders that wait for the owner (AG-30).
    pub(super) proposals: Vec<Proposal>,
    /// Rises with each `resume`, so that a cause that comes back is a new one.
    pub(super) epoch: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ours {
    pub(super) since: Timestamp,
    /// The branch that tasks are merged into.
    #[serde(default)]
    pub(super) branch: Option<String>,
}

/// A task that we have moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) status: Status,
    pub(super) since: Timestamp,
    /// Why it is where it is.
    #[serde(default)]
    pub(super) reason: String,
    /// As it was when the work began: an edit afterwards loosens nothing.
    #[serde(default)]
    pub(super) scope: Option<Scope>,
    /// The report that was accepted.
    #[serde(default)]
    pub(super) report: Option<Paper>,
    #[serde(default)]
    pub(super) verified: Option<Verified>,
}

/// A document that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Paper {
    pub(super) path: RelPath,
    pub(super) digest: Digest,
}

/// A verify that we ran ourselves (AG-11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verified {
    pub(super) artifact: Paper,
    pub(super) timestamp: String,
    /// Why DONE may not follow, if it may not.
    pub(super) objection: Option<String>,
    /// What was verified, where there is git.
    pub(super) tree: Option<TreeId>,
    #[serde(default)]
    pub(super) overridden: bool,
}

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
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Proposal {
    pub(super) task: TaskId,
    pub(super) text: String,
}

impl Known {
    pub(super) fn new(status: Status, since: Timestamp) -> Self {
        Self { status, since, reason: String::new(), scope: None, report: None, verified: None }
    }
}

/// What a decision changed, so that the index looks only there.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) tasks: Vec<TaskId>,
    pub(super) papers: Vec<RelPath>,
    pub(super) all: bool,
}

impl Memory {
    /// Takes in what a journalled decision says that we know now.
    pub(super) fn take(&mut self, decision: &Decision) -> Touched {
        self.decisions += 1;
        let mut touched = Touched::default();
        for memo in &decision.memo {
            self.set(memo, &mut touched);
        }
        touched
    }

    fn set(&mut self, memo: &Memo, touched: &mut Touched) {
        let value = memo.value.as_ref();
        match memo.name.split_once('/').unwrap_or((&memo.name, "")) {
            ("count", _) => self.decisions = read(value).unwrap_or_default(),
            ("ours", _) => {
                self.ours = read(value);
                touched.all = true;
            }
            ("adopted", _) => {
                self.adopted = read(value).unwrap_or_default();
                touched.all = true;
            }
            ("state", _) => self.state = read(value),
            ("holds", _) => self.holds = read(value).unwrap_or_default(),
            ("frozen", _) => self.frozen = read(value),
            ("suspect", _) => self.suspect = read(value),
            ("proposals", _) => self.proposals = read(value).unwrap_or_default(),
            ("epoch", _) => self.epoch = read(value).unwrap_or_default(),
            ("task", id) => {
                let id = TaskId::parse(id).expect("BUG: a memo in the journal must be readable");
                match read(value) {
                    Some(known) => drop(self.tasks.insert(id.clone(), known)),
                    None => drop(self.tasks.remove(&id)),
                }
                touched.tasks.push(id);
            }
            ("refused", path) => {
                let path = RelPath::new(path).expect("BUG: a memo in the journal must be readable");
                match read(value) {
                    Some(digest) => drop(self.refused.insert(path.clone(), digest)),
                    None => drop(self.refused.remove(&path)),
                }
                touched.papers.push(path);
            }
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
