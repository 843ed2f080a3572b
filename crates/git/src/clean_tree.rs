//! A tree checked out as it was judged, in a worktree of ours (LP-34): nothing ignored, hidden or left over is in it, except
//! what a setup command made. Checks run there; nothing in it is ever committed.

use super::worktree::private_dir;
use super::{Call, GitError, Repo, names};
use agency_protocols::model::{SHADOWS, TreeId};
use std::fs;
use std::io;
use std::path::Path;

/// Made by setup commands from the lock files, and kept from one checkout to the next.
const KEPT: [&str; 4] = ["node_modules", ".venv", "vendor/bundle", SETUP_MARK];

/// The file that says which lock files the last setup was made from.
pub const SETUP_MARK: &str = ".agency-setup";

impl Repo {
    /// `dir` holds exactly this tree afterwards; `None`: that of HEAD. False: there is no commit yet.
    pub async fn check_out_clean(
        &self,
        dir: &Path,
        tree: Option<&TreeId>,
    ) -> Result<bool, GitError> {
        let Some(head) = self.checkout().await?.head else { return Ok(false) };
        let tree = match tree {
            Some(tree) => names::object(tree.as_str())?.to_owned(),
            None => format!("{head}^{{tree}}"),
        };
        let repo = match self.clean_tree_at(dir).await? {
            Some(repo) => repo,
            None => self.add_clean_tree(dir, head.as_str()).await?,
        };
        repo.git(Call::local("update-ref").args(["--no-deref", "HEAD", head.as_str()])).await?;
        // An index that somebody else wrote may hide changed files, so each checkout begins without one.
        remove_file(&repo.git_dir().join("index"))?;
        remove_file(&repo.git_dir().join("index.lock"))?;
        repo.git(Call::local("read-tree").arg(&tree)).await?;
        repo.write_tracked().await?;
        let clean = Call::local("clean").args(["-ffdxq"]);
        let clean = KEPT.iter().fold(clean, |call, name| call.arg(format!("--exclude={name}")));
        repo.git(clean).await?;
        repo.add_submodules().await?;
        Ok(true)
    }

    /// Between two checks on the same tree: what the first one built stays, its changes to the tree itself do not.
    pub async fn restore_clean(&self, dir: &Path) -> Result<(), GitError> {
        let Some(repo) = self.clean_tree_at(dir).await? else { return Ok(()) };
        repo.write_tracked().await?;
        let shadows = SHADOWS.iter().map(|name| format!(":(top,glob)**/{name}"));
        let kept = KEPT.iter().map(|name| format!(":(top,exclude,glob)**/{name}/**"));
        let clean = Call::local("clean").args(["-ffdxq", "--"]);
        repo.git(shadows.chain(kept).fold(clean, Call::arg)).await.map(drop)
    }

    async fn write_tracked(&self) -> Result<(), GitError> {
        self.git(Call::local("checkout-index").args(["--force", "--all", "--index"]))
            .await
            .map(drop)
    }

    async fn clean_tree_at(&self, dir: &Path) -> Result<Option<Self>, GitError> {
        if self.worktree_git_dir(dir).is_none() || !dir.join(".git").exists() {
            return Ok(None);
        }
        self.beside(dir).await
    }

    async fn add_clean_tree(&self, dir: &Path, head: &str) -> Result<Self, GitError> {
        self.forget_half_made(dir).await?;
        if let Some(parent) = dir.parent() {
            private_dir(parent).map_err(|source| GitError::io("make", parent, source))?;
        }
        let call = Call::local("worktree");
        let call =
            call.args(["add", "--quiet", "--detach", "--no-checkout", "--"]).arg(dir).arg(head);
        self.git(call).await?;
        let missing = || GitError::io("open", dir, io::ErrorKind::NotFound.into());
        self.beside(dir).await?.ok_or_else(missing)
    }
}

fn remove_file(path: &Path) -> Result<(), GitError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(GitError::io("remove", path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
