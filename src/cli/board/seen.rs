//! What a large board's files said when they were last read, by the file system's stamps: a file that nobody touched since need
//! not be opened to know its status. It is a memory and no truth: a stamp that differs, or that was young when the file was read,
//! proves nothing, and a memory that is missing, damaged or another board's is thrown away.

use crate::model::Digest;
use crate::protocol::board::table::Status;
use crate::read::{Stamp, open_plain};
use crate::store::{self, FolderLock};
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file below our other memory of a repository, in a folder of its own.
pub(super) const NAME: &str = "board/seen";
/// Smaller boards are read faster than it takes to keep a memory of them.
const SMALL: usize = 2000;
const LARGE: usize = 1_000_000;
/// As long as this a file may still be changed without a new stamp.
const YOUNG_NS: i64 = 2_000_000_000;
/// It is written again when more than one file in so many had to be read.
const READ: usize = 64;

const MAGIC: &[u8; 8] = b"agseen1\n";
const DIGEST: usize = 64;
const ROW: usize = 41;

/// One file: its stamp, and what it says. `None`: nothing that is a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    stamp: Stamp,
    pub(super) status: Option<Status>,
}

impl Row {
    fn render(&self, to: &mut Vec<u8>) {
        let Stamp { dev, ino, size, mtime_ns, ctime_ns } = self.stamp;
        for number in [ino, dev, size, mtime_ns.cast_unsigned(), ctime_ns.cast_unsigned()] {
            to.extend(number.to_le_bytes());
        }
        let place = |status| Status::ALL.iter().position(|other| *other == status);
        let place = self.status.and_then(place).and_then(|place| u8::try_from(place).ok());
        to.push(place.unwrap_or(u8::MAX));
    }

    fn parse(bytes: &[u8; ROW]) -> Self {
        let number = |at: usize| {
            bytes[8 * at..][..8].iter().rev().fold(0, |sum: u64, byte| sum << 8 | u64::from(*byte))
        };
        let stamp = Stamp {
            ino: number(0),
            dev: number(1),
            size: number(2),
            mtime_ns: number(3).cast_signed(),
            ctime_ns: number(4).cast_signed(),
        };
        Self { stamp, status: Status::ALL.get(usize::from(bytes[ROW - 1])).copied() }
    }
}

/// What is remembered, by inode, and the time at which we look again.
#[derive(Default)]
pub(super) struct Seen {
    rows: Vec<Row>,
    now_ns: i64,
}

impl Seen {
    pub(super) fn load(path: &Path, now_ns: i64) -> Self {
        let rows = read(path).ok().and_then(|bytes| parse(&bytes));
        Self { rows: rows.unwrap_or_default(), now_ns }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The file with this very stamp; `None`: it must be read.
    pub(super) fn find(&self, stamp: &Stamp) -> Option<Row> {
        let at = self.rows.partition_point(|row| key(row) < (stamp.ino, stamp.dev));
        self.rows.get(at).filter(|row| row.stamp == *stamp).copied()
    }

    /// What was read of a file, with its stamp from before; `None`: that is too young to be remembered.
    pub(super) fn learn(&self, stamp: Stamp, status: Option<Status>) -> Option<Row> {
        let last = stamp.mtime_ns.max(stamp.ctime_ns);
        (last < self.now_ns.saturating_sub(YOUNG_NS)).then_some(Row { stamp, status })
    }
}

/// What there is to remember once the answer is given. Whoever cannot wait for that may drop it.
pub(crate) struct Unkept {
    path: PathBuf,
    rows: Vec<Row>,
    read: usize,
}

impl Unkept {
    pub(super) fn new(path: PathBuf, rows: Vec<Row>, read: usize) -> Self {
        Self { path, rows, read }
    }

    pub(crate) fn keep(self) {
        keep(&self.path, self.rows, self.read);
    }
}

/// Keeps what is there now, when that is worth the writing. Whoever cannot write it reads again the next time.
pub(super) fn keep(path: &Path, mut rows: Vec<Row>, read: usize) {
    if !(SMALL..=LARGE).contains(&rows.len()) {
        drop(std::fs::remove_file(path));
    } else if read > rows.len() / READ {
        rows.sort_unstable_by_key(key);
        publish(path, &render(&rows));
    }
}

/// One process at a time; the others have read the same.
fn publish(path: &Path, bytes: &[u8]) {
    let Some(dir) = path.parent() else { return };
    drop(std::fs::create_dir(dir));
    let Ok(Some(_lock)) = FolderLock::acquire(dir, Duration::ZERO) else { return };
    // What somebody left who was ended while he wrote.
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(store::is_temporary) {
            drop(std::fs::remove_file(entry.path()));
        }
    }
    // Its seal tells whether all of it reached the disk.
    drop(store::write_unsynced(path, bytes));
}

fn key(row: &Row) -> (u64, u64) {
    (row.stamp.ino, row.stamp.dev)
}

fn render(rows: &[Row]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * ROW);
    rows.iter().for_each(|row| row.render(&mut bytes));
    [MAGIC, seal(&bytes).as_str().as_bytes(), &bytes].concat()
}

fn parse(bytes: &[u8]) -> Option<Vec<Row>> {
    let (digest, rows) = bytes.strip_prefix(MAGIC)?.split_at_checked(DIGEST)?;
    let whole = rows.len().is_multiple_of(ROW) && seal(rows).as_str().as_bytes() == digest;
    whole.then(|| rows.as_chunks().0.iter().map(Row::parse).collect())
}

/// Of the bytes and of what they mean: another version may read other words in the same files.
fn seal(rows: &[u8]) -> Digest {
    let mut hasher = Sha256::new().chain_update(env!("CARGO_PKG_VERSION"));
    Status::ALL.iter().for_each(|status| hasher.update(status.word()));
    Digest::finish(hasher.chain_update(rows))
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = open_plain(path)?;
    let most = MAGIC.len() + DIGEST + ROW * LARGE;
    let mut bytes =
        Vec::with_capacity(usize::try_from(file.metadata()?.len()).unwrap_or(0).min(most));
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ino: u64, status: Option<Status>) -> Row {
        Row {
            stamp: Stamp { dev: 3, ino, size: 700, mtime_ns: -5, ctime_ns: i64::MAX - 1 },
            status,
        }
    }

    // covers: AG-21
    #[test]
    fn what_is_kept_is_found_and_nothing_damaged_or_odd_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let mut rows: Vec<Row> =
            (1..=SMALL as u64).rev().map(|ino| row(ino, Some(Status::Done))).collect();
        rows[7].status = None;
        keep(&path, rows.clone(), SMALL);
        let seen = Seen::load(&path, 0);
        assert!(rows.iter().all(|row| seen.find(&row.stamp) == Some(*row)));
        for stamp in [
            Stamp { ino: 0, ..rows[0].stamp },
            Stamp { ino: 9999, ..rows[0].stamp },
            Stamp { dev: 4, ..rows[0].stamp },
            Stamp { size: 701, ..rows[0].stamp },
            Stamp { mtime_ns: 5, ..rows[0].stamp },
            Stamp { ctime_ns: 0, ..rows[0].stamp },
        ] {
            assert_eq!(seen.find(&stamp), None, "{stamp:?}");
        }
        let good = std::fs::read(&path).unwrap();
        for at in [0, MAGIC.len(), MAGIC.len() + DIGEST, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(parse(&bad).is_none(), "byte {at}");
            assert!(parse(&good[..at]).is_none(), "cut at {at}");
        }
        let other = dir.path().join("other");
        std::os::unix::fs::symlink(&path, &other).unwrap();
        assert!(Seen::load(&other, 0).is_empty(), "a link is nothing of ours");
        assert!(
            Seen::load(dir.path(), 0).is_empty() && Seen::load(&dir.path().join("x"), 0).is_empty()
        );
    }

    // covers: AG-21
    #[test]
    fn it_is_written_when_that_is_worth_it_and_never_for_a_small_board() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        let rows: Vec<Row> = (0..SMALL as u64).map(|ino| row(ino, None)).collect();
        keep(&path, rows.clone(), SMALL / READ);
        assert!(!path.exists());
        keep(&path, rows.clone(), SMALL / READ + 1);
        assert!(path.exists());
        let folder = path.parent().unwrap();
        std::fs::write(folder.join(".agency-tmp-7-0"), "half").unwrap();
        keep(&path, rows.clone(), SMALL);
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1, "what the dead left is gone");
        std::fs::write(&path, "").unwrap();
        let held = FolderLock::acquire(folder, Duration::ZERO).unwrap();
        keep(&path, rows.clone(), SMALL);
        assert_eq!(std::fs::read(&path).unwrap(), b"", "another writes it just now");
        drop(held);
        keep(&path, rows[1..].to_vec(), SMALL);
        assert!(!path.exists(), "the memory of what is small now is of no use");
        keep(&dir.path().join("gone/board/seen"), rows, SMALL);
    }
}
