//! A lock that a living process holds on a file, gone the moment that process is. It does not say what is locked.

use crate::model::{Timestamp, clip};
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An exclusive lock, held until it is dropped. The text in the file is for people only.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: LockedFile,
}

/// A file with an `flock` on it. The unlock comes before the close, because a child that is just being started still has a copy
/// of the descriptor. An unlock that fails is no reason to stop: the close gives the lock back as well.
#[derive(Debug)]
pub(super) struct LockedFile(File);

impl LockedFile {
    pub(super) fn exclusive(file: File) -> Result<Self, (File, TryLockError)> {
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(error) => Err((file, error)),
        }
    }

    fn shared(file: File) -> Result<Self, (File, TryLockError)> {
        match file.try_lock_shared() {
            Ok(()) => Ok(Self(file)),
            Err(error) => Err((file, error)),
        }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl DerefMut for LockedFile {
    fn deref_mut(&mut self) -> &mut File {
        &mut self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "a lock could not be released before its file was closed");
        }
    }
}

#[derive(Debug)]
pub enum Acquired {
    Held(Lock),
    /// Somebody else holds it; what they wrote about themselves, or nothing if they have not yet.
    Busy {
        holder: String,
    },
}

/// A lock as a reader sees it, who takes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockSeen {
    /// What the holder wrote about itself, or nothing if it has not yet.
    Held {
        holder: String,
    },
    /// Nobody holds it; its file was last touched then.
    Free {
        touched: Timestamp,
    },
    Absent,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("cannot open the lock `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("the lock `{}` is not a plain file", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot lock `{}`", path.display())]
    Lock { path: PathBuf, source: io::Error },
}

/// A lock file that is replaced again and again while we try is not something to wait for.
const REPLACED_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);
const HOLDER_MAX: u64 = 1024;

impl Lock {
    /// Takes the lock or says who has it. `words` tell people who we are.
    pub fn try_acquire(path: &Path, words: &str) -> Result<Acquired, LockError> {
        for _ in 0..REPLACED_MAX {
            let file = match LockedFile::exclusive(open(path)?) {
                Ok(file) => file,
                Err((file, TryLockError::WouldBlock)) => {
                    return Ok(Acquired::Busy { holder: holder(&file) });
                }
                Err((_, TryLockError::Error(error)))
                    if error.kind() == io::ErrorKind::Interrupted =>
                {
                    continue;
                }
                Err((_, TryLockError::Error(error))) => return Err(failed(path, error)),
            };
            let mut lock = Self { path: path.to_owned(), file };
            // Whoever removed the file between our open and our lock left us holding a lock on nothing.
            if lock.is_current() {
                lock.write(words).map_err(|source| failed(path, source))?;
                return Ok(Acquired::Held(lock));
            }
        }
        Err(failed(path, io::Error::other("the file is replaced again and again")))
    }

    /// As [`Lock::try_acquire`], but tries again for about `wait`.
    pub fn acquire_within(path: &Path, words: &str, wait: Duration) -> Result<Acquired, LockError> {
        let mut left = wait;
        loop {
            match Self::try_acquire(path, words)? {
                Acquired::Busy { .. } if !left.is_zero() => {
                    let pause = PAUSE.min(left);
                    std::thread::sleep(pause);
                    left -= pause;
                }
                acquired => return Ok(acquired),
            }
        }
    }

    /// Is the file at the path still the one that we hold? If not, somebody removed it and another process may hold the new one.
    pub fn is_current(&self) -> bool {
        let same = |held: std::fs::Metadata, named: std::fs::Metadata| {
            (held.dev(), held.ino()) == (named.dev(), named.ino())
        };
        match (self.file.metadata(), self.path.symlink_metadata()) {
            (Ok(held), Ok(named)) => same(held, named),
            _ => false,
        }
    }

    /// Says in the file's time that the holder was alive at `at`. Works on the open file, wherever its name went.
    pub fn touch(&self, at: Timestamp) -> io::Result<()> {
        self.file.set_modified(at.into())
    }

    /// Whether somebody holds the lock at `path`. A shared lock is taken for a moment, so a holder that comes just then must try
    /// again.
    pub fn look(path: &Path) -> Result<LockSeen, LockError> {
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockSeen::Absent),
            Err(source) => return Err(LockError::Open { path: path.to_owned(), source }),
        };
        match LockedFile::shared(file) {
            Ok(file) => {
                let touched = file.metadata().and_then(|metadata| metadata.modified());
                let touched = touched.map_err(|source| failed(path, source))?;
                Ok(LockSeen::Free { touched: touched.into() })
            }
            Err((file, TryLockError::WouldBlock)) => Ok(LockSeen::Held { holder: holder(&file) }),
            Err((_, TryLockError::Error(error))) => Err(failed(path, error)),
        }
    }

    /// Which process holds the lock at `path`, as the kernel lists it; `None` where it lists none.
    pub fn holder_of(path: &Path) -> Option<i32> {
        let meta = path.symlink_metadata().ok()?;
        listed_holder(&std::fs::read_to_string("/proc/locks").ok()?, meta.dev(), meta.ino())
    }

    fn write(&mut self, words: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        writeln!(self.file, "{words}")
    }
}

/// Never follows a link and never waits for the other end of a pipe.
fn open(path: &Path) -> Result<File, LockError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
        .map_err(|source| LockError::Open { path: path.to_owned(), source })?;
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(LockError::NotAFile { path: path.to_owned() }),
        Err(source) => Err(LockError::Open { path: path.to_owned(), source }),
    }
}

/// `1: FLOCK  ADVISORY  WRITE 4242 fe:00:5891725 0 EOF`. Some file systems list another device than `stat` names; then the
/// inode alone counts, as long as only one process holds such a lock.
fn listed_holder(locks: &str, dev: u64, ino: u64) -> Option<i32> {
    let (major, minor) = (nix::sys::stat::major(dev), nix::sys::stat::minor(dev));
    let held = locks.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = words[..] else { return None };
        let (device, inode) = file.rsplit_once(':')?;
        (inode.parse() == Ok(ino)).then_some(())?;
        Some((pid.parse::<i32>().ok()?, device == format!("{major:02x}:{minor:02x}")))
    });
    let held: Vec<(i32, bool)> = held.collect();
    let exact = held.iter().find(|(_, same_device)| *same_device);
    match (exact, &held[..]) {
        (Some((pid, _)), _) | (None, [(pid, _)]) => Some(*pid),
        (None, _) => None,
    }
}

fn holder(file: &File) -> String {
    let mut bytes = Vec::new();
    match file.take(HOLDER_MAX).read_to_end(&mut bytes) {
        Ok(_) => clip(String::from_utf8_lossy(&bytes).trim(), 500),
        Err(_) => String::new(),
    }
}

fn failed(path: &Path, source: io::Error) -> LockError {
    LockError::Lock { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::Instant;

    fn held(acquired: Acquired) -> Lock {
        match acquired {
            Acquired::Held(lock) => lock,
            Acquired::Busy { holder } => panic!("held by {holder}"),
        }
    }

    fn busy(acquired: Acquired) -> String {
        match acquired {
            Acquired::Held(_) => panic!("two holders"),
            Acquired::Busy { holder } => holder,
        }
    }

    // covers: DM-07
    #[test]
    fn one_holder_at_a_time_and_its_words_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = held(Lock::try_acquire(&path, "a long first holder").unwrap());
        assert_eq!(busy(Lock::try_acquire(&path, "second").unwrap()), "a long first holder");
        drop(first);
        let second = held(Lock::try_acquire(&path, "second").unwrap());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
        drop(second);
    }

    // covers: DM-21, DM-07
    #[test]
    fn an_unlock_that_fails_does_not_end_the_daemon() {
        let dir = tempfile::tempdir().unwrap();
        // The kernel locks and unlocks no file that was opened for its path only.
        let flags = OFlag::O_PATH.bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(dir.path()).unwrap();
        assert!(file.unlock().is_err());
        drop(LockedFile(file));
    }

    // covers: SE-10
    #[test]
    fn the_kernel_names_the_holder_whatever_the_file_says() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(Lock::holder_of(&path), None);
        let lock = held(Lock::try_acquire(&path, "pid 1 on nowhere").unwrap());
        assert_eq!(Lock::holder_of(&path), i32::try_from(std::process::id()).ok());
        drop(lock);
        assert_eq!(Lock::holder_of(&path), None);
        let line =
            |pid, device, kind| format!("1: {kind} ADVISORY WRITE {pid} {device}:77 0 EOF\n");
        let dev = nix::sys::stat::makedev(0xfe, 0);
        let two = line(5, "00:21", "FLOCK") + &line(6, "fe:00", "FLOCK");
        assert_eq!(listed_holder(&two, dev, 77), Some(6));
        assert_eq!(listed_holder(&line(5, "00:21", "FLOCK"), dev, 77), Some(5));
        let unclear = line(5, "00:21", "FLOCK") + &line(6, "00:22", "FLOCK");
        assert_eq!(listed_holder(&unclear, dev, 77), None);
        assert_eq!(listed_holder(&line(5, "fe:00", "POSIX"), dev, 77), None);
    }

    // covers: DM-20
    #[test]
    fn a_reader_sees_whether_it_is_held_and_when_its_holder_was_last_alive() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert_eq!(Lock::look(&path).unwrap(), LockSeen::Absent);
        let lock = held(Lock::try_acquire(&path, "pid 7").unwrap());
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        lock.touch(at).unwrap();
        assert_eq!(Lock::look(&path).unwrap(), LockSeen::Held { holder: "pid 7".to_owned() });
        drop(lock);
        assert_eq!(Lock::look(&path).unwrap(), LockSeen::Free { touched: at });
        held(Lock::try_acquire(&path, "a look keeps nobody out").unwrap());
    }

    #[test]
    fn waiting_ends_with_the_lock_or_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = held(Lock::try_acquire(&path, "first").unwrap());
        let start = Instant::now();
        let waited = Lock::acquire_within(&path, "second", Duration::from_millis(60)).unwrap();
        assert_eq!(busy(waited), "first");
        assert!(start.elapsed() >= Duration::from_millis(60));

        let path_of_waiter = path.clone();
        let waiter = std::thread::spawn(move || {
            Lock::acquire_within(&path_of_waiter, "second", Duration::from_secs(20)).unwrap()
        });
        drop(first);
        let second = held(waiter.join().unwrap());
        assert_eq!(busy(Lock::try_acquire(&path, "third").unwrap()), "second");
        drop(second);
    }

    #[test]
    fn a_removed_lock_file_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lock = held(Lock::try_acquire(&path, "first").unwrap());
        assert!(lock.is_current());
        std::fs::remove_file(&path).unwrap();
        assert!(!lock.is_current());
        let other = held(Lock::try_acquire(&path, "second").unwrap());
        assert!(other.is_current() && !lock.is_current());
    }

    #[test]
    fn links_pipes_and_folders_are_not_locks() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("precious");
        std::fs::write(&target, "text").unwrap();
        symlink(&target, dir.path().join("link")).unwrap();
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        for name in ["link", "pipe", "folder", "no/such"] {
            let error = Lock::try_acquire(&dir.path().join(name), "me").unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "text");
    }
}
