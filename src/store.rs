//! Everything we write to disk ourselves: atomic files, files taken away, the journal. It knows no protocol and reads no clock.
//!
//! - [`replace`], [`copy`], [`take`] touch a repository. They never follow a link below its root, never destroy bytes that
//!   nobody has read, and finish what a crash cut off when they are called again with the same key.
//!   What they write is on disk only after [`Unsynced::sync`].
//! - [`edit`] and [`amend`] change a file that others write too, under its folder's lock; [`relocate`] moves one along.
//! - [`Quarantine`] holds what was taken away, with a note on each.
//! - [`Journal`] is the hash-chained record of every decision; [`verify`] finds any byte of it that was changed.
//!
//! All calls block, briefly: the largest read is bounded by [`SEEN_MAX`].

mod amend;
mod blank;
mod copy;
mod create;
mod edit;
mod error;
mod journal;
pub mod lock;
mod quarantine;
mod relocate;
mod rename;
mod replace;
mod spot;
mod take;
mod unsynced;

pub use amend::{NotAnObject, amend};
pub use copy::{Copied, copy};
pub use create::{Created, carry, create};
pub use edit::{Draft, EditError, Edited, FolderLock, edit, is_temporary};
pub use error::StoreError;
pub use journal::{
    Durability, Head, Journal, LINE_MAX, Opened, Record, SEGMENT_MAX, Verified, latest, pack, tail,
    verify,
};
pub use quarantine::{KEEP_MAX, Quarantine, QuarantineEntry};
pub use relocate::{Relocated, Relocation, relocate};
pub use replace::{Replaced, replace, write_atomic, write_unsynced};
pub use spot::{Kind, SEEN_MAX, private_dir};
pub use take::{TakeTarget, Taken, take};
pub use unsynced::Unsynced;
