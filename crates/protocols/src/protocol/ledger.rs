//! The ledger (spec 5): three documents, five kinds of agents, and one gatekeeper. It reads and writes nothing.
//!
//! `words.rs` holds the tables of words, `progress.rs`, `reviews.rs` and `features.rs` the documents with their schemas and
//! every change that is allowed to them. The commands and the daemon use the same functions.
//!
//! The loop: the documents on the main branch are the truth, and they say which session comes next (`opening.rs`). A session runs
//! in a worktree of ours on its own branch, with a copy of the documents (`running.rs`). When it has ended, what it really left
//! is judged by who may do what (`changes.rs`, `judging.rs`), and what is left of it is brought to the main branch (`moving.rs`).

mod changes;
mod check;
mod command;
mod condition;
pub mod counts;
pub mod cycles;
mod decide;
mod docs;
mod edits;
mod failing;
pub mod features;
mod foreign;
mod hold;
mod index;
pub mod issues;
pub mod json;
mod judging;
mod memory;
mod opening;
mod parking;
pub mod progress;
mod prompt;
pub mod reviews;
mod running;
mod splice;
mod standing;
pub mod table;
mod transition;
pub mod words;

pub use features::{FEATURES, Features};
pub use progress::{PROGRESS, Progress};
pub use reviews::{REVIEWS, Reviews};

use super::{Protocol, Status};
use crate::model::{
    Condition, Decision, Interest, Now, Rejection, RelPath, Seat, Shape, Wake, WatchedFile,
};
use index::Index;
use memory::Stage;
use std::{collections::BTreeMap, time::Duration};

pub const NAME: &str = "ledger";

/// The largest file of the ledger that is read (DESIGN §7).
pub const FILE_MAX: u64 = 128 << 20;

/// One of the three files: bytes in, bytes out, and everything that is wrong with it.
pub trait Document: Sized {
    const FILE: &'static str;

    fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>>;

    fn to_bytes(&self) -> Vec<u8>;

    fn problems(&self) -> Vec<Rejection>;
}

macro_rules! document {
    ($name:ident, $file:ident) => {
        impl Document for $name {
            const FILE: &'static str = $file;

            fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>> {
                Self::read(bytes)
            }

            fn to_bytes(&self) -> Vec<u8> {
                self.to_bytes()
            }

            fn problems(&self) -> Vec<Rejection> {
                self.problems()
            }
        }
    };
}

document!(Progress, PROGRESS);
document!(Reviews, REVIEWS);
document!(Features, FEATURES);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tries after the first and the first wait between them, for each seat.
    pub tries: BTreeMap<Seat, (u32, Duration)>,
}

/// Where this ledger lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoFacts {
    /// Distinguishes runs of different repositories.
    pub repo: String,
    /// The project's name, where nobody gave it one.
    pub name: String,
    pub git: bool,
}

/// The loop of the ledger in one repository.
pub struct Ledger {
    limits: Limits,
    place: RepoFacts,
    index: Index,
}

impl Ledger {
    pub fn new(place: RepoFacts, limits: Limits) -> Self {
        Self { limits, place, index: Index::default() }
    }
}

impl Protocol for Ledger {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interest(&self) -> Interest {
        let files = docs::FILES.map(|path| WatchedFile {
            path: RelPath::fixed(path),
            shape: Shape::Json,
            limit: FILE_MAX,
        });
        Interest { files: files.to_vec(), trees: Vec::new() }
    }

    fn absorb(&mut self, wake: &Wake) {
        self.index.absorb(wake);
    }

    fn decide(&self, now: Now) -> Decision {
        decide::decide(self, now)
    }

    fn condition(&self, now: Now) -> Condition {
        condition::condition(self, now)
    }

    fn seats(&self) -> Vec<(Seat, &'static str)> {
        ["builder", "reviewer", "fixer"].map(|role| (Seat::new(role), role)).to_vec()
    }

    fn status(&self, now: Now) -> Status {
        let memory = &self.index.memory;
        let held = memory.holds.open.first().map(|hold| hold.summary.clone());
        let held = held.or_else(|| parking::only_parked_left(self));
        let turn = memory.turn();
        let at = turn.map(|turn| {
            let what = turn.subject();
            let doing = match &turn.stage {
                Stage::Running(_) => "runs",
                Stage::Opening | Stage::Ready(_) if turn.tries.pause(now).is_some() => {
                    "is tried again later"
                }
                Stage::Opening | Stage::Ready(_) => "is about to run",
                Stage::Ended(_) | Stage::Looked(_) => "is judged",
                Stage::Landing(_) => "is recorded",
            };
            let waiting = match parking::parked(self).as_slice() {
                [] => String::new(),
                ids => format!(
                    "; {} parked (rejected twice), `agency resume` tries again",
                    ids.join(", ")
                ),
            };
            format!("{} of {what} {doing}{waiting}", turn.task.agent.word())
        });
        let summary = match (&held, at, &memory.main, memory.rest()) {
            (Some(held), ..) => format!("held: {held}"),
            (None, Some(at), ..) => at,
            (None, None, None, _) => match foreign::in_tree(self) {
                Some(foreign) => format!("no loop: {}", foreign.refusal("agency ledger init")),
                None => "no loop; `agency ledger init` begins one".to_owned(),
            },
            (None, None, Some(_), Some(_)) => "complete: all features pass".to_owned(),
            (None, None, Some(_), None) => "looks for what comes next".to_owned(),
        };
        let detail = serde_json::json!({
            "main": memory.main, "agent": turn.map(|turn| turn.task.agent.word()),
            "feature": turn.and_then(|turn| turn.task.feature.clone()), "branch": turn.map(|turn| turn.task.branch.clone()),
            "failures": turn.map_or(0, |turn| turn.tries.failures()), "refusals": memory.refusals,
            "parked": parking::parked(self),
        });
        Status { summary, held, detail }
    }
}
