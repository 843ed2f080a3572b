//! What a root has been told since it last looked: a bounded set of dirty paths, never a queue of events.
//! It is a set of hints; nothing here looks at the disk.

use super::canary;
use super::pending::Hint;
use super::plan::{Plan, join};
use crate::model::RelPath;
use notify::EventKind;
use notify::event::{AccessKind, AccessMode, CreateKind, ModifyKind, RemoveKind, RenameMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Beyond this a look at everything is cheaper than a list.
const MOST_PATHS: usize = 10_000;

/// Which of a root's watched folders an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchedFolder {
    /// A folder of the tree, below the root.
    Tree(String),
    /// One of the folders outside the tree, by its number.
    Extra(usize),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Dirty {
    pub(super) files: BTreeMap<RelPath, Hint>,
    /// Folders that came, went or were replaced.
    pub(super) folders: BTreeSet<String>,
    /// Paths to deliver again.
    pub(super) forgotten: BTreeSet<RelPath>,
    pub(super) checkout: bool,
    pub(super) canary: bool,
    pub(super) rescan: bool,
    /// Watches may have been lost with the events: set them again.
    pub(super) rewatch: bool,
    /// Events were lost; why.
    pub(super) lost: Option<String>,
    /// No event will ever come again; why.
    pub(super) ended: Option<String>,
}

pub(super) struct Inbox {
    plan: Arc<Plan>,
    dirty: Mutex<Dirty>,
    bell: Notify,
}

impl Inbox {
    pub(super) fn new(plan: Arc<Plan>) -> Self {
        Self { plan, dirty: Mutex::default(), bell: Notify::new() }
    }

    /// Everything told so far; it is then empty again.
    pub(super) fn take(&self) -> Dirty {
        std::mem::take(&mut *self.lock())
    }

    /// Returns when something was told since the last return.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    pub(super) fn tell(&self, change: impl FnOnce(&mut Dirty)) {
        change(&mut self.lock());
        self.bell.notify_one();
    }

    /// An event in a watched folder: `name` is what it is about, `None` the folder itself.
    pub(super) fn hear(&self, place: &WatchedFolder, name: Option<&str>, kind: EventKind) {
        match (place, name) {
            (WatchedFolder::Extra(_), Some(name)) if canary::is_named(name) => {
                self.tell(|dirty| dirty.canary = true);
            }
            (WatchedFolder::Extra(_), _) if is_change(kind) => {
                self.tell(|dirty| dirty.checkout = true)
            }
            (WatchedFolder::Tree(folder), Some(name)) => self.hear_path(join(folder, name), kind),
            (WatchedFolder::Tree(folder), None) if may_move_folder(kind) => {
                self.tell(|dirty| dirty.add_folder(folder.clone()));
            }
            (WatchedFolder::Extra(_) | WatchedFolder::Tree(_), _) => {}
        }
    }

    fn hear_path(&self, path: String, kind: EventKind) {
        let Ok(file) = RelPath::new(path) else { return };
        let hint = hint(kind).filter(|_| self.plan.wanted(&file).is_some());
        let folder = may_move_folder(kind) && self.plan.leads_on(file.as_str());
        if hint.is_none() && !folder {
            return;
        }
        self.tell(|dirty| {
            if folder {
                dirty.add_folder(file.as_str().to_owned());
            }
            if let Some(hint) = hint {
                dirty.add_file(file, hint, kind);
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Dirty {
    fn add_folder(&mut self, folder: String) {
        self.folders.insert(folder);
        self.bound();
    }

    fn add_file(&mut self, file: RelPath, hint: Hint, kind: EventKind) {
        let rights_only = matches!(kind, EventKind::Modify(ModifyKind::Metadata(_)));
        if !(rights_only && self.files.contains_key(&file)) {
            self.files.insert(file, hint);
        }
        self.bound();
    }

    fn bound(&mut self) {
        if self.files.len() + self.folders.len() > MOST_PATHS {
            self.files.clear();
            self.folders.clear();
            self.rescan = true;
            self.rewatch = true;
        }
    }
}

fn is_change(kind: EventKind) -> bool {
    hint(kind).is_some()
}

/// `None` for events that change nothing: somebody read.
fn hint(kind: EventKind) -> Option<Hint> {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Some(Hint::Whole),
        EventKind::Access(_) | EventKind::Modify(ModifyKind::Name(RenameMode::Both)) => None,
        _ => Some(Hint::Changed),
    }
}

fn may_move_folder(kind: EventKind) -> bool {
    !matches!(
        kind,
        EventKind::Access(_)
            | EventKind::Create(CreateKind::File)
            | EventKind::Remove(RemoveKind::File)
            | EventKind::Modify(ModifyKind::Data(_) | ModifyKind::Metadata(_))
            | EventKind::Modify(ModifyKind::Name(RenameMode::Both))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Interest, Shape, WatchedTree};
    use notify::event::DataChange;

    const WRITE: EventKind = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    const CLOSE: EventKind = EventKind::Access(AccessKind::Close(AccessMode::Write));
    const MKDIR: EventKind = EventKind::Create(CreateKind::Folder);

    fn inbox() -> Inbox {
        let tree = WatchedTree {
            root: RelPath::fixed("in"),
            endings: vec![".md".to_owned()],
            shape: Shape::Text,
            limit: 9,
        };
        Inbox::new(Arc::new(Plan::new(Interest { files: Vec::new(), trees: vec![tree] })))
    }

    fn tree() -> WatchedFolder {
        WatchedFolder::Tree("in".to_owned())
    }

    #[test]
    fn events_of_one_path_become_one_hint_and_the_last_word_counts() {
        let inbox = inbox();
        let chmod = EventKind::Modify(ModifyKind::Metadata(notify::event::MetadataKind::Any));
        for kind in [EventKind::Create(CreateKind::File), WRITE, CLOSE, chmod] {
            inbox.hear(&tree(), Some("closed.md"), kind);
        }
        for kind in [CLOSE, WRITE] {
            inbox.hear(&tree(), Some("open.md"), kind);
        }
        let files = inbox.take().files;
        assert_eq!(files[&RelPath::fixed("in/closed.md")], Hint::Whole);
        assert_eq!(files[&RelPath::fixed("in/open.md")], Hint::Changed);
        assert_eq!(inbox.take(), Dirty::default());
    }

    #[test]
    fn what_nobody_wants_leaves_no_trace() {
        let inbox = inbox();
        inbox.hear(&tree(), Some("x.txt"), WRITE);
        inbox.hear(&tree(), Some("x.md"), EventKind::Access(AccessKind::Open(AccessMode::Any)));
        inbox.hear(&WatchedFolder::Tree(String::new()), Some("src"), MKDIR);
        assert_eq!(inbox.take(), Dirty::default());
    }

    #[test]
    fn the_canary_is_not_a_change_of_the_checkout() {
        let inbox = inbox();
        inbox.hear(&WatchedFolder::Extra(0), Some(canary::NAME), CLOSE);
        assert_eq!(inbox.take(), Dirty { canary: true, ..Dirty::default() });
        inbox.hear(&WatchedFolder::Extra(0), Some("HEAD"), CLOSE);
        assert_eq!(inbox.take(), Dirty { checkout: true, ..Dirty::default() });
    }

    #[test]
    fn a_flood_becomes_one_rescan() {
        let inbox = inbox();
        for number in 0..=MOST_PATHS {
            inbox.hear(&tree(), Some(&format!("{number}.md")), CLOSE);
        }
        let wanted = Dirty { rescan: true, rewatch: true, ..Dirty::default() };
        assert_eq!(inbox.take(), wanted);
    }
}
