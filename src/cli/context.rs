//! What every command needs: the environment, the configuration, the state directory, the repository meant.

use super::exit::Misused;
use super::site;
use crate::capacity::Capacity;
use crate::config::{Config, Env};
use crate::daemon::limits;
use crate::escalate::Notifier;
use crate::git::Repo;
use crate::repository::{Known, Places, Repository, StateDir, repositories};
use crate::run::Spares;
use crate::verbs::Caller;
use crate::workspace::Settings;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) env: Env,
    config: Option<PathBuf>,
    repo: Option<PathBuf>,
}

impl Context {
    pub(super) fn new(config: Option<PathBuf>, repo: Option<PathBuf>) -> anyhow::Result<Self> {
        Ok(Self { env: Env::of_this_process(), config, repo })
    }

    /// Another environment than this process has.
    pub(super) fn in_env(env: Env, config: PathBuf) -> Self {
        Self { env, config: Some(config), repo: None }
    }

    pub(crate) fn config(&self) -> anyhow::Result<Config> {
        Ok(match self.config_path()? {
            Some(path) => Config::load(&path, &self.env)?,
            None => Config::default(),
        })
    }

    /// `None`: the defaults hold.
    pub(crate) fn config_path(&self) -> anyhow::Result<Option<PathBuf>> {
        Ok(Config::find(self.config.as_deref(), &self.env)?)
    }

    pub(crate) fn state_dir(&self) -> anyhow::Result<StateDir> {
        Ok(StateDir::resolve(&self.env)?)
    }

    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let config = self.config()?;
        Ok(Settings {
            state_dir: self.state_dir()?,
            capacity: Capacity::new(limits(&config)),
            config: Arc::new(config),
            env: Arc::new(std::env::vars().collect()),
            program: std::env::current_exe()?,
            spares: Spares::default(),
            notifier: Notifier::default(),
            problem: None,
        })
    }

    /// What `--repo` names.
    pub(super) fn named_repo(&self) -> Option<&Path> {
        self.repo.as_deref()
    }

    /// The same for another repository.
    pub(super) fn at(&self, repo: PathBuf) -> Self {
        self.at_option(Some(repo))
    }

    /// The same for everything that this machine remembers.
    pub(crate) fn of_all(&self) -> Self {
        self.at_option(None)
    }

    /// The same, or for the repository that a verb names itself.
    pub(super) fn or_at(&self, repo: Option<&PathBuf>) -> Self {
        self.at_option(repo.cloned().or_else(|| self.repo.clone()))
    }

    fn at_option(&self, repo: Option<PathBuf>) -> Self {
        Self { env: self.env.clone(), config: self.config.clone(), repo }
    }

    /// For `import`, where `--repo owner/name` may mean a repository elsewhere: this place, and that name.
    pub(super) fn split_repo(&self) -> (Self, Option<String>) {
        let named = self.repo.as_ref().filter(|path| !path.exists()).and_then(|path| path.to_str());
        let elsewhere = named.filter(|name| name.split('/').count() == 2).map(str::to_owned);
        let repo = if elsewhere.is_some() { None } else { self.repo.clone() };
        (Self { env: self.env.clone(), config: self.config.clone(), repo }, elsewhere)
    }

    /// The repository that `--repo` or the current directory names.
    pub(super) fn root(&self) -> anyhow::Result<PathBuf> {
        let start = match &self.repo {
            Some(path) => path.clone(),
            None => std::env::current_dir()?,
        };
        root_of(&start)
    }

    /// Our memory of that repository; `None` if there is none.
    pub(super) fn places(&self) -> anyhow::Result<Option<Places>> {
        let root = self.root()?;
        let common = runtime()?.block_on(Repo::open(&root))?.map(|git| git.common_dir().to_owned());
        let found = || {
            let state_dir = self.state_dir()?;
            anyhow::Ok(Repository::look(&root, common.as_deref(), &state_dir)?)
        };
        match found() {
            // A run does not know the daemon's state directory, and its sandbox may hide the usual one.
            Err(_) if self.env.get("AGENCY_RUN").is_some() => Ok(None),
            found => found,
        }
    }

    /// The repository meant by `--repo`, or everything that this machine remembers.
    pub(super) fn known(&self) -> anyhow::Result<Vec<Known>> {
        let known = repositories(&self.state_dir()?)?;
        let Some(wanted) = &self.repo else { return Ok(known) };
        let wanted = self.meant(root_of(wanted)?);
        Ok(known.into_iter().filter(|known| known.path == wanted).collect())
    }

    /// A worktree of a repository that we work in means that repository.
    fn meant(&self, root: PathBuf) -> PathBuf {
        let main = self.state_dir().ok().and_then(|state| site::main_of(&root, &state));
        main.unwrap_or(root)
    }

    /// `--repo` was given.
    pub(super) fn names_a_repository(&self) -> bool {
        self.repo.is_some()
    }

    /// The repository that `--repo` names, though it may be missing; `None` without `--repo`.
    pub(super) fn named_root(&self) -> Option<PathBuf> {
        let found = |path: &PathBuf| root_of(path).map(|root| self.meant(root));
        self.repo.as_ref().map(|path| found(path).unwrap_or_else(|_| path.clone()))
    }

    /// Our folder for a repository at this very place; `None` where we know of none.
    pub(super) fn memory(&self, root: &Path) -> Option<PathBuf> {
        let known = repositories(&self.state_dir().ok()?).ok()?;
        known.into_iter().find(|known| known.path == root).map(|known| known.folder)
    }

    /// Who gives a command, for the journal.
    pub(super) fn caller(&self) -> Caller {
        Caller { who: self.asker(), from: "command line".to_owned() }
    }

    pub(crate) fn asker(&self) -> String {
        let name = self.env.get("USER").or_else(|| self.env.get("LOGNAME"));
        name.and_then(|name| name.to_str()).unwrap_or("owner").to_owned()
    }
}

/// The nearest folder upwards that is the top of a git work tree, else the folder itself.
pub(super) fn root_of(start: &Path) -> anyhow::Result<PathBuf> {
    let missing = |_| Misused(format!("`{}` does not exist", start.display()));
    let start = start.canonicalize().map_err(missing)?;
    let top = start.ancestors().find(|dir| dir.join(".git").exists());
    Ok(top.unwrap_or(&start).to_owned())
}

/// Commands other than the daemon need no more than one thread.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
