//! Everything the ledger's loop knows right now. Derived: journal and files rebuild it at any time. It decides nothing.

use super::memory::{Memory, Stage};
use crate::model::{
    Bytes, Checkout, Command, CommitId, Effect, Fact, Failure, FileState, Key, Query, RelPath,
    RunEnd, RunEvent, TreeRef, Wake, WholeFile,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) memory: Memory,
    files: BTreeMap<RelPath, FileState>,
    /// Files that were read since we started. One that is empty or cut off is not read before it has rested a while.
    read: BTreeSet<RelPath>,
    pub(super) checkout: Option<Checkout>,
    in_flight: BTreeMap<Key, Effect>,
    /// The answers that the next decision rests on.
    pub(super) answers: Vec<(Key, Query, Fact)>,
    pub(super) failed: Option<(Effect, Failure)>,
    pub(super) ended: Option<RunEnd>,
    /// One run may be started now.
    pub(super) granted: bool,
    stopping: bool,
    pub(super) commands: Vec<Command>,
}

impl Index {
    pub(super) fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::File(file) => {
                self.read.insert(file.path.clone());
                self.files.insert(file.path.clone(), file.state.clone());
            }
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Run(RunEvent::Started { .. }) | Wake::Deadline => {}
            Wake::Run(RunEvent::Ended(end)) => self.ended = Some((**end).clone()),
            Wake::Fact { key, value } => {
                if let Some(Effect::Ask { query }) = self.in_flight.remove(key) {
                    self.answers.push((key.clone(), query, value.clone()));
                }
            }
            Wake::Decided(decision) => {
                self.memory.take(decision);
                self.answers.clear();
                self.failed = None;
                let running = self.running().cloned();
                self.ended.take_if(|end| running.as_ref() != Some(&end.run));
                for keyed in &decision.effects {
                    self.intend(&keyed.key, &keyed.effect);
                }
            }
            Wake::Done { key } => self.absorb_done(key),
            Wake::Leased { tree } => self.granted = *tree != TreeRef::Main,
            Wake::Failed { key, effect, failure } => {
                self.in_flight.remove(key);
                self.failed = Some((effect.clone(), failure.clone()));
            }
            Wake::Command(command) => self.commands.push(command.clone()),
        }
    }

    fn intend(&mut self, key: &Key, effect: &Effect) {
        if let Effect::Reply { command, .. } = effect {
            self.commands.retain(|known| known.id != *command);
        }
        self.granted &= !matches!(effect, Effect::Spawn(_) | Effect::Release { .. });
        self.stopping |= matches!(effect, Effect::Stop { .. });
        self.stopping &= !matches!(effect, Effect::Spawn(_));
        self.in_flight.insert(key.clone(), effect.clone());
    }

    /// What we wrote is known without waiting for its event.
    fn absorb_done(&mut self, key: &Key) {
        match self.in_flight.remove(key) {
            Some(Effect::Merge(planned) | Effect::Commit(planned)) => {
                if let Some(checkout) = &mut self.checkout
                    && checkout.branch.as_deref() == Some(planned.branch.as_str())
                {
                    checkout.head = Some(planned.id.clone());
                    for change in &planned.changes {
                        self.files.remove(&change.path);
                    }
                }
            }
            Some(Effect::Replace { path, .. } | Effect::Take { path, .. }) => {
                self.files.remove(&path);
            }
            _ => {}
        }
    }

    fn running(&self) -> Option<&crate::model::RunId> {
        match &self.memory.turn.as_ref()?.stage {
            Stage::Running { run, .. } => Some(run),
            Stage::Opening
            | Stage::Based { .. }
            | Stage::Ended(_)
            | Stage::Left { .. }
            | Stage::Moving(_) => None,
        }
    }

    /// Something of ours is under way; deciding waits for it.
    pub(super) fn is_busy(&self) -> bool {
        self.busy_with().is_some()
    }

    /// The effect that deciding waits for.
    pub(super) fn busy_with(&self) -> Option<&Effect> {
        let waits = |effect: &Effect| matches!(effect, Effect::Lease { .. } | Effect::Stop { .. });
        self.in_flight.values().find(|effect| !waits(effect))
    }

    pub(super) fn is_waiting_for_lease(&self) -> bool {
        self.in_flight.values().any(|effect| matches!(effect, Effect::Lease { .. }))
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
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

    /// The answer to a question, if it was asked and answered.
    pub(super) fn fact(&self, asked: impl Fn(&Query) -> bool) -> Option<&Fact> {
        self.answers.iter().find(|(_, query, _)| asked(query)).map(|(_, _, fact)| fact)
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
