//! Moves a file to another folder with new bytes: the new one is durable before the old name goes. It judges neither.
//!
//! A crash in between leaves both; the same call again removes the older. Whoever changes the old one meanwhile wins.

use super::{
    FolderLock, SEEN_MAX, StoreError,
    rename::{Moved, Renames, to_ours},
    spot::{Spot, parent, safe_name},
};
use crate::model::{Digest, Key, RelPath};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// How long another writer of the old folder is waited for.
const WAIT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocated {
    Done,
    /// What lies at the old name is not what was seen: nothing was moved.
    Superseded,
}

/// What is moved where. `seen` is what was judged at `from`; `key` finds again what a crash cut off.
#[derive(Clone, Copy, Debug)]
pub struct Relocation<'a> {
    pub from: &'a RelPath,
    pub to: &'a RelPath,
    pub bytes: &'a [u8],
    pub seen: &'a Digest,
    pub key: &'a Key,
}

/// The target must be free, or hold these bytes already.
pub fn relocate(root: &Path, what: &Relocation<'_>) -> Result<Relocated, StoreError> {
    let (source, target) = (Spot::make(root, what.from)?, Spot::make(root, what.to)?);
    let folder = source.path();
    let Some(_lock) = FolderLock::acquire(parent(&folder), WAIT)? else {
        return Err(StoreError::Contended { path: folder });
    };
    let name = safe_name(what.key.as_str());
    let hidden = source.beside(format!(".agency-aside-{name}"));
    let ours = Digest::of(what.bytes);
    let published = target.digest(what.bytes.len() as u64)?.as_ref() == Some(&ours);
    if hidden.exists()? {
        return drop_old(&source, &hidden, what.seen);
    }
    if source.digest(SEEN_MAX)?.as_ref() != Some(what.seen) {
        return Ok(if published { Relocated::Done } else { Relocated::Superseded });
    }
    if !published {
        publish(&target, &target.beside(format!(".agency-tmp-{name}")), what.bytes)?;
    }
    target.sync_dir()?;
    if to_ours(&source, &hidden)? == Moved::Done {
        drop_old(&source, &hidden, what.seen)?;
    }
    source.sync_dir()?;
    Ok(Relocated::Done)
}

fn publish(target: &Spot, temp: &Spot, bytes: &[u8]) -> Result<(), StoreError> {
    // Of an earlier try with this key: a part of the same bytes.
    temp.unlink()?;
    let mut file = temp.create(0o644)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(temp.failed("write"))?;
    match Renames::Flags.to_free(temp, target)? {
        Moved::Done => Ok(()),
        Moved::Taken | Moved::Gone | Moved::Apart => {
            temp.unlink()?;
            Err(StoreError::InTheWay { path: target.path() })
        }
    }
}

/// What we hold cannot change its name any more. If it is not what was seen after all, it goes back.
fn drop_old(source: &Spot, hidden: &Spot, seen: &Digest) -> Result<Relocated, StoreError> {
    if hidden.digest(SEEN_MAX)?.as_ref() == Some(seen) {
        hidden.unlink()?;
        hidden.sync_dir()?;
        return Ok(Relocated::Done);
    }
    match Renames::Flags.to_free(hidden, source)? {
        Moved::Done => Ok(Relocated::Done),
        Moved::Taken | Moved::Gone | Moved::Apart => {
            Err(StoreError::InTheWay { path: hidden.path() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Room {
        dir: tempfile::TempDir,
        from: RelPath,
        to: RelPath,
        key: Key,
    }

    impl Room {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("a")).unwrap();
            let (from, to) = (RelPath::fixed("a/x.json"), RelPath::fixed("b/x.json"));
            let room = Self { dir, from, to, key: Key::new("handoff-1.0") };
            room.write("a/x.json", "old");
            room
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn read(&self, path: &str) -> Option<String> {
            fs::read_to_string(self.dir.path().join(path)).ok()
        }

        fn go(&self) -> Result<Relocated, StoreError> {
            let seen = &Digest::of(b"old");
            let (from, to, key) = (&self.from, &self.to, &self.key);
            relocate(self.dir.path(), &Relocation { from, to, bytes: b"new", seen, key })
        }

        fn is_moved(&self) {
            assert_eq!(self.read("b/x.json").as_deref(), Some("new"));
            assert_eq!(fs::read_dir(self.dir.path().join("a")).unwrap().count(), 0);
            assert_eq!(fs::read_dir(self.dir.path().join("b")).unwrap().count(), 1);
        }
    }

    // covers: HO-02
    #[test]
    fn a_move_ends_with_one_file_however_often_it_is_done() {
        let room = Room::new();
        assert_eq!(room.go().unwrap(), Relocated::Done);
        room.is_moved();
        assert_eq!(room.go().unwrap(), Relocated::Done, "only the `done` was lost");
        room.is_moved();
    }

    // covers: HO-02
    #[test]
    fn every_crash_in_between_is_finished_by_the_same_call() {
        let torn = Room::new();
        torn.write("b/.agency-tmp-handoff-1.0", "n");
        torn.go().unwrap();
        torn.is_moved();
        let both = Room::new();
        both.write("b/x.json", "new");
        both.go().unwrap();
        both.is_moved();
        let aside = Room::new();
        aside.write("b/x.json", "new");
        fs::rename(
            aside.dir.path().join("a/x.json"),
            aside.dir.path().join("a/.agency-aside-handoff-1.0"),
        )
        .unwrap();
        aside.go().unwrap();
        aside.is_moved();
    }

    #[test]
    fn a_changed_file_stays_and_a_taken_name_is_not_overwritten() {
        let changed = Room::new();
        changed.write("a/x.json", "newer");
        assert_eq!(changed.go().unwrap(), Relocated::Superseded);
        assert_eq!(changed.read("a/x.json").as_deref(), Some("newer"));
        assert_eq!(changed.read("b/x.json"), None);
        let taken = Room::new();
        taken.write("b/x.json", "another's");
        assert!(matches!(taken.go(), Err(StoreError::InTheWay { .. })));
        assert_eq!(taken.read("a/x.json").as_deref(), Some("old"));
        assert_eq!(taken.read("b/x.json").as_deref(), Some("another's"));
    }
}
