//! The session of one agent on one piece of work, in one or more tries: its stages as an enum with data, and the table of the steps
//! between them. It decides nothing; `drive.rs` takes the steps that every protocol shares.

use super::tries::Tries;
use crate::model::{Lookup, Outcome, RunId, Timestamp, TreeId, lookup};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// What a protocol knows beside the stages themselves.
pub trait Work: Clone + Debug + PartialEq {
    /// What is worked on, by whom and where.
    type Task: Data;
    /// What is prepared before the agent may start, such as the commit that its branch begins with.
    type Base: Data;
    /// What a look at the tree showed after the end.
    type Found: Data;
    /// A judged result on its way to where it belongs.
    type Landing: Data;
}

/// Plain data that a journal can hold.
pub trait Data: Clone + Debug + PartialEq + Serialize + DeserializeOwned {}

impl<T: Clone + Debug + PartialEq + Serialize + DeserializeOwned> Data for T {}

/// For a protocol that has nothing to add somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Session<W: Work> {
    #[serde(flatten)]
    pub task: W::Task,
    #[serde(flatten)]
    pub tries: Tries,
    pub stage: Stage<W>,
}

/// How far a session has come. The names in the journal are older than this type and stay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", bound = "")]
pub enum Stage<W: Work> {
    /// The protocol prepares it: a branch is brought up to date, a message accepted.
    Opening,
    /// The agent may start: its tree is leased and looked at.
    #[serde(rename = "based")]
    Ready(Ready<W>),
    Running(Running<W>),
    Ended(Ended<W>),
    /// What it left was looked at, and is judged.
    #[serde(rename = "left")]
    Looked(Looked<W>),
    /// Judged; what follows from it is being done.
    #[serde(rename = "moving")]
    Landing(Box<W::Landing>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Ready<W: Work> {
    #[serde(flatten)]
    pub base: W::Base,
}

/// A run that is alive as far as the journal knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Running<W: Work> {
    #[serde(flatten)]
    pub base: W::Base,
    /// The tree as the run found it.
    pub start: TreeId,
    pub run: RunId,
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Ended<W: Work> {
    #[serde(flatten)]
    pub base: W::Base,
    pub start: TreeId,
    pub run: RunId,
    pub since: Timestamp,
    pub at: Timestamp,
    pub outcome: Outcome,
    pub tail: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Looked<W: Work> {
    pub ended: Ended<W>,
    #[serde(flatten)]
    pub found: W::Found,
}

/// What moves a session on.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<W: Work> {
    Prepared(W::Base),
    Started {
        start: TreeId,
        run: RunId,
        since: Timestamp,
    },
    Exited {
        at: Timestamp,
        outcome: Outcome,
        tail: String,
    },
    Looked(W::Found),
    Judged(Box<W::Landing>),
    /// One more step of the landing is done.
    Landed(Box<W::Landing>),
    /// Another try, after a failure, a pause or the owner.
    Again,
    /// The effect that the last step rests on failed: that step is taken again.
    Undone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    Opening,
    Ready,
    Running,
    Ended,
    Looked,
    Landing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Prepared,
    Started,
    Exited,
    Looked,
    Judged,
    Landed,
    Again,
    Undone,
}

/// One step of the machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub from: StageKind,
    pub step: StepKind,
    pub to: StageKind,
}

const fn row(from: StageKind, step: StepKind, to: StageKind) -> Row {
    Row { from, step, to }
}

/// Every step that a session may take. A session ends by being forgotten, at any stage.
#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    row(StageKind::Opening, StepKind::Prepared, StageKind::Ready),
    row(StageKind::Ready,   StepKind::Started,  StageKind::Running),
    row(StageKind::Running, StepKind::Exited,   StageKind::Ended),
    row(StageKind::Ended,   StepKind::Looked,   StageKind::Looked),
    row(StageKind::Looked,  StepKind::Judged,   StageKind::Landing),
    row(StageKind::Landing, StepKind::Landed,   StageKind::Landing),
    // A try that came to nothing, wherever that showed.
    row(StageKind::Ended,   StepKind::Again,    StageKind::Opening),
    row(StageKind::Looked,  StepKind::Again,    StageKind::Opening),
    row(StageKind::Landing, StepKind::Again,    StageKind::Opening),
    // The preparation, or the commit of what the run left, failed.
    row(StageKind::Ready,   StepKind::Undone,   StageKind::Opening),
    row(StageKind::Looked,  StepKind::Undone,   StageKind::Ended),
];

impl StageKind {
    pub const ALL: [Self; 6] =
        [Self::Opening, Self::Ready, Self::Running, Self::Ended, Self::Looked, Self::Landing];
}

impl StepKind {
    pub const ALL: [Self; 8] = [
        Self::Prepared,
        Self::Started,
        Self::Exited,
        Self::Looked,
        Self::Judged,
        Self::Landed,
        Self::Again,
        Self::Undone,
    ];
}

/// Where a step leads from a stage; `None`: it is not possible there.
pub fn transition(from: StageKind, step: StepKind) -> Option<StageKind> {
    match lookup(TABLE, |row| row.from == from && row.step == step) {
        Lookup::One(row) => Some(row.to),
        Lookup::None => None,
    }
}

impl<W: Work> Stage<W> {
    pub fn kind(&self) -> StageKind {
        match self {
            Self::Opening => StageKind::Opening,
            Self::Ready(_) => StageKind::Ready,
            Self::Running(_) => StageKind::Running,
            Self::Ended(_) => StageKind::Ended,
            Self::Looked(_) => StageKind::Looked,
            Self::Landing(_) => StageKind::Landing,
        }
    }

    /// The run that is alive.
    pub fn run(&self) -> Option<&RunId> {
        match self {
            Self::Running(running) => Some(&running.run),
            Self::Opening
            | Self::Ready(_)
            | Self::Ended(_)
            | Self::Looked(_)
            | Self::Landing(_) => None,
        }
    }
}

impl<W: Work> Step<W> {
    pub fn kind(&self) -> StepKind {
        match self {
            Self::Prepared(_) => StepKind::Prepared,
            Self::Started { .. } => StepKind::Started,
            Self::Exited { .. } => StepKind::Exited,
            Self::Looked(_) => StepKind::Looked,
            Self::Judged(_) => StepKind::Judged,
            Self::Landed(_) => StepKind::Landed,
            Self::Again => StepKind::Again,
            Self::Undone => StepKind::Undone,
        }
    }
}

impl<W: Work> Session<W> {
    pub fn new(task: W::Task) -> Self {
        Self { task, tries: Tries::default(), stage: Stage::Opening }
    }

    /// The session one step further.
    ///
    /// # Panics
    /// A step that [`TABLE`] does not have at this stage is a bug of the protocol.
    pub fn step(&self, step: Step<W>) -> Self {
        let (from, kind) = (self.stage.kind(), step.kind());
        let to = transition(from, kind);
        let stage = self.stage_after(step).filter(|stage| Some(stage.kind()) == to);
        let stage = stage.unwrap_or_else(|| panic!("BUG: {kind:?} is no step of {from:?}"));
        Self { stage, ..self.clone() }
    }

    fn stage_after(&self, step: Step<W>) -> Option<Stage<W>> {
        Some(match (&self.stage, step) {
            (_, Step::Prepared(base)) => Stage::Ready(Ready { base }),
            (Stage::Ready(ready), Step::Started { start, run, since }) => {
                Stage::Running(Running { base: ready.base.clone(), start, run, since })
            }
            (Stage::Running(running), Step::Exited { at, outcome, tail }) => {
                let Running { base, start, run, since } = running.clone();
                Stage::Ended(Ended { base, start, run, since, at, outcome, tail })
            }
            (Stage::Ended(ended), Step::Looked(found)) => {
                Stage::Looked(Looked { ended: ended.clone(), found })
            }
            (_, Step::Judged(landing) | Step::Landed(landing)) => Stage::Landing(landing),
            (Stage::Looked(looked), Step::Undone) => Stage::Ended(looked.ended.clone()),
            (_, Step::Again | Step::Undone) => Stage::Opening,
            (_, Step::Started { .. } | Step::Exited { .. } | Step::Looked(_)) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Plain;

    impl Work for Plain {
        type Task = Nothing;
        type Base = Nothing;
        type Found = Nothing;
        type Landing = Nothing;
    }

    fn at() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn steps() -> Vec<Step<Plain>> {
        vec![
            Step::Prepared(Nothing {}),
            Step::Started { start: TreeId::new("t"), run: RunId::new("r"), since: at() },
            Step::Exited { at: at(), outcome: Outcome::Ok, tail: String::new() },
            Step::Looked(Nothing {}),
            Step::Judged(Box::default()),
            Step::Landed(Box::default()),
            Step::Again,
            Step::Undone,
        ]
    }

    /// A session at each stage, by the ordinary way.
    fn sessions() -> Vec<Session<Plain>> {
        let mut all = vec![Session::new(Nothing {})];
        for step in steps().into_iter().take(5) {
            all.push(all.last().unwrap().step(step));
        }
        all
    }

    // covers: SU-05
    #[test]
    fn sessions_take_the_steps_of_the_table_and_no_others() {
        for session in sessions() {
            for step in steps() {
                let to = transition(session.stage.kind(), step.kind());
                let stage = session.stage_after(step).map(|stage| stage.kind());
                assert!(to.is_none() || stage == to, "{:?}", session.stage);
            }
        }
        let kinds: Vec<_> = sessions().iter().map(|session| session.stage.kind()).collect();
        assert_eq!(kinds, StageKind::ALL);
    }

    #[test]
    #[should_panic(expected = "BUG: Judged is no step of Running")]
    fn a_step_that_the_table_lacks_is_a_bug() {
        sessions()[2].step(Step::Judged(Box::default()));
    }

    // covers: DM-08
    #[test]
    fn every_stage_is_the_same_after_the_journal() {
        for session in sessions() {
            let stored = serde_json::to_value(&session).unwrap();
            assert_eq!(serde_json::from_value::<Session<Plain>>(stored).unwrap(), session);
        }
    }
}
