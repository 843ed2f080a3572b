//! What every protocol has: effects in flight, notices and holds, pauses between tries, typed memory, and the session of one agent.
//! It knows no protocol, file format or prompt.
//!
//! A protocol implements [`Host`] and keeps an [`InFlight`] in its index and [`Holds`] and a [`Session`] in its memory. Its decisions
//! are [`Draft`]s, so that it can only remember what its own enum of memos names. `session.rs` has the table of stages.

mod draft;
mod drive;
mod in_flight;
mod notice;
mod owner;
mod session;
mod tries;

pub use draft::{Draft, Remember, read_memo, to_memo};
pub use drive::{
    Assignment, Common, Duty, Host, begin, chores, condition, deadline, duty, excused, exit,
    give_back, look_after, note_exit, release, start_failed, try_again,
};
pub use in_flight::InFlight;
pub use notice::{Hold, Holds, Notice, WayOut, Weight, broken, git_held};
pub use owner::{answer, hold, release_holds, stop, tell};
pub use session::{
    Data, Ended, Looked, Nothing, Ready, Running, Session, Stage, StageKind, Step, StepKind, TABLE,
    Work, transition,
};
pub use tries::{Retries, Tries, Verdict};
