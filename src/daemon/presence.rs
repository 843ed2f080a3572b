//! Whether a daemon runs on a state directory (DM-20). Each daemon holds a lock in a folder of its own; a view looks at that lock
//! and believes no file. It starts and stops nothing.

use crate::model::Timestamp;
use crate::repository::StateDir;
use crate::store::lock::{Acquired, Lock, LockError, LockSeen};
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Daemons with different repositories may share a state directory; each has the first folder that is free.
const MOST: usize = 100;
/// A reader's look and a process that was killed while it started a child hold the lock for a moment.
const MOMENT: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum PresenceError {
    #[error("cannot create `{}`", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("{MOST} daemons use the state directory `{}` already", path.display())]
    TooMany { path: PathBuf },
}

/// A running daemon's folder. It is ours for as long as this value lives.
#[derive(Debug)]
pub(super) struct Presence {
    lock: Lock,
    folder: PathBuf,
}

/// A daemon's folder as a reader finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenDaemon {
    pub folder: PathBuf,
    pub life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// `None` while the daemon has not written about itself yet.
    Running { pid: Option<u32>, since: Option<Timestamp> },
    /// It was alive until then.
    Stopped { at: Timestamp },
}

impl Presence {
    pub(super) fn take(state_dir: &StateDir, now: Timestamp) -> Result<Self, PresenceError> {
        let since = now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
        let words = format!("pid {}, since {since}", std::process::id());
        for folder in folders(state_dir) {
            let failed = |source| PresenceError::Folder { path: folder.clone(), source };
            DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
            let path = folder.join("lock");
            let mut acquired = Lock::try_acquire(&path, &words)?;
            if matches!(&acquired, Acquired::Busy { holder } if !is_alive(holder)) {
                acquired = Lock::acquire_within(&path, &words, MOMENT)?;
            }
            if let Acquired::Held(lock) = acquired {
                return Ok(Self { lock, folder });
            }
        }
        Err(PresenceError::TooMany { path: state_dir.path().to_owned() })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// False when somebody removed our folder, or the whole state directory.
    pub(super) fn is_current(&self) -> bool {
        self.lock.is_current()
    }

    /// From the time of its file, readers tell when a daemon that was killed was last alive.
    pub(super) fn touch(&self, now: Timestamp) {
        if let Err(error) = self.lock.touch(now) {
            tracing::debug!(%error, "the time of our lock stays as it is");
        }
    }
}

/// Every daemon that runs here or ran here, in the order of their folders.
pub fn daemons(state_dir: &StateDir) -> Vec<SeenDaemon> {
    let mut seen = Vec::new();
    for folder in folders(state_dir) {
        let life = match Lock::look(&folder.join("lock")) {
            Ok(LockSeen::Held { holder }) => {
                let (pid, since) = words(&holder);
                Life::Running { pid, since }
            }
            Ok(LockSeen::Free { touched }) => Life::Stopped { at: touched },
            Ok(LockSeen::Absent) | Err(_) => break,
        };
        seen.push(SeenDaemon { folder, life });
    }
    seen
}

fn folders(state_dir: &StateDir) -> impl Iterator<Item = PathBuf> {
    let named = |number| match number {
        1 => "daemon".to_owned(),
        number => format!("daemon-{number}"),
    };
    (1..=MOST).map(move |number| state_dir.path().join(named(number)))
}

fn words(holder: &str) -> (Option<u32>, Option<Timestamp>) {
    let Some((pid, since)) = holder.trim().split_once(", since ") else { return (None, None) };
    let pid = pid.strip_prefix("pid ").and_then(|pid| pid.parse().ok());
    (pid, since.parse().ok())
}

/// By the holder's own words. Without any, it is somebody who has just begun.
fn is_alive(holder: &str) -> bool {
    let pid = words(holder).0.and_then(|pid| i32::try_from(pid).ok());
    pid.is_none_or(|pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: DM-20
    #[test]
    fn a_daemon_is_running_while_its_lock_is_held_whatever_the_files_say() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::at(dir.path()).unwrap();
        assert_eq!(daemons(&state_dir), []);
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let first = Presence::take(&state_dir, now).unwrap();
        let second = Presence::take(&state_dir, now).unwrap();
        assert_ne!(first.folder(), second.folder());
        let running = Life::Running { pid: Some(std::process::id()), since: Some(now) };
        let lives = || daemons(&state_dir).into_iter().map(|seen| seen.life).collect::<Vec<_>>();
        assert_eq!(lives(), [running, running]);
        let later: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        first.touch(later);
        // What a killed daemon leaves: the file says that it runs, and nobody holds the lock.
        drop(first);
        assert_eq!(lives(), [Life::Stopped { at: later }, running]);
        std::fs::remove_dir_all(dir.path()).unwrap();
        assert!(!second.is_current());
        let again = Presence::take(&state_dir, now).unwrap();
        assert!(again.is_current() && again.folder().ends_with("daemon"));
    }
}
