//! Tells the owner's index about files that were committed, by git's own rules without git: its lock, one rename. Where the index
//! is not plain, nothing is done and git is asked.

use super::index::{Edits, IndexEntry};
use super::snapshot::Seed;
use super::{GitError, Repo};
use agency_protocols::model::Change;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// How the names of our own locks end.
const HELD: &str = "held";

/// What became of the index.
pub(super) enum Told {
    /// It was this one, and is that one now, as far as it is known.
    Done { was: Seed, is: Option<Seed> },
    /// Somebody else has the lock.
    Locked,
    /// Nothing was done: it is not plain.
    NotPlain,
}

impl Repo {
    pub(super) fn tell_index(&self, changes: &[Change]) -> Result<Told, GitError> {
        let (index, lock) = (self.owners_index(), self.index_lock());
        let private = self.private_file(HELD);
        let owner_index = hold(&private, &lock).and_then(|held| match held {
            Some(held) => {
                let was = self.rewrite(&index, &lock, &held, changes);
                if !matches!(was, Ok(Some(_))) {
                    fs::remove_file(&lock)?;
                }
                // Before the look at the index: to lose a name is a change.
                fs::remove_file(&private)?;
                was?.map_or(Ok(Told::NotPlain), |was| {
                    Ok(Told::Done { was, is: known(&index, &held)? })
                })
            }
            None => Ok(Told::Locked),
        });
        owner_index.or_else(|error| match error.kind() {
            // No folder of ours yet, no second names on this file system, or no right to make one: git has its own ways.
            io::ErrorKind::NotFound
            | io::ErrorKind::Unsupported
            | io::ErrorKind::PermissionDenied => Ok(Told::NotPlain),
            _ => Err(GitError::io("write", &index, error)),
        })
    }

    pub(super) fn index_lock(&self) -> std::path::PathBuf {
        self.0.git_dir.join("index.lock")
    }

    /// Read under the lock, so that nobody's change is lost. `None`: it is not plain.
    fn rewrite(
        &self,
        index: &Path,
        lock: &Path,
        mut held: &File,
        changes: &[Change],
    ) -> io::Result<Option<Seed>> {
        let Some((mut now, _, was)) = self.read_index(index).filter(|(now, ..)| !now.hides())
        else {
            return Ok(None);
        };
        let mut edits = Edits::new();
        for change in changes {
            let entry = change.to.as_ref().map(IndexEntry::of);
            if entry.as_ref().is_some_and(Option::is_none) {
                return Ok(None);
            }
            edits.insert(change.path.to_string(), entry.flatten());
        }
        now.edit(edits);
        held.write_all(&now.to_bytes(self.0.format, true))?;
        held.set_permissions(index.metadata()?.permissions())?;
        fs::rename(lock, index)?;
        Ok(Some(was))
    }

    /// Takes away a lock of the owner's index that a killed process of ours left. Only for whoever has the repository's lock.
    pub fn clear_left_lock(&self) {
        let Ok(entries) = fs::read_dir(self.0.git_dir.join("agency")) else { return };
        let lock = self.index_lock();
        let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        for entry in entries.flatten().filter(|entry| {
            Path::new(&entry.file_name()).extension().is_some_and(|ending| ending == HELD)
        }) {
            let (ours, found) = (entry.path().symlink_metadata(), lock.symlink_metadata());
            if ours.ok().zip(found.ok()).is_some_and(|(ours, found)| same(&ours, &found)) {
                fs::remove_file(&lock).ok();
            }
        }
    }
}

/// Which one the index is, unless somebody's came right after ours.
fn known(index: &Path, ours: &File) -> io::Result<Option<Seed>> {
    let found = index.metadata()?;
    Ok((found.ino() == ours.metadata()?.ino()).then(|| Seed::of(&found)))
}

/// The lock is a second name of a file of ours, so that one that a killed process left is known again. `None`: somebody has it.
fn hold(private: &Path, lock: &Path) -> io::Result<Option<File>> {
    fs::remove_file(private).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })?;
    let held = File::create_new(private)?;
    match fs::hard_link(private, lock) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
        made => made.map(|()| Some(held)),
    }
}
