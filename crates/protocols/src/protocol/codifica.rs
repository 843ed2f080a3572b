//! Codifica v0.2 (spec 3): tasks in files that people and agents share. It judges and prepares edits; it reads and writes nothing.
//!
//! `board.rs` is the state of all files at one moment, `judge.rs` compares two of them, `act.rs` makes the verbs' edits,
//! `edit.rs` splices them so that every other byte stays.

mod act;
mod add;
mod announce;
mod away;
mod baseline;
mod board;
mod branch;
mod command;
mod condition;
mod config;
mod contract;
mod decide;
mod dispatch;
mod draft;
mod edit;
mod emit;
mod finding;
mod finish;
mod history;
mod images;
mod index;
mod inherit;
mod judge;
mod keeper;
mod memory;
mod moves;
mod next;
mod prompt;
mod read;
mod scan;
mod scope;
pub mod table;
mod task;
mod tell;
#[cfg(test)]
mod tests;
mod validate;
mod watchful;
mod words;
mod yaml;

pub use act::{Acted, Action, Refusal, Stamp, act};
pub use add::{AddFault, NewTask, add, archive};
pub use board::{Board, StateFile};
pub use branch::{branch, slug};
pub use config::{Config, FILE, Mode, Pattern, Rules};
pub use contract::{TERMS, Term, contract};
pub use edit::{Edit, EditFault};
pub use finding::{Finding, Level};
pub use judge::judge;
pub use keeper::{Codifica, KeeperSettings, actor_of};
pub use next::{Nothing, candidates, claim_next, next};
pub use read::SUMMARY_MAX;
pub use scope::{is_image, judge_changes, judge_commit};
pub use task::{Artifact, Context, Glance, Note, Provenance, Review, Task, Transition};
pub use validate::{at_task, validate};
pub use words::{Actor, Kind, OURSELVES, Owner, Priority, State, Verdict, agent_name, is_name};
pub use yaml::Meaning;

pub const NAME: &str = "codifica";
/// The largest state file that is read, in bytes (DESIGN §7).
pub const STATE_MAX: u64 = 128 << 20;
