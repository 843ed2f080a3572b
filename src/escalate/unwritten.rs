//! Records that the disk does not take for now. They are kept in memory up to a limit, sent all the same, and written as soon as
//! the disk takes them again. Only a crash in that time loses them.

use super::outbox::Record;
use super::track::sent;
use crate::store::{StoreError, write_atomic};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A record has at most some 60 kB, so that this is at most some 60 MB.
const MAX: usize = 1000;

/// Shared by an outbox and the courier that carries its messages; a clone is the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwritten(Arc<Mutex<BTreeMap<String, Record>>>);

impl Unwritten {
    /// Writes a record, or keeps it in memory. The error: the disk refuses it and there is no room in memory.
    pub(super) fn write(&self, dir: &Path, record: &Record) -> Result<(), StoreError> {
        let written = write(dir, record).or_else(|_| {
            rebuild(dir);
            write(dir, record)
        });
        match written {
            Ok(()) => {
                self.lock().remove(&record.id);
                Ok(())
            }
            Err(error) if self.keep(record) => {
                tracing::error!(outbox = %dir.display(), error = %error, id = record.id, "a message is kept in memory only");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<Record> {
        self.lock().get(id).cloned()
    }

    pub(super) fn all(&self) -> Vec<Record> {
        self.lock().values().cloned().collect()
    }

    /// Writes what waits, until the disk refuses one.
    pub(super) fn flush(&self, dir: &Path) {
        for record in self.all() {
            if self.write(dir, &record).is_err() || self.lock().contains_key(&record.id) {
                return;
            }
        }
    }

    /// False when it is full.
    pub(super) fn keep(&self, record: &Record) -> bool {
        let mut records = self.lock();
        let fits = records.len() < MAX || records.contains_key(&record.id);
        if fits {
            records.insert(record.id.clone(), record.clone());
        }
        fits
    }

    /// What another one of the same outbox holds.
    pub(super) fn take_over(&self, other: &Self) {
        if Arc::ptr_eq(&self.0, &other.0) {
            return;
        }
        let records = std::mem::take(&mut *other.lock());
        let mut ours = self.lock();
        for (id, record) in records {
            ours.entry(id).or_insert(record);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write(dir: &Path, record: &Record) -> Result<(), StoreError> {
    let text = serde_json::to_vec_pretty(record).expect("BUG: a record is plain data");
    write_atomic(&dir.join(format!("{}.json", record.id)), &text)
}

/// Makes the directory again. Whatever lies in its place is kept beside it.
pub(super) fn rebuild(dir: &Path) {
    let in_place = dir.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
    if in_place {
        let free = (1..).map(|n| dir.with_extension(format!("replaced-{n}")));
        let kept = free.into_iter().find(|path| path.symlink_metadata().is_err());
        if let Some(kept) = kept.filter(|kept| fs::rename(dir, kept).is_ok()) {
            tracing::error!(outbox = %dir.display(), kept = %kept.display(), "the outbox was replaced by something else; it is made again");
        }
    }
    if let Err(error) = crate::store::private_dir(&sent(dir)) {
        tracing::error!(outbox = %dir.display(), %error, "the outbox cannot be made again");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escalate::outbox::{Outbox, State, tests::escalation};
    use crate::model::Key;

    // covers: DM-21
    #[test]
    fn a_replaced_directory_is_made_again_and_what_lay_there_is_kept() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("outbox");
        let outbox = Outbox::open(dir.clone(), "k", Path::new("/r")).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        fs::write(&dir, "not a directory").unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        outbox.raise(&escalation("a"), &Key::new("loop-1.0"), at).unwrap();
        assert_eq!(Outbox::list(&dir).len(), 1);
        let kept = fs::read(base.path().join("outbox.replaced-1")).unwrap();
        assert_eq!(kept, b"not a directory");
    }

    // covers: DM-21
    #[test]
    fn what_cannot_be_written_is_kept_in_memory_and_written_later() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("state/outbox");
        let outbox = Outbox::open(dir.clone(), "k", Path::new("/r")).unwrap();
        fs::remove_dir_all(base.path().join("state")).unwrap();
        // Nothing can be made below a file.
        fs::write(base.path().join("state"), "").unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let (one, two) = (Key::new("loop-1.0"), Key::new("loop-2.0"));
        for key in [&one, &one, &two] {
            outbox.raise(&escalation("a"), key, at).unwrap();
        }
        let all = outbox.all();
        assert_eq!((all.len(), all[0].count), (1, 2), "it is counted as on disk");
        outbox.resolve(&escalation("a").cause, &Key::new("loop-3.0"), at).unwrap();
        assert_eq!(outbox.all()[0].state, State::Resolved);
        fs::remove_file(base.path().join("state")).unwrap();
        outbox.flush();
        assert_eq!(Outbox::list(&dir)[0].state, State::Resolved, "it is on disk by itself");
    }

    #[test]
    fn the_queue_in_memory_is_bounded() {
        let unwritten = Unwritten::default();
        let record = crate::escalate::outbox::tests::record("a");
        for n in 0..MAX {
            assert!(unwritten.keep(&Record { id: format!("{n:012x}"), ..record.clone() }));
        }
        assert!(!unwritten.keep(&record), "one too many");
        assert!(unwritten.keep(&Record { id: format!("{:012x}", 7), ..record }), "a known one");
    }
}
