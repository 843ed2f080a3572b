//! Everything the relay knows right now. Derived: journal and files rebuild it at any time. It decides nothing.

use super::memory::Memory;
use super::message::{self, Message};
use super::reconcile;
use super::state::{self, State};
use super::table::Folder;
use crate::engine::InFlight;
use crate::model::{
    Checkout, ClockWatch, Decision, Digest, Effect, Fact, FileSeen, FileState, Memo, Now,
    Rejection, RelPath, Timestamp, Wake,
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
    pub(super) in_flight: InFlight,
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
        let done = self.in_flight.absorb(wake);
        match wake {
            Wake::File(file) => self.absorb_file(file),
            Wake::Checkout(checkout) => self.checkout = Some(checkout.clone()),
            Wake::Fact { key, value: Fact::Snapshot(snapshot) }
                if self.in_flight.answers().last().is_some_and(|(asked, ..)| asked == key) =>
            {
                self.checkout = Some(snapshot.checkout.clone());
            }
            Wake::Decided(decision) => {
                self.memory.take(decision);
                let running = self.memory.running().map(|(_, running)| &running.run);
                self.in_flight.keep_ends(|run| running == Some(run));
                self.mark_again(decision);
            }
            Wake::Done { .. } => drop(done.map(|effect| self.absorb_done(&effect))),
            // What lies there now is for the next look to say.
            Wake::Failed { effect: Effect::Move { from, .. }, .. } => self.drop_message(from),
            Wake::Run(_)
            | Wake::Deadline
            | Wake::Fact { .. }
            | Wake::Leased { .. }
            | Wake::Failed { .. }
            | Wake::Command(_) => {}
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

    /// What we moved or took is gone from where it was, without waiting for its event.
    fn absorb_done(&mut self, done: &Effect) {
        if let Effect::Take { path, .. } | Effect::Replace { path, .. } | Effect::Amend { path, .. } =
            done
            && path.as_str() == state::PATH
        {
            self.state = None;
            return;
        }
        if let Effect::Take { path: gone, .. } | Effect::Move { from: gone, .. } = done {
            self.drop_message(gone);
        }
        if let Effect::Replace { path: written, .. } | Effect::Move { to: written, .. } = done {
            self.written(written);
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
}
