//! Gives tasks their ids under the inbox's lock, and puts whole files there (AG-05). What a task says is not decided here.

use super::super::exit::Refused;
use super::{Place, each_file, folder, inspect, refused};
use crate::clock;
use crate::model::RelPath;
use crate::protocol::board::FILE_MAX;
use crate::protocol::board::manifest::IdStrategy;
use crate::protocol::board::names::{NUMBER_MAX, TaskId, number_of, task_path};
use crate::protocol::board::task::{self, NewTask};
use crate::store::{self, FolderLock};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a command waits for the others that make tasks.
const WAIT: Duration = Duration::from_secs(120);

/// Nobody else makes tasks here while it is held.
pub(super) struct Maker<'a> {
    place: &'a Place,
    /// The highest number that is taken, here or in the archive.
    highest: u64,
    _lock: FolderLock,
}

impl<'a> Maker<'a> {
    pub(super) fn open(place: &'a Place) -> anyhow::Result<Self> {
        let inbox = folder(&place.root, ".kodingx/inbox")?;
        let Some(lock) = FolderLock::acquire(&inbox, WAIT)? else {
            return Err(Refused(
                "somebody else has been making tasks here for two minutes; try again".to_owned(),
            )
            .into());
        };
        let mut highest = super::archive::last_id(&place.root)?;
        if place.manifest.ids == IdStrategy::Sequential {
            let days = days(&inbox).map_err(unreadable)?;
            for found in inspect::each_day(&days, look) {
                highest = highest.max(found.map_err(unreadable)?);
            }
        }
        Ok(Self { place, highest, _lock: lock })
    }

    pub(super) fn make(&mut self, task: &NewTask) -> anyhow::Result<(TaskId, RelPath)> {
        self.check_dependencies(task)?;
        let now = clock::now().wall;
        let id = match self.place.manifest.ids {
            IdStrategy::Sequential if self.highest < NUMBER_MAX => {
                TaskId::sequential(self.highest + 1)
            }
            IdStrategy::Sequential => return Err(self.no_id_left()),
            IdStrategy::Ulid => TaskId::ulid(now, uuid::Uuid::new_v4().as_u128()),
        };
        let zone = self.place.manifest.zone;
        let path = task_path(&task.assignee, &id, &task.title, zone, now);
        let text = task.render(&id, &zone.stamp(now));
        // What would be refused when it is read is not written.
        task::parse(text.as_bytes(), &path).map_err(|problems| refused(&problems))?;
        if text.len() as u64 > FILE_MAX {
            let found = text.len();
            return Err(Refused(format!(
                "the task would have {found} bytes; at most {FILE_MAX} are read (AG-06)"
            ))
            .into());
        }
        let written = store::edit(&self.place.root, &path, FILE_MAX, WAIT, |old| match old {
            Some(_) => Err(format!("`{path}` is there already")),
            None => Ok(Some(text.into_bytes())),
        });
        written.map_err(|error| Refused(error.to_string()))?;
        self.highest += 1;
        Ok((id, path))
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
        }
        match missing.first() {
            Some(dep) => {
                Err(Refused(format!("depends on {dep}, which does not exist (AG-27)")).into())
            }
            None => Ok(()),
        }
    }

    fn no_id_left(&self) -> anyhow::Error {
        let mut taken = String::new();
        each_file(&self.place.root, |file| {
            if number_of(file.name) == Some(self.highest) {
                taken = file.path();
            }
        });
        Refused(format!(
            "`{taken}` has the highest id that there can be; move it away, and ids go on (AG-05)"
        ))
        .into()
    }
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
