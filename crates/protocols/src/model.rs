//! The words that the pure part and the shell share. It holds no protocol's words and does no IO.
//!
//! A [`Wake`] goes in, a [`Decision`] comes out; everything else here is what these two are made of.
//! What a decision holds is also what the journal stores, so the types below `Decision` derive serde on purpose:
//! their JSON form is the journal's format, and `tests/compat/` keeps old journals that must load.
#![warn(clippy::wildcard_enum_match_arm)]

mod condition;
mod decision;
mod effect;
mod escalation;
mod facts;
mod fate;
mod ids;
mod interest;
mod rejection;
mod table;
mod text;
mod time;
mod wake;
mod weakened;
pub mod yaml;

pub use condition::{Activity, Condition, LiveRun, Stall, Wait, Work, clock_time, stalled};
pub use decision::{Builder, Decision, Keyed, Memo};
pub use effect::{
    Access, Answer, CHECKS_TREE, CleanState, CleanTree, CommandLine, Effect, Event, Field,
    MergeStyle, NewWorktree, Query, Spawn, TreeRef, WrittenBy,
};
pub use escalation::{Cause, Escalation, Severity};
pub use facts::{
    BranchTip, Busy, Change, Checkout, CommitSeen, Fact, FileSeen, FileState, PlannedCommit,
    Snapshot, Touch, Touched, Unreadable, WholeFile,
};
pub use fate::{Fate, Outage, Park, Runner, fate};
pub use ids::{
    BlobId, CommitId, Digest, Key, RelPath, RelPathError, RowId, RuleId, RunId, Seat, TreeId,
};
pub use interest::{Interest, Shape, WatchedFile, WatchedTree};
pub use rejection::Rejection;
pub use table::{Lookup, lookup};
pub use text::{BOM, Bytes, clip, counted, fence, other_encoding, without_bom};
pub use time::{ClockWatch, Deadline, Moment, Now, Ticks, Timestamp};
pub use wake::{
    Command, Failure, FailureKind, Outcome, RunEnd, RunEvent, SAID_MAX, Usage, Verb, Wake,
};
pub use weakened::{SHADOWS, Sides, further, to_compare, weakened};
