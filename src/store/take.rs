//! Takes a refused or consumed file away without ever taking a newer one. It does not judge files.

use super::{
    Quarantine, QuarantineEntry, SEEN_MAX, StoreError,
    quarantine::{Label, Share},
    rename::{Moved, Renames, to_ours},
    spot::{Spot, make_dir, safe_name},
};
use crate::model::{Digest, Key, RelPath};
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was the one we meant; it is in quarantine.
    Kept(QuarantineEntry),
    /// It was a newer file, which lies at its path again.
    PutBack,
    /// It was a newer file, and a still newer one lies at its path; the one between is in quarantine.
    Superseded(QuarantineEntry),
    Absent,
}

/// Takes the file at `path` away. `seen` is what was judged; `None` takes whatever lies there (links, pipes, too large).
///
/// `aside` is a directory on the file system of the repository. What lies there under `key` is continued with.
pub fn take(
    root: &Path,
    path: &RelPath,
    seen: Option<&Digest>,
    aside: &Path,
    quarantine: &Quarantine,
    key: &Key,
    why: &str,
) -> Result<Taken, StoreError> {
    Taking { root, path, seen, aside, quarantine, key, why }.run()
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
    fn run(&self) -> Result<Taken, StoreError> {
        make_dir(self.aside)?;
        let aside = Spot::at(self.aside, safe_name(self.key.as_str()))?;
        let target = Spot::find(self.root, self.path)?;
        let hidden = target.as_ref().map(|target| target.beside(self.hidden_name()));
        // Done before: only the `done` was lost. Whatever lies at the path by now is another file. A directory that could
        // not be moved into quarantine still lies aside then, which is why its note is asked for first.
        if let Some(entry) = self.quarantine.find(self.key, self.path)? {
            return self.finish(entry, [Some(&aside), hidden.as_ref()]);
        }
        if aside.exists()? {
            return self.judge(&aside);
        }
        let (Some(target), Some(hidden)) = (target, hidden) else { return Ok(Taken::Absent) };
        if hidden.exists()? {
            return self.judge(&hidden);
        }
        self.set_aside(&target, &aside, &hidden)
    }

    fn hidden_name(&self) -> String {
        format!(".agency-aside-{}", safe_name(self.key.as_str()))
    }

    fn set_aside(&self, target: &Spot, aside: &Spot, hidden: &Spot) -> Result<Taken, StoreError> {
        let mut place = aside;
        let mut moved = to_ours(target, aside)?;
        if moved == Moved::Apart {
            place = hidden;
            moved = to_ours(target, hidden)?;
        }
        match moved {
            Moved::Done => {
                place.sync_dir()?;
                target.sync_dir()?;
                self.judge(place)
            }
            Moved::Gone => Ok(Taken::Absent),
            Moved::Taken | Moved::Apart => Err(StoreError::InTheWay { path: place.path() }),
        }
    }

    /// What we hold cannot change its name any more; now look whether it is what we meant.
    fn judge(&self, held: &Spot) -> Result<Taken, StoreError> {
        let Some(seen) = self.seen else { return self.keep(held, Share::Excerpt).map(Taken::Kept) };
        if held.digest(SEEN_MAX)?.as_ref() == Some(seen) {
            return self.keep(held, Share::Excerpt).map(Taken::Kept);
        }
        let target = Spot::make(self.root, self.path)?;
        match Renames::Flags.to_free(held, &target)? {
            Moved::Done => {
                target.sync_dir()?;
                Ok(Taken::PutBack)
            }
            Moved::Taken => self.keep(held, Share::Whole).map(Taken::Superseded),
            Moved::Gone | Moved::Apart => Err(StoreError::Contended { path: held.path() }),
        }
    }

    fn keep(&self, held: &Spot, share: Share) -> Result<QuarantineEntry, StoreError> {
        let digest = self.seen.filter(|_| share == Share::Excerpt);
        let label = Label { path: self.path, key: self.key, why: self.why, digest, share };
        self.quarantine.keep_at(held, &label)
    }

    fn finish(
        &self,
        entry: QuarantineEntry,
        held: [Option<&Spot>; 2],
    ) -> Result<Taken, StoreError> {
        let superseded = self.seen.is_some() && entry.digest.as_ref() != self.seen;
        let share = if superseded { Share::Whole } else { Share::Excerpt };
        for spot in held.into_iter().flatten() {
            if spot.exists()? {
                self.keep(spot, share)?;
            }
        }
        Ok(if superseded { Taken::Superseded(entry) } else { Taken::Kept(entry) })
    }
}

#[cfg(test)]
mod tests;
