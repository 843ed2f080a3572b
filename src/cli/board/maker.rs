//! Gives tasks their ids under the inbox's lock, and puts whole files there (AG-05). What a task says is not decided here.

use super::super::context::Context;
use super::super::exit::Refused;
use super::{Place, each_file, folder, inspect, refused};
use crate::clock;
use crate::model::{FileState, RelPath, Timestamp};
use crate::protocol::board::FILE_MAX;
use crate::protocol::board::manifest::IdStrategy;
use crate::protocol::board::names::{NUMBER_MAX, TaskId, number_of, task_path};
use crate::protocol::board::task::{self, NewTask};
use crate::read;
use crate::store::{self, Draft, FolderLock};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a command waits for the others that make tasks.
const WAIT: Duration = Duration::from_secs(120);

/// In our folder for this repository.
const GIVEN: &str = "board/last-given";

/// Nobody else makes tasks here while it is held.
pub(super) struct Maker<'a> {
    place: &'a Place,
    /// Our folder for this repository.
    memory: Option<PathBuf>,
    /// The highest number that is taken or was given, as far as notes say.
    noted: u64,
    inbox: Listing,
    _lock: FolderLock,
}

/// The highest number of the inbox. A large one is listed beside the writing of the file.
enum Listing {
    Begun(JoinHandle<std::io::Result<u64>>),
    Known(u64),
}

impl<'a> Maker<'a> {
    pub(super) fn open(context: &Context, place: &'a Place) -> anyhow::Result<Self> {
        let inbox = folder(&place.root, ".kodingx/inbox")?;
        let Some(lock) = FolderLock::acquire(&inbox, WAIT)? else {
            return Err(Refused(
                "somebody else has been making tasks here for two minutes; try again".to_owned(),
            )
            .into());
        };
        let inbox = match place.manifest.ids {
            IdStrategy::Sequential => {
                Listing::Begun(std::thread::spawn(move || highest_in(&inbox)))
            }
            IdStrategy::Ulid => Listing::Known(0),
        };
        let memory = context.memory(&place.root);
        let given = memory.as_deref().map_or(0, given);
        let noted = super::archive::last_id(&place.root)?.max(given);
        Ok(Self { place, memory, noted, inbox, _lock: lock })
    }

    pub(super) fn make(&mut self, task: &NewTask) -> anyhow::Result<(TaskId, RelPath)> {
        self.check_dependencies(task)?;
        let now = clock::now().wall;
        if self.place.manifest.ids == IdStrategy::Ulid {
            let id = TaskId::ulid(now, uuid::Uuid::new_v4().as_u128());
            let (path, draft) = self.draft(task, &id, now)?;
            publish(draft, &path)?;
            return Ok((id, path));
        }
        // Where the notes are right, the file is on the disk by the time at which the listing says so.
        let mut last = self.noted;
        let (id, path, draft) = loop {
            let id = TaskId::sequential(last + 1);
            let (path, draft) = self.draft(task, &id, now)?;
            let highest = self.highest()?;
            if highest == last {
                break (id, path, draft);
            }
            last = highest;
        };
        // Before the file: whoever is ended in between leaves a gap and never a double.
        self.note(last + 1);
        if let Err(error) = publish(draft, &path) {
            self.note(last);
            return Err(error);
        }
        self.noted = last + 1;
        Ok((id, path))
    }

    /// A new file without a name yet.
    fn draft(
        &self,
        task: &NewTask,
        id: &TaskId,
        now: Timestamp,
    ) -> anyhow::Result<(RelPath, Draft)> {
        let zone = self.place.manifest.zone;
        let path = task_path(&task.assignee, id, &task.title, zone, now);
        let text = task.render(id, &zone.stamp(now));
        // What would be refused when it is read is not written.
        task::parse(text.as_bytes(), &path).map_err(|problems| refused(&problems))?;
        if text.len() as u64 > FILE_MAX {
            let found = text.len();
            return Err(Refused(format!(
                "the task would have {found} bytes; at most {FILE_MAX} are read (AG-06)"
            ))
            .into());
        }
        let draft = Draft::new(&self.place.root, &path, text.as_bytes(), WAIT);
        match draft.map_err(|error| Refused(error.to_string()))? {
            Some(draft) => Ok((path, draft)),
            None => Err(Refused("somebody else is writing there; try again".to_owned()).into()),
        }
    }

    /// The highest number that is taken or was given. Every folder has been listed for it.
    fn highest(&mut self) -> anyhow::Result<u64> {
        let listed = match std::mem::replace(&mut self.inbox, Listing::Known(0)) {
            Listing::Begun(thread) => {
                let found = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                found.map_err(unreadable)?
            }
            Listing::Known(number) => number,
        };
        self.inbox = Listing::Known(listed);
        let highest = listed.max(self.noted);
        if highest < NUMBER_MAX { Ok(highest) } else { Err(self.no_id_left(highest)) }
    }

    fn note(&self, number: u64) {
        if let Some(memory) = &self.memory {
            note_given(memory, number);
        }
    }

    /// AG-27: what it waits for is there.
    fn check_dependencies(&self, task: &NewTask) -> anyhow::Result<()> {
        let mut missing: Vec<&TaskId> = task.depends_on.iter().collect();
        if !missing.is_empty() {
            each_file(&self.place.root, |file| {
                if let Some(id) = file.id() {
                    missing.retain(|dep| **dep != id);
                }
            });
            missing.retain(|dep| !super::archive::has(&self.place.root, dep));
        }
        match missing.first() {
            Some(dep) => {
                Err(Refused(format!("depends on {dep}, which does not exist (AG-27)")).into())
            }
            None => Ok(()),
        }
    }

    fn no_id_left(&self, highest: u64) -> anyhow::Error {
        let mut taken = String::new();
        each_file(&self.place.root, |file| {
            if number_of(file.name) == Some(highest) {
                taken = file.path();
            }
        });
        Refused(format!(
            "`{taken}` has the highest id that there can be; move it away, and ids go on (AG-05)"
        ))
        .into()
    }
}

fn publish(draft: Draft, path: &RelPath) -> anyhow::Result<()> {
    match draft.publish().map_err(|error| Refused(error.to_string()))? {
        true => Ok(()),
        false => Err(Refused(format!("`{path}` is there already")).into()),
    }
}

/// The last number that was given here: its file may be gone. Only ever a reason to go higher, so that whatever is written
/// there gives no number twice.
fn given(memory: &Path) -> u64 {
    let path = RelPath::fixed(GIVEN);
    let text = read::read(memory, &path, 100, clock::now()).ok().map(|reading| reading.state);
    let Some(FileState::Whole(file)) = text else { return 0 };
    let number = String::from_utf8_lossy(&file.bytes).trim().parse().unwrap_or(0);
    if number < NUMBER_MAX { number } else { 0 }
}

/// Lost with a power failure and no matter then, unless the task's file is removed too: no need to sync it.
fn note_given(memory: &Path, number: u64) {
    let path = memory.join(GIVEN);
    let fresh = path.with_extension("new");
    drop(path.parent().map(std::fs::create_dir));
    if std::fs::write(&fresh, format!("{number}\n")).is_ok() {
        drop(std::fs::rename(&fresh, &path));
    }
}

/// Every folder is listed each time: nothing else proves that a number is free.
fn highest_in(inbox: &Path) -> std::io::Result<u64> {
    let found = inspect::each_day(&days(inbox)?, inspect::LISTERS, look);
    found.into_iter().try_fold(0, |highest, found| Ok(highest.max(found?)))
}

/// A number that we cannot see may be taken.
fn unreadable(error: std::io::Error) -> Refused {
    Refused(format!(
        "a folder of the inbox cannot be read, so no id is sure to be new: {error} (AG-05)"
    ))
}

/// The folders of all days, or none where one cannot be looked into.
fn days(inbox: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut days = Vec::new();
    for agent in std::fs::read_dir(inbox)? {
        let agent = agent?;
        if !agent.file_type()?.is_dir() {
            continue;
        }
        for day in std::fs::read_dir(agent.path())? {
            let day = day?;
            days.extend(day.file_type()?.is_dir().then(|| day.path()));
        }
    }
    Ok(days)
}

/// The highest number of a day. What a command left behind that was ended while it wrote is swept up on the way: its
/// folder's lock says that nobody writes there now.
fn look(day: &Path) -> std::io::Result<u64> {
    let mut highest = 0;
    for entry in std::fs::read_dir(day)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        highest = highest.max(number_of(name).unwrap_or(0));
        if store::is_temporary(name)
            && let Ok(Some(_lock)) = FolderLock::acquire(day, Duration::ZERO)
        {
            // A file that stays is in nobody's way.
            drop(std::fs::remove_file(entry.path()));
        }
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AG-05
    #[test]
    fn a_folder_that_cannot_be_read_gives_no_number() {
        let dir = tempfile::tempdir().unwrap();
        let day = dir.path().join("codex/2026-01-31");
        std::fs::create_dir_all(&day).unwrap();
        std::fs::write(day.join("T0007-1010-x.md"), "").unwrap();
        assert_eq!(highest_in(dir.path()).unwrap(), 7);
        assert!(highest_in(&dir.path().join("gone")).is_err());
        // As when somebody puts a file there after we have seen a folder.
        let mut days = days(dir.path()).unwrap();
        days.push(day.join("T0007-1010-x.md"));
        let found: std::io::Result<Vec<u64>> =
            inspect::each_day(&days, inspect::LISTERS, look).into_iter().collect();
        let said = unreadable(found.unwrap_err()).to_string();
        assert!(said.contains("no id is sure to be new") && said.contains("AG-05"), "{said}");
    }

    // covers: AG-05
    #[test]
    fn what_was_noted_is_only_a_reason_to_go_higher() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(given(dir.path()), 0);
        note_given(dir.path(), 42);
        note_given(dir.path(), 43);
        assert_eq!(given(dir.path()), 43);
        for forged in ["", "-1", "x", "999999999999999999", "99999999999999999999999", "1\n2"] {
            std::fs::write(dir.path().join(GIVEN), forged).unwrap();
            assert_eq!(given(dir.path()), 0, "{forged}");
        }
        note_given(&dir.path().join("nowhere/at all"), 1);
    }
}
