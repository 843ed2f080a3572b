//! The tables of the handoff protocol (spec 4) as data: who may send what to whom, how a message moves, what a result needs.
//! They judge no bytes: `message.rs` does.

use crate::model::{Lookup, lookup};
use Addressee::{Agent, Anybody, Us};
use Folder::{Accepted, Completed, Pending, Rejected};
use Kind::{
    Answer, Completion, Escalation, FixRequest, RereviewRequest, ReviewRequest, TaskHandoff,
};
use MessageResult::{Approved, FixesApplied, NeedsFixes};
use Needs::{Handoff, Nothing};
use Side::{Any, Only};
use Who::{Builder, Fixer, Orchestrator, Planner, Reviewer};

/// A name in `from` and `to`. The first four are seats that `roles` maps to agents; the daemon is the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Planner,
    Builder,
    Reviewer,
    Fixer,
    Orchestrator,
}

/// The `type` of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    TaskHandoff,
    ReviewRequest,
    FixRequest,
    RereviewRequest,
    Completion,
    Escalation,
    /// SPEC GAP: the spec has no way back from the orchestrator; HO-07 wants the owner's answer as a handoff.
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Only(Who),
    /// Any of the four agents.
    Any,
}

#[derive(Debug, PartialEq, Eq)]
pub struct TypeRow {
    pub id: &'static str,
    pub kind: Kind,
    pub from: Side,
    pub to: Side,
}

const fn type_row(id: &'static str, kind: Kind, from: Side, to: Side) -> TypeRow {
    TypeRow { id, kind, from, to }
}

#[rustfmt::skip]
pub const TYPES: &[TypeRow] = &[
    //        id     type             from                to                   spec 4, Message Types
    type_row("HT1", TaskHandoff,     Only(Planner),      Only(Builder)),
    type_row("HT2", ReviewRequest,   Only(Builder),      Only(Reviewer)),
    type_row("HT3", FixRequest,      Only(Reviewer),     Only(Fixer)),
    type_row("HT4", RereviewRequest, Only(Fixer),        Only(Reviewer)),
    type_row("HT5", Completion,      Any,                Only(Orchestrator)),
    type_row("HT6", Escalation,      Any,                Only(Orchestrator)),
    type_row("HT7", Answer,          Only(Orchestrator), Any),
];

/// A folder of `.claude/handoffs/`, which is also the `status` of every message in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Folder {
    Pending,
    Accepted,
    Completed,
    /// SPEC GAP: the spec has the status but no folder (HO-02).
    Rejected,
}

/// Whom a message is for, as far as its moves care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addressee {
    Agent,
    Us,
    Anybody,
}

#[derive(Debug, PartialEq, Eq)]
pub struct MoveRow {
    pub id: &'static str,
    /// `None`: it was not there before.
    pub from: Option<Folder>,
    pub to: Folder,
    pub addressee: Addressee,
}

const fn move_row(
    id: &'static str,
    from: Option<Folder>,
    to: Folder,
    addressee: Addressee,
) -> MoveRow {
    MoveRow { id, from, to, addressee }
}

#[rustfmt::skip]
pub const MOVES: &[MoveRow] = &[
    //        id     from            to         addressee            spec 4, Handoff Storage
    move_row("HM1", None,           Pending,   Anybody),
    move_row("HM2", Some(Pending),  Accepted,  Anybody),
    move_row("HM3", Some(Accepted), Completed, Anybody),
    move_row("HM4", Some(Pending),  Rejected,  Agent),
    move_row("HM5", Some(Accepted), Rejected,  Agent),
    // What is addressed to the orchestrator is taken in at once.
    move_row("HM6", Some(Pending),  Completed, Us),
];

/// The `status` of a `completion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageResult {
    Completed,
    NeedsFixes,
    FixesApplied,
    Approved,
}

/// What must lie beside a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Handoff(Kind),
    Nothing,
}

#[derive(Debug, PartialEq, Eq)]
pub struct ResultRow {
    pub id: &'static str,
    pub who: Who,
    pub said: MessageResult,
    pub needs: Needs,
}

const fn result_row(id: &'static str, who: Who, said: MessageResult, needs: Needs) -> ResultRow {
    ResultRow { id, who, said, needs }
}

#[rustfmt::skip]
pub const RESULTS: &[ResultRow] = &[
    //          id     who       said             must leave                 spec 4, Example Flow
    result_row("HR1", Planner,  MessageResult::Completed, Handoff(TaskHandoff)),
    result_row("HR2", Builder,  MessageResult::Completed, Handoff(ReviewRequest)),
    result_row("HR3", Reviewer, NeedsFixes,      Handoff(FixRequest)),
    result_row("HR4", Reviewer, Approved,        Nothing),
    result_row("HR5", Fixer,    FixesApplied,    Handoff(RereviewRequest)),
];

fn one<Row>(found: Lookup<'static, Row>) -> Option<&'static Row> {
    match found {
        Lookup::One(row) => Some(row),
        Lookup::None => None,
    }
}

/// The row of a type; every type has one.
pub fn type_of(kind: Kind) -> &'static TypeRow {
    one(lookup(TYPES, |row| row.kind == kind)).expect("BUG: a type without a row")
}

pub fn find_move(from: Option<Folder>, to: Folder, addressed: Who) -> Option<&'static MoveRow> {
    one(lookup(MOVES, |row| row.from == from && row.to == to && row.addressee.fits(addressed)))
}

/// The last of the rows that lead from one folder to another: somebody may have made two moves between two looks.
pub fn find_way(from: Folder, to: Folder, addressed: Who) -> Option<&'static MoveRow> {
    find_move(Some(from), to, addressed).or_else(|| {
        find_move(Some(from), Accepted, addressed)?;
        find_move(Some(Accepted), to, addressed)
    })
}

pub fn find_result(who: Who, said: MessageResult) -> Option<&'static ResultRow> {
    one(lookup(RESULTS, |row| row.who == who && row.said == said))
}

/// The result that a handoff of this type implies when its sender says nothing else.
pub fn implied_result(who: Who, left: Kind) -> Option<&'static ResultRow> {
    one(lookup(RESULTS, |row| row.who == who && row.needs == Handoff(left)))
}

/// What this agent may say, for prompts and refusals.
pub fn results_of(who: Who) -> impl Iterator<Item = &'static ResultRow> {
    RESULTS.iter().filter(move |row| row.who == who)
}

impl Side {
    pub fn fits(self, who: Who) -> bool {
        match self {
            Only(only) => only == who,
            Any => who != Orchestrator,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Only(who) => who.word(),
            Any => "any agent",
        }
    }
}

impl Addressee {
    fn fits(self, who: Who) -> bool {
        match self {
            Agent => who != Orchestrator,
            Us => who == Orchestrator,
            Anybody => true,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Agent => "an agent",
            Us => "the orchestrator",
            Anybody => "anybody",
        }
    }
}

macro_rules! words {
    ($type:ident { $($variant:path => $word:literal),+ $(,)? }) => {
        impl $type {
            pub const ALL: &[Self] = &[$($variant),+];

            /// As the files write it.
            pub fn word(self) -> &'static str {
                match self { $($variant => $word),+ }
            }

            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.word() == word)
            }

            /// All of them, for refusals.
            pub fn list() -> String {
                Self::ALL.iter().map(|value| value.word()).collect::<Vec<_>>().join("|")
            }
        }
    };
}

words!(Who {
    Planner => "planner",
    Builder => "builder",
    Reviewer => "reviewer",
    Fixer => "fixer",
    Orchestrator => "orchestrator",
});
words!(Kind {
    TaskHandoff => "task_handoff",
    ReviewRequest => "review_request",
    FixRequest => "fix_request",
    RereviewRequest => "rereview_request",
    Completion => "completion",
    Escalation => "escalation",
    Answer => "answer",
});
words!(Folder {
    Pending => "pending",
    Accepted => "accepted",
    Completed => "completed",
    Rejected => "rejected",
});
words!(MessageResult {
    MessageResult::Completed => "completed",
    NeedsFixes => "needs_fixes",
    FixesApplied => "fixes_applied",
    Approved => "approved",
});

/// Highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Critical,
    High,
    Medium,
    Low,
}
words!(Priority {
    Priority::Critical => "critical",
    Priority::High => "high",
    Priority::Medium => "medium",
    Priority::Low => "low",
});

/// The `status` of an agent in the shared state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentStatus {
    /// It has nothing to do.
    #[default]
    Idle,
    /// Its run is alive, or a person works in its place.
    Active,
    /// Its turn is not over: it waits for an answer, for its next try or for the owner.
    Waiting,
    /// Its last turn has ended with a result.
    Completed,
}
words!(AgentStatus {
    AgentStatus::Idle => "idle",
    AgentStatus::Active => "active",
    AgentStatus::Waiting => "waiting",
    AgentStatus::Completed => "completed",
});

/// The `type` of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Feature,
    Bugfix,
    Refactor,
}
words!(Flow {
    Flow::Feature => "feature",
    Flow::Bugfix => "bugfix",
    Flow::Refactor => "refactor",
});
