//! The transitions of spec 3 §7.1 with their actors and what each asks for. Data and its lookup, no effects.

use super::words::State::{self, Blocked, Done, InProgress, Rejected, ToBeTested, Todo};
use crate::model::{Lookup, lookup};

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: &'static str,
    pub from: From,
    pub to: State,
    pub who: Who,
    pub guards: &'static [Guard],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Is(State),
    /// Every state but the one it leads to.
    Any,
}

/// Who may do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// An agent or a human, who has the task from then on.
    Taker,
    /// The agent that owns it; a human only if the human owns it (GAP).
    Worker,
    Owner,
    Human,
}

/// What must hold besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The owner is the one who took it, and `claimed_at` is set.
    Claimed,
    /// Somebody owns it.
    Owned,
    /// `build` has acceptance criteria.
    Acceptance,
    /// All of `depends_on` are there and done.
    Dependencies,
    /// The agent may work here and has room for one more.
    Room,
    /// The type may skip `to_be_tested`.
    Skips,
    /// `review` is for humans.
    Judgment,
    /// The closing note has a summary.
    Summary,
    /// `completed_at` is set.
    Completed,
    BlockedReason,
    Reason,
}

impl From {
    pub fn word(self) -> &'static str {
        match self {
            Self::Is(state) => state.word(),
            Self::Any => "any",
        }
    }

    fn fits(self, from: State, to: State) -> bool {
        match self {
            Self::Is(state) => state == from,
            Self::Any => from != to,
        }
    }
}

impl Who {
    pub fn word(self) -> &'static str {
        match self {
            Self::Taker => "agent, human",
            Self::Worker => "agent",
            Self::Owner => "owner only",
            Self::Human => "human",
        }
    }
}

const fn row(id: &'static str, from: From, to: State, who: Who, guards: &'static [Guard]) -> Row {
    Row { id, from, to, who, guards }
}

use Guard as G;

#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    //   id      from                   to           who          asks for                                  spec 3 §7
    row("CX1",  From::Is(Todo),        InProgress,  Who::Taker,  &[G::Claimed, G::Acceptance, G::Dependencies, G::Room, G::Judgment]),
    row("CX2",  From::Is(InProgress),  ToBeTested,  Who::Worker, &[]),
    row("CX3",  From::Is(ToBeTested),  Done,        Who::Owner,  &[G::Judgment, G::Summary, G::Completed]),
    row("CX4",  From::Is(ToBeTested),  Todo,        Who::Owner,  &[]),
    row("CX5",  From::Any,             Blocked,     Who::Human,  &[G::BlockedReason]),
    row("CX6",  From::Is(Blocked),     Todo,        Who::Human,  &[]),
    row("CX7",  From::Is(Blocked),     InProgress,  Who::Human,  &[G::Owned, G::Acceptance, G::Dependencies]),
    row("CX8",  From::Is(Todo),        Rejected,    Who::Human,  &[G::Reason, G::Completed]),
    row("CX9",  From::Is(Blocked),     Rejected,    Who::Human,  &[G::Reason, G::Completed]),
    row("CX10", From::Is(InProgress),  Rejected,    Who::Human,  &[G::Reason, G::Completed]),
    row("CX11", From::Is(Rejected),    Todo,        Who::Human,  &[G::Reason]),
    row("CX12", From::Is(Done),        Todo,        Who::Human,  &[G::Reason]),
    // SPEC GAP: §7.2 lets other types than build skip `to_be_tested`, and §8.1.1 lets humans reclaim; §7.1 has no rows for them.
    row("CX13", From::Is(InProgress),  Done,        Who::Owner,  &[G::Skips, G::Judgment, G::Summary, G::Completed]),
    row("CX14", From::Is(InProgress),  Todo,        Who::Human,  &[G::Reason]),
];

/// The row for a move, if the protocol has one.
pub fn find(from: State, to: State) -> Option<&'static Row> {
    match lookup(TABLE, |row| row.to == to && row.from.fits(from, to)) {
        Lookup::One(row) => Some(row),
        Lookup::None => None,
    }
}
