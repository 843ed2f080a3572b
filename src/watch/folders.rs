//! The folders that one root watches, and which folder each of these names meant when the watch was set.
//! It lists nothing.

use super::hub::{Hub, HubError};
use super::inbox::{Inbox, WatchedFolder};
use super::plan::is_within;
use super::scan::FolderId;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) struct Folders {
    /// `None` while there are no events to be had.
    hub: Option<Arc<Hub>>,
    inbox: Arc<Inbox>,
    tree: HashMap<String, (FolderId, PathBuf)>,
    extra: HashMap<usize, (FolderId, PathBuf)>,
    trouble: Option<HubError>,
}

impl Folders {
    pub(super) fn new(hub: Option<Arc<Hub>>, inbox: Arc<Inbox>) -> Self {
        Self { hub, inbox, tree: HashMap::new(), extra: HashMap::new(), trouble: None }
    }

    /// `rewatch` sets the watch again even where the folder is the one we know.
    pub(super) fn enter(&mut self, root: &Path, folder: &str, id: FolderId, rewatch: bool) {
        if rewatch || self.tree.get(folder).is_none_or(|(known, _)| *known != id) {
            let path = if folder.is_empty() { root.to_owned() } else { root.join(folder) };
            if self.subscribe(&path, &WatchedFolder::Tree(folder.to_owned())) {
                self.tree.insert(folder.to_owned(), (id, path));
            }
        }
    }

    pub(super) fn enter_extra(&mut self, number: usize, path: &Path, id: FolderId, rewatch: bool) {
        let known = self.extra.get(&number).is_some_and(|(known, _)| *known == id);
        if (rewatch || !known) && self.subscribe(path, &WatchedFolder::Extra(number)) {
            self.extra.insert(number, (id, path.to_owned()));
        }
    }

    /// Ends the watches at or below `from` of folders that are not in `seen`.
    pub(super) fn keep_only(&mut self, from: &str, seen: &BTreeSet<String>) {
        let (hub, inbox) = (&self.hub, &self.inbox);
        self.tree.retain(|folder, (_, path)| {
            let keep = !is_within(folder, from) || seen.contains(folder);
            if let (false, Some(hub)) = (keep, hub) {
                hub.unsubscribe(path, inbox);
            }
            keep
        });
    }

    pub(super) fn is_watching(&self) -> bool {
        self.hub.is_some() && self.trouble.is_none()
    }

    /// What went wrong with a watch; from then on no new one is tried.
    pub(super) fn trouble(&self) -> Option<&HubError> {
        self.trouble.as_ref()
    }

    fn subscribe(&mut self, path: &Path, place: &WatchedFolder) -> bool {
        let Some(hub) = self.hub.as_ref().filter(|_| self.trouble.is_none()) else { return false };
        match hub.subscribe(path, place, &self.inbox) {
            Ok(()) => true,
            Err(error) => {
                self.trouble = Some(error);
                false
            }
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        if let Some(hub) = &self.hub {
            for (_, path) in self.tree.values().chain(self.extra.values()) {
                hub.unsubscribe(path, &self.inbox);
            }
        }
    }
}
