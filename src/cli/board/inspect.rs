//! The board as its files tell it, for readers: tasks, reports, counts. It takes no lock and changes nothing.

use super::{bytes, each_task, folders};
use crate::model::{Rejection, RelPath};
use crate::protocol::board::names::{Place, PlaceKind, TaskId};
use crate::protocol::board::table::Status;
use crate::protocol::board::task::{self, Task};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Enough of a task file to find its status in.
const HEAD: u64 = 8 * 1024;
const THREADS: usize = 4;

/// Every valid task with its path, and what is wrong with the others.
pub(super) fn tasks(root: &Path) -> (Vec<(RelPath, Task)>, Vec<Rejection>) {
    let (mut tasks, mut problems) = (Vec::new(), Vec::new());
    each_task(root, |path, _| {
        let Ok(path) = RelPath::new(path) else { return };
        match bytes(root, path.as_str()) {
            Ok(Some(bytes)) => match task::parse(&bytes, &path) {
                Ok(task) => tasks.push((path, task)),
                Err(found) => problems.extend(found),
            },
            Ok(None) => {}
            Err(error) => {
                problems.push(Rejection::new("DM-04", &path, error.to_string(), "a plain file"))
            }
        }
    });
    (tasks, problems)
}

pub(super) fn to_json(path: &RelPath, task: &Task) -> Value {
    json!({
        "id": task.id, "title": task.title, "status": task.status, "priority": task.priority.word(),
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
                let place = Place::parse(&path).filter(|place| place.kind == PlaceKind::Report);
                if place.is_some_and(|place| place.id == *id) {
                    found.push((date.clone(), path));
                }
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// How many tasks say what, and how many reports lie there.
pub(crate) struct Counts {
    pub(crate) tasks: BTreeMap<&'static str, u64>,
    pub(crate) unreadable: u64,
    pub(crate) reports: u64,
}

impl Counts {
    /// One line for `agency status`.
    pub(crate) fn words(&self) -> String {
        let mut words: Vec<String> = Status::ALL
            .iter()
            .filter_map(|status| {
                Some(format!("{} {}", self.tasks.get(status.word())?, status.word()))
            })
            .collect();
        if words.is_empty() {
            words.push("no task yet".to_owned());
        }
        if self.unreadable > 0 {
            words.push(format!("{} unreadable", self.unreadable));
        }
        words.join(" · ")
    }
}

/// Counts by the head of each file: fast enough for a hundred thousand. `None`: there is no board.
pub(crate) fn counts(root: &Path) -> Option<Counts> {
    let inbox = root.join(".kodingx/inbox");
    if !root.join(".kodingx/agency.json").is_file() {
        return None;
    }
    let dates = |(_, dir): (String, PathBuf)| folders(&dir).into_iter().map(|(_, dir)| dir);
    let days: Vec<PathBuf> = folders(&inbox).into_iter().flat_map(dates).collect();
    let counted: Vec<[u64; 8]> = std::thread::scope(|scope| {
        let days = &days;
        let threads: Vec<_> = (0..THREADS)
            .map(|first| {
                scope
                    .spawn(move || days.iter().skip(first).step_by(THREADS).fold([0; 8], count_day))
            })
            .collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let mut sums = [0; 8];
    counted.iter().for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, one)| *sum += one));
    let tasks = Status::ALL.iter().zip(sums).filter(|(_, count)| *count > 0);
    let reports = folders(&root.join(".kodingx/outbox")).into_iter().flat_map(dates);
    let reports =
        reports.map(|dir| std::fs::read_dir(dir).into_iter().flatten().count() as u64).sum();
    Some(Counts {
        tasks: tasks.map(|(status, count)| (status.word(), count)).collect(),
        unreadable: sums[7],
        reports,
    })
}

fn count_day(mut sums: [u64; 8], day: &PathBuf) -> [u64; 8] {
    let mut head = Vec::new();
    for entry in std::fs::read_dir(day).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.ends_with(".md")) {
            continue;
        }
        head.clear();
        let plain = entry.file_type().is_ok_and(|kind| kind.is_file());
        let read = plain
            && File::open(entry.path())
                .and_then(|file| file.take(HEAD).read_to_end(&mut head))
                .is_ok();
        let status = if read { status_in(&head) } else { None };
        let at = status.and_then(|status| Status::ALL.iter().position(|other| *other == status));
        sums[at.unwrap_or(7)] += 1;
    }
    sums
}

/// The `status:` line of a frontmatter, without reading the rest.
fn status_in(head: &[u8]) -> Option<Status> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    lines.next().filter(|line| line.trim_end() == "---")?;
    let fields = lines.take_while(|line| line.trim_end() != "---");
    let value = fields.filter_map(|line| line.strip_prefix("status:")).next()?;
    let value = value.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
    Status::parse(value)
}
