//! The board as its files tell it, for readers: tasks and reports. It takes no lock and changes nothing.

use super::super::context::Context;
use super::head::{self, HEAD, Open};
use super::{bytes, folders, zone};
use crate::model::{Rejection, RelPath};
use crate::protocol::board::NAME;
use crate::protocol::board::names::{DocumentKind, DocumentPath, TaskId, Zone, id_of};
use crate::protocol::board::table::Status;
use crate::protocol::board::task::{self, Task};
use crate::{store, workspace};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{DirEntry, File};
use std::os::unix::fs::DirEntryExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many look at once. Who reads files waits for the disk most of the time, so there may be more than there are cores.
pub(super) const READERS: usize = 16;
/// Who only lists folders has work to do.
pub(super) const LISTERS: usize = 4;

/// The tasks of a board with their paths, and what is wrong with the others.
pub(crate) type Tasks = (Vec<(RelPath, Task)>, Vec<Rejection>);

pub(super) fn tasks(root: &Path) -> Tasks {
    tasks_that(root, |_| true)
}

/// Only those whose status is wanted: of the others no more is read than it takes to know that.
pub(crate) fn tasks_that(root: &Path, wanted: impl Fn(Status) -> bool + Sync) -> Tasks {
    let (mut tasks, mut problems) = (Vec::new(), Vec::new());
    let days = days(&root.join(".kodingx/inbox"));
    let (ahead, zone) = (head::ahead(READERS), zone(root));
    for (good, bad) in each_day(&days, READERS, |day| tasks_of(root, (day, zone), ahead, &wanted)) {
        tasks.extend(good);
        problems.extend(bad);
    }
    (tasks, problems)
}

fn tasks_of(
    root: &Path,
    (day, zone): (&Path, Zone),
    ahead: usize,
    wanted: impl Fn(Status) -> bool,
) -> Tasks {
    let (mut tasks, mut problems) = (Vec::new(), Vec::new());
    let (Ok(dir), Ok(below)) = (File::open(day), day.strip_prefix(root)) else {
        return (tasks, problems);
    };
    let mut entries: Vec<DirEntry> =
        std::fs::read_dir(day).into_iter().flatten().flatten().collect();
    // Nearly the order in which they lie on the disk.
    entries.sort_unstable_by_key(DirEntryExt::ino);
    let named = entries.iter().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str().and_then(|name| name.strip_suffix(".md")).and_then(id_of)?;
        let path = below.join(&name).to_str().and_then(|path| RelPath::new(path).ok())?;
        Some((name, path))
    });
    let mut head = vec![0; HEAD];
    let begin = |(name, path): (OsString, RelPath)| (Open::new(&dir, &name), path);
    head::each_ahead(named, ahead, begin, |(open, path)| {
        let said = open.and_then(|open| open.status(&mut head)).and_then(|(_, status)| status);
        if said.is_some_and(|status| !wanted(status)) {
            return;
        }
        match bytes(root, path.as_str()) {
            Ok(Some(bytes)) => match task::parse_in(&bytes, &path, zone) {
                Ok(task) if wanted(task.status) => tasks.push((path, task)),
                Ok(_) => {}
                Err(found) => problems.extend(found),
            },
            Ok(None) => {}
            Err(error) => {
                problems.push(Rejection::new("DM-04", &path, error.to_string(), "a plain file"));
            }
        }
    });
    (tasks, problems)
}

/// Where tasks really stand, as our journal has it (AG-11): a file's DONE is only a claim.
pub(crate) struct Stands {
    tasks: BTreeMap<String, Status>,
    /// Our journal knows this board.
    known: bool,
}

impl Stands {
    pub(crate) fn of(remembered: &BTreeMap<String, Value>) -> Self {
        let status = |value: &Value| value.as_str().and_then(Status::parse);
        let adopted = remembered.get("adopted").and_then(Value::as_object).into_iter().flatten();
        let mut tasks: BTreeMap<String, Status> =
            adopted.filter_map(|(id, value)| Some((id.clone(), status(value)?))).collect();
        tasks.extend(remembered.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix("task/")?.to_owned(), status(&value["status"])?))
        }));
        Self { tasks, known: remembered.contains_key("ours") }
    }

    pub(super) fn read(context: &Context) -> anyhow::Result<Self> {
        let Some(places) = context.places()? else { return Ok(Self::of(&BTreeMap::new())) };
        let records = store::tail(&places.journal(), usize::MAX);
        Ok(Self::of(&workspace::remembered(&records, NAME)))
    }

    /// A file moves nothing by itself; one that the journal does not know yet may only be new.
    pub(crate) fn status(&self, task: &Task) -> Status {
        match self.tasks.get(task.id.as_str()) {
            Some(status) => *status,
            None if self.known && task.status == Status::Done => Status::New,
            None => task.status,
        }
    }

    /// A file that says this may belong to a task that stands elsewhere.
    pub(super) fn may_differ(&self, said: Status) -> bool {
        self.known && said == Status::Done
    }
}

pub(super) fn to_json(path: &RelPath, task: &Task, status: Status) -> Value {
    json!({
        "id": task.id, "title": task.title, "status": status, "file_status": task.status, "priority": task.priority.word(),
        "assignee": task.assignee, "created_at": task.created_at.to_rfc3339(), "dod_profile": task.dod_profile,
        "scope": task.scope, "labels": task.labels, "depends_on": task.depends_on,
        "context_files": task.context_files, "acceptance": task.acceptance, "constraints": task.constraints,
        "risks": task.risks, "external_refs": task.refs.iter().cloned().collect::<BTreeMap<_, _>>(),
        "parent": task.parent, "path": path.as_str(),
    })
}

/// The reports of a task, oldest day first.
pub(super) fn reports(root: &Path, id: &TaskId) -> Vec<String> {
    let mut found = Vec::new();
    for (agent, dir) in folders(&root.join(".kodingx/outbox")) {
        for (date, dir) in folders(&dir) {
            for name in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let Ok(name) = name.file_name().into_string() else { continue };
                let path = format!(".kodingx/outbox/{agent}/{date}/{name}");
                let place =
                    DocumentPath::parse(&path).filter(|place| place.kind == DocumentKind::Report);
                if place.is_some_and(|place| place.id == *id) {
                    found.push((date.clone(), path));
                }
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// The folders of all days of all agents. What was written at about the same time is together, also on the disk.
pub(super) fn days(inbox: &Path) -> Vec<PathBuf> {
    let mut days: Vec<_> =
        folders(inbox).into_iter().flat_map(|(_, agent)| folders(&agent)).collect();
    days.sort_by(|(date, _), (other, _)| date.cmp(other));
    days.into_iter().map(|(_, dir)| dir).collect()
}

/// The same for every day, in their order. Whoever is done takes the next.
pub(super) fn each_day<T: Send>(
    days: &[PathBuf],
    threads: usize,
    look: impl Fn(&Path) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let Some((at, day)) = take(&next, days) {
            found.push((at, look(day)));
        }
        found
    };
    let mut found: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = days.iter().take(threads).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|found| found.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, found)| found).collect()
}

fn take<'a>(next: &AtomicUsize, days: &'a [PathBuf]) -> Option<(usize, &'a PathBuf)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, days.get(at)?))
}
