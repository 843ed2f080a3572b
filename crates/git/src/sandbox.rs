//! The parts of a git directory that work in a tree writes, for a sandbox. It grants nothing itself.

use super::Repo;
use super::refs::read_text;
use std::path::{Path, PathBuf};

const LINK_MAX: u64 = 4096;

/// Folders outside the tree that git writes when somebody stages and commits in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitWrites {
    pub folders: Vec<PathBuf>,
    /// Those among them that git makes when they are missing.
    pub make: Vec<PathBuf>,
}

impl Repo {
    /// Objects, the worktree's own folder, and the refs and logs beside its branch; never `config`, `hooks` or `info`. Nothing
    /// for a tree that has its git directory inside, or one whose `.git` file does not lead where git put it.
    pub fn writes_of(&self, tree: &Path) -> GitWrites {
        let common = &self.0.common_dir;
        let own = match tree == self.0.root {
            true => Some(self.0.git_dir.clone()).filter(|own| !own.starts_with(tree)),
            false => self.worktree_git_dir(tree).filter(|own| leads_to(tree, own)),
        };
        let Some(own) = own else { return GitWrites::default() };
        let beside = branch_folder(&own);
        let make: Vec<PathBuf> = beside
            .iter()
            .flat_map(|folder| [common.join(folder), common.join("logs").join(folder)])
            .collect();
        let mut folders = vec![own, common.join("objects"), common.join("lfs")];
        folders.extend(make.iter().cloned());
        GitWrites { folders, make }
    }
}

/// An agent could write another path into the tree's `.git` file.
fn leads_to(tree: &Path, own: &Path) -> bool {
    let link = read_text(&tree.join(".git"), LINK_MAX);
    matches!(link, Ok(Some(link)) if link.trim_end() == format!("gitdir: {}", own.display()))
}

/// `refs/heads/agency` for the branch `agency/T1`. Nothing for a branch directly in `refs/heads`: whoever may write there moves
/// every branch.
fn branch_folder(own: &Path) -> Option<PathBuf> {
    let head = read_text(&own.join("HEAD"), LINK_MAX).ok().flatten()?;
    let branch = head.trim_end().strip_prefix("ref: refs/heads/")?;
    let (folder, _) = branch.rsplit_once('/')?;
    let plain = folder.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
    plain.then(|| Path::new("refs/heads").join(folder))
}
