//! `repo.json`: what our state folder remembers of the repository that it belongs to. It judges nothing.

use super::host::Host;
use super::identity::{RepoId, Site};
use super::{RepositoryError, StateDir, files};
use crate::model::Timestamp;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const VERSION: u64 = 1;
pub(super) const NAME: &str = "repo.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) version: u64,
    pub(super) id: RepoId,
    /// The working tree.
    pub(super) path: PathBuf,
    /// The folder with `id` and `lock`: worktrees differ in `path` and share this.
    pub(super) identity: PathBuf,
    pub(super) host: String,
    pub(super) host_name: String,
    pub(super) created: Timestamp,
    /// The owner, or a verb of theirs, said that this repository is to be run here.
    pub(super) adopted: bool,
    /// The place where a copy waits; the id is the original's.
    pub(super) copy: bool,
    /// The journal has a first line on disk: without one it was deleted.
    #[serde(default)]
    pub(super) journal: bool,
}

impl Record {
    pub(super) fn new(id: RepoId, site: &Site, host: &Host, created: Timestamp) -> Self {
        Self {
            version: VERSION,
            id,
            path: site.root.clone(),
            identity: site.folder.clone(),
            host: host.id.clone(),
            host_name: host.name.clone(),
            created,
            adopted: false,
            copy: false,
            journal: false,
        }
    }

    /// The state folder of a repository and its record. Records of others may be broken; ours may not.
    pub(super) fn find(
        state_dir: &StateDir,
        id: RepoId,
    ) -> Result<Option<(PathBuf, Self)>, RepositoryError> {
        for folder in state_dir.folders_like(id)? {
            match Self::read(&folder)? {
                Some(record) if record.id == id && !record.copy => {
                    return Ok(Some((folder, record)));
                }
                Some(_) | None => {}
            }
        }
        Ok(None)
    }

    pub(super) fn read(folder: &Path) -> Result<Option<Self>, RepositoryError> {
        let path = folder.join(NAME);
        let Some(bytes) = files::read(&path, 1 << 20)? else { return Ok(None) };
        let bad = |source| RepositoryError::BadRecord { path: path.clone(), source };
        let Version { version } = serde_json::from_slice(&bytes).map_err(bad)?;
        if version > VERSION {
            return Err(RepositoryError::NewerRecord { path, version });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(bad)
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), RepositoryError> {
        let path = folder.join(NAME);
        let json = serde_json::to_vec_pretty(self)
            .map_err(|error| files::failed("write", &path)(std::io::Error::other(error)))?;
        files::replace(&path, &json)
    }

    pub(super) fn is_in(folder: &Path) -> bool {
        folder.join(NAME).exists()
    }
}

/// Read first, so that a newer format is told from a broken file.
#[derive(Deserialize)]
struct Version {
    version: u64,
}
