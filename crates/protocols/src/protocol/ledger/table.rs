//! The loop of the ledger as data: who runs after whom (spec 5 §4, "Review Cycle Tracking" and "Fix Cycle Limits"), and who may
//! do what (§5). It judges no file.

use super::words::{AgentType, Verdict};
use crate::model::{Lookup, lookup};
use AgentType::{Architecture, Fix, Implement, Initializer, Review};
use Cycles::{Any, Left, SpentMajor, SpentMinor};
use Next::{Again, FixIt, Merge, Pick, Reject, ReviewIt, Start};
use SessionResult::{Changes, Comments, Failed, Listed, Pass, Ready, Rejected};

/// What a session came to, by what it really left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionResult {
    Listed,
    Ready,
    Pass,
    Comments,
    Changes,
    Rejected,
    Failed,
}

/// The fix attempts that are left, and the worst issue that is left when there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cycles {
    Any,
    Left,
    SpentMinor,
    SpentMajor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The list is taken as it is; the first feature.
    Start,
    ReviewIt,
    FixIt,
    /// Into main; passes; then the next one, or ARCHITECTURE when it is due.
    Merge,
    /// The branch is kept aside and deleted; the feature goes back to the queue.
    Reject,
    Pick,
    /// The same agent once more, then the owner.
    Again,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub id: &'static str,
    pub agent: AgentType,
    pub said: SessionResult,
    pub cycles: Cycles,
    pub next: Next,
}

const fn row(
    id: &'static str,
    agent: AgentType,
    said: SessionResult,
    cycles: Cycles,
    next: Next,
) -> Row {
    Row { id, agent, said, cycles, next }
}

#[rustfmt::skip]
pub const TABLE: &[Row] = &[
    //   id      agent         came to   fix attempts  next                                  spec 5 §4
    row("LD1",  Initializer,  Listed,   Any,          Start),
    row("LD2",  Implement,    Ready,    Any,          ReviewIt),
    row("LD3",  Review,       Pass,     Any,          Merge),
    row("LD4",  Review,       Comments, Left,         FixIt),
    row("LD5",  Review,       Changes,  Left,         FixIt),
    row("LD6",  Review,       Comments, SpentMinor,   Merge),   // with its comments as documented debt
    row("LD7",  Review,       Changes,  SpentMinor,   Merge),
    row("LD8",  Review,       Changes,  SpentMajor,   Reject),
    row("LD9",  Review,       Rejected, Any,          Reject),
    row("LD10", Fix,          Ready,    Any,          ReviewIt),
    row("LD11", Architecture, Pass,     Any,          Pick),
    row("LD12", Architecture, Comments, Any,          FixIt),   // on a `refactor/…` branch
    row("LD13", Architecture, Changes,  Any,          FixIt),
    row("LD14", Architecture, Rejected, Any,          FixIt),
    // SPEC GAP: ERROR has no way on; LG-04 tries again and then asks.
    row("LD15", Initializer,  Failed,   Any,          Again),
    row("LD16", Implement,    Failed,   Any,          Again),
    row("LD17", Review,       Failed,   Any,          Again),
    row("LD18", Fix,          Failed,   Any,          Again),
    row("LD19", Architecture, Failed,   Any,          Again),
];

/// The one row for these facts. `None`: such an agent cannot come to this.
pub fn find(agent: AgentType, said: SessionResult, cycles: Cycles) -> Option<&'static Row> {
    let fits = |row: &Row| {
        row.agent == agent && row.said == said && (row.cycles == Any || row.cycles == cycles)
    };
    match lookup(TABLE, fits) {
        Lookup::One(row) => Some(row),
        Lookup::None => None,
    }
}

/// What only some agents may do (spec 5 §5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    WriteCode,
    MarkFailing,
    MarkPassing,
    Merge,
    DeleteBranch,
    WriteReview,
    WriteFix,
    AddFeature,
    /// Changing or removing what others recorded. Nobody may.
    Rewrite,
}

/// Columns: IMPLEMENT, REVIEW, FIX, ARCHITECTURE. SPEC GAP: the INITIALIZER, whom §5 leaves out, writes code and the list. New
/// entries that do not pass may be added by anybody: a bug that was found, a debt that was left.
#[rustfmt::skip]
const MATRIX: &[(Action, [bool; 5])] = &[
    //                       INIT   IMPL   REVIEW FIX    ARCH
    (Action::WriteCode,    [true,  true,  false, true,  false]),
    (Action::MarkFailing,  [false, true,  false, false, false]),
    (Action::MarkPassing,  [false, false, true,  false, false]),
    (Action::Merge,        [false, false, true,  false, false]),
    (Action::DeleteBranch, [false, false, true,  false, false]),
    (Action::WriteReview,  [false, false, true,  false, true ]),
    (Action::WriteFix,     [false, false, false, true,  false]),
    (Action::AddFeature,   [true,  true,  true,  true,  true ]),
    (Action::Rewrite,      [false, false, false, false, false]),
];

pub fn may(agent: AgentType, action: Action) -> bool {
    let column = match agent {
        Initializer => 0,
        Implement => 1,
        Review => 2,
        Fix => 3,
        Architecture => 4,
    };
    MATRIX.iter().any(|(known, may)| *known == action && may[column])
}

impl Action {
    pub const ALL: [Self; 9] = [
        Self::WriteCode,
        Self::MarkFailing,
        Self::MarkPassing,
        Self::Merge,
        Self::DeleteBranch,
        Self::WriteReview,
        Self::WriteFix,
        Self::AddFeature,
        Self::Rewrite,
    ];

    /// What it is to do it, for a refusal.
    pub fn words(self) -> &'static str {
        match self {
            Self::WriteCode => "change code",
            Self::MarkFailing => "mark a feature as failing",
            Self::MarkPassing => "mark a feature as passing",
            Self::Merge => "merge to the main branch",
            Self::DeleteBranch => "delete the branch",
            Self::WriteReview => "record a review",
            Self::WriteFix => "record a fix",
            Self::AddFeature => "add a feature",
            Self::Rewrite => "change what was recorded before",
        }
    }

    /// Who may, for a refusal.
    pub fn allowed(self) -> String {
        let may: Vec<_> = AgentType::ALL.iter().filter(|agent| may(**agent, self)).collect();
        match may.as_slice() {
            [] => "nobody may".to_owned(),
            agents => {
                let words: Vec<_> = agents.iter().map(|agent| agent.word()).collect();
                format!("only {} may", words.join(", "))
            }
        }
    }
}

impl SessionResult {
    pub const ALL: [Self; 7] = [Listed, Ready, Pass, Comments, Changes, Rejected, Failed];

    pub fn word(self) -> &'static str {
        match self {
            Listed => "listed",
            Ready => "ready",
            Pass => "pass",
            Comments => "comments",
            Changes => "changes",
            Rejected => "rejected",
            Failed => "failed",
        }
    }
}

impl From<Verdict> for SessionResult {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Pass,
            Verdict::PassWithComments => Comments,
            Verdict::RequestChanges => Changes,
            Verdict::Reject => Rejected,
        }
    }
}

impl Cycles {
    pub const ALL: [Self; 3] = [Left, SpentMinor, SpentMajor];

    pub fn word(self) -> &'static str {
        match self {
            Any => "any",
            Left => "left",
            SpentMinor => "spent, minor",
            SpentMajor => "spent, major",
        }
    }
}

impl Next {
    pub fn word(self) -> &'static str {
        match self {
            Start => "IMPLEMENT",
            ReviewIt => "REVIEW",
            FixIt => "FIX",
            Merge => "merge, then the next",
            Reject => "reject, then IMPLEMENT",
            Pick => "the next",
            Again => "try again, then ask",
        }
    }
}
