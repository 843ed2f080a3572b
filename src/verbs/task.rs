//! What an owner does to one task of the board. The board's table judges it.

use super::OwnerVerb;
use crate::model::Verb;
use crate::protocol::board::NAME;
use crate::protocol::board::table::{self, Status};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskVerb {
    Start,
    RequestChanges,
    Audit,
    Done,
    Unblock,
    Cancel,
}

impl TaskVerb {
    pub const ALL: [Self; 6] =
        [Self::Start, Self::RequestChanges, Self::Audit, Self::Done, Self::Unblock, Self::Cancel];

    pub fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::RequestChanges => "request-changes",
            Self::Audit => "audit",
            Self::Done => "done",
            Self::Unblock => "unblock",
            Self::Cancel => "cancel",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }

    /// What an owner may do to a task that stands there; whether it succeeds is judged with everything else.
    pub fn fitting(status: Status) -> Vec<Self> {
        Self::ALL.into_iter().filter(|verb| verb.fits(status)).collect()
    }

    fn fits(self, status: Status) -> bool {
        let (from, to) = match self {
            Self::Start => (Status::Assigned, Status::InProgress),
            Self::RequestChanges => (Status::ReadyForReview, Status::InProgress),
            Self::Done => (Status::ReadyForReview, Status::Done),
            Self::Unblock => (Status::Blocked, Status::Assigned),
            Self::Cancel => (status, Status::Canceled),
            // A new look at the same work moves nothing.
            Self::Audit => return status == Status::ReadyForReview,
        };
        from == status && table::between(from, to).is_some()
    }

    pub fn on(self, task: &str, reason: Option<&str>) -> OwnerVerb {
        let words = [("do", Some(self.word())), ("task", Some(task)), ("reason", reason)];
        OwnerVerb::new(Verb::Do, Some(NAME), &words)
    }
}
