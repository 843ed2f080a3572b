//! What the loop remembers across restarts: typed views of the memos that its own decisions carry.
//! The serde types here are the format of those memos and of `.review-loop-state.json`; both are pinned by compat tests.

use super::table::{Holder, Phase};
use crate::model::{
    Cause, Change, CommitId, Decision, Digest, Memo, Moment, Outage, Outcome, RelPath, RuleId,
    RunId, Ticks, Timestamp, TreeId,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// In place of a digest: there is no such file.
pub(super) const ABSENT: &str = "absent";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory {
    /// How many decisions this loop has journalled; the next one's number.
    pub(super) decisions: u64,
    pub(super) state: Option<LoopState>,
    /// That state as the file holds it, so that each look compares and nothing is written out again.
    pub(super) state_file: Option<StateFile>,
    pub(super) turn: Option<Turn>,
    pub(super) refusals: Refusals,
    /// Digests of review files that were archived: none twice (LP-16).
    pub(super) archived: BTreeSet<String>,
    /// The digest of each review file as its author, or nobody, left it; `ABSENT` where there was none (LP-17).
    pub(super) authored: BTreeMap<String, String>,
    /// The owner's plan: each step's text as it was when the owner named the plan (LP-32).
    pub(super) plan: BTreeMap<String, String>,
    /// The gates that were found, while the owner names none (LP-22).
    pub(super) gates: Vec<String>,
    /// The gates on the commit that the loop began from; `None`: a loop of before they were run there (LP-33).
    pub(super) base: Option<Base>,
    /// The notice that there is no gate, while that is so (LP-22).
    pub(super) told_of_gates: Option<Cause>,
    /// The notice that there is no map of the code, while that is so (LP-18).
    pub(super) told_of_map: Option<Cause>,
    pub(super) holds: Vec<Hold>,
    /// The notice that the owner is elsewhere, while that lasts.
    pub(super) away: Option<Cause>,
    /// Since when something else lies in the place of our state, while we wait whether it stays.
    pub(super) suspect: Option<Timestamp>,
    pub(super) anchor: Option<Anchor>,
    /// Boxed: mostly there is none, in any number of repositories.
    pub(super) transition: Option<Box<Moving>>,
    pub(super) push: Option<PushDue>,
    /// What the runs of the current step have cost since the owner was last asked, in millionths of a dollar.
    pub(super) spent: u64,
    /// Rises with each `resume`, so that a cause that comes back is a new one.
    pub(super) epoch: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StateFile {
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
}

/// `.review-loop-state.json` (DESIGN §10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LoopState {
    pub(super) current_step: String,
    pub(super) current_round: u32,
    #[serde(with = "phase_word")]
    pub(super) phase: Phase,
    pub(super) status: String,
    #[serde(with = "holder_word")]
    pub(super) active_agent: Holder,
    pub(super) steps: Vec<String>,
    pub(super) steps_complete: Vec<String>,
    pub(super) history: Vec<Step>,
    pub(super) escalations: Vec<String>,
    pub(super) last_updated: Timestamp,
}

/// One transition, in `history`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Step {
    pub(super) at: Timestamp,
    pub(super) row: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) agent: String,
}

/// The stretch from one transition to the next: one or more tries of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) opened: Timestamp,
    /// Tries that failed since the turn opened or the owner resumed.
    pub(super) failures: u32,
    /// Not before this moment (backoff, usage limit).
    pub(super) not_before: Option<Moment>,
    /// Why it waits until then, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) paused: String,
    /// The agent's provider has not served it since then (SU-09).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outage: Option<Outage>,
    /// Past this round the owner is asked (LP-25).
    pub(super) round_limit: u32,
    pub(super) start: Option<Start>,
    /// The owner's mandates as they were when the run began (LP-12).
    #[serde(default)]
    pub(super) mandates: Option<Digest>,
    pub(super) run: Option<Running>,
    /// A flag of the run that is alive was refused: its end without another flag is no new failure.
    pub(super) refused: bool,
    /// The last run of this turn that has ended, until it is dealt with.
    pub(super) ended: Option<Ended>,
    /// The agent's own session, to go on with after a try that left no flag; as far as its CLI has one.
    #[serde(default)]
    pub(super) session: Option<String>,
    /// What the tries of this turn changed, as we saw it when the last of them had ended.
    pub(super) left: Option<Left>,
    /// What we checked ourselves before the flag that lies there is accepted.
    #[serde(default)]
    pub(super) checks: Option<Checks>,
    /// The owner resumed: what they changed meanwhile is theirs, so we must look once more.
    pub(super) look_again: bool,
}

/// How far our own checks of one flag have come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checks {
    pub(super) flag: Digest,
    /// What the run loosened (LP-30); `None`: not looked at yet.
    pub(super) weakened: Option<Vec<String>>,
    /// Gates that passed on this tree.
    pub(super) passed: Vec<String>,
    pub(super) running: Option<(RunId, String)>,
    pub(super) failed: Option<Failed>,
    /// The gates left the tree as it was.
    pub(super) untouched: bool,
}

/// What the gates said of the commit that the loop began from (LP-33).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    /// `None`: somebody's work lay in the tree, so that no commit says what the gates saw.
    pub(super) commit: Option<CommitId>,
    pub(super) passed: Vec<String>,
    pub(super) failed: Vec<Failed>,
    /// Failing gates that the owner accepted, each with how it failed.
    pub(super) accepted: BTreeMap<String, String>,
    pub(super) stage: BaseStage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BaseStage {
    /// Gates are to run, or the owner is asked.
    Open,
    Running {
        run: RunId,
        gate: String,
    },
    /// An agent has started.
    Over,
}

/// A gate that did not pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failed {
    pub(super) gate: String,
    pub(super) how: String,
    /// The end of its output, for the next prompt.
    pub(super) output: String,
}

impl Checks {
    pub(super) fn new(flag: Digest) -> Self {
        let (weakened, running, failed) = (None, None, None);
        Self { flag, weakened, passed: Vec::new(), running, failed, untouched: false }
    }
}

/// The repository when the last run of the turn began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) head: Option<CommitId>,
    pub(super) refs: Digest,
    /// What was somebody else's unfinished work then, or became so between two tries.
    pub(super) dirty: BTreeSet<RelPath>,
    /// The tree when we last looked; what changed since then while nobody ran is not the agent's.
    pub(super) last: TreeId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Running {
    pub(super) run: RunId,
    pub(super) since: Timestamp,
    pub(super) ticks: Ticks,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ended {
    pub(super) run: RunId,
    pub(super) outcome: Outcome,
    pub(super) at: Timestamp,
    pub(super) tail: String,
    /// We have looked at what it left.
    pub(super) looked: bool,
    /// When it began, by both clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) began: Option<(Timestamp, Ticks)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) tree: TreeId,
    pub(super) head: Option<CommitId>,
    pub(super) changed: Vec<Change>,
    /// What still differs from HEAD.
    pub(super) dirty: BTreeSet<RelPath>,
    /// The flag that lay there when we looked again.
    #[serde(default)]
    pub(super) flag: Option<Digest>,
    /// What the last run changed and may not change in this phase, until it is put back (LP-31).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) overreach: Option<Overreach>,
}

/// Files that a run changed without leave, and the trees before and after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Overreach {
    pub(super) before: TreeId,
    pub(super) after: TreeId,
    pub(super) paths: Vec<RelPath>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusals {
    pub(super) in_a_row: u32,
    pub(super) last: Option<String>,
    /// What a failed gate printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
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
    /// A run moved the history: the owner goes back to the loop's branch, looks, and resumes on the history as it is then.
    AcceptHistory,
    /// History does not fit our journal: the owner says which of the two is right.
    AdoptOrRestore,
    Adopt,
    /// Git is not run until the owner trusts what changed (SE-01).
    Trust,
}

/// The branch that the loop lives on, and our last commit there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Anchor {
    pub(super) branch: String,
    pub(super) commit: Option<CommitId>,
}

/// A transition that was judged and waits for its commit to be planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Moving {
    pub(super) at: Timestamp,
    pub(super) row: String,
    pub(super) flag: Option<Digest>,
    pub(super) state: LoopState,
    pub(super) action: String,
    pub(super) take: Vec<Change>,
    /// The state file is written; only the commit is missing (the branch moved under the plan).
    pub(super) settled: bool,
    #[serde(default)]
    pub(super) opens: Opens,
}

/// What follows a transition. Journals of before it existed mean `Turn`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Opens {
    #[default]
    Turn,
    /// The turn goes on: only the list of steps changed.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PushDue {
    pub(super) branch: String,
    pub(super) commit: CommitId,
    pub(super) failures: u32,
    pub(super) not_before: Option<Moment>,
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
            ("state", _) => {
                self.state = read(value);
                self.state_file = self.state.as_ref().map(StateFile::of);
            }
            ("turn", _) => self.turn = read(value),
            ("refusals", _) => self.refusals = read(value).unwrap_or_default(),
            ("holds", _) => self.holds = read(value).unwrap_or_default(),
            ("away", _) => self.away = read(value),
            ("suspect", _) => self.suspect = read(value),
            ("anchor", _) => self.anchor = read(value),
            ("moving", _) => self.transition = read(value),
            ("push", _) => self.push = read(value),
            ("spent", _) => self.spent = read(value).unwrap_or_default(),
            ("epoch", _) => self.epoch = read(value).unwrap_or_default(),
            // Earlier versions noted every flag that was judged.
            ("judged", _) => {}
            ("plan", _) => self.plan = read(value).unwrap_or_default(),
            ("authored", name) => {
                if let Some(digest) = read(value) {
                    self.authored.insert(name.to_owned(), digest);
                }
            }
            ("gates", _) => self.gates = read(value).unwrap_or_default(),
            ("base", _) => self.base = read(value),
            ("told-of-gates", _) => self.told_of_gates = read_notice(value, "LP-22", "gates"),
            ("told-of-map", _) => self.told_of_map = read_notice(value, "LP-18", super::CODEBASE),
            ("archived", digest) => insert_or_remove(&mut self.archived, digest, value),
            (other, _) => panic!("BUG: this version does not know the memo `{other}`"),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }

    /// A run moved HEAD, a branch, a tag or the stash, and the owner has not answered yet (LP-20).
    pub(super) fn is_history_held(&self) -> bool {
        self.holds.iter().any(|hold| hold.way_out == WayOut::AcceptHistory)
    }

    /// Git is not run here until the owner trusts what changed.
    pub(super) fn is_git_held(&self) -> bool {
        self.holds.iter().any(|hold| hold.way_out == WayOut::Trust)
    }
}

fn insert_or_remove(set: &mut BTreeSet<String>, digest: &str, value: Option<&Value>) {
    if value.is_some() {
        set.insert(digest.to_owned());
    } else {
        set.remove(digest);
    }
}

/// A memo that cannot be read means that this version cannot know the truth: freezing is right, guessing is not.
/// Earlier versions noted only that the owner was told; mostly that was before any epoch ended.
fn read_notice(value: Option<&Value>, rule: &str, subject: &str) -> Option<Cause> {
    if let Some(Value::Bool(told)) = value {
        let (protocol, rule) = (super::NAME.to_owned(), RuleId::new(rule));
        return told.then(|| Cause { protocol, rule, subject: subject.to_owned(), epoch: 0 });
    }
    read(value)
}

fn read<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> Option<T> {
    value.map(|value| T::deserialize(value).expect("BUG: a memo in the journal must be readable"))
}

impl StateFile {
    fn of(state: &LoopState) -> Self {
        let mut bytes = state.to_bytes();
        bytes.shrink_to_fit();
        Self { digest: Digest::of(&bytes), bytes }
    }
}

impl LoopState {
    /// The file's bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("BUG: the loop state is plain data");
        bytes.push(b'\n');
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(crate::model::without_bom(bytes))
            .map_err(|error| crate::model::clip(&error.to_string(), 160))
    }
}

impl Turn {
    pub(super) fn new(opened: Timestamp, round_limit: u32) -> Self {
        Self {
            opened,
            failures: 0,
            not_before: None,
            paused: String::new(),
            outage: None,
            round_limit,
            start: None,
            mandates: None,
            run: None,
            refused: false,
            ended: None,
            session: None,
            left: None,
            checks: None,
            look_again: false,
        }
    }
}

impl Moving {
    /// What the commit will hold besides what the agent changed.
    pub(super) fn message(&self, key: &str) -> String {
        let step = match self.opens {
            Opens::Turn => self.state.history.last().map_or("?", |step| step_of(&step.from)),
            Opens::Nothing => &self.state.current_step,
        };
        format!("Review loop: Step {step} {}\n\nAgency-Key: {key}\n", self.action)
    }
}

/// `from` and `to` in the history are written `step/phase`.
pub(super) fn step_of(place: &str) -> &str {
    place.rsplit_once('/').map_or(place, |(step, _)| step)
}

macro_rules! word_serde {
    ($module:ident, $type:ident) => {
        mod $module {
            use super::$type;
            use serde::{Deserialize, Deserializer, Serializer, de::Error};

            pub(super) fn serialize<S: Serializer>(
                value: &$type,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                to.serialize_str(value.word())
            }

            pub(super) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<$type, D::Error> {
                let word = String::deserialize(from)?;
                $type::parse(&word).ok_or_else(|| {
                    D::Error::custom(format!("`{}` is not known", crate::model::clip(&word, 40)))
                })
            }
        }
    };
}
word_serde!(phase_word, Phase);
word_serde!(holder_word, Holder);
