//! What the last snapshot and the last commit of ours said, where that spares looking again. It runs no git.

use super::diff::Difference;
use super::ingest_settings::Ground;
use super::snapshot::Seed;
use super::tree::File;
use super::verdicts::Verdicts;
use agency_host::read::Stamp;
use agency_protocols::model::{Change, Checkout, CommitId, PlannedCommit, RelPath, TreeId};
use std::collections::BTreeMap;
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
    pub(super) staged: Option<Staged>,
    /// How the private index stood when we wrote it ourselves.
    pub(super) written: Option<Stamp>,
    /// When the tree was last found to be more than plain.
    pub(super) left_to_git: Option<Instant>,
    pub(super) ingest_settings: Option<Ground>,
    /// Under the settings of `ground`.
    pub(super) verdicts: Option<Verdicts>,
    look: Option<RecentSnapshot>,
    planned: Option<Planned>,
    committed: Option<PlannedCommit>,
}

/// How the private index stands to a head.
pub(super) struct Staged {
    pub(super) head: Option<CommitId>,
    /// What the head has at each path where the two may differ.
    pub(super) sides: BTreeMap<RelPath, Option<File>>,
    /// What was committed since, and does not stand in the index yet.
    pub(super) edits: Vec<Change>,
}

impl Staged {
    pub(super) fn new(head: Option<&CommitId>, found: &[Difference]) -> Self {
        let sides = found.iter().map(|found| (found.path.clone(), found.from.clone())).collect();
        Self { head: head.cloned(), sides, edits: Vec::new() }
    }

    fn committed(mut self, planned: &PlannedCommit) -> Option<Self> {
        if self.head != planned.parent {
            return None;
        }
        self.head = Some(planned.id.clone());
        for change in &planned.changes {
            self.sides.insert(change.path.clone(), change.to.clone());
            self.edits.push(change.clone());
        }
        Some(self)
    }
}

/// A snapshot.
struct RecentSnapshot {
    tree: TreeId,
    head: Option<CommitId>,
    /// What differs from the head.
    dirty: Vec<Difference>,
    at: Instant,
}

/// The files of ours in a plan.
struct Planned {
    id: CommitId,
    write: Vec<(RelPath, Vec<u8>)>,
}

impl Recent {
    pub(super) fn looked(
        &mut self,
        tree: &TreeId,
        head: Option<&CommitId>,
        dirty: Vec<Difference>,
    ) {
        let (tree, head, at) = (tree.clone(), head.cloned(), Instant::now());
        self.look = Some(RecentSnapshot { tree, head, dirty, at });
    }

    pub(super) fn planned(&mut self, id: &CommitId, write: &[(RelPath, Vec<u8>)]) {
        self.planned = Some(Planned { id: id.clone(), write: write.to_vec() });
    }

    pub(super) fn committed(&mut self, planned: &PlannedCommit) {
        self.committed = Some(planned.clone());
        self.staged = self.staged.take().and_then(|staged| staged.committed(planned));
    }

    /// The owner's index became another by nothing but our last commit, of which the private one knows too.
    pub(super) fn reseeded(&mut self, was: Seed, is: Seed) {
        if self.seed == Some(was) {
            self.seed = Some(is);
        }
    }

    /// What differs from the last look, where that is the one that is asked for and the head is the same: two trees that differ
    /// from a third one in known ways. `dirty`: from the head to now.
    pub(super) fn changed(
        &self,
        since: &TreeId,
        head: Option<&CommitId>,
        dirty: &[Difference],
    ) -> Option<Vec<Change>> {
        let look = self.look.as_ref().filter(|look| look.tree == *since)?;
        if look.head.as_ref() != head {
            return None;
        }
        let by_path = |all: &[Difference]| -> BTreeMap<RelPath, Difference> {
            all.iter().map(|one| (one.path.clone(), one.clone())).collect()
        };
        let (then, now) = (by_path(&look.dirty), by_path(dirty));
        let gone = then.keys().filter(|path| !now.contains_key(*path));
        let mut paths: Vec<_> = now.keys().chain(gone).collect();
        paths.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        let side = |path: &RelPath| {
            let before = then.get(path).map(|then| &then.to).or(now.get(path).map(|now| &now.from));
            let after = now.get(path).map(|now| &now.to).or(then.get(path).map(|then| &then.from));
            let (from, to) = (before?.clone(), after?.clone());
            (from != to).then(|| Difference { path: path.clone(), from, to }.change())
        };
        Some(paths.into_iter().filter_map(side).collect())
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
        let settled = |dirty: &Difference| {
            let taken = commit.changes.iter().any(|c| c.path == dirty.path && c.to == dirty.to);
            taken || (dirty.from.is_none() && is_gone(&root.join(dirty.path.as_str())))
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
