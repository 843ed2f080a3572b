//! The seam: how a protocol plugs in. Pure: no IO, no clock, no environment.
#![warn(clippy::wildcard_enum_match_arm)]

mod away;
pub mod board;
pub mod codifica;
pub mod handoff;
pub mod ledger;
pub mod review_loop;

use crate::model::{Condition, Decision, Interest, Now, RelPath, Seat, Wake};
use serde_json::Value;

/// One protocol in one repository. The index inside is derived: journal and files rebuild it at any time.
///
/// Memory that must survive is in the memos of its own decisions. After a rotation of the journal all of it comes back in
/// one `Decided`, in which the memo `count` says how many decisions there were; keys are made from that number.
pub trait Protocol: Send {
    fn name(&self) -> &'static str;

    /// The files it wants to be told about.
    fn interest(&self) -> Interest;

    /// May a run in a worktree of ours write what this protocol watches in the trees of the owner's checkout? Then its end
    /// waits for a look at all of them; else what the watcher tells is soon enough.
    fn hears_worktrees(&self) -> bool {
        true
    }

    /// Files of its trees that it wrote, by the journal, and has not seen since. A file that was taken away while no process
    /// looked is told to it as gone.
    fn assumed(&self) -> Vec<RelPath> {
        Vec::new()
    }

    /// Takes in one wake and updates the index. O(change).
    fn absorb(&mut self, wake: &Wake);

    /// Everything this protocol wants done now. Same index and time, same answer.
    fn decide(&self, now: Now) -> Decision;

    /// What happens here right now, or why nothing does (DM-16). It always has an answer, and the same one for the same index
    /// and time.
    fn condition(&self, now: Now) -> Condition;

    /// The owner's command lines by which the work of an agent is checked. An agent may run them without asking (SU-12).
    fn commands(&self) -> Vec<String> {
        Vec::new()
    }

    /// The seats that it will start an agent for as things stand, each with its role: a program that is not there is told before
    /// the first start (SU-11).
    fn seats(&self) -> Vec<(Seat, &'static str)> {
        Vec::new()
    }

    /// What `agency status` shows of it.
    fn status(&self, now: Now) -> Status;
}

/// A protocol's line in `agency status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// One sentence for people.
    pub summary: String,
    /// Why it waits for its owner, if it does.
    pub held: Option<String>,
    /// The same for machines.
    pub detail: Value,
}
