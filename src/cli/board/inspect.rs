//! The board as its files tell it, for readers: tasks, reports, counts. It takes no lock and changes nothing.

use super::{bytes, folders};
use crate::model::{Rejection, RelPath};
use crate::protocol::board::names::{Place, PlaceKind, TaskId, id_of};
use crate::protocol::board::table::Status;
use crate::protocol::board::task::{self, Task};
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

/// Enough of a task file to find its status in, and where nearly every one says it.
const HEAD: usize = 8 * 1024;
const FIRST: usize = 1024;
const THREADS: usize = 4;

/// The tasks of a board with their paths, and what is wrong with the others.
pub(super) type Tasks = (Vec<(RelPath, Task)>, Vec<Rejection>);

pub(super) fn tasks(root: &Path) -> Tasks {
    tasks_that(root, |_| true)
}

/// Only those whose status is wanted: of the others no more is read than it takes to know that.
pub(super) fn tasks_that(root: &Path, wanted: impl Fn(Status) -> bool + Sync) -> Tasks {
    let (mut tasks, mut problems) = (Vec::new(), Vec::new());
    let days = days(&root.join(".kodingx/inbox"));
    for (good, bad) in each_day(&days, |day| tasks_of(root, day, &wanted)) {
        tasks.extend(good);
        problems.extend(bad);
    }
    (tasks, problems)
}

fn tasks_of(root: &Path, day: &Path, wanted: impl Fn(Status) -> bool) -> Tasks {
    let (mut tasks, mut problems) = (Vec::new(), Vec::new());
    let (Ok(dir), Ok(below)) = (File::open(day), day.strip_prefix(root)) else {
        return (tasks, problems);
    };
    let mut head = vec![0; HEAD];
    for entry in std::fs::read_dir(day).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(".md"));
        let path = below.join(&name).to_str().and_then(|path| RelPath::new(path).ok());
        let (Some(path), Some(_)) = (path, stem.and_then(id_of)) else { continue };
        if status_of(&dir, &name, &mut head).is_some_and(|status| !wanted(status)) {
            continue;
        }
        match bytes(root, path.as_str()) {
            Ok(Some(bytes)) => match task::parse(&bytes, &path) {
                Ok(task) if wanted(task.status) => tasks.push((path, task)),
                Ok(_) => {}
                Err(found) => problems.extend(found),
            },
            Ok(None) => {}
            Err(error) => {
                problems.push(Rejection::new("DM-04", &path, error.to_string(), "a plain file"));
            }
        }
    }
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
    if !root.join(".kodingx/agency.json").is_file() {
        return None;
    }
    let counted = each_day(&days(&root.join(".kodingx/inbox")), count_day);
    let mut sums = [0; 8];
    counted.iter().for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, one)| *sum += one));
    let tasks = Status::ALL.iter().zip(sums).filter(|(_, count)| *count > 0);
    let reports = each_day(&days(&root.join(".kodingx/outbox")), |day| {
        std::fs::read_dir(day).into_iter().flatten().count() as u64
    });
    Some(Counts {
        tasks: tasks.map(|(status, count)| (status.word(), count)).collect(),
        unreadable: sums[7],
        reports: reports.into_iter().sum(),
    })
}

/// The folders of all days of all agents.
fn days(inbox: &Path) -> Vec<PathBuf> {
    let dates = |(_, dir): (String, PathBuf)| folders(&dir).into_iter().map(|(_, dir)| dir);
    folders(inbox).into_iter().flat_map(dates).collect()
}

/// The same for every day, on all cores: most of it is waiting for the file system.
pub(super) fn each_day<T: Send>(days: &[PathBuf], look: impl Fn(&Path) -> T + Sync) -> Vec<T> {
    let look = &look;
    std::thread::scope(|scope| {
        let share = days.len().div_ceil(THREADS).max(1);
        let threads: Vec<_> = days
            .chunks(share)
            .map(|days| scope.spawn(move || days.iter().map(|day| look(day)).collect::<Vec<T>>()))
            .collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.flat_map(|found| found.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn count_day(day: &Path) -> [u64; 8] {
    let mut sums = [0; 8];
    let Ok(dir) = File::open(day) else { return sums };
    let mut head = vec![0; HEAD];
    for entry in std::fs::read_dir(day).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !name.as_encoded_bytes().ends_with(b".md") {
            continue;
        }
        let plain = entry.file_type().is_ok_and(|kind| kind.is_file());
        let status = if plain { status_of(&dir, &name, &mut head) } else { None };
        let at = status.and_then(|status| Status::ALL.iter().position(|other| *other == status));
        sums[at.unwrap_or(7)] += 1;
    }
    sums
}

/// Reads no more of a file than it takes to find its status.
fn status_of(dir: &File, name: &OsStr, head: &mut [u8]) -> Option<Status> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(dir, name, flags, Mode::empty()).ok()?);
    let mut filled = 0;
    for end in [FIRST.min(head.len()), head.len()] {
        while filled < end {
            match file.read(&mut head[filled..end]) {
                Ok(0) => return status_in(&head[..filled]),
                Ok(count) => filled += count,
                Err(_) => return None,
            }
            // Most files are shorter than the first look, and say their status early.
            if let Some(status) = status_in(&head[..filled]) {
                return Some(status);
            }
        }
    }
    None
}

/// The `status:` line of a frontmatter, without reading the rest. A line that is not whole yet does not count.
fn status_in(head: &[u8]) -> Option<Status> {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let mut lines =
        head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.next().filter(|line| line.trim_ascii_end() == b"---")?;
    let mut fields = lines.take_while(|line| line.trim_ascii_end() != b"---");
    let value = fields.find_map(|line| line.strip_prefix(b"status:"))?;
    let value = std::str::from_utf8(value).ok()?.split('#').next().unwrap_or_default();
    Status::parse(value.trim().trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AG-21
    #[test]
    fn a_status_is_found_wherever_it_stands_and_nothing_else_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(".kodingx/inbox/codex/2026-01-31");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(dir.path().join(".kodingx/agency.json"), "{}").unwrap();
        let late = format!("---\ntitle: \"{}\"\nstatus: DONE\n---\n", "x".repeat(5000));
        for (name, text) in [
            ("a.md", "---\nid: T0001\nstatus: NEW\n---\n"),
            ("b.md", "\u{feff}---\r\nstatus: \"NEW\" # why\r\n---\r\n"),
            ("c.md", late.as_str()),
            ("d.md", "---\nid: T0001\n---\nstatus: NEW\n"),
            ("e.md", "status: NEW\n"),
            ("f.md", "---\nstatus: DO"),
            ("g.md", "---\n  status: NEW\n"),
            (".gitkeep", ""),
        ] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("a.md", folder.join("h.md")).unwrap();
        nix::unistd::mkfifo(&folder.join("i.md"), Mode::S_IRWXU).unwrap();
        let counts = counts(dir.path()).unwrap();
        assert_eq!(counts.words(), "2 NEW · 1 DONE · 6 unreadable");
        assert_eq!(each_day(&days(&dir.path().join(".kodingx/inbox")), |_| 1), [1]);
        assert!(each_day(&[], |_| 1).is_empty());
    }
}
