//! The transitions of a task, spec 2 §9.2, as data. It judges no file: it says which moves exist and who may make them.

use crate::model::{Lookup, lookup};
use Guard::{DepsDone, HasReason, HasReport, None as Free, Verified};
use Status::{Assigned, Blocked, Canceled, Done, InProgress, New, ReadyForReview};
use Who::{Builder, Either, Orchestrator};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    New,
    Assigned,
    InProgress,
    Blocked,
    ReadyForReview,
    Done,
    Canceled,
}

/// Who makes a move. The owner and the daemon act as orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    Builder,
    Orchestrator,
}

/// Who may make a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Builder,
    Orchestrator,
    Either,
}

/// What must hold besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    None,
    /// Every task of `depends_on` is DONE.
    DepsDone,
    /// A report of §7 that was accepted.
    HasReport,
    HasReason,
    /// The report was read, and we ourselves verified this content with `pass`, or the owner overrode it (§20).
    Verified,
}

/// Where a move begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    Only(Status),
    /// Everything but CANCELED itself.
    Any,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub id: &'static str,
    pub from: From,
    pub to: Status,
    pub who: Who,
    pub guard: Guard,
}

const fn row(id: &'static str, from: From, to: Status, who: Who, guard: Guard) -> Row {
    Row { id, from, to, who, guard }
}

#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    //   id     from                        to              who           guard        spec 2 §9.2
    row("TB1", From::Only(New),            Assigned,       Orchestrator, Free),
    row("TB2", From::Only(Assigned),       InProgress,     Either,       DepsDone),
    row("TB3", From::Only(InProgress),     ReadyForReview, Builder,      HasReport),
    row("TB4", From::Only(InProgress),     Blocked,        Builder,      HasReason),
    row("TB5", From::Only(ReadyForReview), Done,           Orchestrator, Verified),
    row("TB6", From::Only(ReadyForReview), InProgress,     Either,       HasReason),
    row("TB7", From::Any,                  Canceled,       Orchestrator, Free),
    // SPEC GAP: BLOCKED is a dead end in §9.2; AG-08 lets the owner take it back.
    row("TB8", From::Only(Blocked),        Assigned,       Orchestrator, Free),
];

/// The one row between two states, whoever asks.
pub fn between(from: Status, to: Status) -> Option<&'static Row> {
    let begins = |row: &Row| match row.from {
        From::Only(only) => only == from,
        From::Any => from != Canceled,
    };
    match lookup(TABLE, |row| row.to == to && begins(row)) {
        Lookup::One(row) => Some(row),
        Lookup::None => None,
    }
}

/// The row, if this actor may use it.
pub fn find(from: Status, to: Status, actor: Actor) -> Option<&'static Row> {
    between(from, to).filter(|row| row.who.allows(actor))
}

impl Who {
    pub fn allows(self, actor: Actor) -> bool {
        match self {
            Either => true,
            Builder => actor == Actor::Builder,
            Orchestrator => actor == Actor::Orchestrator,
        }
    }

    pub fn word(self) -> &'static str {
        match self {
            Builder => "builder",
            Orchestrator => "orchestrator",
            Either => "builder or orchestrator",
        }
    }
}

impl Actor {
    pub const ALL: [Self; 2] = [Self::Builder, Self::Orchestrator];

    pub fn word(self) -> &'static str {
        match self {
            Self::Builder => "builder",
            Self::Orchestrator => "orchestrator",
        }
    }
}

impl Guard {
    pub fn words(self) -> &'static str {
        match self {
            Free => "",
            DepsDone => "every dependency is DONE",
            HasReport => "a valid report is there",
            HasReason => "a reason is given",
            Verified => "the report is read and our verify passed on this content, or an override",
        }
    }
}

impl Status {
    pub const ALL: [Self; 7] = [New, Assigned, InProgress, Blocked, ReadyForReview, Done, Canceled];

    pub fn word(self) -> &'static str {
        match self {
            New => "NEW",
            Assigned => "ASSIGNED",
            InProgress => "IN_PROGRESS",
            Blocked => "BLOCKED",
            ReadyForReview => "READY_FOR_REVIEW",
            Done => "DONE",
            Canceled => "CANCELED",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Nothing more happens to it.
    pub fn is_over(self) -> bool {
        matches!(self, Done | Canceled)
    }

    pub const WORDS: &'static str =
        "NEW, ASSIGNED, IN_PROGRESS, BLOCKED, READY_FOR_REVIEW, DONE or CANCELED";
}

impl serde::Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.word())
    }
}

impl<'de> serde::Deserialize<'de> for Status {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = <String as serde::Deserialize>::deserialize(from)?;
        Self::parse(&word).ok_or_else(|| serde::de::Error::custom("not a status"))
    }
}
