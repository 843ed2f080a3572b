//! The work tree as it is now, as a tree of git's, by way of an index of our own.
//! The owner's index is only read, and nothing in the work tree is written.

use super::diff::Difference;
use super::error::clipped;
use super::recent::{Recent, Staged};
use super::{Call, GitError, Repo, make_dir, names};
use agency_protocols::model::{Change, Checkout, CommitId, RelPath, Snapshot, TreeId};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How the names of our own indexes begin.
const PRIVATE: &str = "snapshot";

/// How long a tree that is not plain is taken to stay so.
const STAYS_ODD: Duration = Duration::from_secs(3600);

/// Which of the owner's indexes the private one grew from. A new one means new tracked files, new sparse or
/// merge bits, so the private one starts again from it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seed {
    /// The owner has no index.
    Nothing,
    File {
        inode: u64,
        size: u64,
        mtime: (i64, i64),
        ctime: (i64, i64),
    },
}

impl Seed {
    pub(super) fn of(meta: &fs::Metadata) -> Self {
        let mtime = (meta.mtime(), meta.mtime_nsec());
        let ctime = (meta.ctime(), meta.ctime_nsec());
        Self::File { inode: meta.ino(), size: meta.len(), mtime, ctime }
    }
}

impl Repo {
    /// Ignored files stay out. A file that cannot be read keeps its last committed form, and the log says so.
    /// `since` fills `changed`.
    pub async fn snapshot(
        &self,
        label: &str,
        since: Option<&TreeId>,
    ) -> Result<Snapshot, GitError> {
        let kept = names::snapshot_ref(label)?;
        let mut recent = self.0.recent.lock().await;
        let checkout = self.checkout().await?;
        let after_commit = recent.tree_after_commit(&self.0.root, &checkout);
        if let Some(tree) = after_commit.filter(|_| since.is_none()) {
            let (dirty, changed, refs) = (Vec::new(), Vec::new(), self.refs_digest().await?);
            recent.looked(&tree, checkout.head.as_ref(), Vec::new());
            // The branch itself keeps this tree.
            return Ok(Snapshot { tree, checkout, dirty, changed, refs });
        }
        let snapshot = self.look(&mut recent, checkout, since).await?;
        self.keep(&kept, &snapshot.tree).await?;
        Ok(snapshot)
    }

    async fn look(
        &self,
        recent: &mut Recent,
        checkout: Checkout,
        since: Option<&TreeId>,
    ) -> Result<Snapshot, GitError> {
        let index = self.private_index(recent.seed.is_none())?;
        let head = checkout.head.as_ref();
        let (dirty, refs) = tokio::try_join!(self.stage(recent, &index, head), self.refs_digest())?;
        recent.staged = Some(Staged::new(head, &dirty));
        let known = since.and_then(|since| recent.changed(since, head, &dirty));
        let changed = self.changed(since.filter(|_| known.is_none()), &index).await?;
        let tree = self.tree_with(head, &dirty).await?;
        let paths: Vec<RelPath> = dirty.iter().map(|found| found.path.clone()).collect();
        recent.looked(&tree, head, dirty);
        Ok(Snapshot { tree, checkout, dirty: paths, changed: known.unwrap_or(changed), refs })
    }

    /// Brings the index up to the work tree. Says what differs from the head.
    async fn stage(
        &self,
        recent: &mut Recent,
        index: &Path,
        head: Option<&CommitId>,
    ) -> Result<Vec<Difference>, GitError> {
        // What only git could do it will have to do again: to find that out anew would only take longer.
        let odd = recent.left_to_git.is_some_and(|at| at.elapsed() < STAYS_ODD);
        if !odd {
            if let Some(found) = self.stage_plain(recent, index, head).await? {
                return Ok(found);
            }
            recent.left_to_git = Some(Instant::now());
        }
        self.stage_by_git(recent, index, head).await
    }

    async fn stage_by_git(
        &self,
        recent: &mut Recent,
        index: &Path,
        head: Option<&CommitId>,
    ) -> Result<Vec<Difference>, GitError> {
        // What was committed since stands in the owner's index, and not in ours.
        let whole = recent.staged.as_ref().is_some_and(|staged| staged.edits.is_empty());
        let last = recent.seed.filter(|_| whole);
        recent.seed = Some(self.stage_all(index, last, head).await?);
        self.diff_index(self.object_of(head), index).await
    }

    /// A commit's id, or that of nothing at all.
    pub(super) fn object_of<'a>(&self, head: Option<&'a CommitId>) -> &'a str {
        head.map_or(self.0.format.empty_tree(), CommitId::as_str)
    }

    /// Each process has its own: a git that a killed daemon left behind may still be writing to that one's. `first`: what
    /// others left is cleared away.
    pub(super) fn private_index(&self, first: bool) -> Result<PathBuf, GitError> {
        let dir = make_dir(self.0.git_dir.join("agency"))?;
        if first {
            let entries =
                fs::read_dir(&dir).map_err(|source| GitError::io("read", &dir, source))?;
            let old = entries.flatten().map(|entry| entry.file_name());
            for old in old.filter(|old| old.to_string_lossy().starts_with(PRIVATE)) {
                remove(&dir.join(old))?;
            }
        }
        Ok(self.private_file("index"))
    }

    /// A file of this process alone, which the next one clears away.
    pub(super) fn private_file(&self, ending: &str) -> PathBuf {
        self.0.git_dir.join(format!("agency/{PRIVATE}-{}.{ending}", std::process::id()))
    }

    async fn changed(&self, since: Option<&TreeId>, index: &Path) -> Result<Vec<Change>, GitError> {
        let Some(since) = since else { return Ok(Vec::new()) };
        let found = self.diff_index(since.as_str(), index).await?;
        Ok(found.iter().map(Difference::change).collect())
    }

    /// From the cheapest start that works: what the last snapshot left, else the owner's index, else the head
    /// commit. A damaged index of either kind only costs time.
    async fn stage_all(
        &self,
        index: &Path,
        last: Option<Seed>,
        head: Option<&CommitId>,
    ) -> Result<Seed, GitError> {
        // Left by a git of ours that was killed: nobody else uses this index.
        remove(&index.with_extension("index.lock"))?;
        let mut seed = self.owners_seed()?;
        if last == Some(seed) && index.exists() && self.could_add_all(index).await? {
            return Ok(seed);
        }
        if seed != Seed::Nothing {
            seed = self.copy_index(index).await?;
            self.reveal(index).await?;
            if self.could_add_all(index).await? {
                return Ok(seed);
            }
        }
        remove(index)?;
        self.read_tree(index, head).await?;
        self.add_all(index).await?;
        Ok(seed)
    }

    /// Has git look at the files that it was told not to look at: an agent can tell it so too. One that is not there may stay
    /// out, as in a sparse checkout.
    async fn reveal(&self, index: &Path) -> Result<(), GitError> {
        if self.read_index(index).is_some_and(|(index, ..)| !index.hides()) {
            return Ok(());
        }
        let call = Call::local("ls-files").args(["-v", "-z"]).env("GIT_INDEX_FILE", index);
        let listed = match self.git(call).await {
            // A damaged one is built again.
            Err(GitError::Refused { .. }) => return Ok(()),
            listed => listed?.stdout,
        };
        let (mut assumed, mut skipped) = (Vec::new(), Vec::new());
        for record in listed.split(|&byte| byte == 0).filter(|record| record.len() > 2) {
            let (mark, path) = (record[0], &record[2..]);
            let there = self.0.root.join(super::path(path)).symlink_metadata().is_ok();
            let marks =
                [(mark.is_ascii_lowercase(), &mut assumed), (mark | 32 == b's', &mut skipped)];
            for (_, names) in marks.into_iter().filter(|(marked, _)| *marked && there) {
                names.extend(path);
                names.push(0);
            }
        }
        for (option, names) in [("--no-assume-unchanged", assumed), ("--no-skip-worktree", skipped)]
        {
            if !names.is_empty() {
                let call = Call::local("update-index").args(["-z", option, "--stdin"]);
                self.git(call.stdin(names).env("GIT_INDEX_FILE", index)).await?;
            }
        }
        Ok(())
    }

    async fn could_add_all(&self, index: &Path) -> Result<bool, GitError> {
        match self.add_all(index).await {
            Ok(()) => Ok(true),
            Err(GitError::Refused { said, .. }) => {
                tracing::warn!(said, "the snapshot's index is built again");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    async fn add_all(&self, index: &Path) -> Result<(), GitError> {
        let call = Call::local("add")
            // Line endings that would not survive a round trip are the owner's business, not a reason to fail.
            .guard("core.safecrlf=false")
            // A cached list of untracked files trusts folder times that anybody can set.
            .guard("core.untrackedCache=false")
            // Only we read this index, and we do not check its sum.
            .guard("index.skipHash=true")
            .args(["--all", "--sparse", "--ignore-errors", "--", "."])
            .env("GIT_INDEX_FILE", index)
            .fine(&[0, 1]);
        let output = self.git(call).await?;
        if output.code == 1 {
            let said = clipped(&output.stderr);
            tracing::warn!(root = %self.0.root.display(), said, "the snapshot leaves out what cannot be read");
        }
        Ok(())
    }

    /// What the index holds is what the head holds and what differs from it.
    async fn tree_with(
        &self,
        head: Option<&CommitId>,
        dirty: &[Difference],
    ) -> Result<TreeId, GitError> {
        let base = match head {
            Some(head) => Some(self.tree_of(head).await?),
            None => None,
        };
        let edits = dirty.iter().map(|found| (found.path.clone(), found.to.clone())).collect();
        Ok(self.tree_edit(base.as_ref(), &edits).await?.tree)
    }

    /// Tracked files that are ignored as well are found only through an index that knows them.
    async fn read_tree(&self, index: &Path, head: Option<&CommitId>) -> Result<(), GitError> {
        let Some(head) = head else { return Ok(()) };
        let call = Call::local("read-tree").arg(head.as_str()).env("GIT_INDEX_FILE", index);
        self.git(call).await.map(drop)
    }

    pub(super) fn owners_index(&self) -> PathBuf {
        self.0.git_dir.join("index")
    }

    pub(super) fn owners_seed(&self) -> Result<Seed, GitError> {
        let index = self.owners_index();
        match fs::metadata(&index) {
            Ok(meta) => Ok(Seed::of(&meta)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Seed::Nothing),
            Err(error) => Err(GitError::io("read", &index, error)),
        }
    }

    pub(super) async fn copy_index(&self, to: &Path) -> Result<Seed, GitError> {
        let (from, to) = (self.owners_index(), to.to_owned());
        let copying = tokio::task::spawn_blocking(move || {
            copy(&from, &to).map_err(|source| GitError::io("copy", &from, source))
        });
        copying.await.map_err(GitError::BrokenOff)?
    }
}

/// The copy keeps its time: git reads a file again when it is as young as the index, and a younger copy would
/// hide edits that were made in the very moment the index was written.
fn copy(from: &Path, to: &Path) -> io::Result<Seed> {
    let mut source = File::open(from)?;
    let meta = source.metadata()?;
    let mut copy = File::create(to)?;
    io::copy(&mut source, &mut copy)?;
    copy.set_modified(meta.modified()?)?;
    Ok(Seed::of(&meta))
}

fn remove(file: &Path) -> Result<(), GitError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(GitError::io("remove", file, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_copied_index_is_as_old_as_the_owners() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("index"), dir.path().join("copy"));
        let past = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 123_456_789);
        fs::write(&from, "entries").unwrap();
        File::options().write(true).open(&from).unwrap().set_modified(past).unwrap();
        let seed = copy(&from, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"entries");
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), past);
        assert!(seed == Seed::of(&fs::metadata(&from).unwrap()));
    }
}
