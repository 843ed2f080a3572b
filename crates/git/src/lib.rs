//! The only place that runs git: snapshots, planned commits and merges, worktrees of ours, pushes, and what can be read of a
//! checkout. It decides nothing, never moves the owner's HEAD, and writes files of the owner's work tree only when a merge
//! moves the branch that is checked out there.

mod branch;
mod checkout;
mod child;
mod clean_tree;
mod command;
mod commit;
mod diff;
mod error;
mod guard;
mod history;
mod ignored;
mod index;
mod ingest_settings;
mod listing;
mod merge;
mod names;
mod objects;
mod offline_head;
mod owner_index;
mod patterns;
mod plan;
mod publish;
mod push;
mod recent;
mod refs;
mod sandbox;
mod scan;
mod snapshot;
mod stage;
#[cfg(test)]
mod tests;
mod touches;
mod tree;
mod tree_edit;
mod verdicts;
mod worktree;

pub use clean_tree::SETUP_MARK;
pub use command::Options;
pub use commit::Committed;
pub use error::GitError;
pub use guard::Pin;
pub use merge::{MergeWish, Merged, Merging};
pub use offline_head::{Peeked, peek};
pub use publish::{Author, Blob, Fetched, Touching};
pub use push::Pushed;
pub use refs::RefMoved;
pub use sandbox::GitWrites;

use command::{Call, Git, Output};
use guard::Guard;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// One work tree under git. Cheap to clone; all clones share one private index.
///
/// Open a work tree once: two that were opened apart from each other would fight over that index.
#[derive(Clone)]
pub struct Repo(Arc<Inner>);

struct Inner {
    root: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
    format: ObjectFormat,
    git: Git,
    /// Shared by all work trees of the repository that belong to one workspace.
    guard: OnceLock<Arc<Guard>>,
    /// The lock is also what makes snapshots take turns: they share the private index.
    recent: tokio::sync::Mutex<recent::Recent>,
    head: std::sync::Mutex<Option<checkout::HeadSeen>>,
    /// How the git directory stood when nothing was under way in it.
    calm: std::sync::Mutex<Option<agency_host::read::Stamp>>,
}

/// How long ids are in this repository.
#[derive(Clone, Copy)]
enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    /// Git knows this tree without its being stored.
    fn empty_tree(self) -> &'static str {
        match self {
            Self::Sha1 => "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            Self::Sha256 => "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
        }
    }

    /// The id that stands for "no object".
    fn zeros(self) -> String {
        "0".repeat(self.empty_tree().len())
    }

    /// In bytes.
    fn id_len(self) -> usize {
        self.empty_tree().len() / 2
    }
}

impl Repo {
    /// `None` when the folder is not the top of a git work tree.
    pub async fn open(root: &Path) -> Result<Option<Self>, GitError> {
        Self::open_by(Git::ours()?, real(root)?).await
    }

    pub async fn open_with(root: &Path, options: Options) -> Result<Option<Self>, GitError> {
        Self::open_by(Git::new(options)?, real(root)?).await
    }

    async fn open_by(git: Git, root: PathBuf) -> Result<Option<Self>, GitError> {
        if std::fs::metadata(root.join(".git")).is_err() {
            return Ok(None);
        }
        let Some(answer) = ask_where(&git, &root).await? else {
            return Ok(None);
        };
        let lines: Vec<&[u8]> = answer.stdout.split(|&byte| byte == b'\n').collect();
        let [format, git_dir, common_dir, top, b""] = lines.as_slice() else {
            return Err(GitError::odd_output("rev-parse", &answer.stdout));
        };
        if path(top) != root {
            return Ok(None);
        }
        let format = match *format {
            b"sha1" => ObjectFormat::Sha1,
            b"sha256" => ObjectFormat::Sha256,
            _ => return Err(GitError::odd_output("rev-parse", format)),
        };
        let (git_dir, common_dir) = (path(git_dir), path(common_dir));
        let (guard, recent, head, calm) = Default::default();
        let inner = Inner { root, git_dir, common_dir, format, git, guard, recent, head, calm };
        Ok(Some(Self(Arc::new(inner))))
    }

    /// Before this no git process is started. `pin`: as the owner last trusted it; `None`: what is there now is the owner's.
    /// `vault` is a folder of ours that git reads in the place of the repository's own settings.
    pub fn guard(
        &self,
        checked_git_dir: PathBuf,
        pin: Option<Arc<Pin>>,
    ) -> Result<Arc<Pin>, GitError> {
        let inner = &self.0;
        let dirs = [inner.root.as_path(), &inner.git_dir, &inner.common_dir];
        let guard = Guard::new(dirs, inner.git.clone(), checked_git_dir, pin)?;
        let pin = guard.pin();
        assert!(inner.guard.set(Arc::new(guard)).is_ok(), "BUG: a repository is guarded once");
        Ok(pin)
    }

    /// The owner trusts what is there now. Says how many settings and files count.
    pub fn pin_anew(&self) -> Result<(Arc<Pin>, usize), GitError> {
        self.guarded()?.pin_anew()
    }

    /// Another work tree of this repository, under the same guard.
    pub async fn beside(&self, root: &Path) -> Result<Option<Self>, GitError> {
        let Some(repo) = Self::open_by(self.0.git.clone(), real(root)?).await? else {
            return Ok(None);
        };
        if repo.0.common_dir != self.0.common_dir {
            let (root, found) = (repo.0.root.display(), repo.0.common_dir.display());
            let changes = vec![format!("`{root}/.git` leads to another repository: `{found}`")];
            return Err(GitError::Held { changes });
        }
        if let Some(guard) = self.0.guard.get() {
            assert!(repo.0.guard.set(Arc::clone(guard)).is_ok(), "BUG: it was opened just now");
        }
        Ok(Some(repo))
    }

    fn guarded(&self) -> Result<&Guard, GitError> {
        let unguarded =
            || GitError::Held { changes: vec!["nobody has looked at it yet".to_owned()] };
        self.0.guard.get().map(Arc::as_ref).ok_or_else(unguarded)
    }

    pub fn root(&self) -> &Path {
        &self.0.root
    }

    pub fn git_dir(&self) -> &Path {
        &self.0.git_dir
    }

    /// What all work trees of the repository share.
    pub fn common_dir(&self) -> &Path {
        &self.0.common_dir
    }

    /// The git folders that a commit in this work tree writes to. A linked tree is looked up among the repository's own, since an
    /// agent can rewrite the tree's `.git` file.
    pub fn dirs_of(&self, tree: &Path) -> Vec<PathBuf> {
        let leads_here = |admin: &Path| {
            let text = std::fs::read_to_string(admin.join("gitdir")).unwrap_or_default();
            Path::new(text.trim_end()) == tree.join(".git")
        };
        let admins = std::fs::read_dir(self.0.common_dir.join("worktrees")).into_iter().flatten();
        let own = admins.flatten().map(|admin| admin.path()).find(|admin| leads_here(admin));
        std::iter::once(self.0.common_dir.clone()).chain(own).collect()
    }

    /// The folder for our own files of this repository, made if need be.
    pub fn work_dir(&self) -> Result<PathBuf, GitError> {
        make_dir(self.0.common_dir.join("agency"))
    }

    /// Every git process of an open repository starts here, and only while nothing is other than the owner trusted.
    async fn git(&self, call: Call) -> Result<Output, GitError> {
        let guard = self.guarded()?;
        let call = call.sheltered(&guard.check()?);
        guard.check_beside(&self.0.git_dir)?;
        // Named outright, so that neither a `.git` file swapped since nor a planted `core.worktree` leads elsewhere.
        let call = call.env("GIT_DIR", &self.0.git_dir).env("GIT_WORK_TREE", &self.0.root);
        self.0.git.run(&self.0.root, call).await
    }
}

fn real(root: &Path) -> Result<PathBuf, GitError> {
    root.canonicalize().map_err(|source| GitError::io("find", root, source))
}

/// Lets git find the repository itself, once, so that its own check of who owns the folder applies.
async fn ask_where(git: &Git, root: &Path) -> Result<Option<Output>, GitError> {
    let call = Call::local("rev-parse")
        .args(["--path-format=absolute", "--show-object-format"])
        .args(["--git-dir", "--git-common-dir", "--show-toplevel"])
        .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root))
        // A planted `core.worktree` must not make it look as if there were no repository here.
        .env("GIT_WORK_TREE", root);
    match git.run(root, call).await {
        Ok(answer) => Ok(Some(answer)),
        Err(GitError::Refused { said, .. }) if said.contains("not a git repository") => Ok(None),
        Err(error) => Err(error),
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn make_dir(dir: PathBuf) -> Result<PathBuf, GitError> {
    std::fs::create_dir_all(&dir).map_err(|source| GitError::io("make", &dir, source))?;
    Ok(dir)
}
