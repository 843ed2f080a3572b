//! Takes a refused or consumed file away without ever taking a newer one. It does not judge files.

use super::{
    KEEP_MAX, Quarantine, QuarantineEntry, SEEN_MAX, StoreError, Unsynced,
    quarantine::{Label, Share},
    rename::{Moved, Renames, to_ours},
    spot::{Spot, make_dir, safe_name},
};
use crate::model::{Digest, Key, RelPath};
use std::path::Path;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was the one we meant; it is in quarantine once everything is on disk.
    Kept,
    /// It was a newer file, which lies at its path again.
    PutBack,
    /// It was a newer file, and a still newer one lies at its path; the one between is in quarantine.
    Superseded,
    Absent,
}

/// Where a file goes that is taken away or replaced.
#[derive(Clone, Copy, Debug)]
pub struct TakeTarget<'a> {
    /// On the file system of the repository: where it is looked at first.
    pub aside: &'a Path,
    /// Where it stays.
    pub quarantine: &'a Quarantine,
}

/// Takes the file at `path` away. `seen` is what was judged; `None` takes whatever lies there (links, pipes, too large).
///
/// What lies aside under `key` is continued with.
pub fn take(
    root: &Path,
    path: &RelPath,
    seen: Option<&Digest>,
    shelf: TakeTarget<'_>,
    key: &Key,
    why: &str,
    unsynced: &mut Unsynced,
) -> Result<Taken, StoreError> {
    let TakeTarget { aside, quarantine } = shelf;
    Taking { root, path, seen, aside, quarantine, key, why }.run(unsynced)
}

struct Taking<'a> {
    root: &'a Path,
    path: &'a RelPath,
    seen: Option<&'a Digest>,
    aside: &'a Path,
    quarantine: &'a Quarantine,
    key: &'a Key,
    why: &'a str,
}

impl Taking<'_> {
    fn run(&self, unsynced: &mut Unsynced) -> Result<Taken, StoreError> {
        make_dir(self.aside)?;
        let aside = Spot::at(self.aside, safe_name(self.key.as_str()))?;
        let target = Spot::find(self.root, self.path)?;
        let hidden = target.as_ref().map(|target| target.beside(self.hidden_name()));
        // Done before: only the `done` was lost. Whatever lies at the path by now is another file. A directory that could
        // not be moved into quarantine still lies aside then, which is why its note is asked for first.
        if let Some(entry) = self.quarantine.find(self.key, self.path)? {
            return self.finish(&entry, [Some(&aside), hidden.as_ref()], unsynced);
        }
        if aside.exists()? {
            return self.judge(&aside, unsynced);
        }
        let (Some(target), Some(hidden)) = (target, hidden) else { return Ok(Taken::Absent) };
        if hidden.exists()? {
            return self.judge(&hidden, unsynced);
        }
        self.set_aside(&target, &aside, &hidden, unsynced)
    }

    fn hidden_name(&self) -> String {
        format!(".agency-aside-{}", safe_name(self.key.as_str()))
    }

    fn set_aside(
        &self,
        target: &Spot,
        aside: &Spot,
        hidden: &Spot,
        unsynced: &mut Unsynced,
    ) -> Result<Taken, StoreError> {
        let mut place = aside;
        let mut moved = to_ours(target, aside)?;
        if moved == Moved::Apart {
            place = hidden;
            moved = to_ours(target, hidden)?;
        }
        match moved {
            Moved::Done => {
                place.note_dir(unsynced)?;
                target.note_dir(unsynced)?;
                self.judge(place, unsynced)
            }
            Moved::Gone => Ok(Taken::Absent),
            Moved::Taken | Moved::Apart => Err(StoreError::InTheWay { path: place.path() }),
        }
    }

    /// What we hold cannot change its name any more; now look whether it is what we meant.
    fn judge(&self, held: &Spot, unsynced: &mut Unsynced) -> Result<Taken, StoreError> {
        let Some(seen) = self.seen else {
            return self.keep(held, Share::Excerpt, unsynced).map(|()| Taken::Kept);
        };
        if let Some(bytes) = self.bytes_aside(held)?
            && Digest::of(&bytes) == *seen
        {
            unsynced.keep(held.path(), bytes, self.quarantine, &self.label(Share::Excerpt));
            return Ok(Taken::Kept);
        }
        if held.digest(SEEN_MAX)?.as_ref() == Some(seen) {
            return self.keep(held, Share::Excerpt, unsynced).map(|()| Taken::Kept);
        }
        let target = Spot::make(self.root, self.path)?;
        match Renames::Flags.to_free(held, &target)? {
            Moved::Done => {
                target.note_dir(unsynced)?;
                Ok(Taken::PutBack)
            }
            Moved::Taken => self.keep(held, Share::Whole, unsynced).map(|()| Taken::Superseded),
            Moved::Gone | Moved::Apart => Err(StoreError::Contended { path: held.path() }),
        }
    }

    /// What lies in our own folder may wait there until its copy is on disk; in the repository it would be in the way.
    fn is_aside(&self, held: &Spot) -> bool {
        held.path().starts_with(self.aside)
    }

    /// Small enough to be kept from memory, beside the work: they are the bytes that were judged, whatever becomes of the file.
    fn bytes_aside(&self, held: &Spot) -> Result<Option<Vec<u8>>, StoreError> {
        if self.is_aside(held) { held.bytes(KEEP_MAX) } else { Ok(None) }
    }

    fn label(&self, share: Share) -> Label<'_> {
        let digest = self.seen.filter(|_| share == Share::Excerpt);
        Label { path: self.path, key: self.key, why: self.why, digest, share }
    }

    fn keep(&self, held: &Spot, share: Share, unsynced: &mut Unsynced) -> Result<(), StoreError> {
        let label = self.label(share);
        if self.is_aside(held) {
            self.quarantine.keep_for_later(held, &label, unsynced)
        } else {
            self.quarantine.keep_at(held, &label).map(drop)
        }
    }

    fn finish(
        &self,
        entry: &QuarantineEntry,
        held: [Option<&Spot>; 2],
        unsynced: &mut Unsynced,
    ) -> Result<Taken, StoreError> {
        let superseded = self.seen.is_some() && entry.digest.as_ref() != self.seen;
        let share = if superseded { Share::Whole } else { Share::Excerpt };
        for spot in held.into_iter().flatten() {
            if spot.exists()? {
                self.keep(spot, share, unsynced)?;
            }
        }
        Ok(if superseded { Taken::Superseded } else { Taken::Kept })
    }
}

#[cfg(test)]
mod tests;
