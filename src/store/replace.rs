//! Files written whole or not at all. What lay there and was not expected is kept; nothing here decides what to write.

use super::{
    Quarantine, SEEN_MAX, StoreError, Unsynced,
    quarantine::{Label, Share},
    rename::{Exchanged, Moved, Renames, to_ours},
    spot::{Found, Kind, Spot, parent, safe_name, sync_dir},
};
use crate::model::{Digest, Key, RelPath};
use nix::sys::stat::{Mode, fchmod};
use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// How often somebody may get in between before we give up for now.
const TRIES: u32 = 16;
const WHY_KEPT: &str = "it was not what we had read when we replaced it";

/// Writes a file in our own state directory: after a crash it is the old one or the new one.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    publish(path, bytes, fs::File::sync_all)?;
    sync_dir(parent(path))
}

/// The same without a wait for the disk, for what proves itself whole: after a crash it may be any bytes at all.
pub fn write_unsynced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    publish(path, bytes, |_| Ok(()))
}

fn publish(
    path: &Path,
    bytes: &[u8],
    sync: impl FnOnce(&fs::File) -> io::Result<()>,
) -> Result<(), StoreError> {
    let (temp, mut file) = create_temp(parent(path))?;
    let written = file
        .write_all(bytes)
        .and_then(|()| sync(&file))
        .and_then(|()| fs::rename(&temp, path))
        .map_err(StoreError::io("write", path));
    if written.is_err() {
        // The first failure is the one to report; what is left over is only a temporary file.
        drop(fs::remove_file(&temp));
    }
    written
}

fn create_temp(dir: &Path) -> Result<(PathBuf, fs::File), StoreError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let temp = dir.join(format!(".agency-tmp-{}-{count}", std::process::id()));
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&temp) {
            Ok(file) => return Ok((temp, file)),
            // Left by a process that had our number before us.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(StoreError::io("create", &temp)(error)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// The file held exactly these bytes already.
    Same,
    Written,
    /// Written, and what lay there before is in quarantine. Said again when asked again with the same key.
    Kept {
        digest: Option<Digest>,
    },
}

/// Puts `bytes` at `path` in a repository. `seen` is what we last read there, `None` if nothing was there.
///
/// A power failure before `unsynced` is synced may leave an empty file; done again with the same key it is whole.
pub fn replace(
    root: &Path,
    path: &RelPath,
    bytes: &[u8],
    seen: Option<&Digest>,
    quarantine: &Quarantine,
    key: &Key,
    unsynced: &mut Unsynced,
) -> Result<Replaced, StoreError> {
    let target = Spot::make(root, path)?;
    Replacement::new(target, path, bytes, seen, quarantine, key).run(unsynced)
}

struct Replacement<'a> {
    target: Spot,
    /// Our bytes until they are published; after an exchange, what lay at the target.
    temp: Spot,
    /// What lay at the target and is not known to us.
    old: Spot,
    path: &'a RelPath,
    bytes: &'a [u8],
    seen: Option<&'a Digest>,
    quarantine: &'a Quarantine,
    key: &'a Key,
    renames: Renames,
    kept: Option<Replaced>,
}

impl<'a> Replacement<'a> {
    fn new(
        target: Spot,
        path: &'a RelPath,
        bytes: &'a [u8],
        seen: Option<&'a Digest>,
        quarantine: &'a Quarantine,
        key: &'a Key,
    ) -> Self {
        let name = safe_name(key.as_str());
        let temp = target.beside(format!(".agency-tmp-{name}"));
        let old = target.beside(format!(".agency-old-{name}"));
        let renames = Renames::Flags;
        Self { target, temp, old, path, bytes, seen, quarantine, key, renames, kept: None }
    }

    fn run(mut self, unsynced: &mut Unsynced) -> Result<Replaced, StoreError> {
        self.clear_leftovers()?;
        let ours = Digest::of(self.bytes);
        let outcome = if self.target.digest(self.bytes.len() as u64)? == Some(ours) {
            self.target.note_dir(unsynced)?;
            self.said_before()?
        } else {
            self.write_temp(unsynced)?;
            self.publish(unsynced)?;
            Replaced::Written
        };
        Ok(self.kept.unwrap_or(outcome))
    }

    fn said_before(&self) -> Result<Replaced, StoreError> {
        let entry = self.quarantine.find(self.key, self.path)?;
        Ok(entry.map_or(Replaced::Same, |entry| Replaced::Kept { digest: entry.digest }))
    }

    /// After a crash: the temporary file holds a part of our bytes, or what an exchange put there.
    fn clear_leftovers(&mut self) -> Result<(), StoreError> {
        if self.old.exists()? {
            self.settle(&self.old.clone())?;
        }
        if self.is_part_of_ours(&self.temp)? {
            return self.temp.unlink();
        }
        if self.temp.exists()? { self.settle(&self.temp.clone()) } else { Ok(()) }
    }

    /// Bytes that are a part of ours are not lost with it, whoever wrote them.
    fn is_part_of_ours(&self, spot: &Spot) -> Result<bool, StoreError> {
        let Found::Plain { file, size } = spot.look()? else { return Ok(false) };
        if size > self.bytes.len() as u64 {
            return Ok(false);
        }
        let mut part = Vec::new();
        let limit = self.bytes.len() as u64 + 1;
        file.take(limit).read_to_end(&mut part).map_err(spot.failed("read"))?;
        Ok(self.bytes.starts_with(&part))
    }

    fn write_temp(&self, unsynced: &mut Unsynced) -> Result<(), StoreError> {
        let mode = match self.target.stat()? {
            Some((Kind::File, stat)) => Some(stat.st_mode & 0o777),
            _ => None,
        };
        let mut file = self.temp.create(mode.unwrap_or(0o644))?;
        if let Some(mode) = mode {
            fchmod(&file, Mode::from_bits_truncate(mode))
                .map_err(self.temp.failed("set mode of"))?;
        }
        file.write_all(self.bytes).map_err(self.temp.failed("write"))?;
        unsynced.note(&file, &self.target.path())
    }

    fn publish(&mut self, unsynced: &mut Unsynced) -> Result<(), StoreError> {
        for _ in 0..TRIES {
            if self.renames.to_free(&self.temp, &self.target)? == Moved::Done {
                return self.target.note_dir(unsynced);
            }
            match self.renames.exchange(&self.temp, &self.target)? {
                Exchanged::Done => {
                    self.target.note_dir(unsynced)?;
                    return self.settle(&self.temp.clone());
                }
                Exchanged::Gone => {}
                Exchanged::Unsupported => self.set_aside()?,
            }
        }
        Err(StoreError::Contended { path: self.target.path() })
    }

    /// Without an exchange the target is away for a moment; a crash in between leaves `old`, which the next call settles.
    fn set_aside(&mut self) -> Result<(), StoreError> {
        if self.old.exists()? {
            return Err(StoreError::InTheWay { path: self.old.path() });
        }
        match to_ours(&self.target, &self.old)? {
            Moved::Done => self.settle(&self.old.clone()),
            Moved::Taken | Moved::Gone | Moved::Apart => Ok(()),
        }
    }

    /// Removes what we know; keeps all else.
    fn settle(&mut self, spot: &Spot) -> Result<(), StoreError> {
        let digest = spot.digest(SEEN_MAX)?;
        let known = digest.is_some()
            && (digest.as_ref() == self.seen || digest == Some(Digest::of(self.bytes)));
        if known { spot.unlink() } else { self.keep(spot) }
    }

    fn keep(&mut self, spot: &Spot) -> Result<(), StoreError> {
        // Away from the temporary name first: what cannot be copied stays, and the next try needs that name.
        if spot.name() != self.old.name() && self.renames.to_free(spot, &self.old)? != Moved::Done {
            return Err(StoreError::InTheWay { path: self.old.path() });
        }
        let label = Label {
            path: self.path,
            key: self.key,
            why: WHY_KEPT,
            digest: None,
            share: Share::Whole,
        };
        let entry = self.quarantine.keep_at(&self.old, &label)?;
        self.kept = Some(Replaced::Kept { digest: entry.digest });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
