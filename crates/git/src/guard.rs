//! Holds git to what the owner trusted (SE-01): nothing by which git runs, includes or redirects may have changed.
//! What is checked is also what git reads: it sees our own copy of the configuration, not the repository's.

mod checked_git_dir;
mod config;
mod files;
mod harmless;
mod programs;
mod reader;
mod stamp;
mod view;

pub use view::Pin;

use super::GitError;
use super::command::Git;
use checked_git_dir::{Contents, Vault};
use reader::{Reading, Site, Unreadable};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Guard {
    site: Site,
    git: Git,
    state: Mutex<State>,
}

struct State {
    /// Shared with whoever keeps it for the journal.
    pin: Arc<Pin>,
    /// What was last found in order.
    good: Option<Reading>,
    checked_git_dir: Vault,
}

impl Guard {
    /// Without a pin, what is there now is the owner's.
    pub(super) fn new(
        dirs: [&Path; 3],
        git: Git,
        checked_git_dir: PathBuf,
        pin: Option<Arc<Pin>>,
    ) -> Result<Self, GitError> {
        let [root, git_dir, common_dir] = dirs.map(Path::to_owned);
        let home = programs::variable(git.env(), "HOME").map(PathBuf::from);
        let site =
            Site { root, git_dir, common_dir, home, checked_git_dir: checked_git_dir.clone() };
        let pin = match pin {
            Some(pin) => pin,
            None => Arc::new(take_pin(&site, git.env())?.0),
        };
        let checked_git_dir = Vault::new(checked_git_dir, site.common_dir.clone());
        let state = Mutex::new(State { pin, good: None, checked_git_dir });
        Ok(Self { site, git, state })
    }

    pub(super) fn pin(&self) -> Arc<Pin> {
        Arc::clone(&self.state().pin)
    }

    /// From now on what is there now counts. Says how many settings and files that are.
    pub(super) fn pin_anew(&self) -> Result<(Arc<Pin>, usize), GitError> {
        let (pin, counting) = take_pin(&self.site, self.git.env())?;
        let pin = Arc::new(pin);
        let mut state = self.state();
        state.pin = Arc::clone(&pin);
        state.good = None;
        Ok((pin, counting))
    }

    /// The environment under which git may start, or why it may not.
    pub(super) fn check(&self) -> Result<Shelter, GitError> {
        let mut state = self.state();
        if !state.good.as_ref().is_some_and(is_current) {
            let mut reading = read(&self.site)?;
            let changes = state.pin.view.changes(&reading.view);
            if !changes.is_empty() {
                state.good = None;
                return Err(GitError::Held { changes: the_first(changes) });
            }
            // Both are in the pin.
            (reading.view, reading.commands) = Default::default();
            state.good = Some(reading);
        }
        let mut files = state.good.as_ref().map(|good| good.files.clone()).unwrap_or_default();
        files.insert("exec/git".to_owned(), programs::blind_git(self.git.program()));
        let programs = state.pin.programs.clone();
        let lfs = programs.contains_key(programs::LFS);
        let contents = Contents { files, programs, lfs };
        let checked_git_dir = state.checked_git_dir.dir().to_owned();
        state
            .checked_git_dir
            .furnish(&contents)
            .map_err(|source| GitError::io("furnish", &checked_git_dir, source))?;
        let path = programs::variable(self.git.env(), "PATH").unwrap_or_default();
        let path = programs::in_front(&state.checked_git_dir.bin(), &path);
        let (objects, exec) = (self.site.common_dir.join("objects"), state.checked_git_dir.exec());
        Ok(Shelter { common_dir: checked_git_dir, objects, path, exec })
    }

    /// A work tree beside the pinned one has settings of its own only as far as the pinned one has them.
    pub(super) fn check_beside(&self, git_dir: &Path) -> Result<(), GitError> {
        if git_dir == self.site.git_dir {
            return Ok(());
        }
        let theirs = reader::read_worktree_config(&self.site, git_dir).map_err(held)?;
        let ours = reader::read_worktree_config(&self.site, &self.site.git_dir).map_err(held)?;
        let none = view::View::default();
        if theirs == none || theirs.is_like(&ours) {
            return Ok(());
        }
        Err(GitError::Held { changes: none.changes(&theirs) })
    }

    /// Branches' remotes: as pinned, and as they are now.
    pub(super) fn branches(&self) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        let state = self.state();
        let now = state.good.as_ref().map(|good| good.branches.clone()).unwrap_or_default();
        (state.pin.branches.clone(), now)
    }

    /// The owner's own hook sends what git-lfs keeps before a push; ours runs no hooks, so it is asked for by itself.
    pub(super) fn sends_lfs(&self) -> bool {
        let state = self.state();
        let asks = state.good.as_ref().is_some_and(|good| good.sends_lfs);
        asks && state.pin.programs.contains_key(programs::LFS)
    }

    /// As if everything that changes from now on changed between a check and git's start.
    #[cfg(test)]
    pub(super) fn look_away(&self) {
        if let Some(good) = &mut self.state().good {
            good.stamps.clear();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves at worst an older reading, which is then read again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where git looks instead of in the repository's own common directory.
pub(super) struct Shelter {
    pub(super) common_dir: PathBuf,
    pub(super) objects: PathBuf,
    pub(super) path: OsString,
    pub(super) exec: PathBuf,
}

/// An agent may plant any number of things; a message has an end.
fn the_first(mut changes: Vec<String>) -> Vec<String> {
    const MOST: usize = 50;
    let more = changes.len().saturating_sub(MOST);
    if more > 0 {
        changes.truncate(MOST);
        changes.push(format!("and {more} more"));
    }
    changes
}

fn is_current(reading: &Reading) -> bool {
    let same = |(path, stamp): &(PathBuf, stamp::Stamp)| {
        stamp.is_settled(reading.at) && stamp::Stamp::of(path) == *stamp
    };
    reading.stamps.iter().all(same)
}

fn take_pin(site: &Site, env: &[(OsString, OsString)]) -> Result<(Pin, usize), GitError> {
    let reading = read(site)?;
    let programs = programs::find(env, &reading.commands, site.home.as_deref());
    let counting = reading.view.len();
    Ok((Pin { view: reading.view, branches: reading.branches, programs }, counting))
}

fn read(site: &Site) -> Result<Reading, GitError> {
    reader::read(site).map_err(held)
}

fn held(Unreadable(why): Unreadable) -> GitError {
    GitError::Held { changes: vec![why] }
}
