//! How many repositories this process has file descriptors for. One that would take the last ones is frozen instead: messages to the
//! owner, git and the runs of the others need some, too.

use nix::sys::resource::{Resource, getrlimit};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Kept for the daemon: its log, lock, events and messages.
const RESERVE: u64 = 20;
/// A repository keeps its lock, journal and socket open, and follows a run.
const IDLE: u64 = 4;
/// While it works, it opens files and pipes to git for a moment.
const WORKING: u64 = 12;
/// So many work at the same moment; others wait for a processor.
const AT_ONCE: u64 = 8;
/// So many are never reached, and a semaphore can count them.
const MOST: u64 = 1 << 20;

#[derive(Clone)]
pub(super) struct Descriptors {
    limit: u64,
    places: Arc<Semaphore>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this process may open {limit} files, which is not enough for more than {enough} of the repositories"
)]
pub struct TooFew {
    limit: u64,
    enough: u64,
}

impl TooFew {
    pub(super) fn resolve(self) -> String {
        let Self { limit, .. } = self;
        format!(
            "raise the limit of open files (`ulimit -n`, `LimitNOFILE=` in the unit) above {limit}, then restart the daemon"
        )
    }
}

impl Descriptors {
    pub(super) fn of_this_process() -> Self {
        Self::new(getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft))
    }

    fn new(limit: u64) -> Self {
        let places = usize::try_from(enough(limit)).unwrap_or(0);
        Self { limit, places: Arc::new(Semaphore::new(places)) }
    }

    /// A place for one repository, until it is dropped.
    pub(super) fn take(&self) -> Result<OwnedSemaphorePermit, TooFew> {
        let few = |_| TooFew { limit: self.limit, enough: enough(self.limit) };
        Arc::clone(&self.places).try_acquire_owned().map_err(few)
    }
}

/// One is always tried.
fn enough(limit: u64) -> u64 {
    let rest = limit.saturating_sub(RESERVE);
    let first = (rest / (IDLE + WORKING)).min(AT_ONCE);
    let more = rest.saturating_sub(AT_ONCE * (IDLE + WORKING)) / IDLE;
    (first + more).clamp(1, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: DM-18
    #[test]
    fn as_many_repositories_are_opened_as_there_are_descriptors_for() {
        let descriptors = Descriptors::new(52);
        let (first, _second) = (descriptors.take().unwrap(), descriptors.take().unwrap());
        let few = descriptors.take().unwrap_err();
        assert!(few.to_string().contains("52 files"), "{few}");
        assert_eq!([40, 1024, 65_536].map(enough), [1, 227, 16_355]);
        drop(first);
        assert!(descriptors.take().is_ok(), "a repository that is closed makes room");
        assert!(Descriptors::new(0).take().is_ok());
        assert!(Descriptors::new(u64::MAX).take().is_ok());
    }
}
