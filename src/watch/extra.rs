//! The folders outside the tree whose change means "look again at the checkout". It does not know what git keeps there.

use super::canary;
use super::scan::FolderId;
use crate::model::Ticks;
use crate::read::Stamp;
use std::collections::hash_map::DefaultHasher;
use std::fs::{DirEntry, read_dir};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Extra {
    pub(super) folders: Vec<PathBuf>,
    print: Option<u64>,
    /// When to tell; a burst of events is told once.
    due: Option<Ticks>,
}

impl Extra {
    pub(super) fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, print: None, due: None }
    }

    pub(super) fn heard(&mut self, now: Ticks, settle: Duration) {
        self.due.get_or_insert(now.after(settle));
    }

    /// For rescans: was there a change that no event told? The first look only remembers.
    pub(super) fn compare(&mut self, now: Ticks, settle: Duration) {
        let print = self.look();
        if self.print.replace(print).is_some_and(|old| old != print) {
            self.heard(now, settle);
        }
    }

    pub(super) fn due(&self) -> Option<Ticks> {
        self.due
    }

    /// Is it time to tell? Then what is there now counts as told.
    pub(super) fn take_due(&mut self, now: Ticks) -> bool {
        let due = self.due.is_some_and(|due| due <= now);
        if due {
            self.due = None;
            self.print = Some(self.look());
        }
        due
    }

    fn look(&self) -> u64 {
        self.folders.iter().fold(0, |sum, folder| sum.wrapping_mul(31).wrapping_add(print(folder)))
    }
}

/// The same whatever order the entries come in.
fn print(folder: &Path) -> u64 {
    let entries = read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .filter(|entry| entry.file_name() != canary::NAME)
        .map(|entry| print_entry(&entry))
        .fold(u64::from(folder.exists()), |sum, entry| sum.wrapping_add(entry))
}

fn print_entry(entry: &DirEntry) -> u64 {
    let mut hasher = DefaultHasher::new();
    entry.file_name().hash(&mut hasher);
    if let Ok(meta) = entry.metadata() {
        let Stamp { dev, ino, size, mtime_ns, ctime_ns } = Stamp::of(&meta);
        (dev, ino).hash(&mut hasher);
        // What happens inside a folder of this folder is not asked for.
        if !meta.is_dir() {
            (size, mtime_ns, ctime_ns).hash(&mut hasher);
        }
    }
    hasher.finish()
}

pub(super) fn folder_id(folder: &Path) -> Option<FolderId> {
    folder.metadata().ok().filter(std::fs::Metadata::is_dir).map(|meta| FolderId::of(&meta))
}
