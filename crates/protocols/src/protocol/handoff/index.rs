//! Everything the relay knows right now. Derived: journal and files rebuild it at any time. It decides nothing.

use super::memory::Memory;
use super::message::{self, Message};
use super::reconcile;
use super::state::{self, State};
use super::table::Folder;
use crate::model::{
    Checkout, ClockWatch, Command, Decision, Digest, Effect, Fact, Failure, FileSeen, FileState,
    Key, Memo, Now, Query, Rejection, RelPath, RunEnd, RunEvent, Timestamp, TreeRef, Wake,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Index {
    pub(super) memory: Memory,
    /// `None` until it was looked at, and from our own change of it until the next look.
    pub(super) state: Option<StateSeen>,
    /// Well-formed messages by id, with every place where each lies.
    pub(super) messages: BTreeMap<String, BTreeMap<RelPath, Seen>>,
    /// Messages of before us: they only lie in final folders, and nobody waits for them. What they say is needed no more.
    pub(super) history: BTreeMap<String, BTreeSet<RelPath>>,
    /// Files in `pending/` and `accepted/` that are no message.
    pub(super) odd: BTreeMap<RelPath, Odd>,
    /// Messages that do not lie as memory knows them.
    pub(super) dirty: BTreeSet<String>,
    /// Messages that we wrote a moment ago and that no look has shown yet.
    pub(super) awaited: BTreeSet<String>,
    clock: ClockWatch,
    pub(super) checkout: Option<Checkout>,
    in_flight: BTreeMap<Key, Effect>,
    /// The one answer that the next decision rests on.
    pub(super) answer: Option<(Key, Query, Fact)>,
    pub(super) failed: Option<(Effect, Failure)>,
    /// The end of a run that memory does not know yet.
    pub(super) ended: Option<RunEnd>,
    /// One run may be started now.
    pub(super) granted: bool,
    pub(super) commands: Vec<Command>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum StateSeen {
    Absent,
    Good(State),
    Bad(Foreign),
}

/// A state file of another format.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Foreign {
    pub(super) problems: Vec<Rejection>,
    /// What lies there, where it can be read.
    pub(super) file: Option<(Digest, Vec<u8>)>,
}

/// A message where it lies.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) folder: Folder,
    pub(super) digest: Digest,
    pub(super) message: Message,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Odd {
    pub(super) digest: Option<Digest>,
    pub(super) problems: Vec<Rejection>,
}

impl Index {
    /// A state file or a message lies in the repository.
    pub(super) fn has_files(&self) -> bool {
        let state = !matches!(self.state, None | Some(StateSeen::Absent));
        state || !(self.messages.is_empty() && self.history.is_empty() && self.odd.is_empty())
    }

    pub(super) fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::File(file) => self.absorb_file(file),
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Run(RunEvent::Started { .. }) | Wake::Deadline => {}
            Wake::Run(RunEvent::Ended(end)) => self.ended = Some((**end).clone()),
            Wake::Fact { key, value } => self.absorb_fact(key, value),
            Wake::Decided(decision) => {
                self.memory.take(decision);
                self.forget_what_was_used();
                for keyed in &decision.effects {
                    self.absorb_intent(&keyed.key, &keyed.effect);
                }
                self.mark_again(decision);
            }
            Wake::Done { key } => self.absorb_done(key),
            Wake::Leased { tree: TreeRef::Main } => self.granted = true,
            Wake::Leased { tree: TreeRef::Worktree(_) } => {}
            Wake::Failed { key, effect, failure } => {
                self.in_flight.remove(key);
                // What lies there now is for the next look to say.
                if let Effect::Move { from, .. } = effect {
                    self.drop_message(from);
                }
                self.failed = Some((effect.clone(), failure.clone()));
            }
            Wake::Command(command) => self.commands.push(command.clone()),
        }
    }

    fn absorb_file(&mut self, file: &FileSeen) {
        if let FileState::Whole(whole) = &file.state {
            self.clock.look(whole.seen);
        }
        if file.path.as_str() == state::PATH {
            self.state = Some(match &file.state {
                FileState::Absent => StateSeen::Absent,
                FileState::Whole(whole) => state::parse(&whole.bytes).map_or_else(
                    |problems| {
                        let file = Some((whole.digest.clone(), whole.bytes.to_vec()));
                        StateSeen::Bad(Foreign { problems, file })
                    },
                    StateSeen::Good,
                ),
                FileState::Unreadable(odd) => {
                    let (found, wanted) = (odd.found.clone(), &odd.wanted);
                    let problems = vec![Rejection::new("DM-04", &file.path, found, wanted)];
                    StateSeen::Bad(Foreign { problems, file: None })
                }
            });
            self.expect_no_more();
        } else if let Some(folder) = super::folder_of(&file.path) {
            self.absorb_message(folder, file);
        }
    }

    /// Every look tells of the state, so what was written before has been looked for by now, or soon is.
    fn expect_no_more(&mut self) {
        for id in std::mem::take(&mut self.awaited) {
            self.mark(&id);
        }
    }

    fn absorb_message(&mut self, folder: Folder, file: &FileSeen) {
        self.drop_message(&file.path);
        match &file.state {
            FileState::Absent => {}
            FileState::Whole(whole) => {
                let latest = self.latest(&file.path, whole.seen);
                let read =
                    message::parse_written_by(&file.path, &whole.bytes, whole.seen.wall, latest);
                self.put(folder, &file.path, read, whole.digest.clone());
            }
            FileState::Unreadable(odd) => {
                let problem = Rejection::new("DM-04", &file.path, odd.found.clone(), &odd.wanted);
                self.put_odd(folder, &file.path, Odd { digest: None, problems: vec![problem] });
            }
        }
    }

    /// The time by which a message can have been written. One that was accepted was judged by the clock as it was then.
    fn latest(&self, path: &RelPath, seen: Now) -> Timestamp {
        match message::id_of_name(path) {
            Some(id) if self.memory.open.contains_key(id) || self.memory.done.contains(id) => {
                message::ANY_TIME
            }
            Some(_) | None => self.clock.latest(seen),
        }
    }

    fn put(
        &mut self,
        folder: Folder,
        path: &RelPath,
        read: Result<Message, Vec<Rejection>>,
        digest: Digest,
    ) {
        match read {
            Ok(message) => {
                let id = message.id.clone();
                self.awaited.remove(&id);
                let seen = Seen { folder, digest, message };
                self.messages.entry(id.clone()).or_default().insert(path.clone(), seen);
                self.mark(&id);
            }
            Err(problems) => {
                let problems = problems.into_iter().map(|it| it.with_digest(&digest)).collect();
                self.put_odd(folder, path, Odd { digest: Some(digest), problems });
            }
        }
    }

    /// What lies in the final folders is history: nothing there is executed, so nothing there is refused.
    fn put_odd(&mut self, folder: Folder, path: &RelPath, odd: Odd) {
        if matches!(folder, Folder::Pending | Folder::Accepted) {
            self.odd.insert(path.clone(), odd);
        }
    }

    fn drop_message(&mut self, path: &RelPath) {
        self.odd.remove(path);
        let Some(id) = message::id_of_name(path).map(str::to_owned) else { return };
        if let Some(copies) = self.messages.get_mut(&id) {
            copies.remove(path);
            if copies.is_empty() {
                self.messages.remove(&id);
            }
        }
        if let Some(places) = self.history.get_mut(&id) {
            places.remove(path);
            if places.is_empty() {
                self.history.remove(&id);
            }
        }
        self.mark(&id);
    }

    /// Only what does not lie as memory knows it is looked at by the next decision.
    fn mark(&mut self, id: &str) {
        if reconcile::is_settled(self, id) {
            self.dirty.remove(id);
            self.lay_to_rest(id);
        } else {
            self.dirty.insert(id.to_owned());
        }
    }

    /// Settled and not open: every copy lies in a final folder. A month of work has many of these.
    fn lay_to_rest(&mut self, id: &str) {
        if self.memory.open.contains_key(id) {
            return;
        }
        if let Some(copies) = self.messages.remove(id)
            && !self.memory.done.contains(id)
        {
            self.history.entry(id.to_owned()).or_default().extend(copies.into_keys());
        }
    }

    /// A decision changed what memory knows of some messages.
    fn mark_again(&mut self, decision: &Decision) {
        let of_message = |memo: &Memo| match memo.name.split_once('/') {
            Some(("open" | "done", id)) => Some(id.to_owned()),
            _ => None,
        };
        let mut ids = std::mem::take(&mut self.dirty);
        ids.extend(decision.memo.iter().filter_map(of_message));
        ids.iter().for_each(|id| self.mark(id));
    }

    fn forget_what_was_used(&mut self) {
        self.answer = None;
        self.failed = None;
        let known = self.memory.running().map(|(_, running)| running.run.clone());
        self.ended.take_if(|end| known.is_none_or(|run| run != end.run));
    }

    fn absorb_intent(&mut self, key: &Key, effect: &Effect) {
        match effect {
            Effect::Reply { command, .. } => self.commands.retain(|known| known.id != *command),
            Effect::Spawn(_) | Effect::Release { .. } => self.granted = false,
            Effect::Stop { .. }
            | Effect::Replace { .. }
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
        self.in_flight.insert(key.clone(), effect.clone());
    }

    fn absorb_fact(&mut self, key: &Key, value: &Fact) {
        let Some(Effect::Ask { query }) = self.in_flight.remove(key) else { return };
        if let Fact::Snapshot(snapshot) = value {
            self.checkout = Some(snapshot.checkout.clone());
        }
        self.answer = Some((key.clone(), query, value.clone()));
    }

    /// What we moved or took is gone from where it was, without waiting for its event.
    fn absorb_done(&mut self, key: &Key) {
        match self.in_flight.remove(key) {
            Some(Effect::Take { path, .. } | Effect::Replace { path, .. })
                if path.as_str() == state::PATH =>
            {
                self.state = None;
            }
            Some(Effect::Take { path, .. }) => self.drop_message(&path),
            Some(Effect::Amend { .. }) => self.state = None,
            Some(Effect::Replace { path, .. }) => self.written(&path),
            Some(Effect::Move { from, to, .. }) => {
                self.drop_message(&from);
                self.written(&to);
            }
            _ => {}
        }
    }

    /// Whether it lies there, the next look says: a `done` may be an old one that the journal repeats.
    fn written(&mut self, path: &RelPath) {
        if let Some(id) = message::id_of_name(path) {
            self.awaited.insert(id.to_owned());
            self.mark(id);
        }
    }

    /// A message lies in `pending/` or `accepted/`, or a file that is none.
    pub(super) fn has_waiting_messages(&self) -> bool {
        let mut copies = self.messages.values().flat_map(|copies| copies.values());
        copies.any(|seen| matches!(seen.folder, Folder::Pending | Folder::Accepted))
            || !self.odd.is_empty()
    }

    /// Something of ours is under way; deciding waits for it. A wait for a lease never blocks.
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
}
