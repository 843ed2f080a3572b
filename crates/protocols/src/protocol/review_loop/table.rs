//! The transition table of the review loop, spec 1 §1, as data. It judges no flag: `flag.rs` does.

use crate::model::{Lookup, lookup};
use FlagStatus::{Approved, Executed, Proposed, Reviewed, Revised, VerifiedClean};
use Holder::{Builder, Reviewer};
use Next::{Advance, Hand};
use Phase::{Execute, Propose, Review, Verify};
use Round::{First, More, Same};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Propose,
    Review,
    Execute,
    Verify,
    Complete,
}

/// Who has the turn. Their names in the files are `claude-code` and `codex`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    Builder,
    Reviewer,
}

/// The `status` of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagStatus {
    Proposed,
    Approved,
    Reviewed,
    Executed,
    VerifiedClean,
    Revised,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    First,
    Same,
    More,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Hand(Phase, Holder, Round),
    /// To the next step's `propose`, or to the end.
    Advance,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub id: &'static str,
    pub phase: Phase,
    pub holder: Holder,
    pub said: FlagStatus,
    pub next: Next,
}

const fn row(id: &'static str, phase: Phase, holder: Holder, said: FlagStatus, next: Next) -> Row {
    Row { id, phase, holder, said, next }
}

#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    //   id      phase    holder    status         next                              spec 1 §1
    row("RL1",  Propose, Builder,  Proposed,      Hand(Review,  Reviewer, First)),
    row("RL2",  Review,  Reviewer, Approved,      Hand(Execute, Builder,  First)),
    row("RL3",  Review,  Reviewer, Reviewed,      Hand(Review,  Builder,  Same)),
    row("RL4",  Execute, Builder,  Executed,      Hand(Verify,  Reviewer, First)),
    row("RL5",  Verify,  Reviewer, VerifiedClean, Advance),
    row("RL6",  Verify,  Reviewer, Reviewed,      Hand(Verify,  Builder,  Same)),
    // SPEC GAP: §1 dead-ends after change requests; LP-02 hands back to the reviewer.
    row("RL7",  Review,  Builder,  Proposed,      Hand(Review,  Reviewer, More)),
    row("RL8",  Review,  Builder,  Revised,       Hand(Review,  Reviewer, More)),
    row("RL9",  Verify,  Builder,  Executed,      Hand(Verify,  Reviewer, More)),
    row("RL10", Verify,  Builder,  Revised,       Hand(Verify,  Reviewer, More)),
];

/// The one row for these facts, if the protocol allows the move at all.
pub fn find(phase: Phase, holder: Holder, said: FlagStatus) -> Option<&'static Row> {
    match lookup(TABLE, |row| row.phase == phase && row.holder == holder && row.said == said) {
        Lookup::One(row) => Some(row),
        Lookup::None => None,
    }
}

/// What the holder may say now, for prompts and refusals.
pub fn allowed(phase: Phase, holder: Holder) -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(move |row| row.phase == phase && row.holder == holder)
}

impl Phase {
    pub const ALL: [Self; 5] = [Propose, Review, Execute, Verify, Self::Complete];

    pub fn word(self) -> &'static str {
        match self {
            Propose => "propose",
            Review => "review",
            Execute => "execute",
            Verify => "verify",
            Self::Complete => "complete",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.word() == word)
    }
}

impl Holder {
    pub const ALL: [Self; 2] = [Builder, Reviewer];

    /// The name in the protocol's files, which is also the seat.
    pub fn word(self) -> &'static str {
        match self {
            Builder => "claude-code",
            Reviewer => "codex",
        }
    }

    pub fn role(self) -> &'static str {
        match self {
            Builder => "builder",
            Reviewer => "reviewer",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|holder| holder.word() == word)
    }
}

impl FlagStatus {
    pub const ALL: [Self; 6] = [Proposed, Approved, Reviewed, Executed, VerifiedClean, Revised];

    pub fn word(self) -> &'static str {
        match self {
            Proposed => "proposed",
            Approved => "approved",
            Reviewed => "reviewed",
            Executed => "executed",
            VerifiedClean => "verified-clean",
            Revised => "revised",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|said| said.word() == word)
    }
}

impl Row {
    /// The `nextAgent` that a flag for this row must name; `None`: any (LP-07).
    pub fn next_agent(&self) -> Option<Holder> {
        match self.next {
            Hand(_, holder, _) => Some(holder),
            Advance => None,
        }
    }

    /// The `<action>` of the commit message (LP-19).
    pub fn action(&self) -> &'static str {
        match self.next {
            Hand(..) => self.said.word(),
            Advance => "advanced",
        }
    }
}
