//! The id that a repository carries with it, and where. It knows nothing of our state.

use super::RepositoryError;
use super::files;
use crate::model::clip;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// A UUID; lies in the repository and moves with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RepoId(Uuid);

impl RepoId {
    /// All 32 hex digits.
    pub fn hex(self) -> String {
        self.0.simple().to_string()
    }

    /// Eight of them: enough to tell the repositories of one machine apart.
    pub fn short(self) -> String {
        self.hex()[..8].to_owned()
    }

    fn fresh() -> Self {
        Self(Uuid::new_v4())
    }

    fn parse(text: &str) -> Option<Self> {
        let id = Uuid::parse_str(text).ok().filter(|id| id.get_version_num() == 4)?;
        (id.hyphenated().to_string() == text).then_some(Self(id))
    }
}

impl fmt::Display for RepoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.hyphenated())
    }
}

impl From<RepoId> for String {
    fn from(id: RepoId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for RepoId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Self::parse(&text).ok_or("not the id of a repository")
    }
}

/// Where a repository lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// The working tree.
    pub(super) root: PathBuf,
    /// Holds `id` and `lock`. All worktrees of a repository share it.
    pub(super) folder: PathBuf,
}

impl Site {
    pub(super) fn of(root: &Path, common_git_dir: Option<&Path>) -> Result<Self, RepositoryError> {
        let root = real(root)?;
        let folder = match common_git_dir {
            Some(git_dir) => real(git_dir)?.join("agency"),
            None => root.join(".agency"),
        };
        Ok(Self { root, folder })
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// A link planted in its place would make two repositories share one identity.
    pub(super) fn create_folder(&self) -> Result<(), RepositoryError> {
        let folder = &self.folder;
        match folder.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(RepositoryError::NotAFolder { path: folder.clone() }),
            Err(error) if files::is_absent(&error) => files::create_private(folder),
            Err(error) => Err(files::failed("read", folder)(error)),
        }
    }

    /// Is `folder` our folder, perhaps by another name (a bind mount, a link)?
    pub(super) fn is_at(&self, folder: &Path) -> bool {
        let key = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
        folder == self.folder || (key(folder).is_some() && key(folder) == key(&self.folder))
    }
}

/// The id in an identity folder, if there is one.
pub(super) fn read(folder: &Path) -> Result<Option<RepoId>, RepositoryError> {
    let path = folder.join("id");
    let Some(bytes) = files::read(&path, 256)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    match RepoId::parse(text.trim_end()) {
        Some(id) => Ok(Some(id)),
        None => Err(RepositoryError::BadId { path, found: clip(&text, 60) }),
    }
}

/// The id in an identity folder; makes one if there is none. All who do this at once get the same.
pub(super) fn ensure(folder: &Path) -> Result<RepoId, RepositoryError> {
    loop {
        if let Some(id) = read(folder)? {
            return Ok(id);
        }
        files::create(&folder.join("id"), format!("{}\n", RepoId::fresh()).as_bytes())?;
    }
}

/// Gives the repository another id.
pub(super) fn replace(folder: &Path) -> Result<RepoId, RepositoryError> {
    let id = RepoId::fresh();
    files::replace(&folder.join("id"), format!("{id}\n").as_bytes())?;
    Ok(id)
}

fn real(path: &Path) -> Result<PathBuf, RepositoryError> {
    path.canonicalize().map_err(files::failed("find", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    // covers: DM-13
    #[test]
    fn eight_at_once_agree_on_one_id() {
        for _ in 0..20 {
            let dir = tempfile::tempdir().unwrap();
            let barrier = Barrier::new(8);
            let make = || {
                barrier.wait();
                ensure(dir.path()).unwrap()
            };
            let ids: BTreeSet<RepoId> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(ids.len(), 1);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only `id` is left");
        }
    }

    #[test]
    fn a_broken_id_is_named_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("id");
        let nil = "00000000-0000-0000-0000-000000000000\n".to_owned();
        let cut = RepoId::fresh().to_string()[..30].to_owned();
        for broken in ["", "hello", &nil, &cut, &RepoId::fresh().hex()] {
            std::fs::write(&path, broken).unwrap();
            let error = ensure(dir.path()).unwrap_err();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), *broken);
        }
    }

    #[test]
    fn a_planted_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        ensure(&other).unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&other, root.join(".agency")).unwrap();
        let refused = Site::of(&root, None).unwrap().create_folder().unwrap_err();
        assert!(matches!(refused, RepositoryError::NotAFolder { .. }), "{refused}");
        std::os::unix::fs::symlink(other.join("id"), root.join("id")).unwrap();
        assert!(read(&root).is_err());
    }
}
