//! Brings to disk what effects wrote and how runs ended, beside the work: no agent waits for a disk (`store::Unsynced`).
//!
//! A decision is synced before its effects, so that each of them can be done again; one that only starts a run, before what its
//! effects wrote. It must be, until `settled` names its `done`: after another boot than the one that wrote it, a `done` alone
//! does not prove that the file survived.

use super::record::Entry;
use super::{BackgroundEvent, Workspace, WorkspaceError};
use crate::apply::Applied;
use crate::clock::boot_id;
use crate::model::{Effect, Key, Keyed, RelPath, RunId};
use crate::run::{AFTER_START, Executor as _, RunError};
use crate::store::{Durability, StoreError, Unsynced};
use std::fs::File;
use std::mem::take;
use std::path::Path;

/// What is on its way to the disk.
#[derive(Default)]
pub(super) struct Settling {
    /// Runs whose end is in the journal, though perhaps not on disk yet.
    ended: Vec<RunId>,
    /// A decision is in the journal and not on disk, though its effects have begun.
    behind: bool,
    under_way: bool,
    /// A run was started just now.
    started: bool,
    /// A command was given just now.
    asked: bool,
}

impl Settling {
    pub(super) fn note_behind(&mut self, behind: bool) {
        self.behind |= behind;
    }

    pub(super) fn note_start(&mut self) {
        self.started = true;
    }

    pub(super) fn note_request(&mut self) {
        self.asked = true;
    }

    /// Until a start is over, which should not wait for a file that people look at. Whoever asks for something may look at once.
    pub(super) fn status_waits(&mut self) -> bool {
        let (started, asked) = (take(&mut self.started), take(&mut self.asked));
        self.under_way && started && !asked
    }
}

/// One batch has come to its end.
pub(super) struct Settled {
    /// The last record whose effects are on disk.
    upto: u64,
    ended: Vec<RunId>,
    result: Result<(), StoreError>,
}

impl Workspace {
    /// The end of a run counts once the journal's knowledge of it is on disk; until then it is told again after a crash.
    pub(super) fn settle_end(&mut self, run: RunId) {
        self.settling.ended.push(run);
    }

    /// Starts a batch, unless there is nothing to bring, or one is under way: its end starts the next.
    pub(super) fn settle(&mut self) -> Result<(), WorkspaceError> {
        if self.settling.under_way {
            return Ok(());
        }
        self.journal.make_room();
        let Some(batch) = self.batch()? else { return Ok(()) };
        let background = self.background.0.clone();
        self.settling.under_way = true;
        tokio::spawn(async move {
            tokio::time::sleep(AFTER_START).await;
            tokio::task::spawn_blocking(move || {
                // Nobody listens when the workspace is gone; its next opening does the rest again.
                drop(background.send(Box::new(BackgroundEvent::Settled(batch.bring()))));
            });
        });
        Ok(())
    }

    pub(super) fn on_settled(&mut self, settled: Settled) -> Result<(), WorkspaceError> {
        self.settling.under_way = false;
        if settled.result.is_err() {
            self.journal.distrust();
        }
        settled.result?;
        self.note(&Entry::Settled { upto: settled.upto }, Durability::Lazy)?;
        for run in settled.ended {
            match self.runner.executor.acknowledge(&run) {
                // A run whose folder is gone has nothing left to tell.
                Ok(()) | Err(RunError::Unknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.settle()
    }

    /// For a command line that leaves at once.
    pub(super) fn settle_now(&mut self) -> Result<(), WorkspaceError> {
        match self.batch()? {
            Some(batch) => self.on_settled(batch.bring()),
            None => Ok(()),
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        !self.settling.under_way
            && self.settling.ended.is_empty()
            && !self.settling.behind
            && self.runner.unsynced().is_empty()
    }

    fn batch(&mut self) -> Result<Option<Batch>, WorkspaceError> {
        let mut unsynced = self.runner.unsynced().batch();
        let ended = take(&mut self.settling.ended);
        let behind = take(&mut self.settling.behind);
        if unsynced.is_empty() && ended.is_empty() && !behind {
            return Ok(None);
        }
        let mut first = Unsynced::default();
        if behind {
            self.journal.note_in(&mut first)?;
        }
        for run in &ended {
            self.note_record(run, &mut unsynced)?;
        }
        // Last: what it says of the files must not come before them.
        self.journal.note_in(&mut unsynced)?;
        Ok(Some(Batch { first, unsynced, upto: self.journal.head().n, ended }))
    }

    /// Its supervisor wrote the record without waiting for the disk.
    fn note_record(&self, run: &RunId, unsynced: &mut Unsynced) -> Result<(), WorkspaceError> {
        let Ok(folder) = self.runner.executor.folder(run) else { return Ok(()) };
        for path in folder.records() {
            note_if_there(&path, unsynced)?;
        }
        Ok(())
    }

    /// Does again what may not have survived: everything after another boot. What a kill left aside goes in any case.
    pub(super) async fn redo(&mut self, unsettled: Unsettled) {
        let same_boot = unsettled.boot == boot_id();
        for (_, protocol, keyed) in unsettled.done.into_iter().filter(|_| self.closed.is_none()) {
            if same_boot && !matches!(keyed.effect, Effect::Take { .. }) {
                continue;
            }
            let applied = Box::pin(self.runner.apply(&protocol, &keyed, &[])).await;
            if let Applied::Failed(failure) | Applied::NotNow(failure, _) = applied {
                tracing::warn!(key = %keyed.key, said = failure.said, "not done again");
            }
        }
    }
}

fn note_if_there(path: &Path, unsynced: &mut Unsynced) -> Result<(), StoreError> {
    match File::open(path) {
        Ok(file) => unsynced.note(&file, path),
        Err(_) => Ok(()),
    }
}

struct Batch {
    /// The journal, where its decisions are not on disk yet: they come before what they led to.
    first: Unsynced,
    unsynced: Unsynced,
    upto: u64,
    ended: Vec<RunId>,
}

impl Batch {
    fn bring(self) -> Settled {
        let Self { first, unsynced, upto, ended } = self;
        Settled { upto, ended, result: first.sync().and_then(|()| unsynced.sync()) }
    }
}

fn replaces(effect: &Effect, wanted: &RelPath) -> bool {
    matches!(effect, Effect::Replace { path, .. } if path == wanted)
}

/// The files of which an earlier `Replace` is not to be done again after this.
fn changed_paths(effect: &Effect) -> Vec<&RelPath> {
    match effect {
        Effect::Replace { path, .. } | Effect::Take { path, .. } | Effect::Amend { path, .. } => {
            vec![path]
        }
        Effect::Move { from, to, .. } => vec![from, to],
        _ => Vec::new(),
    }
}

/// While the journal is read: which finished effects are not known to have survived.
#[derive(Default)]
pub(super) struct Unsettled {
    done: Vec<(u64, String, Keyed)>,
    boot: String,
}

impl Unsettled {
    /// A sync failed: what was written before it may be lost although the machine was never off.
    pub(super) fn distrust(&mut self) {
        self.boot.clear();
    }

    pub(super) fn note_done(&mut self, n: u64, protocol: &str, key: &Key, effect: &Effect) {
        if self.boot.is_empty() {
            // By a version that waited for the disk before it said `done`.
            return;
        }
        // Only the newest bytes of a file are wanted back, and none of one that went.
        for path in changed_paths(effect) {
            self.done.retain(|(.., keyed)| !replaces(&keyed.effect, path));
        }
        if matches!(effect, Effect::Replace { .. } | Effect::Take { .. } | Effect::Copy { .. }) {
            let keyed = Keyed { key: key.clone(), effect: effect.clone() };
            self.done.push((n, protocol.to_owned(), keyed));
        }
    }

    pub(super) fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::Settled { upto } => self.done.retain(|(n, ..)| n > upto),
            Entry::Opened { boot, .. } => self.boot.clone_from(boot),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Capacity;
    use crate::config::Config;
    use crate::escalate::Notifier;
    use crate::model::{Bytes, Digest};
    use crate::repository::StateDir;
    use crate::run::Spares;
    use crate::workspace::{Settings, UnknownRepoPolicy};

    fn replace(key: &str, bytes: &str, seen: Option<&str>) -> Keyed {
        let seen = seen.map(|seen| Digest::of(seen.as_bytes()));
        let (path, bytes) = (RelPath::fixed("state.json"), Bytes(bytes.into()));
        Keyed { key: Key::new(key), effect: Effect::Replace { path, bytes, seen } }
    }

    fn unsettled(boot: &str, done: &[Keyed]) -> Unsettled {
        let mut unsettled = Unsettled { boot: boot.to_owned(), ..Unsettled::default() };
        for (n, keyed) in (1..).zip(done) {
            unsettled.note_done(n, "loop", &keyed.key, &keyed.effect);
        }
        unsettled
    }

    // covers: DM-05
    #[test]
    fn what_is_settled_and_what_was_replaced_again_is_not_done_again() {
        let done = [replace("a", "one", None), replace("b", "two", Some("one"))];
        assert!(unsettled("", &done).done.is_empty(), "an older version had them on disk");
        let mut seen = unsettled("another", &done);
        assert_eq!(seen.done.len(), 1);
        seen.note(&Entry::Settled { upto: 1 });
        assert_eq!(seen.done[0].2.key, Key::new("b"));
        seen.note(&Entry::Settled { upto: 2 });
        assert!(seen.done.is_empty());
    }

    async fn workspace(dir: &Path) -> Workspace {
        let config = Config::default();
        let settings = Settings {
            state_dir: StateDir::at(&dir.join("state")).unwrap(),
            capacity: Capacity::new(crate::daemon::limits(&config)),
            config: config.into(),
            env: Default::default(),
            program: "/nowhere/agency".into(),
            spares: Spares::default(),
            notifier: Notifier::default(),
            problem: None,
        };
        let repo = dir.join("repo");
        std::fs::create_dir_all(&repo).unwrap();
        Workspace::open(&repo, &settings, UnknownRepoPolicy::Wait).await.unwrap()
    }

    // covers: DM-08
    #[tokio::test]
    async fn a_decision_that_only_starts_is_on_disk_before_all_is_settled() {
        let dir = tempfile::tempdir().unwrap();
        let mut workspace = workspace(dir.path()).await;
        workspace.settle_now().unwrap();
        assert!(workspace.is_settled() && workspace.batch().unwrap().is_none());
        workspace.settling.note_behind(true);
        assert!(!workspace.is_settled(), "nothing else is left to bring");
        let batch = workspace.batch().unwrap().unwrap();
        assert!(!batch.first.is_empty(), "the journal comes first");
        workspace.on_settled(batch.bring()).unwrap();
        assert!(workspace.is_settled());
    }

    // covers: DM-05
    #[tokio::test]
    async fn a_file_that_the_power_took_is_written_again_after_another_boot_only() {
        let dir = tempfile::tempdir().unwrap();
        let mut workspace = workspace(dir.path()).await;
        let file = dir.path().join("repo/state.json");
        let done = [replace("a", "whole", None)];
        std::fs::write(&file, "").unwrap();
        workspace.redo(unsettled(&boot_id(), &done)).await;
        assert_eq!(std::fs::read(&file).unwrap(), b"", "a kill takes no file: this was somebody");
        workspace.redo(unsettled("another", &done)).await;
        assert_eq!(std::fs::read(&file).unwrap(), b"whole");
        assert!(!workspace.is_settled());
        workspace.settle_now().unwrap();
        assert!(workspace.is_settled());
    }

    // covers: DM-07, DM-08
    #[tokio::test]
    async fn who_leaves_clears_the_journals_room_unless_the_lock_is_gone() {
        for is_ours in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let mut workspace = workspace(dir.path()).await;
            workspace.note(&Entry::Proved {}, Durability::Synced).unwrap();
            workspace.journal.make_room();
            let segment = workspace.places().journal().join("000001.jsonl");
            if !is_ours {
                std::fs::remove_file(dir.path().join("repo/.agency/lock")).unwrap();
            }
            drop(workspace);
            let kept = std::fs::read(segment).unwrap().contains(&0);
            assert_eq!(kept, !is_ours, "what follows may be another's by then");
        }
    }

    // covers: DM-08
    #[tokio::test]
    async fn a_journal_that_was_deleted_is_damage_until_the_owner_adopts() {
        let dir = tempfile::tempdir().unwrap();
        let first = workspace(dir.path()).await;
        let (folder, settings) = (first.places().folder.clone(), first.settings.clone());
        drop(first);
        std::fs::remove_dir_all(folder.join("journal")).unwrap();
        std::fs::remove_file(folder.join("pins.json")).unwrap();
        let repo = dir.path().join("repo");
        let refused =
            Workspace::open(&repo, &settings, UnknownRepoPolicy::Wait).await.err().unwrap();
        let text = crate::apply::chain(&refused);
        assert!(text.contains("is gone, although this repository has one"), "{text}");
        let adopted = Workspace::open(&repo, &settings, UnknownRepoPolicy::Adopt).await.unwrap();
        assert!(adopted.notes.iter().any(|note| note.contains("a new journal was begun")));
        drop(adopted);
        Workspace::open(&repo, &settings, UnknownRepoPolicy::Wait).await.unwrap();
    }
}
