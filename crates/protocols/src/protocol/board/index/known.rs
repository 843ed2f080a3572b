//! What the index knows, asked: tasks, their real status, why a file is refused. It changes nothing.

use super::super::memory::Known;
use super::super::names::{DocumentPath, TaskId, same_agent};
use super::super::report::{self, Report};
use super::super::table::{Actor, Status, between};
use super::super::task::{Priority, Task};
use super::{Bytes, Claim, Index, TaskFile};
use crate::model::{Digest, Effect, FileState, Rejection, RelPath};
use std::collections::BTreeSet;

/// A chain of dependencies longer than this is refused like a circle.
const CHAIN_MAX: usize = 1000;

impl Index {
    pub(in crate::protocol::board) fn file(&self, path: &'static str) -> Option<&FileState> {
        self.files.get(&RelPath::fixed(path))
    }

    pub(in crate::protocol::board) fn whole(&self, path: &'static str) -> Option<(&[u8], &Digest)> {
        match self.file(path) {
            Some(FileState::Whole(file)) => Some((&file.bytes, &file.digest)),
            Some(FileState::Absent | FileState::Unreadable(_)) => None,
            None => {
                let ours = self.written.get(&RelPath::fixed(path))?;
                Some((&ours.bytes, &ours.digest))
            }
        }
    }

    pub(in crate::protocol::board) fn text(&self, path: &'static str) -> Option<String> {
        self.whole(path).map(|(bytes, _)| String::from_utf8_lossy(bytes).into_owned())
    }

    pub(in crate::protocol::board) fn sheet(&self, path: &RelPath) -> Option<&TaskFile> {
        self.sheets.get(path)
    }

    /// The one file of a task.
    pub(in crate::protocol::board) fn find(&self, id: &TaskId) -> Option<(&RelPath, &TaskFile)> {
        let paths = self.by_id.get(id).filter(|paths| paths.len() == 1)?;
        let path = paths.first()?;
        self.sheets.get(path).map(|sheet| (path, sheet))
    }

    pub(in crate::protocol::board) fn task(&self, id: &TaskId) -> Option<&Task> {
        self.find(id)?.1.task.as_deref().ok()
    }

    pub(in crate::protocol::board) fn priority_of(&self, id: &TaskId) -> Option<Priority> {
        // A file that is there and refused still has its place; one that is archived has none.
        let (_, sheet) = self.find(id)?;
        Some(sheet.task.as_ref().map_or(Priority::P3, |task| task.priority))
    }

    /// Where a task really stands: where we put it, else where the owner vouched for, else what a new file may say.
    pub(in crate::protocol::board) fn status_of(&self, id: &TaskId) -> Option<Status> {
        if let Some(known) = self.memory.tasks.get(id) {
            return Some(known.status);
        }
        if let Some(status) = self.memory.adopted.get(id) {
            return Some(*status);
        }
        self.task(id).map(|task| match task.status {
            Status::Assigned => Status::Assigned,
            Status::Canceled => Status::Canceled,
            Status::New
            | Status::InProgress
            | Status::Blocked
            | Status::ReadyForReview
            | Status::Done => Status::New,
        })
    }

    /// Memory of a task, or a fresh one.
    pub(in crate::protocol::board) fn known(
        &self,
        id: &TaskId,
        now: crate::model::Timestamp,
    ) -> Known {
        let status = self.status_of(id).unwrap_or(Status::New);
        self.memory.tasks.get(id).cloned().unwrap_or_else(|| Known::new(status, now))
    }

    /// Why a task file is refused, if it is.
    pub(in crate::protocol::board) fn refusal_of(&self, path: &RelPath) -> Option<Vec<Rejection>> {
        let sheet = self.sheets.get(path)?;
        let place = DocumentPath::parse(path.as_str());
        let twins =
            place.as_ref().and_then(|place| self.by_id.get(&place.id)).map_or(0, BTreeSet::len);
        if twins > 1 {
            let other = self.by_id[&place?.id].iter().find(|other| *other != path)?;
            let found = format!("an id that `{other}` has too");
            return Some(vec![
                Rejection::new("AG-05", path, found, "each id once")
                    .with_digest(&sheet.file.digest),
            ]);
        }
        match &sheet.task {
            Err(problems) => Some(problems.clone()),
            Ok(task) => {
                if self.is_circle(task) {
                    let wanted = "dependencies without a circle, at most 1000 in a chain";
                    let found = format!("depends_on leads back to {}", task.id);
                    return Some(vec![
                        Rejection::new("AG-27", path, found, wanted)
                            .with_digest(&sheet.file.digest),
                    ]);
                }
                if let Some(parent) = task.parent.as_ref().filter(|_| !self.is_remedy(&task.id)) {
                    let found = format!("remediates: {parent}");
                    let wanted = "only subtasks that `agency` made itself; take the line out";
                    return Some(vec![
                        Rejection::new("AG-09", path, found, wanted)
                            .with_digest(&sheet.file.digest),
                    ]);
                }
                if let Some(found) = self.dead_end(task) {
                    let wanted = "tasks that exist and can still be DONE";
                    return Some(vec![
                        Rejection::new("AG-27", path, found, wanted)
                            .with_digest(&sheet.file.digest),
                    ]);
                }
                match self.claim(path) {
                    Claim::No(rejection) => Some(vec![rejection.with_digest(&sheet.file.digest)]),
                    Claim::Same | Claim::Move(_) => None,
                }
            }
        }
    }

    /// The task whose work a subtask of ours puts right.
    pub(in crate::protocol::board) fn parent_of(&self, id: &TaskId) -> Option<&TaskId> {
        if let Some(parent) = self.memory.tasks.get(id).and_then(|known| known.remediates.as_ref())
        {
            return Some(parent);
        }
        let parent = self.task(id)?.parent.as_ref()?;
        let work = self.memory.tasks.get(parent)?.work.as_ref()?;
        work.remedies.contains(id).then_some(parent)
    }

    /// A subtask that we made, or that the owner vouched for.
    fn is_remedy(&self, id: &TaskId) -> bool {
        self.parent_of(id).is_some() || self.memory.adopted.contains_key(id)
    }

    /// We run it ourselves, or the task that it belongs to.
    pub(in crate::protocol::board) fn is_run_by_us(&self, id: &TaskId) -> bool {
        let working = &self.memory.working;
        working.contains(id) || self.parent_of(id).is_some_and(|parent| working.contains(parent))
    }

    /// We run it ourselves, in the owner's own tree.
    pub(in crate::protocol::board) fn is_shared(&self, id: &TaskId) -> bool {
        let id = self.parent_of(id).unwrap_or(id);
        let work = self.memory.tasks.get(id).and_then(|known| known.work.as_ref());
        self.memory.working.contains(id) && work.is_some_and(|work| work.shared)
    }

    /// The highest number that any task ever had, as far as we know.
    pub(in crate::protocol::board) fn last_number(&self) -> u64 {
        let last = |ids: &mut dyn DoubleEndedIterator<Item = &TaskId>| {
            ids.rev().find_map(TaskId::number).unwrap_or(0)
        };
        last(&mut self.by_id.keys()).max(last(&mut self.memory.tasks.keys()))
    }

    fn is_circle(&self, task: &Task) -> bool {
        let mut open: Vec<&TaskId> = task.depends_on.iter().collect();
        let mut seen: BTreeSet<&TaskId> = BTreeSet::new();
        while let Some(id) = open.pop() {
            if *id == task.id || seen.len() > CHAIN_MAX {
                return true;
            }
            // What is over cannot wait for anything.
            let over = self.status_of(id).is_some_and(Status::is_over);
            if !over && seen.insert(id) {
                open.extend(self.task(id).into_iter().flat_map(|task| &task.depends_on));
            }
        }
        false
    }

    /// AG-08: a status in a task file is a claim, and only some of them are the writer's to make.
    pub(in crate::protocol::board) fn claim(&self, path: &RelPath) -> Claim {
        let Some(task) = self.sheets.get(path).and_then(|sheet| sheet.task.as_deref().ok()) else {
            return Claim::Same;
        };
        let Some(status) = self.status_of(&task.id) else { return Claim::Same };
        let known =
            self.memory.tasks.contains_key(&task.id) || self.memory.adopted.contains_key(&task.id);
        if task.status == status {
            return Claim::Same;
        }
        let builders = between(status, task.status).filter(|row| row.who.allows(Actor::Builder));
        match builders {
            Some(row)
                if known && matches!(row.id, "TB2" | "TB6") && self.is_person(&task.assignee) =>
            {
                self.claim_by(row.id, task, path)
            }
            _ => {
                let found = format!("status: {} in the file", task.status.word());
                let wanted =
                    format!("{}; only `agency task …` and reports move a task", status.word());
                Claim::No(Rejection::new("AG-08", path, found, &wanted))
            }
        }
    }

    /// AG-11: the file of a task that we moved says DONE, and we never said so.
    pub(in crate::protocol::board) fn is_forged(&self, path: &RelPath) -> bool {
        let Some(task) = self.sheets.get(path).and_then(|sheet| sheet.task.as_deref().ok()) else {
            return false;
        };
        let known =
            self.memory.tasks.contains_key(&task.id) || self.memory.adopted.contains_key(&task.id);
        let alone = self.find(&task.id).is_some_and(|(one, _)| one == path);
        known
            && alone
            && task.status == Status::Done
            && self.status_of(&task.id) != Some(Status::Done)
    }

    /// A person's move; to begin, every dependency must be DONE.
    fn claim_by(&self, row: &str, task: &Task, path: &RelPath) -> Claim {
        let waits = if row == "TB2" { self.waits_for(task) } else { Vec::new() };
        if waits.is_empty() {
            return Claim::Move(task.status);
        }
        let found = format!("IN_PROGRESS while {}", waits.join(", "));
        let wanted = "every dependency DONE before the work begins";
        Claim::No(Rejection::new("AG-27", path, found, wanted))
    }

    /// AG-27: a task that has not begun, and never can.
    fn dead_end(&self, task: &Task) -> Option<String> {
        let waits = match self.status_of(&task.id) {
            Some(Status::New | Status::Assigned) | None => &task.depends_on[..],
            Some(
                Status::InProgress
                | Status::Blocked
                | Status::ReadyForReview
                | Status::Done
                | Status::Canceled,
            ) => &[],
        };
        waits.iter().find_map(|id| match self.status_of(id) {
            Some(Status::Canceled) => Some(format!("depends_on: {id} is CANCELED")),
            Some(
                Status::New
                | Status::Assigned
                | Status::InProgress
                | Status::Blocked
                | Status::ReadyForReview
                | Status::Done,
            ) => None,
            // One that is there and refused may still be put right.
            None if self.by_id.get(id).is_none_or(BTreeSet::is_empty) => {
                Some(format!("depends_on: {id} is not known"))
            }
            None => None,
        })
    }

    /// Dependencies that are not DONE, in words; empty: it may begin.
    pub(in crate::protocol::board) fn waits_for(&self, task: &Task) -> Vec<String> {
        let word = |id: &TaskId| match self.status_of(id) {
            Some(Status::Done) => None,
            Some(status) => Some(format!("{id} is {}", status.word())),
            None => Some(format!("{id} is not known")),
        };
        task.depends_on.iter().filter_map(word).collect()
    }

    /// The newest report of a task, whatever it says.
    pub(in crate::protocol::board) fn newest_report(
        &self,
        id: &TaskId,
    ) -> Option<(&RelPath, &Bytes)> {
        self.reports.get(id)?.last_key_value()
    }

    /// The newest report of a task that is one, by path.
    pub(in crate::protocol::board) fn report_of(
        &self,
        id: &TaskId,
    ) -> Option<(&RelPath, &Bytes, Report)> {
        let reports = self.reports.get(id)?;
        reports.iter().rev().find_map(|(path, file)| {
            let report = report::parse_in(&file.bytes, path, self.zone()).ok()?;
            let task = self.task(id)?;
            same_agent(&report.agent, &task.assignee).then_some((path, file, report))
        })
    }

    pub(in crate::protocol::board) fn report_file(
        &self,
        path: &RelPath,
    ) -> Option<(TaskId, &Bytes)> {
        let place = DocumentPath::parse(path.as_str())?;
        let file = self.reports.get(&place.id)?.get(path)?;
        Some((place.id, file))
    }

    /// Something of ours is under way; deciding waits for it.
    pub(in crate::protocol::board) fn is_busy(&self) -> bool {
        self.busy_with().is_some()
    }

    /// The effect that deciding waits for.
    pub(in crate::protocol::board) fn busy_with(&self) -> Option<&Effect> {
        self.in_flight.values().find(|effect| {
            !matches!(effect, Effect::Push { .. } | Effect::Lease { .. } | Effect::Stop { .. })
        })
    }

    pub(in crate::protocol::board) fn is_unreadable(&self, path: &'static str) -> bool {
        matches!(self.file(path), Some(FileState::Unreadable(_)))
    }

    pub(in crate::protocol::board) fn count(&self, status: Status) -> usize {
        self.columns.get(&status).map_or(0, BTreeSet::len)
    }
}
