//! What was written and is not on disk yet, so that several effects reach it together and beside the work. It decides nothing.
//!
//! The journal makes this safe: a decision is synced before its effects, which can be done again from it. So an effect need not
//! be on disk when it returns, only before the journal says for good that it is done (see `workspace::settle`).

use super::{
    Quarantine, StoreError,
    blank::Blank,
    quarantine::{Label, Share},
    spot::sync_held,
};
use crate::model::{Key, RelPath};
use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Debug, Default)]
pub struct Unsynced {
    files: Vec<Open>,
    /// Files that were taken away, and are still to be copied to where they stay.
    taken: Vec<Taken>,
    /// Kept until what replaces them is on disk.
    leavings: Vec<PathBuf>,
    /// Their names are gone; what the file system has to clear away after them waits until they are closed.
    gone: Vec<File>,
    pub(super) blank: Arc<Blank>,
    /// The folder near which the next blank file is made.
    blank_in: Option<File>,
}

#[derive(Debug)]
struct Taken {
    bytes: Vec<u8>,
    quarantine: Quarantine,
    path: RelPath,
    key: Key,
    why: String,
}

impl Taken {
    fn keep(&self) -> Result<(), StoreError> {
        let Self { bytes, quarantine, path, key, why } = self;
        let label = Label { path, key, why, digest: None, share: Share::Whole };
        quarantine.keep_bytes(bytes, &label)
    }
}

#[derive(Debug)]
struct Open {
    file: File,
    path: PathBuf,
    id: (u64, u64),
    sync: fn(&File) -> io::Result<()>,
}

impl Unsynced {
    /// A file or folder; one that is noted already is synced once. What cannot be noted is synced at once.
    pub fn note(&mut self, file: &File, path: &Path) -> Result<(), StoreError> {
        self.note_with(file, path, File::sync_all)
    }

    /// A folder that is held, not opened.
    pub(super) fn note_dir(&mut self, dir: &File, path: &Path) -> Result<(), StoreError> {
        self.note_with(dir, path, sync_held)
    }

    fn note_with(
        &mut self,
        file: &File,
        path: &Path,
        sync: fn(&File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let meta = file.metadata().map_err(StoreError::io("look at", path))?;
        let id = (meta.dev(), meta.ino());
        if self.files.iter().any(|open| open.id == id) {
            return Ok(());
        }
        match file.try_clone() {
            Ok(file) => self.files.push(Open { file, path: path.to_owned(), id, sync }),
            Err(_) => sync(file).map_err(StoreError::io("sync", path))?,
        }
        Ok(())
    }

    /// A file that goes once everything is on disk.
    pub(super) fn leave(&mut self, path: PathBuf) {
        self.leavings.push(path);
    }

    /// A file without a name any more.
    pub(super) fn close_later(&mut self, file: File) {
        self.gone.push(file);
    }

    /// A file that was made ahead; the next one is made near `dir`.
    pub(super) fn take_blank(&mut self, dir: &File) -> Option<File> {
        // Whoever has no descriptor left makes none ahead.
        self.blank_in = dir.try_clone().ok();
        self.blank.take()
    }

    /// Everything so far, to be synced beside the work.
    pub fn batch(&mut self) -> Self {
        let blank = Arc::clone(&self.blank);
        std::mem::replace(self, Self { blank, ..Self::default() })
    }

    /// What was taken away is kept with the rest; then its file, which lies aside, goes.
    pub(super) fn keep(
        &mut self,
        aside: PathBuf,
        bytes: Vec<u8>,
        quarantine: &Quarantine,
        label: &Label<'_>,
    ) {
        self.taken.push(Taken {
            bytes,
            quarantine: quarantine.clone(),
            path: label.path.clone(),
            key: label.key.clone(),
            why: label.why.to_owned(),
        });
        self.leave(aside);
    }

    pub(super) fn join(&mut self, other: Self) {
        for open in other.files {
            if self.files.iter().all(|known| known.id != open.id) {
                self.files.push(open);
            }
        }
        self.taken.extend(other.taken);
        self.leavings.extend(other.leavings);
        self.gone.extend(other.gone);
        self.blank_in = other.blank_in.or(self.blank_in.take());
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.taken.is_empty() && self.leavings.is_empty()
    }

    /// Files before folders come by the order in which they were noted; the journal, noted last, says that all is done.
    pub fn sync(self) -> Result<(), StoreError> {
        self.taken.iter().try_for_each(Taken::keep)?;
        for Open { file, path, sync, .. } in &self.files {
            sync(file).map_err(StoreError::io("sync", path))?;
        }
        for path in &self.leavings {
            match fs::remove_file(path) {
                // A copy is in the quarantine, so one too many is no reason to stop the work.
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    tracing::warn!(path = %path.display(), %error, "a file that was taken away stays aside");
                }
                Ok(()) | Err(_) => {}
            }
        }
        drop(self.gone);
        if let Some(dir) = &self.blank_in {
            self.blank.make(dir);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_noted_once_and_what_is_left_goes_last() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("old");
        let file = File::create(&old).unwrap();
        let mut unsynced = Unsynced::default();
        assert!(unsynced.is_empty());
        for _ in 0..3 {
            unsynced.note(&File::open(dir.path()).unwrap(), dir.path()).unwrap();
        }
        unsynced.note(&file, &old).unwrap();
        unsynced.leave(old.clone());
        assert_eq!(unsynced.files.len(), 2);
        assert!(old.exists(), "it stays until all is on disk");
        unsynced.sync().unwrap();
        assert!(!old.exists());
    }
}
