//! Worktrees of ours: made on a branch of their own, taken away when their work is kept. The owner's are never touched.

use super::refs::read_text;
use super::{Call, GitError, Repo, names};
use agency_protocols::model::CommitId;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// A path in a small file of git's.
const LINK_MAX: u64 = 4096;

impl Repo {
    /// Makes the worktree at `dir`, on `branch`, which begins at `base` if it is new. One that is there is left alone; what
    /// a crash left half made is made again.
    pub async fn add_worktree(
        &self,
        dir: &Path,
        branch: &str,
        base: &CommitId,
    ) -> Result<(), GitError> {
        let name = names::branch_ref(branch)?;
        let base = names::object(base.as_str())?;
        if self.is_worktree(dir, &name) {
            return Ok(());
        }
        self.forget_half_made(dir).await?;
        if let Some(parent) = dir.parent() {
            private_dir(parent).map_err(|source| GitError::io("make", parent, source))?;
        }
        if self.tip(branch).await?.is_none() {
            let line = format!("create {name} {base}\n");
            self.git(Call::local("update-ref").arg("--stdin").stdin(line.into_bytes())).await?;
        }
        // Files are written by a call that sees only settings that were checked: filters may run then.
        let call = Call::local("worktree").args(["add", "--quiet", "--no-checkout", "--"]);
        self.git(call.arg(dir).arg(branch)).await?;
        let Some(repo) = self.beside(dir).await? else { return Ok(()) };
        repo.git(Call::local("reset").args(["--hard", "--quiet"])).await?;
        repo.add_submodules().await
    }

    /// Whole: git knows it, it is on its branch, and its files were written (the index comes last).
    fn is_worktree(&self, dir: &Path, branch_ref: &str) -> bool {
        let Some(git_dir) = self.worktree_git_dir(dir) else { return false };
        let head = read_text(&git_dir.join("HEAD"), LINK_MAX);
        let on_branch =
            matches!(head, Ok(Some(text)) if text.trim_end() == format!("ref: {branch_ref}"));
        on_branch && git_dir.join("index").exists() && !git_dir.join("index.lock").exists()
    }

    /// The folder under `.git/worktrees/` that is about `dir`.
    pub(super) fn worktree_git_dir(&self, dir: &Path) -> Option<PathBuf> {
        let dot_git = dir.join(".git");
        self.worktree_dirs().into_iter().find(|git_dir| {
            let link = read_text(&git_dir.join("gitdir"), LINK_MAX);
            matches!(link, Ok(Some(link)) if Path::new(link.trim_end()) == dot_git)
        })
    }

    fn worktree_dirs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.common_dir.join("worktrees"));
        entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    }

    /// Nobody has worked in one that never became whole.
    pub(super) async fn forget_half_made(&self, dir: &Path) -> Result<(), GitError> {
        if self.worktree_git_dir(dir).is_some() {
            let call = Call::local("worktree").args(["remove", "--force", "--force", "--"]);
            self.git(call.arg(dir).fine(&[0, 128])).await?;
        }
        if let Some(left) = self.worktree_git_dir(dir) {
            remove_all(&left)?;
        }
        remove_all(dir)
    }

    /// Only a tree that has submodules pays for them.
    pub(super) async fn add_submodules(&self) -> Result<(), GitError> {
        if !self.0.root.join(".gitmodules").exists() {
            return Ok(());
        }
        let call = Call::network("submodule").args(["update", "--init", "--recursive", "--quiet"]);
        self.git(call).await.map(drop)
    }

    /// Takes a worktree of ours away. What is in no commit must have been kept before.
    pub async fn drop_worktree(&self, dir: &Path) -> Result<(), GitError> {
        self.forget_half_made(dir).await
    }

    /// The other worktree that a branch is checked out in; of a repository without one of its own, the git directory.
    pub fn checked_out_elsewhere(&self, branch: &str) -> Option<PathBuf> {
        let wanted = format!("ref: refs/heads/{branch}");
        let is_on = |git_dir: &PathBuf| {
            let head = read_text(&git_dir.join("HEAD"), LINK_MAX);
            matches!(head, Ok(Some(head)) if head.trim_end() == wanted)
        };
        let dirs = self.worktree_dirs().into_iter().chain([self.0.common_dir.clone()]);
        let other = dirs.filter(|git_dir| *git_dir != self.0.git_dir).find(is_on)?;
        let link = read_text(&other.join("gitdir"), LINK_MAX).ok().flatten();
        let place = link.map(|link| PathBuf::from(link.trim_end().trim_end_matches("/.git")));
        Some(place.unwrap_or(other))
    }
}

/// Worktrees of ours lie in our state, which only its owner enters.
pub(super) fn private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

fn remove_all(dir: &Path) -> Result<(), GitError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(GitError::io("remove", dir, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
