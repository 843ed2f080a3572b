//! Where the state files live: a branch that is shared by a remote, a branch of this machine alone, or plain files.
//! Reading looks at the files as they lie there; changing goes through `bring.rs`.

use super::super::context::{Context, runtime};
use super::super::exit::Refused;
use crate::clock;
use crate::git::{Fetched, GitError, Repo};
use crate::model::{CommitId, FileState, RelPath};
use crate::protocol::codifica::{Board, Config, FILE, Finding, STATE_MAX};
use crate::read;
use crate::repository::Repository;
use crate::run::folder_around;
use crate::store;
use crate::workspace::pinned;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(super) const CONFIG_MAX: u64 = 1 << 20;
/// How long a look waits for the remote.
const FETCH_MAX: Duration = Duration::from_secs(30);
/// A glob that matches more than this is a mistake.
const FILES_MAX: usize = 10_000;

/// The repository of a command.
pub(super) struct Ground {
    pub(super) root: PathBuf,
    pub(super) git: Option<Repo>,
    pub(super) runtime: tokio::runtime::Runtime,
    /// Where git looks for settings, gone with this.
    vault: Option<PathBuf>,
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Some(vault) = &self.vault {
            // What is left lies in the folder for temporary files.
            drop(std::fs::remove_dir_all(vault));
        }
    }
}

impl Ground {
    /// In a worktree of ours the state is that of the main tree: a task's branch has no say about it.
    pub(super) fn new(context: &Context) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let root = context.root()?;
        let mut ground =
            Self { git: runtime.block_on(Repo::open(&root))?, root, runtime, vault: None };
        if let Some(main) = ground.git.as_ref().and_then(main_root) {
            ground.git = ground.runtime.block_on(Repo::open(&main))?;
            ground.root = main;
        }
        ground.guard(context)?;
        Ok(ground)
    }

    /// SE-01: git runs only as the owner trusted it for the daemon. Where no daemon was ever at work, what is there counts.
    fn guard(&mut self, context: &Context) -> anyhow::Result<()> {
        let Some(git) = &self.git else { return Ok(()) };
        let pin = journal(context, git).and_then(|journal| pinned(&store::latest(&journal)));
        let name = format!("agency-work-{}", uuid::Uuid::new_v4().simple());
        let vault = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&vault)?;
        git.guard(vault.clone(), pin.map(Arc::new))?;
        self.vault = Some(vault);
        Ok(())
    }

    /// The files as they lie there now.
    pub(super) fn board(&self) -> anyhow::Result<Board> {
        let config = Arc::new(self.config()?);
        self.spec_is_there(&config)?;
        let mut files = Vec::new();
        for path in self.state_files(&config)? {
            files.push((path.clone(), self.bytes(&path, STATE_MAX)?.unwrap_or_default()));
        }
        Ok(Board::read(&config, files))
    }

    pub(super) fn config(&self) -> anyhow::Result<Config> {
        let Some(bytes) = self.bytes(&RelPath::fixed(FILE), CONFIG_MAX)? else {
            return Err(no_contract().into());
        };
        read_config(&bytes)
    }

    pub(super) fn spec_is_there(&self, config: &Config) -> anyhow::Result<()> {
        if read::stamp(&self.root, &config.spec)?.is_none() {
            return Err(missing(&config.spec, "spec"));
        }
        Ok(())
    }

    fn state_files(&self, config: &Config) -> anyhow::Result<Vec<RelPath>> {
        let (paths, gaps) = self.state_files_and_gaps(config)?;
        match gaps.into_iter().next() {
            Some(gap) => Err(Refused(gap).into()),
            None => Ok(paths),
        }
    }

    /// The state files that are there, and one sentence for each that is not.
    pub(super) fn state_files_and_gaps(
        &self,
        config: &Config,
    ) -> anyhow::Result<(Vec<RelPath>, Vec<String>)> {
        let (mut paths, mut gaps) = (Vec::new(), Vec::new());
        for pattern in &config.state {
            if let Some(path) = pattern.plain() {
                if read::stamp(&self.root, &path)?.is_none() {
                    gaps.push(missing(&path, "state").to_string());
                } else {
                    paths.push(path);
                }
                continue;
            }
            let folder =
                pattern.folder().map_or(self.root.clone(), |folder| self.root.join(folder));
            let mut found = Vec::new();
            walk(&self.root, &folder, &mut found)?;
            found.retain(|path| config.is_state(path) && !paths.contains(path));
            paths.append(&mut found);
        }
        if paths.is_empty() && gaps.is_empty() {
            let patterns: Vec<_> =
                config.state.iter().map(|pattern| pattern.text.as_str()).collect();
            gaps.push(format!("no file matches `state`: `{}` (CD-26)", patterns.join("`, `")));
        }
        config.order(&mut paths);
        Ok((paths, gaps))
    }

    /// CD-28: the tasks as the remote has them now, or those of this checkout where that is newer or there is no remote.
    pub(super) fn newest(&self) -> anyhow::Result<Board> {
        let Some(repo) = &self.git else { return self.board() };
        match self.runtime.block_on(fetched(repo)) {
            Ok(None) => self.board(),
            Ok(Some(tip)) => self.runtime.block_on(self.board_at(repo, &tip)),
            Err(said) => {
                anstream::eprintln!(
                    "warning: could not fetch: {said}; these tasks may be old (CD-28)"
                );
                self.board()
            }
        }
    }

    pub(super) fn bytes(&self, path: &RelPath, limit: u64) -> anyhow::Result<Option<Vec<u8>>> {
        match read::read(&self.root, path, limit, clock::now())?.state {
            FileState::Absent => Ok(None),
            FileState::Whole(file) => Ok(Some(file.bytes.to_vec())),
            FileState::Unreadable(odd) => {
                Err(Refused(format!("`{path}` is {}; wanted {} (DM-04)", odd.found, odd.wanted))
                    .into())
            }
        }
    }

    /// The same as they are in a commit.
    pub(super) async fn board_at(&self, repo: &Repo, commit: &CommitId) -> anyhow::Result<Board> {
        let config = repo.file_at(commit, &RelPath::fixed(FILE), CONFIG_MAX).await?;
        let Some(config) = config else {
            return Err(Refused(format!(
                "`{FILE}` is in no commit of this branch; commit it first: git add {FILE} && git commit (CD-01)"
            ))
            .into());
        };
        let config = Arc::new(read_config(&config)?);
        let mut below: Vec<String> = Vec::new();
        for pattern in &config.state {
            match pattern.plain().or_else(|| pattern.folder()) {
                Some(path) => below.push(path.to_string()),
                None => {
                    below.clear();
                    break;
                }
            }
        }
        if !below.is_empty() {
            below.push(config.spec.to_string());
        }
        let blobs = repo.files_in(commit, &below).await?;
        if !blobs.iter().any(|blob| blob.path == config.spec) {
            return Err(missing(&config.spec, "spec"));
        }
        let mut paths: Vec<RelPath> = blobs
            .iter()
            .map(|blob| blob.path.clone())
            .filter(|path| config.is_state(path))
            .collect();
        if let Some(path) = config
            .state
            .iter()
            .filter_map(|pattern| pattern.plain())
            .find(|path| !paths.contains(path))
        {
            return Err(missing(&path, "state"));
        }
        config.order(&mut paths);
        let object = |path: &RelPath| {
            blobs.iter().find(|blob| blob.path == *path).map(|blob| blob.object.clone())
        };
        let ids: Vec<String> = paths.iter().filter_map(object).collect();
        let bytes = repo.objects(&ids, STATE_MAX).await?;
        Ok(Board::read(&config, paths.into_iter().zip(bytes).collect()))
    }
}

/// The tip of the remote's branch where this checkout lacks it. No branch of the owner's moves.
async fn fetched(repo: &Repo) -> Result<Option<CommitId>, String> {
    let failed = |error: GitError| error.to_string();
    let Some(branch) = repo.checkout().await.map_err(failed)?.branch else {
        return Err("HEAD is on no branch".to_owned());
    };
    let folder = repo.work_dir().map_err(failed)?;
    let lock = store::FolderLock::acquire(&folder, FETCH_MAX).map_err(|error| error.to_string())?;
    if lock.is_none() {
        return Err("another agency command is busy here".to_owned());
    }
    let fetched = tokio::time::timeout(FETCH_MAX, repo.fetch(&branch)).await;
    let fetched = fetched.map_err(|_| format!("no answer in {} s", FETCH_MAX.as_secs()))?;
    let tip = match fetched.map_err(failed)? {
        Fetched::NoRemote | Fetched::Absent => return Ok(None),
        Fetched::Failed { said } => return Err(said.replace('\n', " ")),
        Fetched::At(tip) => tip,
    };
    let local = repo.ref_tip(&format!("refs/heads/{branch}")).await.map_err(failed)?;
    let known = match &local {
        Some(local) => repo.precedes(&tip, local).await.map_err(failed)?,
        None => false,
    };
    repo.forget_publishing(&branch).await.map_err(failed)?;
    Ok((!known).then_some(tip))
}

/// Our journal of this repository. A run does not know the daemon's state directory, but its own folder lies in it.
fn journal(context: &Context, git: &Repo) -> Option<PathBuf> {
    if let Some(run) = folder_around(std::process::id()) {
        return run.path().ancestors().nth(2).map(|state| state.join("journal"));
    }
    let state_dir = context.state_dir().ok()?;
    let places = Repository::look(git.root(), Some(git.common_dir()), &state_dir).ok()??;
    Some(places.journal())
}

pub(super) fn no_contract() -> Refused {
    Refused(format!(
        "there is no `{FILE}` here, so this repository does not use Codifica (CD-01). To begin, write and commit `{FILE}`, its spec and its state file: README, Codifica"
    ))
}

fn main_root(git: &Repo) -> Option<PathBuf> {
    let linked = git.git_dir() != git.common_dir();
    let main = git.common_dir().parent().filter(|_| git.common_dir().ends_with(".git"))?;
    linked.then(|| main.to_owned())
}

pub(super) fn read_config(bytes: &[u8]) -> anyhow::Result<Config> {
    Config::read(bytes).map_err(|findings| Refused(lines(&findings)).into())
}

pub(super) fn lines(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

pub(super) fn missing(path: &RelPath, field: &str) -> anyhow::Error {
    Refused(format!("`{path}`, which `{FILE}` names as `{field}`, is not there (CD-26); bring it back or correct `{FILE}`")).into()
}

/// Plain files below a folder, links not followed, `.git` left out.
fn walk(root: &Path, folder: &Path, found: &mut Vec<RelPath>) -> anyhow::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() && entry.file_name() != ".git" {
            walk(root, &entry.path(), found)?;
        } else if kind.is_file() || kind.is_symlink() {
            let relative = entry
                .path()
                .strip_prefix(root)
                .ok()
                .and_then(|path| RelPath::new(path.to_str()?).ok());
            found.extend(relative);
        }
        if found.len() > FILES_MAX {
            return Err(Refused(format!("more than {FILES_MAX} files below `{}`; name the state files more narrowly (CD-02)", folder.display())).into());
        }
    }
    Ok(())
}
