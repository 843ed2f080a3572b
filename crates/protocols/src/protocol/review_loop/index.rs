//! Everything the loop knows right now. Derived: journal and files rebuild it at any time. It decides nothing.

use super::memory::{Base, Memory};
use crate::model::{
    Checkout, ClockWatch, Command, CommitId, Effect, Fact, Failure, FileSeen, FileState, Key,
    Query, RelPath, RunEnd, RunEvent, TreeRef, Wake, WholeFile, without_bom,
};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) memory: Memory,
    files: BTreeMap<RelPath, FileState>,
    pub(super) clock: ClockWatch,
    pub(super) checkout: Option<Checkout>,
    /// Effects of ours that are journalled but not finished. Boxed: a tree has room for eleven in each node, and mostly
    /// one is there.
    in_flight: BTreeMap<Key, Box<Effect>>,
    /// The one answer that the next decision rests on. Boxed, as is what follows: a loop at rest has none of them.
    pub(super) answer: Option<Box<(Key, Query, Fact)>>,
    pub(super) failed: Option<Box<(Effect, Failure)>>,
    /// The end of a run that memory does not know yet.
    pub(super) ended: Option<Box<RunEnd>>,
    /// One run may be started now.
    pub(super) granted: bool,
    /// Stops that were asked for.
    stopping: bool,
    pub(super) commands: Vec<Command>,
    /// Whether our last commit is in the branch, for the head that we asked about.
    pub(super) contained: Option<(CommitId, bool)>,
    /// A push that has arrived and that memory still thinks due.
    pub(super) pushed: Option<CommitId>,
}

impl Index {
    pub(super) fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::File(file) => self.absorb_file(file),
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Run(RunEvent::Started { .. }) | Wake::Deadline => {}
            Wake::Run(RunEvent::Ended(end)) => self.ended = Some(end.clone()),
            Wake::Fact { key, value } => self.absorb_fact(key, value),
            Wake::Decided(decision) => {
                self.memory.take(decision);
                self.forget_what_was_used();
                for keyed in &decision.effects {
                    self.absorb_intent(&keyed.key, &keyed.effect);
                }
            }
            Wake::Done { key } => self.absorb_done(key),
            Wake::Leased { tree: TreeRef::Main } => self.granted = true,
            Wake::Leased { tree: TreeRef::Worktree(_) } => {}
            Wake::Failed { key, effect, failure } => {
                self.in_flight.remove(key);
                self.failed = Some(Box::new((effect.clone(), failure.clone())));
            }
            Wake::Command(command) => self.commands.push(command.clone()),
        }
    }

    /// The same bytes again were first seen when they were first seen.
    fn absorb_file(&mut self, file: &FileSeen) {
        let mut state = file.state.clone();
        if let (FileState::Whole(now), Some(FileState::Whole(before))) =
            (&mut state, self.files.get(&file.path))
            && now.digest == before.digest
        {
            now.seen = before.seen;
        }
        if let FileState::Whole(file) = &file.state {
            self.clock.look(file.seen);
        }
        self.files.insert(file.path.clone(), state);
    }

    /// A decision was made on these: they must not move the next one.
    fn forget_what_was_used(&mut self) {
        self.answer = None;
        self.failed = None;
        let turn = self.memory.turn.as_ref();
        let runs = turn.and_then(|turn| turn.run.as_ref()).map(|running| &running.run);
        let checks = turn.and_then(|turn| turn.checks.as_ref());
        let gate = checks.and_then(|checks| checks.running.as_ref()).map(|(run, _)| run);
        let base = self.memory.base.as_ref().and_then(Base::run);
        let known = [runs, gate, base];
        self.ended.take_if(|end| !known.contains(&Some(&end.run)));
    }

    fn absorb_intent(&mut self, key: &Key, effect: &Effect) {
        match effect {
            Effect::Reply { command, .. } => self.commands.retain(|known| known.id != *command),
            Effect::Stop { .. } => self.stopping = true,
            Effect::Spawn(spawn) => {
                self.stopping = false;
                // A command line of the owner's takes no place: the agent after it has that.
                self.granted &= spawn.command.is_some();
            }
            Effect::Release { .. } => self.granted = false,
            Effect::Replace { .. }
            | Effect::Take { .. }
            | Effect::Move { .. }
            | Effect::Create { .. }
            | Effect::Amend { .. }
            | Effect::Copy { .. }
            | Effect::Ask { .. }
            | Effect::Lease { .. }
            | Effect::Commit(_)
            | Effect::Merge(_)
            | Effect::Worktree(_)
            | Effect::DropWorktree { .. }
            | Effect::Ref { .. }
            | Effect::Push { .. }
            | Effect::Escalate(_)
            | Effect::Resolve { .. }
            | Effect::Log(_) => {}
        }
        self.in_flight.insert(key.clone(), Box::new(effect.clone()));
    }

    fn absorb_fact(&mut self, key: &Key, value: &Fact) {
        let effect = self.in_flight.remove(key).map(|effect| *effect);
        let Some(Effect::Ask { query }) = effect else { return };
        if let (Query::Contains { .. }, Some(head)) = (&query, self.head())
            && matches!(value, Fact::Yes | Fact::No)
        {
            self.contained = Some((head.clone(), *value == Fact::Yes));
        }
        if let Fact::Snapshot(snapshot) = value {
            self.checkout = Some(snapshot.checkout.clone());
        }
        self.answer = Some(Box::new((key.clone(), query, value.clone())));
    }

    /// What we wrote or took is known without waiting for its event.
    fn absorb_done(&mut self, key: &Key) {
        match self.in_flight.remove(key).map(|effect| *effect) {
            Some(Effect::Take { path, .. }) => {
                self.files.insert(path, FileState::Absent);
            }
            // What lies there now is for the next look to say.
            Some(Effect::Replace { path, .. }) => {
                self.files.remove(&path);
            }
            Some(Effect::Push { commit, .. }) => self.pushed = Some(commit),
            Some(Effect::Commit(planned)) => {
                if let Some(checkout) = &mut self.checkout {
                    checkout.head = Some(planned.id.clone());
                }
                self.contained = Some((planned.id, true));
            }
            _ => {}
        }
    }

    /// Something of ours is under way; deciding waits for it. A push and a wait for a lease never block.
    pub(super) fn is_busy(&self) -> bool {
        self.busy_with().is_some()
    }

    /// The effect that deciding waits for.
    pub(super) fn busy_with(&self) -> Option<&Effect> {
        let mut open = self.in_flight.values().map(Box::as_ref);
        open.find(|effect| {
            !matches!(effect, Effect::Push { .. } | Effect::Lease { .. } | Effect::Stop { .. })
        })
    }

    pub(super) fn is_pushing(&self) -> bool {
        self.in_flight.values().any(|effect| matches!(**effect, Effect::Push { .. }))
    }

    pub(super) fn is_waiting_for_lease(&self) -> bool {
        self.in_flight.values().any(|effect| matches!(**effect, Effect::Lease { .. }))
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    pub(super) fn head(&self) -> Option<&CommitId> {
        self.checkout.as_ref().and_then(|checkout| checkout.head.as_ref())
    }

    pub(super) fn file(&self, path: &'static str) -> Option<&FileState> {
        self.files.get(&RelPath::fixed(path))
    }

    pub(super) fn whole(&self, path: &'static str) -> Option<&WholeFile> {
        match self.file(path)? {
            FileState::Whole(file) => Some(file),
            FileState::Absent | FileState::Unreadable(_) => None,
        }
    }

    /// Text of a file, lossy: only ever quoted, never judged.
    pub(super) fn text(&self, path: &'static str) -> Option<String> {
        let text =
            |file: &WholeFile| String::from_utf8_lossy(without_bom(&file.bytes)).into_owned();
        self.whole(path).map(text)
    }
}
