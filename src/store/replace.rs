//! Files written whole or not at all. What lay there and was not expected is kept; nothing here decides what to write.

use super::{
    Quarantine, SEEN_MAX, StoreError, TakeTarget, Unsynced, blank,
    quarantine::{Label, Share},
    rename::{Exchanged, Moved, Renames, to_ours},
    spot::{Found, Kind, Spot, make_dir, parent, safe_name, sync_dir},
};
use crate::model::{Digest, Key, RelPath};
use nix::sys::stat::{FileStat, Mode, fchmod};
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
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp) {
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
    shelf: TakeTarget<'_>,
    key: &Key,
    unsynced: &mut Unsynced,
) -> Result<Replaced, StoreError> {
    Replacement::new(root, path, bytes, seen, shelf, key)?.run(unsynced)
}

struct Replacement<'a> {
    target: Spot,
    path: &'a RelPath,
    bytes: &'a [u8],
    seen: Option<&'a Digest>,
    quarantine: &'a Quarantine,
    key: &'a Key,
    /// Where the work is done: on our own ground, which nobody watches.
    aside: Hidden,
    /// The same, where our own ground is another file system.
    beside: Hidden,
    renames: Renames,
    kept: Option<Replaced>,
}

#[derive(Clone)]
struct Hidden {
    /// Our bytes until they are published; after an exchange, what lay at the target.
    temp: Spot,
    /// What lay at the target and is not known to us.
    old: Spot,
}

impl Hidden {
    fn near(spot: &Spot, key: &Key) -> Self {
        let name = safe_name(key.as_str());
        let temp = spot.beside(format!(".agency-tmp-{name}"));
        Self { temp, old: spot.beside(format!(".agency-old-{name}")) }
    }
}

/// How a try to publish ended.
#[derive(PartialEq, Eq)]
enum Published {
    Done,
    /// The names are on different file systems; nothing has happened.
    Apart,
}

impl<'a> Replacement<'a> {
    fn new(
        root: &Path,
        path: &'a RelPath,
        bytes: &'a [u8],
        seen: Option<&'a Digest>,
        shelf: TakeTarget<'a>,
        key: &'a Key,
    ) -> Result<Self, StoreError> {
        make_dir(shelf.aside)?;
        let target = Spot::make(root, path)?;
        let aside = Hidden::near(&Spot::at(shelf.aside, "")?, key);
        let beside = Hidden::near(&target, key);
        let (quarantine, renames) = (shelf.quarantine, Renames::Flags);
        Ok(Self { target, path, bytes, seen, quarantine, key, aside, beside, renames, kept: None })
    }

    fn run(mut self, unsynced: &mut Unsynced) -> Result<Replaced, StoreError> {
        let (aside, beside) = (self.aside.clone(), self.beside.clone());
        for hidden in [&aside, &beside] {
            self.clear_leftovers(hidden, unsynced)?;
        }
        let there = self.target.stat()?;
        let outcome = if self.is_written(there.as_ref())? {
            self.target.note_dir(unsynced)?;
            self.said_before()?
        } else {
            let mode = there.filter(|(kind, _)| *kind == Kind::File).map(|(_, at)| at.st_mode);
            self.write(&aside, &beside, mode, unsynced)?;
            Replaced::Written
        };
        Ok(self.kept.unwrap_or(outcome))
    }

    fn is_written(&self, there: Option<&(Kind, FileStat)>) -> Result<bool, StoreError> {
        let size = self.bytes.len() as u64;
        let is_so_long = there.is_some_and(|(_, at)| u64::try_from(at.st_size) == Ok(size));
        Ok(is_so_long && self.target.digest(size)? == Some(Digest::of(self.bytes)))
    }

    fn said_before(&self) -> Result<Replaced, StoreError> {
        let entry = self.quarantine.find(self.key, self.path)?;
        Ok(entry.map_or(Replaced::Same, |entry| Replaced::Kept { digest: entry.digest }))
    }

    /// After a crash: the temporary file holds a part of our bytes, or what an exchange put there.
    fn clear_leftovers(
        &mut self,
        hidden: &Hidden,
        unsynced: &mut Unsynced,
    ) -> Result<(), StoreError> {
        if hidden.old.exists()? {
            self.settle(hidden, &hidden.old, unsynced)?;
        }
        if self.is_part_of_ours(&hidden.temp)? {
            return hidden.temp.unlink();
        }
        if hidden.temp.exists()? { self.settle(hidden, &hidden.temp, unsynced) } else { Ok(()) }
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

    fn write(
        &mut self,
        aside: &Hidden,
        beside: &Hidden,
        mode: Option<u32>,
        unsynced: &mut Unsynced,
    ) -> Result<(), StoreError> {
        let blank = unsynced.take_blank(aside.temp.dir());
        let named = match blank {
            Some(file) if self.fill(&file, mode).is_ok() => {
                blank::name(&file, &aside.temp).then_some(file)
            }
            _ => None,
        };
        let file = named.map_or_else(|| self.create(&aside.temp, mode), Ok)?;
        if self.publish(aside, &file, unsynced)? == Published::Done {
            return Ok(());
        }
        aside.temp.unlink()?;
        let file = self.create(&beside.temp, mode)?;
        match self.publish(beside, &file, unsynced)? {
            Published::Done => Ok(()),
            Published::Apart => Err(StoreError::Contended { path: self.target.path() }),
        }
    }

    fn create(&self, temp: &Spot, mode: Option<u32>) -> Result<fs::File, StoreError> {
        let file = temp.create(mode.unwrap_or(0o644) & 0o777)?;
        self.fill(&file, mode)?;
        Ok(file)
    }

    fn fill(&self, mut file: &fs::File, mode: Option<u32>) -> Result<(), StoreError> {
        if let Some(mode) = mode {
            fchmod(file, Mode::from_bits_truncate(mode & 0o777))
                .map_err(self.target.failed("set mode of"))?;
        }
        file.write_all(self.bytes).map_err(self.target.failed("write"))
    }

    fn publish(
        &mut self,
        hidden: &Hidden,
        file: &fs::File,
        unsynced: &mut Unsynced,
    ) -> Result<Published, StoreError> {
        unsynced.note(file, &self.target.path())?;
        self.target.note_dir(unsynced)?;
        for _ in 0..TRIES {
            match self.renames.to_free(&hidden.temp, &self.target)? {
                Moved::Done => return Ok(Published::Done),
                Moved::Apart => return Ok(Published::Apart),
                Moved::Taken | Moved::Gone => {}
            }
            match self.renames.exchange(&hidden.temp, &self.target)? {
                Exchanged::Done => {
                    self.settle(hidden, &hidden.temp, unsynced)?;
                    return Ok(Published::Done);
                }
                Exchanged::Apart => return Ok(Published::Apart),
                Exchanged::Gone => {}
                Exchanged::Unsupported => {
                    if self.set_aside(hidden, unsynced)? == Moved::Apart {
                        return Ok(Published::Apart);
                    }
                }
            }
        }
        Err(StoreError::Contended { path: self.target.path() })
    }

    /// Without an exchange the target is away for a moment; a crash in between leaves `old`, which the next call settles.
    fn set_aside(&mut self, hidden: &Hidden, unsynced: &mut Unsynced) -> Result<Moved, StoreError> {
        if hidden.old.exists()? {
            return Err(StoreError::InTheWay { path: hidden.old.path() });
        }
        let moved = to_ours(&self.target, &hidden.old)?;
        if moved == Moved::Done {
            self.settle(hidden, &hidden.old, unsynced)?;
        }
        Ok(moved)
    }

    /// Removes what we know; keeps all else.
    fn settle(
        &mut self,
        hidden: &Hidden,
        spot: &Spot,
        unsynced: &mut Unsynced,
    ) -> Result<(), StoreError> {
        match spot.open_digest(SEEN_MAX)? {
            Some((digest, file)) if self.is_known(&digest) => {
                unsynced.close_later(file);
                spot.unlink()
            }
            _ => self.keep(hidden, spot),
        }
    }

    fn is_known(&self, digest: &Digest) -> bool {
        Some(digest) == self.seen || *digest == Digest::of(self.bytes)
    }

    fn keep(&mut self, hidden: &Hidden, spot: &Spot) -> Result<(), StoreError> {
        // Away from the temporary name first: what cannot be copied stays, and the next try needs that name.
        let old = &hidden.old;
        if spot.name() != old.name() && self.renames.to_free(spot, old)? != Moved::Done {
            return Err(StoreError::InTheWay { path: old.path() });
        }
        let label = Label {
            path: self.path,
            key: self.key,
            why: WHY_KEPT,
            digest: None,
            share: Share::Whole,
        };
        let entry = self.quarantine.keep_at(old, &label)?;
        self.kept = Some(Replaced::Kept { digest: entry.digest });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
