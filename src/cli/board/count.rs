//! How many tasks say what, by the head of each file: fast enough for a hundred thousand. It takes no lock, and changes nothing
//! but its own memory of what it read.

use super::head::{self, HEAD, Open};
use super::inspect::{LISTERS, READERS, days, each_day};
pub(crate) use super::seen::Unkept;
use super::seen::{self, Row, Seen};
use crate::clock;
use crate::protocol::board::table::Status;
use crate::read::Stamp;
use std::collections::BTreeMap;
use std::fs::{DirEntry, File, Metadata};
use std::os::unix::fs::DirEntryExt;
use std::path::Path;

/// How many tasks say what, and how many reports lie there.
pub(crate) struct Counts {
    pub(crate) tasks: BTreeMap<&'static str, u64>,
    pub(crate) unreadable: u64,
    /// Files that say DONE of a task that is not.
    pub(crate) unverified: u64,
    pub(crate) reports: u64,
    /// What the next count need not read again.
    pub(crate) unkept: Option<Unkept>,
}

impl Counts {
    /// AG-11: more files may say DONE than tasks are, as far as our journal knows.
    pub(crate) fn believe(&mut self, done: Option<u64>) {
        let (Some(done), Some(said)) = (done, self.tasks.get("DONE").copied()) else { return };
        if said > done {
            self.unverified = said - done;
            self.tasks.insert("DONE", done);
            self.tasks.retain(|_, count| *count > 0);
        }
    }

    /// One line for `agency status`.
    pub(crate) fn words(&self) -> String {
        let mut words: Vec<String> = Status::ALL
            .iter()
            .filter_map(|status| {
                Some(format!("{} {}", self.tasks.get(status.word())?, status.word()))
            })
            .collect();
        if words.is_empty() {
            words.push("no task yet".to_owned());
        }
        if self.unverified > 0 {
            words.push(format!("{} whose file says DONE without our verify", self.unverified));
        }
        if self.unreadable > 0 {
            words.push(format!("{} unreadable", self.unreadable));
        }
        words.join(" · ")
    }
}

/// `None`: there is no board. What the files of a large one said is remembered in `memory`, our folder for this repository.
pub(crate) fn counts(root: &Path, memory: Option<&Path>) -> Option<Counts> {
    if !root.join(".kodingx/agency.json").is_file() {
        return None;
    }
    let memory = memory.map(|folder| folder.join(seen::NAME));
    let now_ns = clock::now().wall.timestamp_nanos_opt().unwrap_or(0);
    let seen = memory.as_deref().map(|path| Seen::load(path, now_ns)).unwrap_or_default();
    let tally = Tally::of(root, &seen);
    let reports = each_day(&days(&root.join(".kodingx/outbox")), LISTERS, |day| {
        std::fs::read_dir(day).into_iter().flatten().count() as u64
    });
    let tasks = Status::ALL.iter().zip(tally.sums).filter(|(_, count)| *count > 0);
    Some(Counts {
        tasks: tasks.map(|(status, count)| (status.word(), count)).collect(),
        unreadable: tally.sums[7],
        unverified: 0,
        reports: reports.into_iter().sum(),
        unkept: memory.map(|path| Unkept::new(path, tally.rows, tally.read)),
    })
}

/// One day or all of them.
#[derive(Default)]
struct Tally {
    /// By status; those without one last.
    sums: [u64; 8],
    /// What may be remembered.
    rows: Vec<Row>,
    /// How many files had to be read.
    read: usize,
}

impl Tally {
    fn of(root: &Path, seen: &Seen) -> Self {
        let mut all = Self::default();
        let days = days(&root.join(".kodingx/inbox"));
        let ahead = head::ahead(READERS);
        for day in each_day(&days, READERS, |day| Self::of_day(day, seen, ahead)) {
            all.sums.iter_mut().zip(day.sums).for_each(|(sum, one)| *sum += one);
            all.rows.extend(day.rows);
            all.read += day.read;
        }
        all
    }

    fn of_day(day: &Path, seen: &Seen, ahead: usize) -> Self {
        let mut tally = Self::default();
        let Ok(dir) = File::open(day) else { return tally };
        let entries = std::fs::read_dir(day).into_iter().flatten().flatten();
        let is_task = |entry: &DirEntry| entry.file_name().as_encoded_bytes().ends_with(b".md");
        let mut entries: Vec<DirEntry> = entries.filter(is_task).collect();
        // Nearly the order in which they lie on the disk.
        entries.sort_unstable_by_key(DirEntryExt::ino);
        let mut head = vec![0; HEAD];
        let begin = |entry| Begun::new(&dir, entry, seen);
        head::each_ahead(entries, ahead, begin, |begun| tally.end(&dir, begun, seen, &mut head));
        tally
    }

    fn end(&mut self, dir: &File, begun: Begun, seen: &Seen, head: &mut [u8]) {
        let status = self.status(dir, begun, seen, head);
        let at = status.and_then(|one| Status::ALL.iter().position(|other| *other == one));
        self.sums[at.unwrap_or(7)] += 1;
    }

    /// What a file says: as it was remembered, else as it is read.
    fn status(&mut self, dir: &File, begun: Begun, seen: &Seen, head: &mut [u8]) -> Option<Status> {
        let open = match begun {
            Begun::Odd => return None,
            Begun::Known(row) => {
                self.rows.push(row);
                return row.status;
            }
            Begun::Open(open) => Some(open),
            Begun::Shut(entry) => Open::new(dir, &entry.file_name()),
        };
        self.read += 1;
        let (stamp, status) = open?.status(head)?;
        self.rows.extend(seen.learn(stamp, status));
        status
    }
}

/// A file that we begin to look at, before we wait for what it says.
enum Begun {
    /// Nothing that is read.
    Odd,
    /// Its stamp is the one that is remembered.
    Known(Row),
    Open(Open),
    /// It could not be opened, perhaps only because too many were open.
    Shut(DirEntry),
}

impl Begun {
    fn new(dir: &File, entry: DirEntry, seen: &Seen) -> Self {
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            return Self::Odd;
        }
        let meta = || entry.metadata().ok().filter(Metadata::is_file);
        let meta = if seen.is_empty() { None } else { meta() };
        match meta.and_then(|meta| seen.find(&Stamp::of(&meta))) {
            Some(row) => Self::Known(row),
            None => match Open::new(dir, &entry.file_name()) {
                Some(open) => Self::Open(open),
                None => Self::Shut(entry),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AG-21
    #[test]
    fn a_status_is_found_wherever_it_stands_and_nothing_else_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(".kodingx/inbox/codex/2026-01-31");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(dir.path().join(".kodingx/agency.json"), "{}").unwrap();
        let late = format!("---\ntitle: \"{}\"\nstatus: DONE\n---\n", "x".repeat(5000));
        for (name, text) in [
            ("a.md", "---\nid: T0001\nstatus: NEW\n---\n"),
            ("b.md", "\u{feff}---\r\nstatus: \"NEW\" # why\r\n---\r\n"),
            ("c.md", late.as_str()),
            ("d.md", "---\nid: T0001\n---\nstatus: NEW\n"),
            ("e.md", "status: NEW\n"),
            ("f.md", "---\nstatus: DO"),
            ("g.md", "---\n  status: NEW\n"),
            (".gitkeep", ""),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("a.md", folder.join("h.md")).unwrap();
        nix::unistd::mkfifo(&folder.join("i.md"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let counts = counts(dir.path(), None).unwrap();
        assert_eq!(counts.words(), "2 NEW · 1 DONE · 6 unreadable");
        assert_eq!(each_day(&days(&dir.path().join(".kodingx/inbox")), READERS, |_| 1), [1]);
        assert!(each_day(&[], READERS, |_| 1).is_empty());
    }

    const LATER_NS: i64 = 3_000_000_000;

    fn now_ns() -> i64 {
        clock::now().wall.timestamp_nanos_opt().unwrap()
    }

    /// Two days of tasks, enough to be remembered.
    fn large_board() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..2100 {
            let folder = format!(".kodingx/inbox/codex/2026-01-{:02}", number % 2 + 1);
            let folder = dir.path().join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("{number}.md")), "---\nstatus: ASSIGNED\n---\n")
                .unwrap();
        }
        let memory = dir.path().join(seen::NAME);
        (dir, memory)
    }

    fn tally(dir: &tempfile::TempDir, memory: &Path, now_ns: i64) -> ([u64; 2], usize) {
        let tally = Tally::of(dir.path(), &Seen::load(memory, now_ns));
        let read = tally.read;
        seen::keep(memory, tally.rows, read);
        ([tally.sums[1], tally.sums[6]], read)
    }

    // covers: AG-21
    #[test]
    fn a_file_that_nobody_touched_is_not_read_again_and_any_other_is() {
        let (dir, memory) = large_board();
        let later = || now_ns() + LATER_NS;
        assert_eq!(tally(&dir, &memory, now_ns()), ([2100, 0], 2100));
        assert!(!memory.exists(), "what is young may change without a trace");
        assert_eq!(tally(&dir, &memory, later()), ([2100, 0], 2100));
        assert_eq!(tally(&dir, &memory, later()), ([2100, 0], 0), "nothing is read again");
        // The same size, the same place, and a time that says nothing happened.
        let path = dir.path().join(".kodingx/inbox/codex/2026-01-01/0.md");
        let before = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, "---\nstatus: CANCELED\n---\n").unwrap();
        File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        assert_eq!(tally(&dir, &memory, later()), ([2099, 1], 1));
        // One that is renamed into the place of another, and one that is gone.
        let other = path.with_file_name("2.md");
        std::fs::rename(&path, &other).unwrap();
        assert_eq!(tally(&dir, &memory, later()), ([2098, 1], 1));
        std::fs::remove_file(&other).unwrap();
        std::os::unix::fs::symlink("4.md", &other).unwrap();
        assert_eq!(tally(&dir, &memory, later()), ([2098, 0], 0));
        let mut bytes = std::fs::read(&memory).unwrap();
        bytes[200] ^= 1;
        std::fs::write(&memory, bytes).unwrap();
        assert_eq!(tally(&dir, &memory, later()), ([2098, 0], 2098), "damage is thrown away");
        assert_eq!(tally(&dir, &memory, later()), ([2098, 0], 0), "and made good");
    }
}
