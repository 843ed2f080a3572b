//! Reads one due path and says how it looks. When to read it, and what becomes of it, is decided elsewhere.

use super::pending::Looks;
use super::plan::Wanted;
use super::whole::looks_unfinished;
use crate::model::{FileState, Now, RelPath, clip};
use crate::read::{self, Reading};
use std::io;
use std::path::Path;

/// `None` when the root itself is out of sight.
pub(super) fn glance(
    root: &Path,
    path: &RelPath,
    wanted: Wanted,
    now: Now,
) -> Option<(Looks, Reading)> {
    match read::read(root, path, wanted.limit, now) {
        Ok(reading) => Some((looks(&reading, wanted), reading)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(failed(&error, wanted)),
    }
}

fn looks(reading: &Reading, wanted: Wanted) -> Looks {
    match &reading.state {
        FileState::Whole(_) if reading.linked => Looks::Linked,
        FileState::Whole(file) if looks_unfinished(wanted.shape, &file.bytes) => Looks::Unfinished,
        FileState::Whole(_) | FileState::Absent | FileState::Unreadable(_) => Looks::Whole,
    }
}

/// Without a stamp, so that the next rescan tries again.
fn failed(error: &io::Error, wanted: Wanted) -> (Looks, Reading) {
    let busy = error.kind() == io::ErrorKind::ResourceBusy;
    let looks = if busy { Looks::Moving } else { Looks::Failed };
    let words = clip(&error.to_string(), 200);
    let state = read::refused(format!("a file that cannot be read ({words})"), wanted.limit);
    (looks, Reading { state, stamp: None, linked: false })
}
