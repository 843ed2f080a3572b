//! Where our memory of each repository lies. It creates only folders, and reads nothing but `repo.json`.

use super::identity::{RepoId, Site};
use super::record::Record;
use super::{RepositoryError, files};
use crate::config::Env;
use crate::model::Digest;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The directory of all our state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir(PathBuf);

/// The places of one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The working tree.
    pub root: PathBuf,
    pub id: RepoId,
    /// Below the state directory; everything of ours about this repository is in it.
    pub folder: PathBuf,
    /// Whoever works in the repository holds it.
    pub lock: PathBuf,
}

impl Places {
    /// A journal of this repository was begun: if it is empty or gone now, it was deleted.
    pub fn has_journal(&self) -> bool {
        Record::read(&self.folder).ok().flatten().is_some_and(|record| record.journal)
    }
}

/// A repository that a state directory remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub path: PathBuf,
    pub id: RepoId,
    pub folder: PathBuf,
    pub lock: PathBuf,
}

/// Long enough to recognise a repository, short enough for a socket's path.
const NAME_MAX: usize = 32;

impl StateDir {
    /// `$AGENCY_STATE_DIR`, `$XDG_STATE_HOME/agency` or `~/.local/state/agency`; created if missing.
    pub fn resolve(env: &Env) -> Result<Self, RepositoryError> {
        let path = match env.get("AGENCY_STATE_DIR").map(PathBuf::from) {
            Some(path) if path.is_absolute() => path,
            Some(path) => return Err(RepositoryError::RelativeStateDir { path }),
            None => env
                .base("XDG_STATE_HOME", ".local/state")
                .ok_or(RepositoryError::NoStateDir)?
                .join("agency"),
        };
        Self::at(&path)
    }

    pub fn at(path: &Path) -> Result<Self, RepositoryError> {
        files::create_private(path)?;
        Ok(Self(path.canonicalize().map_err(files::failed("find", path))?))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Folders that may belong to this id: their name ends in eight or more of its hex digits.
    pub(super) fn folders_like(&self, id: RepoId) -> Result<Vec<PathBuf>, RepositoryError> {
        let hex = id.hex();
        let is_like = |name: &str| {
            name.rsplit_once('-').is_some_and(|(_, end)| end.len() >= 8 && hex.starts_with(end))
        };
        let folders = self.folders()?.into_iter();
        let name = |folder: &PathBuf| folder.file_name()?.to_str().map(str::to_owned);
        Ok(folders.filter(|folder| name(folder).is_some_and(|name| is_like(&name))).collect())
    }

    /// A folder that no repository has yet. Eight digits are enough, unless another id begins with the same.
    pub(super) fn free(&self, site: &Site, id: RepoId) -> PathBuf {
        let (name, hex) = (short_name(&site.root), id.hex());
        let named = |digits: usize| self.0.join(format!("{name}-{}", &hex[..digits]));
        [8, 16].map(named).into_iter().find(|folder| !Record::is_in(folder)).unwrap_or(named(32))
    }

    /// Where a copy waits until it is adopted. It goes by the place, since the id is the original's.
    pub(super) fn aside(&self, site: &Site) -> PathBuf {
        let digest = Digest::of(site.folder.as_os_str().as_encoded_bytes());
        self.0.join(format!("{}-copy-{}", short_name(&site.root), &digest.as_str()[..8]))
    }

    fn folders(&self) -> Result<Vec<PathBuf>, RepositoryError> {
        let entries = std::fs::read_dir(&self.0).map_err(files::failed("read", &self.0))?;
        let mut folders = Vec::new();
        for entry in entries {
            folders.push(entry.map_err(files::failed("read", &self.0))?.path());
        }
        folders.sort();
        Ok(folders)
    }
}

impl Places {
    pub(super) fn new(site: &Site, id: RepoId, folder: PathBuf) -> Self {
        Self { root: site.root.clone(), id, folder, lock: site.lock() }
    }

    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    pub fn runs(&self) -> PathBuf {
        self.folder.join("runs")
    }

    pub fn quarantine(&self) -> PathBuf {
        self.folder.join("quarantine")
    }

    pub fn outbox(&self) -> PathBuf {
        self.folder.join("outbox")
    }

    pub fn worktrees(&self) -> PathBuf {
        self.folder.join("worktrees")
    }

    pub fn events(&self) -> PathBuf {
        self.folder.join("events.ndjson")
    }

    pub fn control_sock(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    pub fn pins(&self) -> PathBuf {
        self.folder.join("pins.json")
    }

    /// What git reads in the place of the repository's own settings.
    pub fn git(&self) -> PathBuf {
        self.folder.join("git")
    }

    pub fn trusted(&self) -> PathBuf {
        self.folder.join("trusted")
    }
}

/// Every repository that this state directory remembers. A record that cannot be read is left out: opening that one names it.
pub fn repositories(state_dir: &StateDir) -> Result<Vec<Known>, RepositoryError> {
    let mut records = Vec::new();
    for folder in state_dir.folders()? {
        if let Ok(Some(record)) = Record::read(&folder) {
            records.push((folder, record));
        }
    }
    // A copy whose original went away has become the original; the place where it waited is history.
    let taken = |record: &&(PathBuf, Record)| !record.1.copy;
    let settled: BTreeSet<PathBuf> =
        records.iter().filter(taken).map(|(_, record)| record.identity.clone()).collect();
    let lives = |record: &Record| !record.copy || !settled.contains(&record.identity);
    let known = |(folder, record): (PathBuf, Record)| Known {
        path: record.path,
        id: record.id,
        folder,
        lock: record.identity.join("lock"),
    };
    Ok(records.into_iter().filter(|(_, record)| lives(record)).map(known).collect())
}

/// The folder's name as far as it is harmless in a file name.
fn short_name(root: &Path) -> String {
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = name.chars().map(plain).take(NAME_MAX).collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "repo".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_dir_is_ours_alone_and_follows_the_order() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        let env = |pairs: &[(&str, PathBuf)]| pairs.iter().cloned().collect::<Env>();
        let home = ("HOME", at("home"));
        let xdg = ("XDG_STATE_HOME", at("xdg"));
        let own = ("AGENCY_STATE_DIR", at("own"));
        let resolve = |pairs: &[(&str, PathBuf)]| StateDir::resolve(&env(pairs)).unwrap().0;
        assert_eq!(resolve(std::slice::from_ref(&home)), at("home/.local/state/agency"));
        assert_eq!(resolve(&[home.clone(), xdg.clone()]), at("xdg/agency"));
        assert_eq!(resolve(&[home, xdg, own]), at("own"));
        assert_eq!(at("own").metadata().unwrap().permissions().mode() & 0o777, 0o700);

        assert!(matches!(StateDir::resolve(&Env::default()), Err(RepositoryError::NoStateDir)));
        let relative = StateDir::resolve(&env(&[("AGENCY_STATE_DIR", "here".into())]));
        assert!(matches!(relative, Err(RepositoryError::RelativeStateDir { .. })));
    }

    #[test]
    fn odd_names_become_harmless() {
        for (root, name) in [
            ("/src/shop", "shop"),
            ("/src/a b/ü x", "x"),
            ("/", "repo"),
            ("/src/...", "repo"),
            ("/src/-rf", "rf"),
        ] {
            assert_eq!(short_name(Path::new(root)), name, "{root}");
        }
        assert_eq!(short_name(Path::new(&"x".repeat(300))).len(), NAME_MAX);
    }
}
