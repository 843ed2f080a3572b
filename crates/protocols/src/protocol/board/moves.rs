//! One move of one or more tasks: memory, the task's file, STATE.md and TASK_BOARD.md in one decision. It does not judge the move.

use super::memory::Known;
use super::names::TaskId;
use super::state::{self, Card, Column, LastVerify, RECENT, State};
use super::table::Status;
use super::task::{self, Priority};
use super::{Board, record};
use crate::model::{Builder, Bytes, Cause, Digest, Effect, Event, Now, RelPath, RowId, Seat, clip};
use std::collections::BTreeMap;

/// Moves that belong to one decision.
pub(super) struct Moves<'a> {
    board: &'a Board,
    now: Now,
    /// New memory of each task that moves.
    tasks: BTreeMap<TaskId, Known>,
    last_verify: Option<LastVerify>,
    /// What the owner was told of these tasks as they stood before.
    over: Vec<Cause>,
    /// Files of ours beside a task's own that the target branch is to have.
    also: BTreeMap<RelPath, Digest>,
}

impl<'a> Moves<'a> {
    pub(super) fn new(board: &'a Board, now: Now) -> Self {
        let (tasks, also) = (BTreeMap::new(), BTreeMap::new());
        Self { board, now, tasks, last_verify: None, over: Vec::new(), also }
    }

    /// What is known of a task, to be changed.
    pub(super) fn of(&mut self, id: &TaskId) -> &mut Known {
        let (it, now) = (self.board, self.now.wall);
        self.tasks.entry(id.clone()).or_insert_with(|| it.index.known(id, now))
    }

    pub(super) fn to(&mut self, id: &TaskId, status: Status, reason: &str) -> &mut Known {
        let now = self.now.wall;
        let told = self.of(id).told.take();
        self.over.extend(told);
        let known = self.of(id);
        known.status = status;
        known.since = now;
        known.reason = clip(reason, 500);
        known
    }

    pub(super) fn verified(&mut self, last: LastVerify) {
        self.last_verify = Some(last);
    }

    /// A file that this decision writes, and that belongs to the record of the task.
    pub(super) fn also(&mut self, path: RelPath, digest: Digest) {
        self.also.insert(path, digest);
    }

    /// Truth first: memory and task files, then the state, then its picture.
    pub(super) fn into(self, decision: &mut Builder, row: Option<&str>) {
        let mut written = BTreeMap::new();
        if let Some(row) = row {
            decision.row(RowId::new(row));
        }
        for (id, known) in &self.tasks {
            written.extend(self.rewrite_task(decision, id, known));
            self.log(decision, row, id, known);
            decision.remember(&format!("task/{id}"), known);
        }
        let state = self.state();
        written.extend(self.write_state(decision, &state));
        decision.remember("state", &state);
        self.record(decision, written);
        for cause in self.over {
            let how = "the task went on".to_owned();
            decision.effect(Effect::Resolve { cause, how });
        }
    }

    /// What of this belongs on the target branch: all about a task that comes to its end.
    fn record(&self, decision: &mut Builder, written: BTreeMap<RelPath, Digest>) {
        let index = &self.board.index;
        let ends = |id: &TaskId, known: &Known| {
            record::is_end(known.status) && index.status_of(id) != Some(known.status)
        };
        let over: Vec<_> = self.tasks.iter().filter(|(id, known)| ends(id, known)).collect();
        let mut record = index.memory.record.clone();
        record.files.extend(self.also.clone());
        // What is noted already and written anew is noted anew.
        let noted =
            |path: &RelPath| !over.is_empty() || index.memory.record.files.contains_key(path);
        record.files.extend(written.into_iter().filter(|(path, _)| noted(path)));
        for (id, known) in &over {
            record.add(self.board, id, known);
        }
        if record != index.memory.record && self.board.place.git {
            decision.remember("record", record);
        }
    }

    fn rewrite_task(
        &self,
        decision: &mut Builder,
        id: &TaskId,
        known: &Known,
    ) -> Option<(RelPath, Digest)> {
        let (path, sheet) = self.board.index.find(id)?;
        let bytes = task::with_status(&sheet.file.bytes, path, known.status).ok()?;
        if bytes[..] == sheet.file.bytes[..] {
            return None;
        }
        let (seen, digest) = (Some(sheet.file.digest.clone()), Digest::of(&bytes));
        decision.effect(Effect::Replace { path: path.clone(), bytes: Bytes(bytes), seen });
        Some((path.clone(), digest))
    }

    fn log(&self, decision: &mut Builder, row: Option<&str>, id: &TaskId, known: &Known) {
        let Some(row) = row else { return };
        let from = self.board.index.status_of(id);
        // What is known of a parent may change while it stands where it stood.
        if from == Some(known.status) {
            return;
        }
        let from = from.map_or("", Status::word);
        let agent =
            self.board.index.task(id).map(|task| Seat::new(super::names::seat(&task.assignee)));
        let context = [
            ("row", row),
            ("task", id.as_str()),
            ("from", from),
            ("to", known.status.word()),
            ("why", known.reason.as_str()),
        ];
        decision.effect(Effect::Log(Event {
            event: "transition".to_owned(),
            agent,
            context: context.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }));
    }

    fn state(&self) -> State {
        let mut state = self.board.index.memory.state.clone().unwrap_or_default();
        state.protocol = super::PROTOCOL.to_owned();
        state.updated_at = self.board.zone().stamp(self.now.wall);
        for (id, known) in &self.tasks {
            place(&mut state, id, known.status);
        }
        if let Some(last) = &self.last_verify {
            state.last_verify = Some(last.clone());
        }
        state
    }

    fn write_state(&self, decision: &mut Builder, state: &State) -> [(RelPath, Digest); 2] {
        let index = &self.board.index;
        let header = self.board.header();
        let now = index.whole(state::PATH);
        let bytes = state.render(now.map(|(bytes, _)| bytes), &header);
        let picture = self.board(state, &header);
        [(state::PATH, bytes), (state::BOARD, picture)].map(|(path, bytes)| {
            let seen = index.whole(path).map(|(_, digest)| digest.clone());
            let (path, digest) = (RelPath::fixed(path), Digest::of(&bytes));
            decision.effect(Effect::Replace { path: path.clone(), bytes: Bytes(bytes), seen });
            (path, digest)
        })
    }

    fn board(&self, state: &State, header: &str) -> Vec<u8> {
        let columns: Vec<Column<'_>> =
            Status::ALL.iter().map(|status| self.column(*status)).collect();
        state::board(&columns, header, &state.updated_at)
    }

    /// A column as it will be after these moves, read only as far as it is shown.
    fn column(&self, status: Status) -> Column<'_> {
        let index = &self.board.index;
        let here = index.columns.get(&status).into_iter().flatten();
        let stays = here.map(|(_, id)| id).filter(|id| !self.tasks.contains_key(*id));
        let comes: Vec<&TaskId> = self
            .tasks
            .iter()
            .filter(|(_, known)| known.status == status)
            .map(|(id, _)| id)
            .collect();
        let left = self.tasks.keys().filter(|id| index.status_of(id) == Some(status)).count();
        let count = index.count(status) - left.min(index.count(status)) + comes.len();
        let cards = comes
            .into_iter()
            .chain(stays)
            .take(state::COLUMN_MAX)
            .map(|id| self.card(id))
            .collect();
        Column { status, count, cards }
    }

    fn card<'b>(&'b self, id: &'b TaskId) -> Card<'b> {
        let task = self.board.index.task(id);
        let known = self.tasks.get(id).or_else(|| self.board.index.memory.tasks.get(id));
        Card {
            id,
            title: task.map_or("", |task| &task.title),
            assignee: task.map_or("", |task| &task.assignee),
            priority: task.map_or(Priority::P3, |task| task.priority).word(),
            note: known.map_or("", |known| &known.reason),
        }
    }
}

/// Puts an id into the one list of STATE.md that it belongs to.
pub(super) fn place(state: &mut State, id: &TaskId, status: Status) {
    for list in [&mut state.active_tasks, &mut state.blocked_tasks, &mut state.done_tasks_recent] {
        list.retain(|other| other != id);
    }
    match status {
        Status::InProgress | Status::ReadyForReview => {
            state.active_tasks.push(id.clone());
            state.active_tasks.sort();
        }
        Status::Blocked => {
            state.blocked_tasks.push(id.clone());
            state.blocked_tasks.sort();
        }
        Status::Done => {
            state.done_tasks_recent.insert(0, id.clone());
            state.done_tasks_recent.truncate(RECENT);
        }
        Status::New | Status::Assigned | Status::Canceled => {}
    }
}
