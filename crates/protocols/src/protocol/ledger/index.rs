//! Everything the ledger's loop knows right now. Derived: journal and files rebuild it at any time. It decides nothing.

use super::memory::Memory;
use crate::engine::InFlight;
use crate::model::{
    Bytes, Checkout, CommitId, Effect, Fact, FileState, Query, RelPath, TreeRef, Wake, WholeFile,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) memory: Memory,
    pub(super) in_flight: InFlight,
    files: BTreeMap<RelPath, FileState>,
    /// Files that were read since we started. One that is empty or cut off is not read before it has rested a while.
    read: BTreeSet<RelPath>,
    pub(super) checkout: Option<Checkout>,
}

impl Index {
    pub(super) fn absorb(&mut self, wake: &Wake) {
        let done = self.in_flight.absorb(wake);
        match wake {
            Wake::File(file) => {
                self.read.insert(file.path.clone());
                self.files.insert(file.path.clone(), file.state.clone());
            }
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Decided(decision) => {
                self.memory.take(decision);
                let running = self.memory.turn().and_then(|turn| turn.stage.run());
                self.in_flight.keep_ends(|run| running == Some(run));
            }
            Wake::Done { .. } => drop(done.map(|effect| self.absorb_done(effect))),
            Wake::Run(_)
            | Wake::Deadline
            | Wake::Fact { .. }
            | Wake::Leased { .. }
            | Wake::Failed { .. }
            | Wake::Command(_) => {}
        }
    }

    /// What we wrote is known without waiting for its event.
    fn absorb_done(&mut self, done: Effect) {
        if let Effect::Replace { path, .. } | Effect::Take { path, .. } = &done {
            self.files.remove(path);
        }
        if let Effect::Merge(planned) | Effect::Commit(planned) = done
            && let Some(checkout) = &mut self.checkout
            && checkout.branch.as_deref() == Some(planned.branch.as_str())
        {
            for change in &planned.changes {
                self.files.remove(&change.path);
            }
            checkout.head = Some(planned.id);
        }
    }

    /// The main branch is checked out and at rest: its files mean what they say.
    pub(super) fn at_home(&self) -> Option<&CommitId> {
        let (main, checkout) = (self.memory.main.as_ref()?, self.checkout.as_ref()?);
        let home = checkout.busy.is_none() && checkout.branch.as_ref() == Some(main);
        checkout.head.as_ref().filter(|_| home)
    }

    pub(super) fn file(&self, path: &'static str) -> Option<&FileState> {
        self.files.get(&RelPath::fixed(path))
    }

    pub(super) fn was_read(&self, path: &'static str) -> bool {
        self.read.contains(&RelPath::fixed(path))
    }

    pub(super) fn whole(&self, path: &'static str) -> Option<&WholeFile> {
        match self.file(path)? {
            FileState::Whole(file) => Some(file),
            FileState::Absent | FileState::Unreadable(_) => None,
        }
    }

    pub(super) fn fact(&self, asked: impl Fn(&Query) -> bool) -> Option<&Fact> {
        self.in_flight.fact(asked)
    }

    /// A file in a commit: the outer `None` is "not asked".
    pub(super) fn file_at(&self, wanted: &CommitId, name: &'static str) -> Option<Option<&Bytes>> {
        let asked = |query: &Query| matches!(query, Query::FileAt { commit, path } if commit == wanted && path.as_str() == name);
        file(self.fact(asked)?)
    }

    /// A file in a worktree of ours.
    pub(super) fn file_in(&self, wanted: &TreeRef, name: &'static str) -> Option<Option<&Bytes>> {
        let asked = |query: &Query| matches!(query, Query::Read { tree, path } if tree == wanted && path.as_str() == name);
        file(self.fact(asked)?)
    }
}

fn file(fact: &Fact) -> Option<Option<&Bytes>> {
    if let Fact::File(bytes) = fact { Some(bytes.as_ref()) } else { None }
}
