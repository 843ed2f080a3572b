//! Looking at the repository: what the watcher saw, and everything at once where waiting for it would be too late.

use super::slot::Slot;
use super::{Workspace, WorkspaceError};
use crate::clock;
use crate::model::{FileSeen, FileState, Interest, RelPath, Shape, Wake};
use crate::read::{self, Tree};
use crate::watch::{self, Sighting};

impl Workspace {
    pub(super) async fn on_sighting(&mut self, sighting: Sighting) -> Result<(), WorkspaceError> {
        match sighting {
            Sighting::File(seen) => {
                // A file that git itself wrote or removed belongs to what the checkout is by now.
                self.look_at_checkout().await;
                self.on_file(seen);
            }
            // And the other way round: what we know of the files may be from another branch.
            Sighting::Checkout => {
                let before = self.checkout.clone();
                self.look_at_checkout().await;
                if self.checkout == before {
                    self.look_at_files(Writers::Perhaps, Trees::Later);
                } else {
                    self.look_at_everything(Writers::Perhaps).await;
                }
            }
            Sighting::Rescanned => {
                self.check_own_files()?;
                self.proving = true;
                self.runner.outbox.flush();
                // A disk that is full or gone is found at the next look at the latest.
                self.written_status = None;
                self.look_at_checkout().await;
                self.clear_old_runs();
            }
            Sighting::Degraded(why) => {
                tracing::warn!(%why, "watching is degraded");
                self.notes.push(why);
            }
        }
        Ok(())
    }

    /// A sighting is old news when the file has changed since; the watcher will tell again.
    pub(super) fn on_file(&mut self, seen: FileSeen) {
        let interest = self.interest();
        let limit = limit_of(&seen, &interest);
        let now = clock::now();
        let current =
            read::read(&self.runner.places.root, &seen.path, limit, now).map(|now| now.state);
        if current.is_ok_and(|current| same(&current, &seen.state)) {
            self.absorb_file(seen);
            self.note_interest(&interest);
        }
    }

    fn absorb_file(&mut self, seen: FileSeen) {
        self.activate_for(&seen);
        self.absorb_all(&Wake::File(seen));
    }

    /// A protocol that learns from one file which others it has must see them too.
    fn note_interest(&mut self, before: &Interest) {
        self.newcomer |= self.interest() != *before;
    }

    /// Reads every watched file and the checkout now, without waiting for the watcher. A protocol that a file brings to
    /// work must see everything too.
    pub(crate) async fn look_at_everything(&mut self, writers: Writers) {
        loop {
            let known = (self.slots.len(), self.interest());
            self.look_at_checkout().await;
            self.look_at_files(writers, Trees::Now);
            if (self.slots.len(), self.interest()) == known {
                return;
            }
        }
    }

    pub(super) fn look_at_files(&mut self, writers: Writers, trees: Trees) {
        let now = clock::now();
        let interest = self.interest();
        let in_trees = match trees {
            Trees::Now => self.survey.changed(&self.runner.places.root, &interest, now),
            Trees::Later => Vec::new(),
        };
        let in_trees = in_trees.into_iter().map(|file| (file.path, file.shape, file.limit));
        let named = interest.files.iter().map(|file| (file.path.clone(), file.shape, file.limit));
        let root = self.runner.places.root.clone();
        let tree = Tree::open(&root).ok();
        for (path, shape, limit) in named.chain(in_trees) {
            let reading = tree.as_ref().and_then(|tree| tree.read(&path, limit, now).ok());
            match reading.and_then(|reading| settled(reading, shape, limit, writers)) {
                Some(state) => self.absorb_file(FileSeen { path, state }),
                None => self.survey.forget(&path),
            }
        }
        if trees == Trees::Now {
            self.look_for_gone();
        }
        self.note_interest(&interest);
    }

    /// A file that a protocol wrote before this process began, and that is gone since: neither the survey nor the watcher
    /// knows that it was there.
    fn look_for_gone(&mut self) {
        let root = self.runner.places.root.clone();
        let is_gone = |path: &RelPath| {
            let looked = root.join(path).symlink_metadata();
            looked.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        let assumed: Vec<RelPath> = self.slots.iter().flat_map(Slot::assumed).collect();
        for path in assumed.into_iter().filter(is_gone) {
            self.absorb_file(FileSeen { path, state: FileState::Absent });
        }
    }

    pub(super) async fn look_at_checkout(&mut self) {
        let Some(repo) = &self.runner.git else { return };
        match Box::pin(repo.checkout()).await {
            Ok(checkout) => {
                self.checkout = Some(checkout.clone());
                self.absorb_all(&Wake::Checkout(checkout));
            }
            Err(error) => tracing::warn!(%error, "the checkout cannot be read"),
        }
    }
}

/// Whether somebody may be in the middle of writing what we look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writers {
    Perhaps,
    /// Their run is over: what is cut stays cut, and a second name stays.
    Gone,
}

/// Whether the watched trees are gone through as well, which takes longer the larger they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trees {
    Now,
    /// The watcher tells of them.
    Later,
}

/// Of what is read of it.
fn limit_of(seen: &FileSeen, interest: &Interest) -> u64 {
    let named = interest.files.iter().find(|file| file.path == seen.path);
    let within = interest.trees.iter().find(|tree| {
        let below = seen.path.as_str().strip_prefix(tree.root.as_str());
        below.is_some_and(|rest| rest.starts_with('/'))
    });
    let limit = named.map(|file| file.limit).or(within.map(|tree| tree.limit));
    limit.unwrap_or(1 << 20)
}

/// What a single look at a file may say of it; `None` leaves it to the watcher, which can wait (DM-03).
fn settled(
    reading: read::Reading,
    shape: Shape,
    limit: u64,
    writers: Writers,
) -> Option<FileState> {
    let unfinished = match &reading.state {
        FileState::Whole(whole) => watch::looks_unfinished(shape, &whole.bytes),
        FileState::Absent | FileState::Unreadable(_) => false,
    };
    match writers {
        Writers::Gone if reading.linked => Some(read::second_name(limit)),
        Writers::Perhaps if reading.linked || unfinished => None,
        Writers::Gone | Writers::Perhaps => Some(reading.state),
    }
}

/// The same news, whenever it was seen.
fn same(a: &FileState, b: &FileState) -> bool {
    match (a, b) {
        (FileState::Whole(a), FileState::Whole(b)) => a.digest == b.digest,
        (FileState::Absent, FileState::Absent) => true,
        // A lasting second link looks plain to a single read; only the watcher knows that it lasts.
        (_, FileState::Unreadable(_)) => !matches!(a, FileState::Absent),
        _ => false,
    }
}
