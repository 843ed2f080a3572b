//! Taking files away while others put new ones there, on real files.

use super::*;
use crate::store::{KEEP_MAX, Kind};
use nix::{sys::stat::Mode, unistd::mkfifo};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::{fs::symlink, net::UnixListener},
    path::PathBuf,
    time::{Duration, Instant},
};
use tempfile::TempDir;

struct Place {
    root: TempDir,
    aside: PathBuf,
    quarantine: Quarantine,
    kept: PathBuf,
}

fn path() -> RelPath {
    RelPath::fixed("inbox/flag.json")
}

fn key() -> Key {
    Key::new("d7.take")
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("repo/inbox")).unwrap();
        let aside = root.path().join("repo/.git/agency/aside");
        let kept = root.path().join("quarantine");
        Self { root, aside, quarantine: Quarantine::new(&kept), kept }
    }

    fn file(&self) -> PathBuf {
        self.root.path().join("repo/inbox/flag.json")
    }

    fn kept_path(&self, entry: &QuarantineEntry) -> PathBuf {
        self.kept.join(&entry.name)
    }

    fn take_as(&self, key: &Key, seen: Option<&str>) -> Taken {
        let (taken, unsynced) = self.take_for_now(key, seen);
        unsynced.sync().unwrap();
        taken
    }

    fn take_for_now(&self, key: &Key, seen: Option<&str>) -> (Taken, Unsynced) {
        let seen = seen.map(|text| Digest::of(text.as_bytes()));
        let repo = self.root.path().join("repo");
        let shelf = TakeTarget { aside: &self.aside, quarantine: &self.quarantine };
        let mut unsynced = Unsynced::default();
        let taken = take(&repo, &path(), seen.as_ref(), shelf, key, "stale", &mut unsynced);
        (taken.unwrap(), unsynced)
    }

    fn take(&self, seen: Option<&str>) -> Taken {
        self.take_as(&key(), seen)
    }

    fn take_kept(&self, seen: Option<&str>) -> QuarantineEntry {
        self.take_kept_as(&key(), seen)
    }

    fn take_kept_as(&self, key: &Key, seen: Option<&str>) -> QuarantineEntry {
        assert_eq!(self.take_as(key, seen), Taken::Kept);
        self.entry(key)
    }

    fn entry(&self, key: &Key) -> QuarantineEntry {
        self.quarantine.find(key, &path()).unwrap().expect("it has a note")
    }

    fn nothing_lies_aside(&self) -> bool {
        let beside = fs::read_dir(self.root.path().join("repo/inbox")).unwrap();
        let hidden = |entry: std::io::Result<fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().starts_with(".agency")
        };
        fs::read_dir(&self.aside).unwrap().count() == 0 && !beside.into_iter().any(hidden)
    }
}

#[test]
fn the_file_that_was_seen_is_kept_with_a_note() {
    let place = Place::new();
    fs::write(place.file(), "bad").unwrap();
    let entry = place.take_kept(Some("bad"));
    assert!(!place.file().exists() && place.nothing_lies_aside());
    assert_eq!(entry.name, "d7.take-flag.json");
    assert_eq!(fs::read(place.kept_path(&entry)).unwrap(), b"bad");
    let note = fs::read(place.root.path().join("quarantine/d7.take-flag.json.json")).unwrap();
    let note: serde_json::Value = serde_json::from_slice(&note).unwrap();
    assert_eq!((&note["path"], &note["why"]), (&"inbox/flag.json".into(), &"stale".into()));
    assert_eq!(
        (&note["size"], &note["kept"], &note["kind"]),
        (&3.into(), &3.into(), &"file".into())
    );
    assert_eq!(note["digest"], Digest::of(b"bad").as_str());
}

#[test]
fn a_take_that_is_done_stays_done_whatever_lies_there_now() {
    let place = Place::new();
    fs::write(place.file(), "bad").unwrap();
    let entry = place.take_kept(Some("bad"));
    assert_eq!(place.take_kept(Some("bad")), entry);
    for seen in [Some("bad"), None] {
        fs::write(place.file(), "good").unwrap();
        assert_eq!(place.take_kept(seen), entry);
        assert_eq!(fs::read(place.file()).unwrap(), b"good");
    }
}

#[test]
fn an_absent_file_or_folder_is_no_trouble() {
    let place = Place::new();
    assert_eq!(place.take(Some("bad")), Taken::Absent);
    fs::remove_dir(place.root.path().join("repo/inbox")).unwrap();
    assert_eq!(place.take(None), Taken::Absent);
}

#[test]
fn a_newer_file_is_put_back() {
    let place = Place::new();
    fs::write(place.file(), "newer").unwrap();
    for _ in 0..2 {
        assert_eq!(place.take(Some("bad")), Taken::PutBack);
        assert_eq!(fs::read(place.file()).unwrap(), b"newer");
        assert!(place.nothing_lies_aside());
    }
    fs::remove_file(place.file()).unwrap();
    symlink("newer", place.file()).unwrap();
    assert_eq!(place.take(Some("bad")), Taken::PutBack);
    assert_eq!(fs::read_link(place.file()).unwrap(), PathBuf::from("newer"));
}

// covers: DM-06
#[test]
fn a_file_set_aside_before_a_crash_is_continued_with() {
    let place = Place::new();
    fs::create_dir_all(&place.aside).unwrap();
    let aside = place.aside.join("d7.take");
    fs::write(&aside, "newer").unwrap();
    assert_eq!(place.take(Some("bad")), Taken::PutBack);
    assert_eq!(fs::read(place.file()).unwrap(), b"newer");
    fs::rename(place.file(), &aside).unwrap();
    fs::remove_dir(place.root.path().join("repo/inbox")).unwrap();
    assert_eq!(place.take(Some("bad")), Taken::PutBack, "its folder is made again");
    fs::write(&aside, "bad").unwrap();
    let entry = place.take_kept(Some("bad"));
    assert_eq!(fs::read(place.file()).unwrap(), b"newer");
    assert_eq!(fs::read(place.kept_path(&entry)).unwrap(), b"bad");
    // The note was written, the file not yet removed.
    fs::write(&aside, "bad").unwrap();
    assert_eq!(place.take_kept(Some("bad")), entry);
    assert!(place.nothing_lies_aside());
    assert_eq!(fs::read_dir(place.root.path().join("quarantine")).unwrap().count(), 2);
}

// covers: DM-05
#[test]
fn what_was_judged_is_kept_whatever_becomes_of_its_file_meanwhile() {
    let place = Place::new();
    for (name, meanwhile) in [("changed", Some("forged")), ("gone", None)] {
        fs::write(place.file(), name).unwrap();
        let key = Key::new(name);
        let (taken, unsynced) = place.take_for_now(&key, Some(name));
        assert_eq!(taken, Taken::Kept);
        let aside = place.aside.join(name);
        match meanwhile {
            Some(text) => fs::write(&aside, text).unwrap(),
            None => fs::remove_file(&aside).unwrap(),
        }
        unsynced.sync().unwrap();
        assert_eq!(fs::read_to_string(place.kept_path(&place.entry(&key))).unwrap(), name);
        assert!(place.nothing_lies_aside());
    }
}

// covers: DM-06
#[test]
fn what_a_kill_left_to_be_kept_is_kept_when_it_is_taken_again() {
    let place = Place::new();
    fs::write(place.file(), "bad").unwrap();
    let (taken, lost) = place.take_for_now(&key(), Some("bad"));
    drop(lost);
    assert_eq!(taken, Taken::Kept);
    assert!(!place.nothing_lies_aside() && !place.kept.exists(), "only set aside so far");
    let entry = place.take_kept(Some("bad"));
    assert_eq!(fs::read(place.kept_path(&entry)).unwrap(), b"bad");
    assert!(place.nothing_lies_aside());
}

// covers: DM-06
#[test]
fn a_crash_inside_the_quarantine_is_repaired() {
    let place = Place::new();
    let quarantine = place.root.path().join("quarantine");
    fs::create_dir_all(&place.aside).unwrap();
    fs::create_dir(&quarantine).unwrap();
    fs::write(place.aside.join("d7.take"), "bad").unwrap();
    fs::write(quarantine.join(".agency-tmp-d7.take"), "b").unwrap();
    fs::write(quarantine.join("d7.take-flag.json"), "ba").unwrap();
    let entry = place.take_kept(Some("bad"));
    assert_eq!(fs::read(place.kept_path(&entry)).unwrap(), b"bad");
    assert_eq!(fs::read_dir(&quarantine).unwrap().count(), 2);
}

#[test]
fn a_newer_file_with_a_still_newer_one_in_its_place_is_kept() {
    let place = Place::new();
    fs::create_dir_all(&place.aside).unwrap();
    fs::write(place.aside.join("d7.take"), "newer").unwrap();
    fs::write(place.file(), "newest").unwrap();
    assert_eq!(place.take(Some("bad")), Taken::Superseded);
    let entry = place.entry(&key());
    assert_eq!(fs::read(place.kept_path(&entry)).unwrap(), b"newer");
    assert_eq!(fs::read(place.file()).unwrap(), b"newest");
    assert_eq!(place.take(Some("bad")), Taken::Superseded);
    assert_eq!(place.entry(&key()), entry);
    assert!(place.nothing_lies_aside());
}

// covers: DM-04
#[test]
fn links_pipes_and_sockets_are_taken_without_touching_what_is_behind() {
    let place = Place::new();
    symlink("/etc/passwd", place.file()).unwrap();
    let entry = place.take_kept(None);
    assert_eq!((entry.kind, &entry.digest), (Kind::Symlink, &None));
    assert_eq!(fs::read(place.kept_path(&entry)).unwrap(), b"/etc/passwd");
    assert_eq!(place.take_kept(None), entry);

    mkfifo(&place.file(), Mode::from_bits_truncate(0o644)).unwrap();
    let entry = place.take_kept_as(&Key::new("fifo"), None);
    assert_eq!((entry.kind, entry.kept), (Kind::Fifo, 0));
    assert!(!place.kept_path(&entry).exists() && !place.file().exists());

    drop(UnixListener::bind(place.file()).unwrap());
    let entry = place.take_kept_as(&Key::new("socket"), None);
    assert_eq!(entry.kind, Kind::Socket);
    assert!(place.nothing_lies_aside());
}

#[test]
fn a_directory_is_moved_whole() {
    let place = Place::new();
    fs::create_dir(place.file()).unwrap();
    fs::write(place.file().join("inside"), "work").unwrap();
    let entry = place.take_kept(None);
    assert_eq!(entry.kind, Kind::Directory);
    assert_eq!(fs::read(place.kept_path(&entry).join("inside")).unwrap(), b"work");
    assert!(!place.file().exists() && place.nothing_lies_aside());
    assert_eq!(place.take_kept(None), entry);
}

// covers: DM-06
#[test]
fn a_directory_whose_note_was_written_before_a_crash_is_moved_after_it() {
    let place = Place::new();
    fs::create_dir(place.file()).unwrap();
    let entry = place.take_kept(None);
    fs::rename(place.kept_path(&entry), place.aside.join("d7.take")).unwrap();
    assert_eq!(place.take_kept(None), entry);
    assert!(place.kept_path(&entry).is_dir() && place.nothing_lies_aside());
}

// covers: DM-04
#[test]
fn ten_gigabytes_are_cut_and_cost_next_to_nothing() {
    let place = Place::new();
    let size = 10 << 30;
    File::create(place.file()).unwrap().set_len(size).unwrap();
    // To read it all takes a minute; the limit only leaves room for a slow disk.
    let start = Instant::now();
    let entry = place.take_kept(None);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!((entry.size, entry.kept, entry.digest.clone()), (size, KEEP_MAX, None));
    assert_eq!(fs::metadata(place.kept_path(&entry)).unwrap().len(), KEEP_MAX);
    assert!(!place.file().exists() && place.nothing_lies_aside());
    // As an answer to something smaller it is a new fact, and not read through either.
    File::create(place.file()).unwrap().set_len(size).unwrap();
    assert_eq!(place.take_as(&Key::new("other"), Some("small")), Taken::PutBack);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn a_seen_file_over_the_share_is_cut_but_keeps_its_digest() {
    let place = Place::new();
    let text = "x".repeat(2 << 20);
    fs::write(place.file(), &text).unwrap();
    let entry = place.take_kept(Some(&text));
    assert_eq!((entry.size, entry.kept), (2 << 20, KEEP_MAX));
    assert_eq!(entry.digest, Some(Digest::of(text.as_bytes())));
    assert_eq!(place.take_kept(Some(&text)), entry);
}

#[test]
fn the_quarantine_keeps_two_things_of_one_key_apart() {
    let place = Place::new();
    let mut names = BTreeSet::new();
    for text in ["one", "two", "one"] {
        fs::write(place.file(), text).unwrap();
        let entry = place.quarantine.keep(&place.file(), &path(), "why", &key()).unwrap();
        assert_eq!(fs::read_to_string(place.kept_path(&entry)).unwrap(), text);
        names.insert(entry.name);
    }
    assert_eq!(names.len(), 2);
    let newest = place.quarantine.keep(&place.file(), &path(), "why", &key()).unwrap();
    assert_eq!(newest.name, "d7.take-flag.json-2", "gone already: says what it kept");
    let other = place.quarantine.keep(&place.file(), &path(), "why", &Key::new("other"));
    assert!(matches!(other, Err(StoreError::Io { .. })));
}

/// On Linux `/dev/shm` is a file system of its own.
#[cfg(target_os = "linux")]
#[test]
fn file_systems_that_differ_are_no_trouble() {
    let apart = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut place = Place::new();
    place.aside = apart.path().join("aside");
    place.quarantine = Quarantine::new(apart.path().join("quarantine"));
    place.kept = apart.path().join("quarantine");

    fs::write(place.file(), "newer").unwrap();
    assert_eq!(place.take(Some("bad")), Taken::PutBack);
    let entry = place.take_kept(Some("newer"));
    assert_eq!(fs::read(place.kept_path(&entry)).unwrap(), b"newer");
    assert!(!place.file().exists() && place.nothing_lies_aside());

    // A crash with the file under its hidden name.
    fs::write(place.file().with_file_name(".agency-aside-hidden"), "bad").unwrap();
    assert_eq!(place.take_as(&Key::new("hidden"), Some("bad")), Taken::Kept);
    assert!(place.nothing_lies_aside());

    fs::create_dir(place.file()).unwrap();
    assert_eq!(place.take_as(&Key::new("empty"), None), Taken::Kept);
    assert!(place.nothing_lies_aside());

    fs::create_dir(place.file()).unwrap();
    fs::write(place.file().join("inside"), "work").unwrap();
    let entry = place.take_kept_as(&Key::new("full"), None);
    let left = PathBuf::from(entry.left.clone().expect("it says where it was left"));
    assert_eq!(fs::read(left.join("inside")).unwrap(), b"work");
    assert!(!place.file().exists());
    assert_eq!(place.take_kept_as(&Key::new("full"), None), entry);
}

/// Somebody puts a new file there whenever the place is free. Not one of them may be lost or taken twice.
#[test]
fn nothing_is_lost_in_a_race() {
    const FILES: usize = 60;
    let place = Place::new();
    let writer = std::thread::spawn({
        let (target, source) = (place.file(), place.root.path().join("source"));
        move || {
            for n in 0..FILES {
                fs::write(&source, format!("file {n}")).unwrap();
                let deadline = Instant::now() + Duration::from_secs(30);
                while fs::hard_link(&source, &target).is_err() {
                    assert!(Instant::now() < deadline, "the place never became free");
                    std::thread::yield_now();
                }
                fs::remove_file(&source).unwrap();
            }
        }
    });
    let mut seen = Vec::new();
    for round in 0.. {
        let last = writer.is_finished();
        let key = Key::new(format!("k{round}"));
        let entry = match place.take_as(&key, None) {
            Taken::Kept => place.entry(&key),
            Taken::Absent if last => break,
            Taken::Absent => continue,
            other => panic!("{other:?}"),
        };
        seen.push(fs::read_to_string(place.kept_path(&entry)).unwrap());
    }
    writer.join().unwrap();
    assert_eq!(seen, (0..FILES).map(|n| format!("file {n}")).collect::<Vec<_>>());
}
