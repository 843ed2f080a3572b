//! Which directory each worktree of ours is (SE-08): device and inode, remembered when we make it. It enters none.

use super::ApplyError;
use crate::clock::boot_id;
use crate::repository::Places;
use crate::store::write_atomic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

const FILE: &str = "worktrees.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Identity {
    dev: u64,
    ino: u64,
    /// A device may have another number after a reboot.
    boot: String,
}

impl Identity {
    fn of(meta: &Metadata) -> Self {
        Self { dev: meta.dev(), ino: meta.ino(), boot: boot_id() }
    }

    fn is(&self, other: &Self) -> bool {
        self.ino == other.ino && (self.dev == other.dev || self.boot != other.boot)
    }
}

type Known = BTreeMap<String, Identity>;

/// Passes where there is nothing, or the directory that we made.
pub(super) fn check(places: &Places, name: &str) -> Result<(), ApplyError> {
    let dir = places.worktrees().join(name);
    let Some(meta) = look(&dir)? else { return Ok(()) };
    let known = read(places)?;
    match found(&places.worktrees(), &meta, known.get(name)) {
        Some(found) => Err(ApplyError::ForeignTree { path: dir, found }),
        None => Ok(()),
    }
}

/// The directory that is there now is the worktree. One that is known already stays what it was.
pub(super) fn remember(places: &Places, name: &str) -> Result<(), ApplyError> {
    let dir = places.worktrees().join(name);
    let Some(meta) = look(&dir)? else { return Ok(()) };
    let mut known = read(places)?;
    let identity = Identity::of(&meta);
    if known.get(name) != Some(&identity) {
        known.insert(name.to_owned(), identity);
        write(places, &known)?;
    }
    Ok(())
}

pub(super) fn forget(places: &Places, name: &str) -> Result<(), ApplyError> {
    let mut known = read(places)?;
    match known.remove(name) {
        Some(_) => write(places, &known),
        None => Ok(()),
    }
}

/// What is wrong with a directory. One that an older version made is not known; no link and no mount was ever made.
fn found(worktrees: &Path, meta: &Metadata, known: Option<&Identity>) -> Option<String> {
    if meta.is_symlink() {
        return Some("a symlink".to_owned());
    }
    if !meta.is_dir() {
        return Some("not a directory".to_owned());
    }
    if worktrees.metadata().is_ok_and(|above| above.dev() != meta.dev()) {
        return Some("a mount point".to_owned());
    }
    let other = known.is_some_and(|known| !known.is(&Identity::of(meta)));
    other.then(|| "another directory than the one that agency made".to_owned())
}

fn look(dir: &Path) -> Result<Option<Metadata>, ApplyError> {
    match dir.symlink_metadata() {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ApplyError::Prepare { path: dir.to_owned(), source }),
    }
}

fn read(places: &Places) -> Result<Known, ApplyError> {
    let path = places.folder.join(FILE);
    match std::fs::read(&path) {
        // One that cannot be read remembers nothing, which the next worktree that is made mends.
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Known::new()),
        Err(source) => Err(ApplyError::Prepare { path, source }),
    }
}

fn write(places: &Places, known: &Known) -> Result<(), ApplyError> {
    let bytes = serde_json::to_vec_pretty(known).expect("BUG: numbers and text");
    Ok(write_atomic(&places.folder.join(FILE), &bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    // covers: SE-08
    #[test]
    fn only_the_directory_that_was_made_is_entered() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let meta = |name: &str| at(name).symlink_metadata().unwrap();
        fs::create_dir(at("one")).unwrap();
        fs::create_dir(at("two")).unwrap();
        symlink(at("one"), at("link")).unwrap();
        fs::write(at("file"), "").unwrap();
        let one = Identity::of(&meta("one"));
        let look = |name: &str| found(dir.path(), &meta(name), Some(&one));
        assert_eq!(look("one"), None);
        assert!(look("two").unwrap().contains("another directory"));
        assert_eq!(look("link").as_deref(), Some("a symlink"));
        assert_eq!(look("file").as_deref(), Some("not a directory"));
        assert_eq!(found(dir.path(), &meta("two"), None), None, "made by an older version");
        let elsewhere = Path::new("/proc");
        assert_eq!(found(elsewhere, &meta("one"), None).as_deref(), Some("a mount point"));
    }

    // covers: SE-08
    #[test]
    fn a_device_may_be_another_after_a_reboot() {
        let now = Identity { dev: 1, ino: 5, boot: boot_id() };
        let before = Identity { dev: 2, boot: "earlier".to_owned(), ..now.clone() };
        assert!(before.is(&now));
        assert!(!Identity { dev: 2, ..now.clone() }.is(&now));
        assert!(!Identity { ino: 6, ..before }.is(&now));
    }
}
