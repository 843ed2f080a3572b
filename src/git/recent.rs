//! What the last snapshot and the last commit of ours said, where that spares looking again. It runs no git.

use super::snapshot::Seed;
use crate::model::{Change, Checkout, CommitId, PlannedCommit, RelPath, TreeId};
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long ago a look may be to stand for one of now. Between two turns nobody's run works in the tree, and what the owner
/// changes in so short a time is taken for the next run's, as everything is that they change while it works.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Recent {
    /// What the private index was seeded from.
    pub(super) seed: Option<Seed>,
    look: Option<Look>,
    planned: Option<Planned>,
    committed: Option<PlannedCommit>,
}

/// A snapshot.
struct Look {
    tree: TreeId,
    head: Option<CommitId>,
    dirty: Vec<Change>,
    at: Instant,
}

/// The files of ours in a plan.
struct Planned {
    id: CommitId,
    write: Vec<(RelPath, Vec<u8>)>,
}

impl Recent {
    pub(super) fn looked(&mut self, tree: &TreeId, head: Option<&CommitId>, dirty: Vec<Change>) {
        let (tree, head, at) = (tree.clone(), head.cloned(), Instant::now());
        self.look = Some(Look { tree, head, dirty, at });
    }

    pub(super) fn planned(&mut self, id: &CommitId, write: &[(RelPath, Vec<u8>)]) {
        self.planned = Some(Planned { id: id.clone(), write: write.to_vec() });
    }

    pub(super) fn committed(&mut self, planned: &PlannedCommit) {
        self.committed = Some(planned.clone());
    }

    /// `since` holds exactly what `head` holds: what differs from the one differs from the other.
    pub(super) fn is_clean(&self, since: &TreeId, head: Option<&CommitId>) -> bool {
        let clean = |look: &Look| look.dirty.is_empty() && look.head.as_ref() == head;
        self.look.as_ref().is_some_and(|look| look.tree == *since && clean(look))
    }

    /// The tree that the work tree holds because our commit put everything there that was dirty a moment ago.
    pub(super) fn tree_after_commit(&self, root: &Path, now: &Checkout) -> Option<TreeId> {
        let (look, commit) = (self.look.as_ref()?, self.committed.as_ref()?);
        let follows = look.at.elapsed() < FRESH
            && look.head == commit.parent
            && now.busy.is_none()
            && now.head.as_ref() == Some(&commit.id)
            && now.branch.as_deref() == Some(&commit.branch);
        if !follows {
            return None;
        }
        let settled = |dirty: &Change| {
            let taken = commit.changes.iter().any(|c| c.path == dirty.path && c.to == dirty.to);
            taken || (dirty.new && is_gone(&root.join(dirty.path.as_str())))
        };
        let planned = self.planned.as_ref().filter(|planned| planned.id == commit.id)?;
        let on_disk = |change: &Change| {
            let taken = look.dirty.iter().any(|d| d.path == change.path && d.to == change.to);
            let ours = planned.write.iter().find(|(path, _)| *path == change.path);
            taken || ours.is_some_and(|(path, bytes)| holds(&root.join(path.as_str()), bytes))
        };
        let whole = look.dirty.iter().all(settled) && commit.changes.iter().all(on_disk);
        whole.then(|| commit.tree.clone())
    }
}

fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// A plain file with exactly these bytes.
fn holds(path: &Path, bytes: &[u8]) -> bool {
    let plain = |meta: fs::Metadata| {
        meta.is_file() && meta.permissions().mode() & 0o111 == 0 && meta.len() == bytes.len() as u64
    };
    if !path.symlink_metadata().is_ok_and(plain) {
        return false;
    }
    let mut found = Vec::new();
    let read = fs::File::open(path)
        .and_then(|file| file.take(bytes.len() as u64 + 1).read_to_end(&mut found));
    read.is_ok() && found == bytes
}
