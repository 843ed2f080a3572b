//! Files by what the file system says of them, compared with what an index says. It opens no file.

use crate::checkout::is_settled;
use crate::index::{Index, IndexEntry, Stat};
use agency_protocols::model::Timestamp;
use nix::dir::Type;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstatat};
use std::os::fd::{AsFd, BorrowedFd};

/// A thread is worth its start only for many files.
const FILES_PER_THREAD: usize = 5_000;
const THREADS_MAX: usize = 8;

/// Which entries stand as they stood, so that nobody need look at their files again. A path that leads through a link may be among
/// them: whoever walks the folders does not come there.
pub(super) fn unchanged(root: &impl AsFd, index: &Index, taken: Timestamp) -> Vec<bool> {
    let (root, entries) = (root.as_fd(), index.entries());
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let share = entries.len().div_ceil(cores).max(FILES_PER_THREAD);
    let mut unchanged = vec![false; entries.len()];
    let mut parts = entries.chunks(share).zip(unchanged.chunks_mut(share));
    // The first part is our own.
    let own = parts.next();
    std::thread::scope(|scope| {
        for (entries, unchanged) in parts {
            scope.spawn(move || compare(root, entries, unchanged, taken));
        }
        if let Some((entries, unchanged)) = own {
            compare(root, entries, unchanged, taken);
        }
    });
    unchanged
}

fn compare(
    root: BorrowedFd<'_>,
    entries: &[(String, IndexEntry)],
    unchanged: &mut [bool],
    taken: Timestamp,
) {
    for ((path, entry), unchanged) in entries.iter().zip(unchanged) {
        let stat = fstatat(root, path.as_str(), AtFlags::AT_SYMLINK_NOFOLLOW);
        *unchanged = stat.is_ok_and(|stat| is_same(entry, &stat) && is_old(&stat, taken));
    }
}

/// Devices are numbered anew with every boot, and do not count.
fn is_same(entry: &IndexEntry, stat: &FileStat) -> bool {
    let now = stat_of(stat);
    Some(entry.mode) == mode_of(stat) && Stat { dev: now.dev, ..entry.stat } == now
}

/// Too old to have changed since without another time.
pub(super) fn is_old(stat: &FileStat, taken: Timestamp) -> bool {
    let times = [(stat.st_mtime, stat.st_mtime_nsec), (stat.st_ctime, stat.st_ctime_nsec)];
    times.iter().all(|&(seconds, part)| is_settled(seconds, part, taken))
}

/// As git keeps it; `None`: it keeps no such thing.
pub(super) fn mode_of(stat: &FileStat) -> Option<u32> {
    match kind_of(stat) {
        Type::File if stat.st_mode & 0o100 != 0 => Some(0o100_755),
        Type::File => Some(0o100_644),
        Type::Symlink => Some(0o120_000),
        _ => None,
    }
}

pub(super) fn kind_of(stat: &FileStat) -> Type {
    match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFREG => Type::File,
        SFlag::S_IFLNK => Type::Symlink,
        SFlag::S_IFDIR => Type::Directory,
        // Whatever else it is, git passes over it.
        _ => Type::Socket,
    }
}

/// As git keeps it: the lower half of each number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "that is the format")]
pub(super) fn stat_of(stat: &FileStat) -> Stat {
    Stat {
        ctime: (stat.st_ctime as u32, stat.st_ctime_nsec as u32),
        mtime: (stat.st_mtime as u32, stat.st_mtime_nsec as u32),
        dev: stat.st_dev as u32,
        ino: stat.st_ino as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::{Edits, Id};
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn entry(dir: &fs::File, name: &str) -> IndexEntry {
        let stat = fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW).unwrap();
        let id = Id::parse(&"a1".repeat(20)).unwrap();
        IndexEntry::new(stat_of(&stat), mode_of(&stat).unwrap(), id)
    }

    /// Three files more than one thread takes.
    fn files(dir: &Path) -> (fs::File, Index) {
        let count = FILES_PER_THREAD + 3;
        let names: Vec<String> = (0..count).map(|number| format!("{number:05}")).collect();
        names.iter().for_each(|name| fs::write(dir.join(name), "x").unwrap());
        let root = fs::File::open(dir).unwrap();
        let entries = names.into_iter().map(|name| (name.clone(), Some(entry(&root, &name))));
        let mut index = Index::default();
        index.edit(entries.collect::<Edits>());
        (root, index)
    }

    #[test]
    fn only_what_was_touched_is_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        let (root, index) = files(dir.path());
        let later = agency_host::clock::wall() + chrono::TimeDelta::seconds(10);
        assert!(unchanged(&root, &index, later).into_iter().all(|same| same));
        fs::write(dir.path().join("00001"), "y").unwrap();
        fs::set_permissions(dir.path().join("00002"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(dir.path().join("05002")).unwrap();
        let touched = unchanged(&root, &index, later);
        let touched: Vec<usize> = (0..touched.len()).filter(|at| !touched[*at]).collect();
        assert_eq!(touched, [1, 2, 5002]);
    }

    #[test]
    fn a_file_that_was_young_when_the_index_was_written_is_looked_at_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "x").unwrap();
        let root = fs::File::open(dir.path()).unwrap();
        let mut index = Index::default();
        index.edit([("a".to_owned(), Some(entry(&root, "a")))].into());
        let written = fs::metadata(dir.path().join("a")).unwrap().modified().unwrap().into();
        assert_eq!(unchanged(&root, &index, written), [false]);
    }
}
