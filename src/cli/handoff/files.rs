//! The messages of a repository on disk, for the command line. It judges nothing that the tables judge.

use super::super::exit::{Misused, Refused};
use crate::clock;
use crate::model::{Digest, FileState, Key, Rejection, RelPath};
use crate::protocol::handoff::message::{self, Message};
use crate::protocol::handoff::table::Folder;
use crate::protocol::handoff::{HANDOFFS, MESSAGE_MAX, path_in};
use crate::read;
use crate::store::{self, Relocated, Relocation};
use std::path::Path;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(10);

pub(super) struct Found {
    pub(super) path: RelPath,
    pub(super) folder: Folder,
    pub(super) digest: Option<Digest>,
    pub(super) message: Result<Message, Vec<Rejection>>,
}

/// Every message file, the most urgent and then the oldest first; what is no message comes last.
pub(super) fn all(root: &Path) -> anyhow::Result<Vec<Found>> {
    let mut found = Vec::new();
    for folder in Folder::ALL {
        let dir = root.join(HANDOFFS).join(folder.word());
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        for name in names.filter(|name| name.ends_with(".json")) {
            found.extend(read_one(root, *folder, &name));
        }
    }
    found.sort_by_key(|found| match &found.message {
        Ok(it) => (found.folder, Some(it.priority), Some(it.timestamp), found.path.clone()),
        Err(_) => (found.folder, None, None, found.path.clone()),
    });
    Ok(found)
}

fn read_one(root: &Path, folder: Folder, name: &str) -> Option<Found> {
    let path = path_in(folder, name);
    let now = clock::now();
    let (digest, message) = match read::read(root, &path, MESSAGE_MAX, now).ok()?.state {
        FileState::Absent => return None,
        FileState::Whole(file) => (Some(file.digest), message::parse(&path, &file.bytes, now.wall)),
        FileState::Unreadable(odd) => {
            (None, Err(vec![Rejection::new("DM-04", &path, odd.found, &odd.wanted)]))
        }
    };
    Some(Found { path, folder, digest, message })
}

/// By its id or the beginning of it.
pub(super) fn find(root: &Path, id: &str) -> anyhow::Result<Found> {
    let wanted = |found: &Found| found.message.as_ref().is_ok_and(|it| it.id.starts_with(id));
    let mut found: Vec<Found> = all(root)?.into_iter().filter(wanted).collect();
    match (found.pop(), found.len()) {
        (Some(found), 0) if !id.is_empty() => Ok(found),
        (Some(_), _) => {
            Err(Misused(format!("`{id}` fits several messages; give more of the id")).into())
        }
        (None, _) => {
            Err(Misused(format!("there is no message `{id}`; `agency handoff list` shows them"))
                .into())
        }
    }
}

pub(super) fn write_new(root: &Path, path: &RelPath, bytes: &[u8]) -> anyhow::Result<()> {
    store::edit(root, path, MESSAGE_MAX, WAIT, |old| match old {
        Some(_) => Err(format!("`{path}` is there already")),
        None => Ok(Some(bytes.to_vec())),
    })?;
    Ok(())
}

pub(super) fn pass_on(
    root: &Path,
    found: &Found,
    message: &Message,
    to: Folder,
) -> anyhow::Result<()> {
    let bytes = message::render(&message.document, to);
    let key = Key::new(format!("by-hand-{}", message.id));
    let seen = found.digest.as_ref().expect("BUG: a message that was read has a digest");
    let target = path_in(to, found.path.file_name());
    let what = Relocation { from: &found.path, to: &target, bytes: &bytes, seen, key: &key };
    match store::relocate(root, &what)? {
        Relocated::Done => Ok(()),
        Relocated::Superseded => {
            Err(Refused(format!("`{}` changed meanwhile; look again", found.path)).into())
        }
    }
}
