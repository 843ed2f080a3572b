//! `agency archive`: finished tasks with their reports and artifacts go to `.kodingx/archive/`, and come back when asked for.

use super::super::context::Context;
use super::super::exit::{Exit, Refused};
use super::super::show;
use super::{Place, bytes, each_below, each_file, folders, inspect, task_id, zone};
use crate::clock;
use crate::model::RelPath;
use crate::protocol::board::names::{NUMBER_MAX, TaskId, id_of, number_of};
use crate::protocol::board::state;
use crate::protocol::board::task::{self, Task};
use crate::store::{self, FolderLock};
use std::collections::{BTreeSet, HashSet};
use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

const FOLDER: &str = ".kodingx/archive";
const LAST_ID: &str = ".kodingx/archive/last-id";
const WAIT: Duration = Duration::from_secs(60);
/// The task itself last: whoever is ended in the middle finds by it what is left to move.
const BOXES: [&str; 3] = ["verify", "outbox", "inbox"];

/// Put finished tasks away, or bring one back
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency archive --older-than 30\n  agency archive --restore T0007"
)]
pub(crate) struct Args {
    /// Tasks that are DONE or CANCELED and were made more than so many days ago
    #[arg(long, value_name = "DAYS", required_unless_present = "restore")]
    older_than: Option<u32>,
    /// Bring this task back with everything of it
    #[arg(long, value_name = "ID", value_parser = task_id, conflicts_with = "older_than")]
    restore: Option<TaskId>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    super::setup::refuse_agents()?;
    let moved = {
        let inbox = place.root.join(".kodingx/inbox");
        let Some(_lock) = FolderLock::acquire(&inbox, WAIT)? else {
            let why = "another command is making tasks here; try again";
            return Err(Refused(why.to_owned()).into());
        };
        match (&args.restore, args.older_than) {
            (Some(id), _) => restore(&place, id)?,
            (None, days) => archive(&place, days.unwrap_or(0))?,
        }
    };
    if !moved.is_empty() {
        super::list_anew(context);
    }
    if args.json {
        show::json(&moved)?;
    } else {
        moved.iter().for_each(|path| anstream::println!("{path}"));
        let word = if moved.len() == 1 { "file" } else { "files" };
        anstream::eprintln!("{} {word} moved", moved.len());
    }
    Ok(Exit::Fine)
}

fn archive(place: &Place, days: u32) -> anyhow::Result<Vec<String>> {
    let root = &place.root;
    let state =
        bytes(root, state::PATH)?.and_then(|bytes| state::parse(&bytes).ok()).unwrap_or_default();
    let now = clock::now().wall;
    let young = |created: chrono::DateTime<chrono::FixedOffset>| {
        now.signed_duration_since(created) <= chrono::TimeDelta::days(i64::from(days))
    };
    let (tasks, _) = inspect::tasks(root);
    // Somebody still waits for what they depend on; and STATE.md has the last word on what is active.
    let wanted: HashSet<TaskId> = tasks
        .iter()
        .filter(|(_, task)| !task.status.is_over())
        .flat_map(|(_, task)| task.depends_on.clone())
        .collect();
    // Its artifact is the one that STATE.md names.
    let verified = state.last_verify.as_ref().map(|last| &last.task_id);
    let active = |id: &TaskId| {
        let listed = state.active_tasks.contains(id) || state.blocked_tasks.contains(id);
        listed || verified == Some(id)
    };
    let over = tasks.iter().filter(|(_, task)| {
        task.status.is_over()
            && !young(task.created_at)
            && !active(&task.id)
            && !wanted.contains(&task.id)
    });
    let over: HashSet<TaskId> = over.map(|(_, task)| task.id.clone()).collect();
    remember_last(root, over.iter().filter_map(TaskId::number).max())?;
    move_all(root, ".kodingx", FOLDER, |id| over.contains(id))
}

fn restore(place: &Place, id: &TaskId) -> anyhow::Result<Vec<String>> {
    let mut twin = None;
    each_file(&place.root, |file| {
        if file.id().as_ref() == Some(id) {
            twin = Some(file.path());
        }
    });
    if let Some(twin) = twin.filter(|_| has(&place.root, id)) {
        return Err(Refused(format!("`{twin}` has the id {id} already (AG-05)")).into());
    }
    let moved = move_all(&place.root, FOLDER, ".kodingx", |other| other == id)?;
    if moved.is_empty() {
        return Err(Refused(format!(
            "{id} is not in the archive; `agency task list` shows the tasks that are on the board"
        ))
        .into());
    }
    Ok(moved)
}

/// Moves every file whose name begins with a wanted id; never over another.
fn move_all(
    root: &Path,
    from: &str,
    to: &str,
    wanted: impl Fn(&TaskId) -> bool,
) -> anyhow::Result<Vec<String>> {
    let mut moved = Vec::new();
    for name in BOXES {
        let mut open = vec![format!("{name}")];
        while let Some(folder) = open.pop() {
            let dir = root.join(from).join(&folder);
            open.extend(folders(&dir).into_iter().map(|(name, _)| format!("{folder}/{name}")));
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let file = entry.file_name().to_string_lossy().into_owned();
                if !entry.file_type().is_ok_and(|kind| kind.is_file())
                    || !id_of_file(&file).is_some_and(|id| wanted(&id))
                {
                    continue;
                }
                let target = super::folder(root, &format!("{to}/{folder}"))?;
                if target.join(&file).symlink_metadata().is_ok() {
                    return Err(Refused(format!(
                        "`{to}/{folder}/{file}` is there already; nothing is overwritten"
                    ))
                    .into());
                }
                std::fs::rename(entry.path(), target.join(&file))?;
                moved.push(format!("{to}/{folder}/{file}"));
            }
        }
    }
    moved.sort();
    Ok(moved)
}

/// The task that a file of any box belongs to.
fn id_of_file(name: &str) -> Option<TaskId> {
    let stem = name.split('.').next()?;
    id_of(stem)
}

/// The highest id that went into the archive: it is never given again, and the archive need not be read for it. Where that
/// was lost, the archive is.
pub(super) fn last_id(root: &Path) -> anyhow::Result<u64> {
    let text = bytes(root, LAST_ID)?;
    let noted = text.and_then(|text| String::from_utf8_lossy(&text).trim().parse().ok());
    if let Some(noted) = noted.filter(|noted| *noted < NUMBER_MAX) {
        return Ok(noted);
    }
    let mut highest = 0;
    each_below(&root.join(FOLDER).join("inbox"), |file| {
        highest = highest.max(number_of(file.name).unwrap_or(0));
    });
    Ok(highest)
}

pub(super) fn has(root: &Path, id: &TaskId) -> bool {
    let mut found = false;
    each_below(&root.join(FOLDER).join("inbox"), |file| found |= file.id().as_ref() == Some(id));
    found
}

pub(in super::super) fn ids(root: &Path) -> BTreeSet<TaskId> {
    let mut ids = BTreeSet::new();
    each_below(&root.join(FOLDER).join("inbox"), |file| ids.extend(file.id()));
    ids
}

/// The tasks that were put away, as far as they can be read.
pub(super) fn tasks(root: &Path) -> Vec<Task> {
    let (mut tasks, zone) = (Vec::new(), zone(root));
    each_below(&root.join(FOLDER).join("inbox"), |file| {
        let path = file.path();
        let archived = path.replacen(".kodingx", FOLDER, 1);
        let text = bytes(root, &archived).ok().flatten();
        let task = text
            .zip(RelPath::new(path).ok())
            .and_then(|(text, path)| task::parse_in(&text, &path, zone).ok());
        tasks.extend(task);
    });
    tasks
}

fn remember_last(root: &Path, highest: Option<u64>) -> anyhow::Result<()> {
    let Some(highest) = highest else { return Ok(()) };
    if highest <= last_id(root)? {
        return Ok(());
    }
    let path = RelPath::fixed(LAST_ID);
    store::edit(root, &path, 100, WAIT, |_| {
        Ok::<_, Infallible>(Some(format!("{highest}\n").into_bytes()))
    })?;
    Ok(())
}
