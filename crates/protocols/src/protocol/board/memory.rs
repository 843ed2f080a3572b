//! What the board remembers across restarts: typed views of the memos that its own decisions carry. It decides nothing.

use super::artifact::Ran;
use super::names::TaskId;
use super::record::Record;
use super::risks::RiskCheck;
use super::scope::Scope;
use super::state::State;
use super::table::Status;
use crate::model::{
    Cause, CommitId, Decision, Digest, Effect, Memo, Moment, Outage, PlannedCommit, RelPath, RunId,
    Timestamp, TreeId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Those that we work on ourselves.
    pub(super) working: BTreeSet<TaskId>,
    /// STATE.md's frontmatter as we wrote it last.
    pub(super) state: Option<State>,
    /// Documents that are refused, each with the digest that was judged.
    pub(super) refused: BTreeMap<RelPath, Digest>,
    /// What the owner was told of these, until they are put right.
    pub(super) told_of: BTreeMap<RelPath, Cause>,
    pub(super) holds: Vec<Hold>,
    /// The manifest that nobody can work by, and what the owner was told.
    pub(super) frozen: Option<(Digest, Cause)>,
    /// Since when something else lies in the place of STATE.md, while we wait whether it stays.
    pub(super) suspect: Option<Timestamp>,
    /// What the owner was told of what is in the way, while it is.
    pub(super) away: Option<Cause>,
    /// What the owner was told once and for all, by what it is about.
    pub(super) told: BTreeMap<String, String>,
    /// Requests of builders that wait for the owner (AG-30).
    pub(super) proposals: Vec<Proposal>,
    /// What is to be committed of our own files.
    pub(super) record: Record,
    /// What the DoD's commands said of base commits (AG-40).
    pub(super) base: Base,
    /// Rises with each `resume`, so that a cause that comes back is a new one.
    pub(super) epoch: u64,
}

/// What the DoD's commands said before builders worked (AG-40). Each merge is verified, so that a command that passed once is not
/// run on later bases again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    pub(super) passed: BTreeSet<String>,
    pub(super) red: Vec<Red>,
    /// Failing commands that the owner accepted, each with its exit code.
    pub(super) accepted: BTreeMap<String, i32>,
}

/// A command that failed on a base commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Red {
    pub(super) commit: CommitId,
    pub(super) ran: Ran,
    /// The end of its output.
    pub(super) output: String,
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
    pub(super) report: Option<AcceptedReport>,
    #[serde(default)]
    pub(super) verified: Option<Verified>,
    /// The task that this one puts right: it works in that one's tree, and ends with it (AG-09).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remediates: Option<TaskId>,
    /// Reports and audits that were taken while we worked on it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) papers: BTreeMap<RelPath, Digest>,
    /// Where a person's work began (AG-13).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) hand: Option<Hand>,
    /// The tree of a person's work that an auditor let pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) audited: Option<TreeId>,
    /// What the owner was told of it, until it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) told: Option<Cause>,
    /// What we do about it ourselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) work: Option<Work>,
}

/// A person's work in the owner's own tree, from its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hand {
    /// The commit that was checked out.
    pub(super) base: Option<CommitId>,
    /// The tree as it was, with what was not committed.
    pub(super) tree: TreeId,
    /// Files that other tasks have changed there since.
    #[serde(default)]
    pub(super) others: BTreeSet<RelPath>,
}

/// Where the work on a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// It needs its worktree.
    Prepare,
    /// The owner's set-up commands run in it.
    Setup,
    /// The DoD's commands are to pass on the commit that it begins from (AG-40).
    Base,
    /// Its builder is to work, or works.
    Build,
    /// What was found is to become a subtask for its builder.
    Remedy,
    /// The builder has ended; what it left is to be judged.
    Built,
    Audit,
    Audited,
    /// Its merge is to be planned, and the merged tree made ready to be verified.
    Plan,
    Verify,
    /// Every command has run; merge it, or send it back.
    Verified,
    Merged,
    /// Only the owner can go on with it.
    Owner,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Work {
    /// The name of its worktree.
    pub(super) tree: String,
    pub(super) branch: String,
    /// Where the branch began.
    pub(super) base: CommitId,
    pub(super) stage: Stage,
    pub(super) run: Option<RunId>,
    /// Failed tries of this stage.
    pub(super) tries: u32,
    pub(super) not_before: Option<Moment>,
    /// Why it waits until then, while its agent's provider does not serve it (SU-09).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) parked: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outage: Option<Outage>,
    /// How often it was sent back.
    pub(super) round: u32,
    /// Why it was sent back, for the builder.
    pub(super) reasons: Vec<String>,
    /// Why the last try did not count, for whoever tries next.
    pub(super) refused: Option<String>,
    /// How the last run ended.
    pub(super) last: String,
    /// Set-up commands that have run in its tree.
    pub(super) setup: usize,
    /// The DoD's command that runs on the base (AG-40).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checking: Option<String>,
    /// The DoD's commands, which its builder may run (SU-12).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dod: Vec<String>,
    /// The tree when the first builder began.
    pub(super) start: Option<TreeId>,
    /// The tree that was judged, and that the auditor saw.
    pub(super) judged: Option<TreeId>,
    /// The tip of its branch with all of it.
    pub(super) head: Option<CommitId>,
    /// The auditor's findings; none: PASS.
    pub(super) verdict: Option<Vec<String>>,
    pub(super) check: Option<Check>,
    /// The subtasks that put it right, the newest last: that is what its builder works on.
    #[serde(default)]
    pub(super) remedies: Vec<TaskId>,
    /// The number of an id that somebody else was faster to take.
    #[serde(default)]
    pub(super) floor: u64,
    /// How the command that stands for its builder ended (AG-29).
    #[serde(default)]
    pub(super) exit: Option<Exit>,
    /// It is done in the owner's own tree.
    #[serde(default)]
    pub(super) shared: bool,
    /// A person did it there; we only audit it (AG-28).
    #[serde(default, skip_serializing_if = "is_false")]
    pub(super) by_hand: bool,
    /// What was not committed there before it began: never a part of its change.
    #[serde(default)]
    pub(super) dirty: Vec<RelPath>,
    /// What it has changed there.
    #[serde(default)]
    pub(super) mine: Vec<RelPath>,
    /// Where the report or verdict was asked for.
    #[serde(default)]
    pub(super) answer: Option<RelPath>,
    /// What lay there before the auditor began: not its verdict, whoever wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lay: Option<Digest>,
    /// The stamp of that file: another one shows that the auditor wrote it again (AG-43).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stamp: Option<Digest>,
    /// The number of the audit that was asked for (AG-43).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked: Option<String>,
    /// The auditor's last message, until it is judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) said: Option<String>,
    /// Reports and audits that were taken from its tree.
    #[serde(default)]
    pub(super) papers: BTreeMap<RelPath, Digest>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// A command's end, for the report that we make of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Exit {
    pub(super) passed: bool,
    pub(super) began: Timestamp,
    pub(super) tail: String,
}

/// The verify of a merge that is not there yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Check {
    /// The worktree that it runs in.
    pub(super) tree: String,
    /// Where that tree's branch began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base: Option<CommitId>,
    /// What will be on the target branch if it passes.
    pub(super) merge: Option<PlannedCommit>,
    pub(super) profile: String,
    pub(super) commands: Vec<String>,
    /// Set-up commands that are to run first, and how many of them have.
    pub(super) setups: usize,
    pub(super) setup: usize,
    pub(super) ran: Vec<Ran>,
    /// The end of the output of a command that failed.
    pub(super) output: String,
    pub(super) weakened: Vec<String>,
    pub(super) risks: RiskCheck,
    pub(super) notes: Vec<String>,
}

impl Check {
    /// The branch of a check's tree.
    pub(super) fn branch(tree: &str) -> String {
        format!("agency/verify/{tree}")
    }

    /// Nobody works there: its branch goes with its tree.
    pub(super) fn drop_tree(&self) -> Effect {
        let branch = self.base.clone().map(|base| (Self::branch(&self.tree), base));
        Effect::DropWorktree { name: self.tree.clone(), branch }
    }
}

impl Work {
    pub(super) fn new(id: &TaskId, base: CommitId) -> Self {
        Self {
            tree: id.to_string(),
            branch: format!("agency/{id}"),
            base,
            stage: Stage::Prepare,
            run: None,
            tries: 0,
            not_before: None,
            parked: String::new(),
            outage: None,
            round: 0,
            reasons: Vec::new(),
            refused: None,
            last: String::new(),
            setup: 0,
            checking: None,
            dod: Vec::new(),
            start: None,
            judged: None,
            head: None,
            verdict: None,
            check: None,
            remedies: Vec::new(),
            floor: 0,
            shared: false,
            dirty: Vec::new(),
            mine: Vec::new(),
            answer: None,
            lay: None,
            stamp: None,
            asked: None,
            by_hand: false,
            said: None,
            exit: None,
            papers: BTreeMap::new(),
        }
    }
}

impl Work {
    /// In the owner's own tree, which is ready as it is.
    pub(super) fn in_main(id: &TaskId, base: CommitId) -> Self {
        Self { shared: true, stage: Stage::Base, ..Self::new(id, base) }
    }

    /// The owner wants another audit of what is there.
    pub(super) fn audited_anew(self) -> Self {
        Self {
            stage: Stage::Audit,
            tries: 0,
            not_before: None,
            refused: None,
            verdict: None,
            check: None,
            said: None,
            ..self
        }
    }

    /// The owner has spoken: the builder begins anew, with their words.
    pub(super) fn back_to_builder(&mut self, why: &str) {
        // What still runs ends first, and its end means nothing any more.
        self.stage = match (&self.run, &self.start) {
            (Some(_), _) => Stage::Prepare,
            (None, Some(_)) => Stage::Build,
            (None, None) => self.stage,
        };
        self.reasons = vec![why.to_owned()];
        self.round = 0;
        self.tries = 0;
        self.not_before = None;
        self.verdict = None;
    }
}

/// A document that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AcceptedReport {
    pub(super) path: RelPath,
    pub(super) digest: Digest,
}

/// A verify that we ran ourselves (AG-11).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verified {
    pub(super) artifact: AcceptedReport,
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
    /// A document that was read, whatever came of it.
    pub(super) fn has_read(&self, path: &RelPath, digest: &Digest) -> bool {
        let report = self.report.as_ref().is_some_and(|r| r.path == *path && r.digest == *digest);
        let working = self.work.as_ref().is_some_and(|work| work.papers.get(path) == Some(digest));
        report || working || self.papers.get(path) == Some(digest)
    }

    pub(super) fn new(status: Status, since: Timestamp) -> Self {
        Self {
            status,
            since,
            reason: String::new(),
            scope: None,
            report: None,
            verified: None,
            remediates: None,
            papers: BTreeMap::new(),
            hand: None,
            audited: None,
            told: None,
            work: None,
        }
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
            ("told", _) => self.told = read(value).unwrap_or_default(),
            ("base", _) => self.base = read(value).unwrap_or_default(),
            ("record", _) => self.record = read(value).unwrap_or_default(),
            ("epoch", _) => self.epoch = read(value).unwrap_or_default(),
            ("task", id) => {
                let id = TaskId::parse(id).expect("BUG: a memo in the journal must be readable");
                let known: Option<Known> = read(value);
                // One that is unblocked waits for its turn like any other, and takes nobody's place.
                if known.as_ref().is_some_and(|known| {
                    known.work.is_some()
                        && !matches!(known.status, Status::Blocked | Status::Assigned)
                }) {
                    self.working.insert(id.clone());
                } else {
                    self.working.remove(&id);
                }
                match known {
                    Some(known) => drop(self.tasks.insert(id.clone(), known)),
                    None => drop(self.tasks.remove(&id)),
                }
                touched.tasks.push(id);
            }
            ("refused", path) => {
                let path = read_path(path);
                match read(value) {
                    Some(digest) => drop(self.refused.insert(path.clone(), digest)),
                    None => drop(self.refused.remove(&path)),
                }
                touched.papers.push(path);
            }
            ("away", _) => self.away = read(value),
            ("told-of", path) => match read(value) {
                Some(cause) => drop(self.told_of.insert(read_path(path), cause)),
                None => drop(self.told_of.remove(&read_path(path))),
            },
            (other, _) => panic!("BUG: this version does not know the memo `{other}`"),
        }
    }

    /// A run that the work on some task waits for.
    pub(super) fn is_running(&self, run: &RunId) -> bool {
        let mut works = self.working.iter().filter_map(|id| self.tasks.get(id)?.work.as_ref());
        works.any(|work| work.run.as_ref() == Some(run))
    }

    pub(super) fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }
}

fn read_path(name: &str) -> RelPath {
    RelPath::new(name).expect("BUG: a memo in the journal must be readable")
}

/// A memo that cannot be read means that this version cannot know the truth: freezing is right, guessing is not.
fn read<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    value.map(|value| T::deserialize(value).expect("BUG: a memo in the journal must be readable"))
}
