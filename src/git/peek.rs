//! Where a checkout stands, read from git's own files alone: for commands that must not cost a process. It trusts nothing
//! that it finds to run or to be written to, and says nothing where the files do not say it plainly.

use super::names;
use super::refs::{packed, read_text};
use crate::model::CommitId;
use std::path::{Path, PathBuf};

const LINE_MAX: u64 = 4096;
const PACKED_MAX: u64 = 64 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// The top of the work tree.
    pub root: PathBuf,
    /// `None` while HEAD is detached.
    pub branch: Option<String>,
    /// `None` before the first commit.
    pub head: Option<CommitId>,
}

/// The work tree around a folder; `None`: there is none, or only git itself could tell.
pub fn peek(dir: &Path) -> Option<Peeked> {
    let start = dir.canonicalize().ok()?;
    let root = start.ancestors().find(|dir| dir.join(".git").exists())?.to_owned();
    let git_dir = git_dir(&root)?;
    let head = line(&git_dir.join("HEAD"))?;
    let Some(name) = head.strip_prefix("ref: ") else {
        let head = names::is_object(&head).then(|| CommitId::new(&head))?;
        return Some(Peeked { root, branch: None, head: Some(head) });
    };
    let branch = name.strip_prefix("refs/heads/").filter(|branch| names::is_ref_tail(branch))?;
    let common = line(&git_dir.join("commondir")).map_or(git_dir.clone(), |dir| git_dir.join(dir));
    if common.join("reftable").exists() {
        return None;
    }
    let head = find(&common, name);
    Some(Peeked { root, branch: Some(branch.to_owned()), head })
}

/// A worktree's `.git` is a file that names the folder.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    if dot_git.is_dir() {
        return Some(dot_git);
    }
    Some(root.join(line(&dot_git)?.strip_prefix("gitdir: ")?))
}

fn find(common: &Path, name: &str) -> Option<CommitId> {
    if let Some(id) = line(&common.join(name)) {
        return names::is_object(&id).then(|| CommitId::new(id));
    }
    let text = read_text(&common.join("packed-refs"), PACKED_MAX).ok()??;
    packed(&text).find(|(_, packed)| *packed == name).map(|(id, _)| CommitId::new(id))
}

fn line(file: &Path) -> Option<String> {
    read_text(file, LINE_MAX).ok()?.map(|text| text.trim_end().to_owned())
}
