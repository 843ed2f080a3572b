//! The Agency board's own verbs (spec 2 §15): one file for each. What they share: the board of this repository, and how a task is found.

pub(super) mod archive;
pub(super) mod count;
mod head;
pub(super) mod hidden;
pub(super) mod import;
pub(crate) mod inspect;
mod maker;
pub(super) mod new;
mod prompt;
pub(super) mod report;
mod runner;
mod seen;
pub(super) mod setup;
pub(super) mod task;
pub(super) mod verify;

use super::ask::answer;
use super::context::Context;
use super::exit::{Misused, Refused};
use crate::clock;
use crate::model::{FileState, Rejection, RelPath, Verb};
use crate::protocol::board::manifest::{self, Manifest};
use crate::protocol::board::names::{self, TaskId, Zone};
use crate::protocol::board::profile::{self, Profile, Signals, Unchecked};
use crate::protocol::board::task::Task;
use crate::protocol::board::{self, FILE_MAX};
use crate::read;
use crate::run::run_around;
use std::path::{Path, PathBuf};

/// Languages are looked for in the top folder and two folders below it, in so many folders at most.
const LEVELS: usize = 3;
const FOLDERS_MAX: usize = 500;

/// A repository with a board in it.
pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) manifest: Manifest,
}

impl Place {
    pub(super) fn of(context: &Context) -> anyhow::Result<Self> {
        let root = context.root()?;
        let Some(bytes) = bytes(&root, manifest::PATH)? else {
            return Err(Misused(format!(
                "there is no board here: `{}` is missing; `agency init` makes one",
                manifest::PATH
            ))
            .into());
        };
        let manifest = manifest::parse(&bytes).map_err(|problems| refused(&problems))?;
        Ok(Self { root, manifest })
    }

    /// The one file of a task, by its name.
    pub(super) fn find(&self, id: &TaskId) -> anyhow::Result<RelPath> {
        let mut found = Vec::new();
        let prefix = format!("{id}-");
        each_file(&self.root, |file| {
            if file.name.starts_with(&prefix) && file.id().is_some() {
                found.push(file.path());
            }
        });
        match found.as_slice() {
            [one] => Ok(RelPath::new(one.clone())?),
            [] if archive::has(&self.root, id) => {
                let how = format!("`agency archive --restore {id}` brings it back");
                Err(Refused(format!("{id} was put into the archive; {how}")).into())
            }
            [] => {
                Err(Refused(format!("there is no task {id}; `agency task list` shows them")).into())
            }
            many => Err(Refused(format!(
                "{id} is there {} times: {} (AG-05)",
                many.len(),
                many.join(", ")
            ))
            .into()),
        }
    }

    pub(super) fn task(&self, id: &TaskId) -> anyhow::Result<(RelPath, Task)> {
        let path = self.find(id)?;
        let bytes = bytes(&self.root, path.as_str())?.unwrap_or_default();
        let task = board::task::parse_in(&bytes, &path, self.manifest.zone)
            .map_err(|problems| refused(&problems))?;
        Ok((path, task))
    }
}

/// A task id from the command line.
pub(super) fn task_id(text: &str) -> Result<TaskId, String> {
    TaskId::parse(text).ok_or_else(|| "wanted a task id such as T0001".to_owned())
}

/// Every problem, one per line.
pub(super) fn refused(problems: &[Rejection]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    Refused(lines.join("\n  ")).into()
}

/// The bytes of a file by a safe read; `None` when it is not there.
pub(super) fn bytes(root: &Path, path: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let path = RelPath::new(path)?;
    match read::read(root, &path, FILE_MAX, clock::now())?.state {
        FileState::Absent => Ok(None),
        FileState::Whole(file) => Ok(Some(file.bytes.to_vec())),
        FileState::Unreadable(odd) => {
            Err(Refused(format!("`{path}` is {}; wanted {}", odd.found, odd.wanted)).into())
        }
    }
}

/// Looks at the repository's top folder, as detection wants to see it.
pub(super) fn signals<T>(root: &Path, look: impl FnOnce(&Signals<'_>) -> T) -> T {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let read = |name: &str| {
        bytes(root, name).ok().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    look(&Signals { names: &names, read: &read })
}

/// AG-42: languages of this repository that no command of the profile checks.
pub(super) fn unchecked(root: &Path, profile: &Profile) -> Vec<Unchecked> {
    let (mut files, markers) = (Vec::new(), profile::markers());
    let mut open = vec![String::new()];
    for _ in 0..LEVELS {
        let mut below = Vec::new();
        for folder in open {
            let entries = std::fs::read_dir(root.join(&folder)).into_iter().flatten().flatten();
            for entry in entries {
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = format!("{folder}{name}");
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => below.push(format!("{path}/")),
                    Ok(kind) if kind.is_file() && profile::matches(&name, &markers) => {
                        files.push(path);
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        below.retain(|folder| profile::is_own(folder));
        below.truncate(FOLDERS_MAX);
        open = below;
    }
    profile::unchecked(profile, &files)
}

/// The file itself, or the rules file of this repository that a link names: `CLAUDE.md` is often a link to `AGENTS.md`.
/// `None`: the link leads elsewhere.
pub(super) fn rules_file(root: &Path, path: &str) -> Option<String> {
    let at = root.join(path);
    if !at.symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
        return Some(path.to_owned());
    }
    let real = at.canonicalize().ok().filter(|real| real.is_file())?;
    let inside = real.strip_prefix(root.canonicalize().ok()?).ok()?.to_str()?.to_owned();
    let rules = inside.ends_with(".md") || inside.ends_with(".mdc");
    (rules && !inside.starts_with(".git/")).then_some(inside)
}

/// AG-38: STATE.md and TASK_BOARD.md list what was just added. The task itself is there, so a problem with that
/// is said and is not a failure. Inside an agent's run the daemon sees the new file and lists it.
pub(super) fn list_anew(context: &Context) {
    if run_around(std::process::id()).is_some() {
        return;
    }
    if let Err(error) = answer(context, Verb::Do, Some(board::NAME), &[("do", Some("listed"))]) {
        anstream::eprintln!("note: STATE.md and TASK_BOARD.md are not up to date: {error:#}");
    }
}

/// The board's zone; UTC where the manifest cannot be read.
fn zone(root: &Path) -> Zone {
    let text = bytes(root, manifest::PATH).ok().flatten();
    let manifest = text.and_then(|text| manifest::parse(&text).ok());
    manifest.map_or(Zone::UTC, |manifest| manifest.zone)
}

/// A file of the inbox, by its name alone.
pub(super) struct Named<'a> {
    agent: &'a str,
    date: &'a str,
    name: &'a str,
}

impl Named<'_> {
    fn path(&self) -> String {
        format!(".kodingx/inbox/{}/{}/{}", self.agent, self.date, self.name)
    }

    /// `None`: it is no task.
    fn id(&self) -> Option<TaskId> {
        self.name.strip_suffix(".md").and_then(names::id_of)
    }
}

/// Every file of the inbox; nothing is opened.
pub(super) fn each_file(root: &Path, tell: impl FnMut(&Named<'_>)) {
    each_below(&root.join(".kodingx/inbox"), tell);
}

/// The same for an inbox that lies elsewhere.
fn each_below(inbox: &Path, mut tell: impl FnMut(&Named<'_>)) {
    for (agent, dir) in folders(inbox) {
        for (date, dir) in folders(&dir) {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                if let Some(name) = entry.file_name().to_str() {
                    tell(&Named { agent: &agent, date: &date, name });
                }
            }
        }
    }
}

/// A folder of ours, made where it is missing; a link on the way would lead out of the repository.
pub(super) fn folder(root: &Path, path: &str) -> anyhow::Result<PathBuf> {
    let mut at = root.to_owned();
    for name in path.split('/') {
        at.push(name);
        match at.symlink_metadata() {
            Ok(meta) if meta.is_dir() => {}
            Ok(_) => {
                return Err(Refused(format!(
                    "`{}` is not a folder; nothing is written through it (SE-02)",
                    at.display()
                ))
                .into());
            }
            Err(_) => match std::fs::create_dir(&at) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(error.into());
                }
                Ok(()) | Err(_) => {}
            },
        }
    }
    Ok(at)
}

/// The folders in a folder; links are none, and a link has none.
pub(super) fn folders(dir: &Path) -> Vec<(String, PathBuf)> {
    if !dir.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Vec::new();
    }
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let folder = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        entry.file_type().ok()?.is_dir().then(|| (name, entry.path()))
    };
    let mut found: Vec<_> = entries.filter_map(folder).collect();
    found.sort();
    found
}
