//! What the relay remembers across restarts: typed views of the memos that its own decisions carry.
//! The serde types here are the format of those memos.

use super::locks::Lock;
use super::message::{self, Message};
use super::table::{AgentStatus, Flow, Folder, Priority, Who};
use crate::engine::{self, Remember as _, Tries};
use crate::memos;
use crate::model::{
    Cause, CommitId, Decision, Digest, Moment, Outcome, RelPath, RunId, Ticks, Timestamp, TreeId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

memos! {
    /// The forms that the journal keeps. `None` forgets.
    pub(super) enum Memo {
        one {
            Count("count"): u64,
            Known("known"): bool,
            Workflow("workflow"): Workflow,
            Turn("turn"): Box<Turn>,
            Refused("refused"): Vec<String>,
            Holds("holds"): Vec<Hold>,
            Locks("locks"): BTreeMap<String, Lock>,
            LastHandoff("last-handoff"): Option<String>,
            Away("away"): Cause,
            Epoch("epoch"): u64,
        }
        each {
            Open("open"): Box<Known>,
            /// The value says how, for people.
            Done("done"): Value,
            Asked("asked"): Asked,
            Suspect("suspect"): Moment,
        }
    }
}

pub(super) type Draft = engine::Draft<Memo>;

impl Memo {
    pub(super) fn turn(turn: Turn) -> Self {
        Self::Turn(Some(Box::new(turn)))
    }

    pub(super) fn open(id: &str, known: Known) -> Self {
        Self::Open(id.to_owned(), Some(Box::new(known)))
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Memory {
    /// How many decisions were journalled; the next one's number.
    pub(super) decisions: u64,
    /// The owner began here or adopted what is here.
    pub(super) known: bool,
    pub(super) workflow: Option<Workflow>,
    pub(super) turn: Option<Turn>,
    /// Messages that were judged and are not done with.
    pub(super) open: BTreeMap<String, Known>,
    /// Messages that are done with: none comes back.
    pub(super) done: BTreeSet<String>,
    /// Escalations of agents that wait for the owner, by the message.
    pub(super) asked: BTreeMap<String, Asked>,
    /// What was last refused, for the next prompt.
    pub(super) refused: Vec<String>,
    pub(super) holds: Vec<Hold>,
    /// Something is not where it should be; when we stop waiting for it to come right by itself.
    pub(super) suspects: BTreeMap<String, Moment>,
    pub(super) locks: BTreeMap<String, Lock>,
    pub(super) last_handoff: Option<String>,
    /// The owner was told what of git's is in the way.
    pub(super) away: Option<Cause>,
    /// Rises with each `resume`, so that a cause that comes back is a new one.
    pub(super) epoch: u64,
}

/// SPEC GAP: messages name no workflow, so there is one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Workflow {
    pub(super) id: String,
    #[serde(with = "flow_word")]
    pub(super) flow: Flow,
    pub(super) started: Timestamp,
    /// Empty until the planner has named it.
    pub(super) spec: String,
    /// What the owner asked for; empty when it began with a message.
    pub(super) request: String,
    /// The planner has handed on, or there is nothing to plan.
    pub(super) planned: bool,
    pub(super) iteration: u32,
    /// Past this iteration the owner is asked (HO-08).
    pub(super) iteration_limit: u32,
    /// The reviewer approved and nothing new came since.
    pub(super) approved: bool,
    pub(super) ended: Option<Timestamp>,
}

/// A message as we judged it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Known {
    #[serde(with = "folder_word")]
    pub(super) folder: Folder,
    pub(super) name: String,
    /// Of the bytes that lie there.
    pub(super) digest: Digest,
    pub(super) document: Map<String, Value>,
    /// The run that wrote it; `None`: written by hand.
    pub(super) by: Option<RunId>,
    /// Accepted by somebody whom we did not start; how long we leave it to them.
    pub(super) by_hand: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    #[serde(with = "who_word")]
    pub(super) from: Who,
    pub(super) cause: Cause,
    pub(super) blocking: bool,
}

/// What a turn is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Subject {
    /// The planner is activated by the orchestrator, without a message (spec 4, Example Flow 2).
    Plan,
    Message(String),
}

/// One recipient at work on one handoff: one or more tries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Turn {
    pub(super) subject: Subject,
    #[serde(with = "who_word")]
    pub(super) who: Who,
    /// The message is accepted and the state says so; only the agent is missing.
    pub(super) ready: bool,
    #[serde(flatten)]
    pub(super) tries: Tries,
    pub(super) start: Option<Start>,
    pub(super) run: Option<Running>,
    pub(super) ended: Option<Ended>,
    /// The agent asked the owner something that blocks it: the id of its escalation.
    pub(super) waits_for: Option<String>,
    /// Answers that this turn goes on with.
    #[serde(default)]
    pub(super) answers: Vec<String>,
    #[serde(default)]
    pub(super) session: Option<String>,
    /// What the shared state says of its agent.
    #[serde(default, with = "status_word")]
    pub(super) shown: AgentStatus,
    /// Messages of this turn that were refused (HO-15).
    #[serde(default)]
    pub(super) refusals: Refusals,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Refusals {
    pub(super) count: u32,
    /// The first problem of the last one.
    pub(super) last: String,
}

impl Refusals {
    /// `None`: no message was refused.
    pub(super) fn sentence(&self, who: Who) -> Option<String> {
        let (who, last) = (who.word(), &self.last);
        match self.count {
            0 => None,
            1 => Some(format!("{who}'s message was refused: {last}")),
            count => Some(format!("{who}'s {count} messages were refused. The last: {last}")),
        }
    }
}

/// The repository when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) head: Option<CommitId>,
    pub(super) tree: TreeId,
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
    pub(super) since: Timestamp,
    pub(super) at: Timestamp,
    pub(super) tail: String,
    /// The paths that it changed and the commits that came, once we have looked.
    pub(super) left: Option<Left>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Left {
    pub(super) changed: Vec<RelPath>,
    pub(super) branch: Option<String>,
    pub(super) head: Option<CommitId>,
    /// The claims that were checked: commit or file → what was wrong with it.
    pub(super) checked: BTreeMap<String, Option<String>>,
}

/// Why the relay waits for its owner.
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
    /// Another tool's state file: it is moved away, or `agency handoff adopt` takes its place.
    AdoptState,
    /// git is held (SE-01); it goes on when the owner trusts the repository as it is.
    Trust,
    /// An agent's question: `agency answer`, or `agency resume` to go on without one.
    Answer,
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
            Memo::Known(known) => self.known = known.unwrap_or_default(),
            Memo::Workflow(workflow) => self.workflow = workflow,
            Memo::Turn(turn) => self.turn = turn.map(|turn| *turn),
            Memo::Open(id, known) => put(&mut self.open, id, known.map(|known| *known)),
            Memo::Done(id, Some(_)) => drop(self.done.insert(id)),
            Memo::Done(id, None) => drop(self.done.remove(&id)),
            Memo::Asked(id, asked) => put(&mut self.asked, id, asked),
            Memo::Refused(refused) => self.refused = refused.unwrap_or_default(),
            Memo::Holds(holds) => self.holds = holds.unwrap_or_default(),
            Memo::Suspect(what, until) => put(&mut self.suspects, what, until),
            Memo::Locks(locks) => self.locks = locks.unwrap_or_default(),
            Memo::LastHandoff(id) => self.last_handoff = id.flatten(),
            Memo::Away(cause) => self.away = cause,
            Memo::Epoch(epoch) => self.epoch = epoch.unwrap_or_default(),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        !self.holds.is_empty()
    }

    /// The workflow that is under way.
    pub(super) fn under_way(&self) -> Option<&Workflow> {
        self.workflow.as_ref().filter(|workflow| workflow.ended.is_none())
    }

    pub(super) fn running(&self) -> Option<(&Turn, &Running)> {
        let turn = self.turn.as_ref()?;
        Some((turn, turn.run.as_ref()?))
    }
}

fn put<T>(map: &mut BTreeMap<String, T>, key: String, value: Option<T>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}

impl Known {
    /// The message again. It was judged when it came, and its document never changes.
    pub(super) fn message(&self) -> Message {
        let bytes = message::render(&self.document, self.folder);
        message::parse(&self.path(), &bytes, message::ANY_TIME)
            .expect("BUG: a message that was judged good stays good")
    }

    fn word(&self, name: &str) -> &str {
        self.document.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn to(&self) -> Who {
        Who::parse(self.word("to")).expect("BUG: a message that was judged good stays good")
    }

    /// By priority, then by age.
    pub(super) fn rank(&self) -> (Priority, Option<chrono::DateTime<chrono::FixedOffset>>) {
        let stamp = chrono::DateTime::parse_from_rfc3339(self.word("timestamp")).ok();
        (Priority::parse(self.word("priority")).unwrap_or(Priority::Low), stamp)
    }

    pub(super) fn path(&self) -> RelPath {
        super::path_in(self.folder, &self.name)
    }

    /// As it lies in another folder.
    pub(super) fn in_folder(&self, folder: Folder) -> Self {
        let digest = Digest::of(&message::render(&self.document, folder));
        Self { folder, digest, ..self.clone() }
    }

    pub(super) fn bytes_in(&self, folder: Folder) -> crate::model::Bytes {
        crate::model::Bytes(message::render(&self.document, folder))
    }
}

impl Turn {
    pub(super) fn new(subject: Subject, who: Who) -> Self {
        Self {
            subject,
            who,
            ready: false,
            tries: Tries::default(),
            start: None,
            run: None,
            ended: None,
            waits_for: None,
            answers: Vec::new(),
            session: None,
            shown: AgentStatus::Idle,
            refusals: Refusals::default(),
        }
    }

    /// Its agent is the current one, also while it waits for an answer or its next try.
    pub(super) fn has_begun(&self) -> bool {
        self.ready || !self.answers.is_empty()
    }

    /// The messages that this turn must bring to an end.
    pub(super) fn messages(&self) -> impl Iterator<Item = &String> {
        let subject = match &self.subject {
            Subject::Plan => None,
            Subject::Message(id) => Some(id),
        };
        subject.into_iter().chain(&self.answers)
    }
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
word_serde!(flow_word, Flow);
word_serde!(folder_word, Folder);
word_serde!(who_word, Who);
word_serde!(status_word, AgentStatus);
