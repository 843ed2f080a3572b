//! A sync that failed: the kernel may have dropped the bytes and call the next sync of the same file a success. So the journal is
//! not synced again in place; the next `open` writes its last segment anew from the lines that can be read.

use crate::store::{StoreError, write_atomic};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Its presence says that a sync failed. It is not synced itself: after a power failure only the disk speaks.
const MARK: &str = "sync-failed";

/// Where even the mark could not be made.
static UNMARKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

pub(super) fn note(dir: &Path) {
    if let Err(error) = File::create(dir.join(MARK)) {
        tracing::warn!(%error, "a failed sync is remembered in memory only");
        unmarked().insert(dir.to_owned());
    }
}

pub(super) fn is_noted(dir: &Path) -> bool {
    unmarked().contains(dir) || dir.join(MARK).exists()
}

/// Into a new file with `size` bytes of the old one, which then takes its name. Says for people what was done.
pub(super) fn rewrite(dir: &Path, segment: &Path, size: u64) -> Result<String, StoreError> {
    if segment.exists() {
        let mut bytes = fs::read(segment).map_err(StoreError::io("read", segment))?;
        bytes.truncate(usize::try_from(size).unwrap_or(usize::MAX));
        write_atomic(segment, &bytes)?;
    }
    match fs::remove_file(dir.join(MARK)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(StoreError::io("remove", &dir.join(MARK))(error));
        }
        Ok(()) | Err(_) => {}
    }
    unmarked().remove(dir);
    Ok(format!("wrote `{}` anew because a sync of it had failed", segment.display()))
}

fn unmarked() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNMARKED.lock().unwrap_or_else(PoisonError::into_inner)
}
