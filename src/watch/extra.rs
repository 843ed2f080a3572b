//! The folders outside the tree whose change means "look again at the checkout". It does not know what git keeps there.

use super::canary;
use super::known::is_proven;
use super::scan::FolderId;
use crate::clock;
use crate::model::Ticks;
use crate::read::Stamp;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs::read_dir;
use std::hash::{Hash as _, Hasher as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) struct Extra {
    pub(super) folders: Vec<PathBuf>,
    listed: Vec<Listed>,
    print: Option<u64>,
    /// When to tell; a burst of events is told once.
    due: Option<Ticks>,
}

impl Extra {
    pub(super) fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, listed: Vec::new(), print: None, due: None }
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

    fn look(&mut self) -> u64 {
        self.listed.resize_with(self.folders.len(), Listed::default);
        let folders = self.folders.iter().zip(&mut self.listed);
        folders.fold(0, |sum, (folder, listed)| {
            sum.wrapping_mul(31).wrapping_add(listed.print(folder))
        })
    }
}

/// What is in a folder as long as its stamp stands: to open it would be an event, in this process too.
#[derive(Default)]
struct Listed {
    stamp: Option<Stamp>,
    /// Each with a `/` behind it, which no name holds: a single piece of memory.
    files: Box<[u8]>,
    /// The print of the folders in it. Another one in the place of one of them changes the stamp.
    folders: u64,
}

impl Listed {
    /// The same whatever order the entries come in.
    fn print(&mut self, folder: &Path) -> u64 {
        let stamp = folder.metadata().ok().map(|meta| Stamp::of(&meta));
        if stamp.is_none() || stamp != self.stamp {
            self.list(folder);
            // A young stamp may stand although more names came.
            self.stamp = stamp.filter(|stamp| is_proven(*stamp, clock::now().wall));
        }
        let files = self.files.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        let prints = files.map(|name| print_entry(folder, OsStr::from_bytes(name)));
        prints.fold(u64::from(stamp.is_some()).wrapping_add(self.folders), u64::wrapping_add)
    }

    fn list(&mut self, folder: &Path) {
        let (mut files, mut folders) = (Vec::new(), 0_u64);
        for entry in read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
            let name = entry.file_name();
            if name == canary::NAME {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders = folders.wrapping_add(print_entry(folder, &name));
            } else {
                files.extend_from_slice(name.as_bytes());
                files.push(b'/');
            }
        }
        (self.files, self.folders) = (files.into(), folders);
    }
}

fn print_entry(folder: &Path, name: &OsStr) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    if let Ok(meta) = folder.join(name).symlink_metadata() {
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
