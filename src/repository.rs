//! One repository's identity and places (DM-13): who it is, whether we know it, and where our memory of it lies.
//! It runs no git and judges no file of a protocol.

mod files;
mod host;
mod identity;
mod places;
mod record;
#[cfg(test)]
mod tests;

pub use identity::RepoId;
pub use places::{Known, Places, StateDir, repositories};

use crate::model::Timestamp;
use crate::store::lock::{Acquired, Lock, LockError};
use host::Host;
use identity::Site;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use record::Record;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A daemon that was killed while it started a program leaves its lock to that child, until the child has become the program.
const LEFT_MAX: Duration = Duration::from_secs(5);

/// A repository that is ours alone as long as this value lives, whatever state directory others use.
#[derive(Debug)]
pub struct Repository {
    site: Site,
    places: Places,
    record: Record,
    origin: Origin,
    state_dir: StateDir,
    lock: Lock,
}

/// What we know of a repository at the moment it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its state is ours, and it lies where it lay.
    Known,
    /// Its state is ours; the folder was moved.
    Moved { from: PathBuf },
    /// The folder was copied: the original is still there. Unknown until [`Repository::adopt`].
    Copied { original: PathBuf },
    /// Nobody has adopted it here yet. Unknown, if a protocol's files are in it already.
    New,
    /// Its state was made by another machine. Unknown until [`Repository::adopt`].
    OtherHost { host: String },
}

#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error("no place for our state: neither AGENCY_STATE_DIR, XDG_STATE_HOME nor HOME is set")]
    NoStateDir,
    #[error("AGENCY_STATE_DIR is `{}`, which is not an absolute path", path.display())]
    RelativeStateDir { path: PathBuf },
    #[error("cannot {doing} `{}`", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error("`{}` is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("`{}` holds `{found}`, which is not the id of a repository", path.display())]
    BadId { path: PathBuf, found: String },
    #[error("`{}` is not a record that this version can read", path.display())]
    BadRecord { path: PathBuf, source: serde_json::Error },
    #[error("`{}` has format {version}, from a newer agency", path.display())]
    NewerRecord { path: PathBuf, version: u64 },
    #[error("another agency process has the repository `{}`: it is held by {holder}", path.display())]
    Busy { path: PathBuf, holder: String },
    #[error("the repository's lock failed")]
    Lock(#[from] LockError),
}

impl Repository {
    /// Takes the repository's lock and finds its state; gives it an id if it has none.
    pub fn open(
        root: &Path,
        common_git_dir: Option<&Path>,
        state_dir: &StateDir,
        now: Timestamp,
    ) -> Result<(Self, Origin), RepositoryError> {
        let site = Site::of(root, common_git_dir)?;
        site.create_folder()?;
        let host = Host::this();
        let lock = take_lock(&site, state_dir, &host, now)?;
        let id = identity::ensure(&site.folder)?;
        let (places, record, origin) = match Record::find(state_dir, id)? {
            None => start(&site, id, state_dir, Record::new(id, &site, &host, now))?,
            Some((folder, record)) => match judge(&record, &site, &host) {
                origin @ Origin::Copied { .. } => {
                    set_aside(&site, state_dir, Record::new(id, &site, &host, now), origin)?
                }
                origin => go_on(&site, id, folder, record, origin)?,
            },
        };
        let state_dir = state_dir.clone();
        let repository = Self { site, places, record, origin: origin.clone(), state_dir, lock };
        Ok((repository, origin))
    }

    /// The places of a repository, for readers: takes no lock and writes nothing. `None`: no state is known.
    pub fn look(
        root: &Path,
        common_git_dir: Option<&Path>,
        state_dir: &StateDir,
    ) -> Result<Option<Places>, RepositoryError> {
        let site = Site::of(root, common_git_dir)?;
        let Some(id) = identity::read(&site.folder)? else { return Ok(None) };
        let Some((folder, record)) = Record::find(state_dir, id)? else { return Ok(None) };
        let folder = match judge(&record, &site, &Host::this()) {
            Origin::Copied { .. } => state_dir.aside(&site),
            Origin::Known | Origin::Moved { .. } | Origin::New | Origin::OtherHost { .. } => folder,
        };
        Ok(folder.is_dir().then(|| Places::new(&site, id, folder)))
    }

    /// The owner says that this repository is theirs to run here. A copy gets an id of its own; a known one stays as it is.
    pub fn adopt(&mut self, now: Timestamp) -> Result<(), RepositoryError> {
        match self.origin {
            Origin::Known | Origin::Moved { .. } => return Ok(()),
            Origin::Copied { .. } => self.become_another(now)?,
            Origin::New | Origin::OtherHost { .. } => {
                let Record { created, journal, .. } = self.record;
                let fresh = Record::new(self.places.id, &self.site, &Host::this(), created);
                self.record = Record { journal, ..fresh };
            }
        }
        self.record.adopted = true;
        self.record.write(&self.places.folder)?;
        self.origin = Origin::Known;
        Ok(())
    }

    /// Deletes our state of a repository; its own files stay. Waits for whoever still holds its lock.
    pub fn forget(known: &Known, patience: Duration) -> Result<(), RepositoryError> {
        let record = Record::read(&known.folder)?;
        let identity = record.map(|record| record.identity).filter(|folder| folder.is_dir());
        // A repository that is gone has no lock; nobody can work in it.
        let _lock = match identity {
            Some(folder) => match Lock::acquire_within(&folder.join("lock"), "forget", patience)? {
                Acquired::Held(lock) => Some(lock),
                Acquired::Busy { holder } => {
                    return Err(RepositoryError::Busy { path: known.path.clone(), holder });
                }
            },
            None => None,
        };
        // First out of sight: a crash while it is deleted leaves no half of a state that counts.
        let gone = known.folder.with_added_extension("forgotten");
        std::fs::remove_file(known.folder.join(record::NAME))
            .map_err(files::failed("remove", &known.folder))?;
        files::rename(&known.folder, &gone)?;
        std::fs::remove_dir_all(&gone).map_err(files::failed("remove", &gone))
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// As [`Repository::open`] found it, or `Known` since [`Repository::adopt`].
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// A journal of this repository was begun on this machine.
    pub fn has_journal(&self) -> bool {
        self.record.journal
    }

    /// Once its first line is on disk.
    pub fn note_journal(&mut self) -> Result<(), RepositoryError> {
        self.record.journal = true;
        self.record.write(&self.places.folder)
    }

    /// False when somebody removed our lock: another process may hold this repository too.
    pub fn is_ours(&self) -> bool {
        self.lock.is_current()
    }

    /// Gives a copy a new id and takes along what was kept while it was held.
    fn become_another(&mut self, now: Timestamp) -> Result<(), RepositoryError> {
        let id = identity::replace(&self.site.folder)?;
        let folder = self.state_dir.free(&self.site, id);
        files::rename(&self.places.folder, &folder)?;
        self.places = Places::new(&self.site, id, folder);
        self.record = Record::new(id, &self.site, &Host::this(), now);
        Ok(())
    }
}

fn take_lock(
    site: &Site,
    state_dir: &StateDir,
    host: &Host,
    now: Timestamp,
) -> Result<Lock, RepositoryError> {
    let since = now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let pid = std::process::id();
    let state = state_dir.path().display();
    let words = format!("pid {pid} on {}, state dir {state}, since {since}", host.name);
    let path = site.lock();
    let mut acquired = Lock::try_acquire(&path, &words)?;
    if matches!(&acquired, Acquired::Busy { holder } if is_gone(holder, host)) {
        acquired = Lock::acquire_within(&path, &words, LEFT_MAX)?;
    }
    match acquired {
        Acquired::Held(lock) => Ok(lock),
        Acquired::Busy { holder } => {
            let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
            Err(RepositoryError::Busy { path: site.root.clone(), holder })
        }
    }
}

/// The holder's own words name a process of this machine that is no more. A forged one costs us the wait and nothing else.
fn is_gone(holder: &str, host: &Host) -> bool {
    let Some(words) = holder.strip_prefix("pid ") else { return false };
    let Some((pid, place)) = words.split_once(" on ") else { return false };
    let pid = pid.parse::<i32>().ok().filter(|pid| *pid > 0).map(Pid::from_raw);
    let is_here = place.split(',').next() == Some(host.name.as_str());
    is_here && pid.is_some_and(|pid| kill(pid, None) == Err(Errno::ESRCH))
}

type Opened = (Places, Record, Origin);

fn start(
    site: &Site,
    id: RepoId,
    state_dir: &StateDir,
    record: Record,
) -> Result<Opened, RepositoryError> {
    let folder = state_dir.free(site, id);
    files::create_private(&folder)?;
    record.write(&folder)?;
    Ok((Places::new(site, id, folder), record, Origin::New))
}

/// A copy must not touch the original's state, and must be able to wait somewhere.
fn set_aside(
    site: &Site,
    state_dir: &StateDir,
    mut record: Record,
    origin: Origin,
) -> Result<Opened, RepositoryError> {
    let folder = state_dir.aside(site);
    files::create_private(&folder)?;
    record.copy = true;
    record.write(&folder)?;
    Ok((Places::new(site, record.id, folder), record, origin))
}

fn go_on(
    site: &Site,
    id: RepoId,
    folder: PathBuf,
    mut record: Record,
    origin: Origin,
) -> Result<Opened, RepositoryError> {
    if let Origin::Moved { .. } = origin {
        record.path.clone_from(&site.root);
        record.identity.clone_from(&site.folder);
        record.write(&folder)?;
    }
    let places = Places::new(site, id, folder);
    let origin = match origin {
        Origin::Known | Origin::Moved { .. } if !record.adopted => Origin::New,
        origin => origin,
    };
    Ok((places, record, origin))
}

/// Compares what we remember with what we see. A place that we cannot read counts as still taken: rather held than shared.
fn judge(record: &Record, site: &Site, host: &Host) -> Origin {
    if record.host != host.id {
        return Origin::OtherHost { host: record.host_name.clone() };
    }
    let from = record.path.clone();
    if site.is_at(&record.identity) {
        let there = from == site.root || from.is_dir();
        return if there { Origin::Known } else { Origin::Moved { from } };
    }
    match identity::read(&record.identity) {
        Ok(None) => Origin::Moved { from },
        Ok(Some(id)) if id != record.id => Origin::Moved { from },
        Ok(Some(_)) | Err(_) => Origin::Copied { original: from },
    }
}
