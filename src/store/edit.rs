//! A file that others write too is changed under its folder's lock: read, change, publish. It does not judge the change.
//!
//! The lock is an `flock` on the folder itself, so nothing is left behind and a file that is replaced by rename stays locked.
//! It binds those who use it (all our commands); whoever writes around it is found by the daemon.

use super::{
    StoreError,
    lock::LockedFile,
    spot::{Found, Kind, Spot},
};
use crate::model::RelPath;
use nix::sys::stat::{Mode, fchmod};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(2);
/// How the name of a file begins that is not published yet; our process and a count follow.
const TEMPORARY: &str = ".agency-tmp-";

/// A folder that only we write to, as far as our own commands go. Given back when dropped.
#[derive(Debug)]
pub struct FolderLock {
    _held: LockedFile,
}

impl FolderLock {
    /// Waits for about `wait`; `None`: somebody else has it still.
    pub fn acquire(dir: &Path, wait: Duration) -> Result<Option<Self>, StoreError> {
        let mut left = wait;
        let mut file = File::open(dir).map_err(StoreError::io("open the directory", dir))?;
        loop {
            file = match LockedFile::exclusive(file) {
                Ok(held) => return Ok(Some(Self { _held: held })),
                Err((_, TryLockError::WouldBlock)) if left.is_zero() => return Ok(None),
                Err((_, TryLockError::Error(error)))
                    if error.kind() != io::ErrorKind::Interrupted =>
                {
                    return Err(StoreError::io("lock", dir)(error));
                }
                Err((again, _)) => again,
            };
            let pause = PAUSE.min(left);
            std::thread::sleep(pause);
            left -= pause;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edited {
    Written,
    /// The change was no change.
    Same,
}

/// Why nothing was written. `E` is the caller's own refusal.
#[derive(Debug, thiserror::Error)]
pub enum EditError<E> {
    #[error("somebody else is writing there; try again")]
    Busy,
    #[error("`{path}` is {found}; only a plain file is changed")]
    Odd { path: RelPath, found: String },
    #[error("`{path}` has more than {limit} bytes")]
    TooLarge { path: RelPath, limit: u64 },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{0}")]
    Refused(E),
}

/// Reads the file under its folder's lock, lets `change` make the new bytes, and publishes them whole. `None` in: there is no
/// such file. `None` out: nothing to do. Missing folders are made.
pub fn edit<E>(
    root: &Path,
    path: &RelPath,
    limit: u64,
    wait: Duration,
    change: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
) -> Result<Edited, EditError<E>> {
    let spot = Spot::make(root, path)?;
    let dir = root.join(path.as_str());
    let dir = dir.parent().unwrap_or(root);
    let Some(_lock) = FolderLock::acquire(dir, wait)? else { return Err(EditError::Busy) };
    let old = read(&spot, path, limit)?;
    let Some(new) = change(old.as_deref()).map_err(EditError::Refused)? else {
        return Ok(Edited::Same);
    };
    if old.as_deref() == Some(&new[..]) {
        return Ok(Edited::Same);
    }
    publish(&spot, &new)?;
    Ok(Edited::Written)
}

fn read<E>(spot: &Spot, path: &RelPath, limit: u64) -> Result<Option<Vec<u8>>, EditError<E>> {
    let odd = |found: &str| EditError::Odd { path: path.clone(), found: found.to_owned() };
    let file = match spot.look()? {
        Found::Absent => return Ok(None),
        Found::Plain { file, .. } => file,
        Found::Sealed { .. } => return Err(odd("a file that we may not read")),
        Found::Other(Kind::Symlink) => return Err(odd("a symbolic link")),
        Found::Other(_) => return Err(odd("not a file")),
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(spot.failed("read"))?;
    if bytes.len() as u64 > limit {
        return Err(EditError::TooLarge { path: path.clone(), limit });
    }
    Ok(Some(bytes))
}

/// Is this the name of a file that [`edit`] had not finished?
pub fn is_temporary(name: &str) -> bool {
    let parts = name.strip_prefix(TEMPORARY).and_then(|rest| rest.split_once('-'));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    parts.is_some_and(|(process, count)| digits(process) && digits(count))
}

pub(super) fn publish(spot: &Spot, bytes: &[u8]) -> Result<(), StoreError> {
    let temp = write_beside(spot, bytes)?;
    put(&temp, spot)
}

/// The bytes, whole and synced, under a temporary name.
fn write_beside(spot: &Spot, bytes: &[u8]) -> Result<Spot, StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let temp = spot.beside(format!("{TEMPORARY}{}-{count}", std::process::id()));
    // Left by a process that had our number before us, and died.
    temp.unlink()?;
    let mode = spot.stat()?.map_or(0o644, |(_, stat)| stat.st_mode & 0o777);
    let mut file = temp.create(mode)?;
    let written = fchmod(&file, Mode::from_bits_truncate(mode))
        .map_err(std::io::Error::from)
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all())
        .map_err(temp.failed("write"));
    if written.is_err() {
        // The first failure is the one to report; what is left over is only a temporary file.
        drop(temp.unlink());
    }
    written.map(|()| temp)
}

fn put(temp: &Spot, spot: &Spot) -> Result<(), StoreError> {
    let put = nix::fcntl::renameat(temp.dir(), temp.name(), spot.dir(), spot.name());
    if put.is_err() {
        drop(temp.unlink());
    }
    put.map_err(spot.failed("replace"))?;
    spot.sync_dir()
}

/// A new file, whole and synced, that has no name yet. Its folder is locked; dropped, it leaves nothing.
pub struct Draft {
    spot: Spot,
    temp: Spot,
    _lock: FolderLock,
}

impl Draft {
    /// Missing folders are made. `None`: somebody else is writing there for longer than `wait`.
    pub fn new(
        root: &Path,
        path: &RelPath,
        bytes: &[u8],
        wait: Duration,
    ) -> Result<Option<Self>, StoreError> {
        let spot = Spot::make(root, path)?;
        let dir = root.join(path.as_str());
        let Some(lock) = FolderLock::acquire(dir.parent().unwrap_or(root), wait)? else {
            return Ok(None);
        };
        let temp = write_beside(&spot, bytes)?;
        Ok(Some(Self { spot, temp, _lock: lock }))
    }

    /// Gives it its name. False: something has that name already, and nothing is changed.
    pub fn publish(self) -> Result<bool, StoreError> {
        let free = !self.spot.exists()?;
        if free {
            put(&self.temp, &self.spot)?;
        }
        Ok(free)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Gone already where it was published.
        drop(self.temp.unlink());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const WAIT: Duration = Duration::from_secs(60);

    fn count(root: &Path) -> Result<Edited, EditError<Infallible>> {
        edit(root, &RelPath::fixed("a/count"), 100, WAIT, |old| {
            let old: u64 = old.map_or(0, |old| String::from_utf8_lossy(old).parse().unwrap());
            Ok(Some((old + 1).to_string().into_bytes()))
        })
    }

    #[test]
    fn no_update_is_lost_between_many_writers() {
        let root = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    (0..25).for_each(|_| assert_eq!(count(root.path()).unwrap(), Edited::Written))
                });
            }
        });
        assert_eq!(std::fs::read_to_string(root.path().join("a/count")).unwrap(), "200");
        assert_eq!(
            std::fs::read_dir(root.path().join("a")).unwrap().count(),
            1,
            "nothing is left behind"
        );
    }

    #[test]
    fn a_refusal_and_no_change_write_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = RelPath::fixed("x");
        std::fs::write(root.path().join("x"), "old").unwrap();
        let refused = edit(root.path(), &path, 100, WAIT, |_| Err::<Option<Vec<u8>>, _>("no"));
        assert_eq!(refused.unwrap_err().to_string(), "no");
        let same =
            edit(root.path(), &path, 100, WAIT, |old| Ok::<_, Infallible>(old.map(<[u8]>::to_vec)));
        assert_eq!(same.unwrap(), Edited::Same);
        let large = edit(root.path(), &path, 2, WAIT, |_| Ok::<_, Infallible>(None));
        assert!(matches!(large.unwrap_err(), EditError::TooLarge { limit: 2, .. }));
        assert_eq!(std::fs::read_to_string(root.path().join("x")).unwrap(), "old");
    }

    #[test]
    fn a_link_is_not_written_through() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("precious"), "text").unwrap();
        std::os::unix::fs::symlink("precious", root.path().join("x")).unwrap();
        let odd = edit(root.path(), &RelPath::fixed("x"), 100, WAIT, |_| {
            Ok::<_, Infallible>(Some(vec![]))
        });
        assert!(odd.unwrap_err().to_string().contains("a symbolic link"));
        assert_eq!(std::fs::read_to_string(root.path().join("precious")).unwrap(), "text");
    }

    #[test]
    fn a_draft_is_nothing_until_it_is_published_and_never_takes_a_name_that_is_taken() {
        let root = tempfile::tempdir().unwrap();
        let path = RelPath::fixed("a/b/x");
        let folder = root.path().join("a/b");
        let names = || std::fs::read_dir(&folder).unwrap().count();
        let draft = |text: &str| Draft::new(root.path(), &path, text.as_bytes(), Duration::ZERO);
        let first = draft("one").unwrap().unwrap();
        assert!(draft("two").unwrap().is_none(), "its folder is locked");
        assert!(!folder.join("x").exists());
        drop(first);
        assert_eq!(names(), 0, "it leaves nothing");
        assert!(draft("two").unwrap().unwrap().publish().unwrap());
        assert!(!draft("three").unwrap().unwrap().publish().unwrap());
        assert_eq!((names(), std::fs::read(folder.join("x")).unwrap()), (1, b"two".to_vec()));
    }

    #[test]
    fn a_folder_that_stays_locked_is_busy() {
        let root = tempfile::tempdir().unwrap();
        let held = FolderLock::acquire(root.path(), Duration::ZERO).unwrap().unwrap();
        let none = FolderLock::acquire(root.path(), Duration::from_millis(5)).unwrap();
        assert!(none.is_none());
        drop(held);
        assert!(FolderLock::acquire(root.path(), Duration::ZERO).unwrap().is_some());
    }
}
