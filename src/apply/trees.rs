//! Worktrees of ours and the branches between them. What a worktree is for, only its protocol knows.

use super::{Applied, ApplyError, EffectRunner, tree_identity};
use crate::git::{GitError, Merged, RefMoved, Repo};
use crate::model::{CommitId, Failure, FailureKind, Key, NewWorktree, PlannedCommit, TreeRef};
use crate::store;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;

/// The worktrees that we have opened: each once, since all questions about one share its private index.
#[derive(Default)]
pub struct Trees(Mutex<BTreeMap<PathBuf, Repo>>);

impl Trees {
    /// Under the same guard as the main tree.
    async fn open(&self, main: &Repo, dir: &Path) -> Result<Option<Repo>, GitError> {
        let mut known = self.0.lock().await;
        if let Some(repo) = known.get(dir) {
            return Ok(Some(repo.clone()));
        }
        let opened = if dir.exists() { main.beside(dir).await? } else { None };
        opened.iter().for_each(Repo::clear_left_lock);
        known.extend(opened.iter().map(|repo| (dir.to_owned(), repo.clone())));
        Ok(opened)
    }

    async fn forget(&self, dir: &Path) {
        self.0.lock().await.remove(dir);
    }
}

impl EffectRunner {
    /// Where a tree is. SE-08: a worktree that is not the directory that we made is not entered.
    pub(super) fn enter(&self, tree: &TreeRef) -> Result<PathBuf, ApplyError> {
        match tree {
            TreeRef::Main => Ok(self.places.root.clone()),
            TreeRef::Worktree(name) => {
                tree_identity::check(&self.places, name)?;
                Ok(self.places.worktrees().join(name))
            }
        }
    }

    pub(super) async fn repo_of(&self, tree: &TreeRef) -> Result<Option<Repo>, ApplyError> {
        match tree {
            TreeRef::Main => Ok(self.git.clone()),
            TreeRef::Worktree(_) => match &self.git {
                Some(main) => Ok(self.trees.open(main, &self.enter(tree)?).await?),
                None => Ok(None),
            },
        }
    }

    /// Where a branch is checked out among ours, so that a commit reaches that index; else the main tree.
    pub(super) async fn repo_on(&self, branch: &str) -> Result<Repo, ApplyError> {
        let main = self.git.as_ref().ok_or(ApplyError::NoGit)?;
        let place = main.checked_out_elsewhere(branch);
        let ours = place.filter(|place| place.starts_with(self.places.worktrees()));
        let opened = match ours {
            Some(dir) => {
                let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let dir = self.enter(&TreeRef::Worktree(name))?;
                self.trees.open(main, &dir).await?
            }
            None => None,
        };
        Ok(opened.unwrap_or_else(|| main.clone()))
    }

    pub(super) async fn add_worktree(&self, wanted: &NewWorktree) -> Result<(), ApplyError> {
        let main = self.git.as_ref().ok_or(ApplyError::NoGit)?;
        let dir = self.worktree_dir(&wanted.name)?;
        let state = &self.places.folder;
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| ApplyError::Prepare { path, source }
        };
        let free = free_space(state).map_err(failed(state))?;
        if free < wanted.disk_floor {
            return Err(ApplyError::DiskFull { free, floor: wanted.disk_floor });
        }
        tree_identity::check(&self.places, &wanted.name)?;
        main.add_worktree(&dir, &wanted.branch, &wanted.base).await?;
        tree_identity::remember(&self.places, &wanted.name)?;
        for path in &wanted.copy {
            store::carry(&self.places.root, &dir, path)?;
        }
        Ok(())
    }

    /// What is in no commit is kept under a ref first, so that nothing is lost with the folder.
    pub(super) async fn drop_worktree(
        &self,
        name: &str,
        branch: Option<&(String, CommitId)>,
        key: &Key,
    ) -> Result<(), ApplyError> {
        let main = self.git.as_ref().ok_or(ApplyError::NoGit)?;
        let dir = self.worktree_dir(name)?;
        tree_identity::check(&self.places, name)?;
        if let Some(repo) = self.trees.open(main, &dir).await? {
            repo.snapshot(&format!("dropped/{name}-{key}"), None).await?;
        }
        self.trees.forget(&dir).await;
        main.drop_worktree(&dir).await?;
        tree_identity::forget(&self.places, name)?;
        if let Some((branch, was)) = branch {
            // One that has moved holds somebody's work, and stays.
            main.move_ref(&format!("refs/heads/{branch}"), Some(was), None).await?;
        }
        Ok(())
    }

    pub(super) async fn merge(&self, planned: &PlannedCommit) -> Result<Applied, ApplyError> {
        let main = self.git.as_ref().ok_or(ApplyError::NoGit)?;
        Ok(match main.merge(planned).await? {
            Merged::Done | Merged::Already => Applied::Done,
            Merged::Moved { found } => moved(&planned.branch, found),
            Merged::Busy { said } => Applied::Failed(Failure { kind: FailureKind::Busy, said }),
        })
    }

    pub(super) async fn move_ref(
        &self,
        name: &str,
        was: Option<&CommitId>,
        to: Option<&CommitId>,
    ) -> Result<Applied, ApplyError> {
        let main = self.git.as_ref().ok_or(ApplyError::NoGit)?;
        Ok(match main.move_ref(name, was, to).await? {
            RefMoved::Done => Applied::Done,
            RefMoved::Elsewhere { found } => moved(name, found),
        })
    }

    /// A name from a protocol must stay one folder of ours (SE-02).
    fn worktree_dir(&self, name: &str) -> Result<PathBuf, ApplyError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = !name.is_empty() && !name.starts_with(['.', '-']) && name.len() <= 100;
        if !fits || !name.chars().all(plain) {
            return Err(ApplyError::OddName { name: crate::model::clip(name, 100) });
        }
        Ok(self.places.worktrees().join(name))
    }
}

pub(super) fn moved(name: &str, found: Option<CommitId>) -> Applied {
    let at = found.map_or("nothing".to_owned(), |id| id.to_string());
    let said = format!("`{name}` is at {at}");
    Applied::Failed(Failure { kind: FailureKind::Moved, said })
}

fn free_space(dir: &Path) -> io::Result<u64> {
    let space = nix::sys::statvfs::statvfs(dir)?;
    Ok(space.blocks_available() * space.fragment_size())
}
