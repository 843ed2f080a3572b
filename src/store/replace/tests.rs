//! Replacing files that others change, exchange for other things, or leave half done, on real files.

use super::*;
use nix::{sys::stat::Mode, unistd::mkfifo};
use std::{
    cell::RefCell,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    sync::Arc,
};
use tempfile::TempDir;

struct Place {
    root: TempDir,
    aside: TempDir,
    quarantine: Quarantine,
    renames: Renames,
    unsynced: RefCell<Unsynced>,
}

/// Each test runs with `renameat2` and without, on our own ground and beside the target: on Linux `/dev/shm` is a file system
/// of its own.
fn places() -> [Place; 4] {
    let tmp = std::env::temp_dir();
    let apart = if cfg!(target_os = "linux") { PathBuf::from("/dev/shm") } else { tmp.clone() };
    let ways = [
        (Renames::Flags, &tmp),
        (Renames::Portable, &tmp),
        (Renames::Flags, &apart),
        (Renames::Portable, &apart),
    ];
    ways.map(|(renames, aside)| {
        let root = tempfile::tempdir().unwrap();
        let aside = tempfile::tempdir_in(aside).unwrap();
        fs::create_dir(root.path().join("repo")).unwrap();
        let quarantine = Quarantine::new(root.path().join("quarantine"));
        Place { root, aside, quarantine, renames, unsynced: RefCell::default() }
    })
}

fn path() -> RelPath {
    RelPath::fixed("state/loop.json")
}

fn key() -> Key {
    Key::new("d7/replace:1")
}

impl Place {
    fn repo(&self) -> PathBuf {
        self.root.path().join("repo")
    }

    fn file(&self) -> PathBuf {
        self.repo().join("state/loop.json")
    }

    /// Where something hidden may lie.
    fn hidden(&self, prefix: &str) -> [PathBuf; 2] {
        let name = format!("{prefix}{}", safe_name(key().as_str()));
        [self.aside.path().join(&name), self.repo().join("state").join(name)]
    }

    fn shelf(&self) -> TakeTarget<'_> {
        TakeTarget { aside: self.aside.path(), quarantine: &self.quarantine }
    }

    fn put(&self, bytes: &str) {
        fs::create_dir_all(self.repo().join("state")).unwrap();
        fs::write(self.file(), bytes).unwrap();
    }

    fn replace(&self, bytes: &str, seen: Option<&str>) -> Result<Replaced, StoreError> {
        let seen = seen.map(|text| Digest::of(text.as_bytes()));
        let (path, key) = (path(), key());
        let (repo, bytes, shelf) = (self.repo(), bytes.as_bytes(), self.shelf());
        let mut replacement = Replacement::new(&repo, &path, bytes, seen.as_ref(), shelf, &key)?;
        replacement.renames = self.renames;
        let mut unsynced = self.unsynced.borrow_mut();
        let replaced = replacement.run(&mut unsynced)?;
        unsynced.batch().sync()?;
        Ok(replaced)
    }

    fn now(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// Nothing of ours may lie about.
    fn names(&self) -> Vec<String> {
        let entries = [self.repo().join("state"), self.aside.path().to_owned()]
            .into_iter()
            .flat_map(|dir| fs::read_dir(dir).unwrap());
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn kept(&self) -> Vec<u8> {
        let entry = self.quarantine.find(&key(), &path()).unwrap().expect("something was kept");
        fs::read(self.root.path().join("quarantine").join(entry.name)).unwrap()
    }

    fn nothing_kept(&self) -> bool {
        self.quarantine.find(&key(), &path()).unwrap().is_none()
    }
}

fn kept(bytes: &str) -> Replaced {
    Replaced::Kept { digest: Some(Digest::of(bytes.as_bytes())) }
}

#[test]
fn a_file_is_made_changed_and_left_alone() {
    for place in places() {
        assert_eq!(place.replace("one", None).unwrap(), Replaced::Written);
        assert_eq!(place.replace("one", None).unwrap(), Replaced::Same);
        assert_eq!(place.replace("two", Some("one")).unwrap(), Replaced::Written);
        assert_eq!(place.replace("two", Some("one")).unwrap(), Replaced::Same);
        assert_eq!((place.now().as_str(), place.names().len()), ("two", 1));
        assert!(place.nothing_kept());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_made_ahead_is_filled_and_named() {
    for place in places() {
        place.replace("one", None).unwrap();
        fs::set_permissions(place.file(), fs::Permissions::from_mode(0o600)).unwrap();
        let ahead = Arc::clone(&place.unsynced.borrow().blank);
        let blank = ahead.take().expect("one was made ahead");
        let made = blank.metadata().unwrap().ino();
        ahead.put(Some(blank));
        assert_eq!(place.names(), ["loop.json"], "it has no name");
        assert_eq!(place.replace("two", Some("one")).unwrap(), Replaced::Written);
        let meta = fs::metadata(place.file()).unwrap();
        assert_eq!((meta.mode() & 0o777, meta.nlink()), (0o600, 1));
        let is_near = place.aside.path().starts_with(std::env::temp_dir());
        assert_eq!(meta.ino() == made, is_near, "one of another file system is no use");
        assert_eq!((place.now().as_str(), place.names().len()), ("two", 1));
    }
}

#[test]
fn the_public_call_does_the_same() {
    let [place, ..] = places();
    place.put("foreign");
    let (shelf, mut unsynced) = (place.shelf(), Unsynced::default());
    let replaced =
        replace(&place.repo(), &path(), b"new", None, shelf, &key(), &mut unsynced).unwrap();
    assert_eq!(replaced, kept("foreign"));
    assert_eq!((place.now().as_str(), place.kept()), ("new", b"foreign".to_vec()));
}

#[test]
fn bytes_that_came_after_our_read_are_kept() {
    for place in places() {
        place.put("read by us");
        place.put("written meanwhile");
        assert_eq!(place.replace("new", Some("read by us")).unwrap(), kept("written meanwhile"));
        assert_eq!(place.now(), "new");
        assert_eq!(place.kept(), b"written meanwhile");
        assert_eq!(place.names(), ["loop.json"]);
        // Its `done` may have been lost in a crash, so it says so again.
        assert_eq!(place.replace("new", Some("read by us")).unwrap(), kept("written meanwhile"));
        assert_eq!(place.kept(), b"written meanwhile");
    }
}

#[test]
fn foreign_bytes_are_kept_whole_however_many() {
    for place in places() {
        let large = "x".repeat(3 << 20);
        place.put(&large);
        assert_eq!(place.replace("new", None).unwrap(), kept(&large));
        assert_eq!(place.kept().len(), large.len());
    }
}

#[test]
fn permission_bits_stay() {
    for place in places() {
        place.put("old");
        fs::set_permissions(place.file(), fs::Permissions::from_mode(0o766)).unwrap();
        place.replace("new", Some("old")).unwrap();
        assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o7777, 0o766);
    }
}

// covers: DM-04
#[test]
fn a_link_at_the_path_is_swapped_out_and_its_target_untouched() {
    for place in places() {
        place.put("");
        fs::remove_file(place.file()).unwrap();
        let victim = place.root.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, place.file()).unwrap();
        assert_eq!(place.replace("new", None).unwrap(), Replaced::Kept { digest: None });
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(fs::symlink_metadata(place.file()).unwrap().is_file());
        assert_eq!(place.kept(), victim.to_str().unwrap().as_bytes());
        assert_eq!(place.names(), ["loop.json"]);
    }
}

// covers: DM-04
#[test]
fn a_pipe_or_a_directory_at_the_path_is_swapped_out() {
    for place in places() {
        place.put("");
        fs::remove_file(place.file()).unwrap();
        mkfifo(&place.file(), Mode::from_bits_truncate(0o644)).unwrap();
        assert_eq!(place.replace("new", None).unwrap(), Replaced::Kept { digest: None });
        fs::remove_file(place.file()).unwrap();
        fs::create_dir(place.file()).unwrap();
        fs::write(place.file().join("work"), "of somebody").unwrap();
        assert_eq!(place.replace("new", None).unwrap(), Replaced::Kept { digest: None });
        let entry = place.quarantine.find(&key(), &path()).unwrap().unwrap();
        let moved = place.root.path().join("quarantine").join(entry.name).join("work");
        assert_eq!(fs::read(moved).unwrap(), b"of somebody");
        assert_eq!((place.now().as_str(), place.names().len()), ("new", 1));
    }
}

#[test]
fn a_link_among_the_parents_is_refused() {
    for place in places() {
        let elsewhere = place.root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(&elsewhere, place.repo().join("state")).unwrap();
        let error = place.replace("new", None).unwrap_err();
        assert!(matches!(error, StoreError::NotADirectory { .. }), "{error}");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}

// covers: DM-06
#[test]
fn a_crash_while_writing_the_temporary_file_is_repaired() {
    for place in places() {
        place.put("old");
        for part in ["", "ne", "new"] {
            for temp in place.hidden(".agency-tmp-") {
                fs::write(temp, part).unwrap();
                place.put("old");
                assert_eq!(place.replace("new", Some("old")).unwrap(), Replaced::Written);
                assert_eq!((place.now().as_str(), place.names().len()), ("new", 1));
            }
        }
        assert!(place.nothing_kept());
    }
}

// covers: DM-06
#[test]
fn a_crash_after_the_exchange_is_repaired() {
    for place in places() {
        place.put("new");
        for temp in place.hidden(".agency-tmp-") {
            fs::write(temp, "old").unwrap();
            assert_eq!(place.replace("new", Some("old")).unwrap(), Replaced::Same);
            assert!(place.nothing_kept());
        }
        for prefix in [".agency-tmp-", ".agency-old-"] {
            for hidden in place.hidden(prefix) {
                fs::write(hidden, prefix).unwrap();
                assert_eq!(place.replace("new", Some("old")).unwrap(), kept(prefix));
                assert_eq!(place.kept(), prefix.as_bytes());
                assert_eq!(place.names(), ["loop.json"]);
            }
        }
    }
}

// covers: DM-06
#[test]
fn a_crash_while_the_target_is_set_aside_is_repaired() {
    for place in places() {
        for (bytes, wanted) in [("old", Replaced::Written), ("foreign", kept("foreign"))] {
            place.put("");
            for (old, temp) in place.hidden(".agency-old-").iter().zip(place.hidden(".agency-tmp-"))
            {
                fs::remove_file(place.file()).unwrap();
                fs::write(old, bytes).unwrap();
                fs::write(temp, "new").unwrap();
                assert_eq!(place.replace("new", Some("old")).unwrap(), wanted);
                assert_eq!((place.now().as_str(), place.names().len()), ("new", 1));
            }
        }
    }
}

#[test]
fn a_state_file_is_written_whole_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pins.json");
    write_atomic(&path, b"one").unwrap();
    // Left by an earlier process with our number.
    for count in 0..50 {
        let name = format!(".agency-tmp-{}-{}", std::process::id(), count);
        fs::write(dir.path().join(name), "left").unwrap();
    }
    write_atomic(&path, b"two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 51);
    let error = write_atomic(&dir.path().join("none/x"), b"").unwrap_err().to_string();
    assert!(error.contains("none/.agency-tmp-"), "{error}");
    fs::create_dir(dir.path().join("full")).unwrap();
    write_atomic(&dir.path().join("full"), b"a directory is in the way").unwrap_err();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 52);
}
