//! The one file watcher of the process, shared by all roots: who watches which folder, and whom an event concerns.
//! It watches folders only, one by one, and judges nothing.

use super::inbox::{Inbox, WatchedFolder};
use notify::{ErrorKind, Event, EventHandler, RecursiveMode};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, thiserror::Error)]
pub(super) enum HubError {
    #[error("the machine's limit of watched folders is reached (`fs.inotify.max_user_watches`)")]
    Limit,
    #[error("the folder `{}` cannot be watched", folder.display())]
    Folder { folder: PathBuf, source: notify::Error },
}

/// Lock order: `backend`, then the table inside `registry`. The watcher's own thread takes only the second, so it can
/// always go on while we wait for it.
pub(super) struct Hub {
    backend: Mutex<Box<dyn notify::Watcher + Send>>,
    registry: Arc<Registry>,
}

struct Subscriber {
    place: WatchedFolder,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
pub(super) struct Registry {
    folders: Mutex<HashMap<PathBuf, Vec<Subscriber>>>,
    /// The watcher's thread is gone; to ask it anything would be a panic.
    ended: AtomicBool,
}

/// Lives in the watcher's thread. When that thread dies, so does this, and every root is told.
pub(super) struct EventForwarder(pub(super) Arc<Registry>);

impl EventHandler for EventForwarder {
    fn handle_event(&mut self, event: notify::Result<Event>) {
        self.0.hear(event);
    }
}

impl Drop for EventForwarder {
    fn drop(&mut self) {
        let reason = "the file watcher ended";
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.tell_all(&|inbox| {
            inbox.tell(|dirty| dirty.ended = Some(reason.to_owned()));
        });
    }
}

impl Hub {
    pub(super) fn start() -> notify::Result<Self> {
        let registry = Arc::new(Registry::default());
        let backend = notify::recommended_watcher(EventForwarder(Arc::clone(&registry)))?;
        Ok(Self::with(Box::new(backend), registry))
    }

    pub(super) fn with(backend: Box<dyn notify::Watcher + Send>, registry: Arc<Registry>) -> Self {
        Self { backend: Mutex::new(backend), registry }
    }

    /// Asking twice is right: the watcher drops watches of folders that went away by itself.
    pub(super) fn subscribe(
        &self,
        folder: &Path,
        place: &WatchedFolder,
        inbox: &Arc<Inbox>,
    ) -> Result<(), HubError> {
        let mut backend = self.backend.lock().unwrap_or_else(PoisonError::into_inner);
        self.registry.add(folder, place, inbox);
        if self.registry.has_ended() {
            return Ok(()); // Every root is told, and polls.
        }
        match backend.watch(folder, RecursiveMode::NonRecursive) {
            Ok(()) => Ok(()),
            Err(error) if is_harmless(&error) => Ok(()),
            Err(error) if matches!(error.kind, ErrorKind::MaxFilesWatch) => Err(HubError::Limit),
            Err(source) => Err(HubError::Folder { folder: folder.to_owned(), source }),
        }
    }

    pub(super) fn unsubscribe(&self, folder: &Path, inbox: &Arc<Inbox>) {
        let mut backend = self.backend.lock().unwrap_or_else(PoisonError::into_inner);
        if self.registry.remove(folder, inbox) && !self.registry.has_ended() {
            // The watcher may have dropped it already, with the folder.
            backend.unwatch(folder).unwrap_or_else(|error| {
                tracing::trace!(folder = %folder.display(), %error, "no watch to remove");
            });
        }
    }

    /// Ends the watch behind the registry's back, as a lost event would.
    #[cfg(test)]
    pub(super) fn go_deaf(&self, folder: &Path) {
        self.backend.lock().unwrap().unwatch(folder).unwrap();
    }

    #[cfg(test)]
    pub(super) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }
}

/// The folder went away, or may not be listed: then nothing in it can be read either, and rescans look again.
fn is_harmless(error: &notify::Error) -> bool {
    match &error.kind {
        ErrorKind::PathNotFound => true,
        ErrorKind::Io(error) => matches!(
            error.kind(),
            std::io::ErrorKind::NotFound
                | std::io::ErrorKind::NotADirectory
                | std::io::ErrorKind::PermissionDenied
        ),
        _ => false,
    }
}

impl Registry {
    /// An overflow has no path: everybody looks again.
    pub(super) fn hear(&self, event: notify::Result<Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.lose("too many file events at once"),
            Ok(event) => event.paths.iter().for_each(|path| self.route(path, &event)),
            Err(error) => self.lose(&format!("the file watcher failed: {error}")),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    fn lose(&self, reason: &str) {
        self.tell_all(&|inbox| {
            inbox.tell(|dirty| {
                dirty.rescan = true;
                dirty.rewatch = true;
                dirty.lost = Some(reason.to_owned());
            });
        });
    }

    fn route(&self, path: &Path, event: &Event) {
        let folders = self.lock();
        for subscriber in folders.get(path).into_iter().flatten() {
            subscriber.inbox.hear(&subscriber.place, None, event.kind);
        }
        let name = path.file_name().and_then(std::ffi::OsStr::to_str);
        let parent = path.parent().and_then(|parent| folders.get(parent));
        if name.is_some() {
            for subscriber in parent.into_iter().flatten() {
                subscriber.inbox.hear(&subscriber.place, name, event.kind);
            }
        }
    }

    fn tell_all(&self, tell: &dyn Fn(&Inbox)) {
        for subscriber in self.lock().values().flatten() {
            tell(&subscriber.inbox);
        }
    }

    fn add(&self, folder: &Path, place: &WatchedFolder, inbox: &Arc<Inbox>) {
        let mut folders = self.lock();
        // Mostly one, so there is no room for more at first.
        let one = || Vec::with_capacity(1);
        let subscribers = folders.entry(folder.to_owned()).or_insert_with(one);
        if !subscribers
            .iter()
            .any(|known| known.place == *place && Arc::ptr_eq(&known.inbox, inbox))
        {
            subscribers.push(Subscriber { place: place.clone(), inbox: Arc::clone(inbox) });
        }
    }

    /// Says whether nobody watches it any more.
    fn remove(&self, folder: &Path, inbox: &Arc<Inbox>) -> bool {
        let mut folders = self.lock();
        let Some(subscribers) = folders.get_mut(folder) else { return false };
        subscribers.retain(|known| !Arc::ptr_eq(&known.inbox, inbox));
        subscribers.shrink_to_fit();
        subscribers.is_empty() && folders.remove(folder).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Vec<Subscriber>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
