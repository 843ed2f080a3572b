//! Performs effects through the ports: files, git, runs, escalations, the event log. Each is idempotent by its key.
//! It knows no protocol: an effect says all that there is to do.

mod checks;
mod events;
mod evidence;
mod gate_programs;
mod passing;
mod query;
mod tree_identity;
mod trees;

pub use evidence::with_journal;
pub use trees::Trees;

use crate::escalate::{EscalateError, Notifier, Outbox};
use crate::git::{Committed, GitError, Pushed, Repo};
use crate::live::Happening;
use crate::model::{
    Access, Effect, Fact, Failure, FailureKind, Key, Keyed, PlannedCommit, RelPath, Spawn,
};
use crate::repository::Places;
use crate::run::sandbox;
use crate::run::{Executor as _, Launcher, LocalExecutor, NoAgent, RunError};
use crate::store::{
    self, Created, EditError, NotAnObject, Quarantine, Relocated, Relocation, StoreError,
    TakeTarget, Unsynced,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long an agent that is asked to stop gets before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Everything that effects act on, for one repository.
pub struct EffectRunner {
    pub places: Places,
    pub git: Option<Repo>,
    pub trees: Trees,
    pub executor: LocalExecutor,
    pub launcher: Launcher,
    pub outbox: Outbox,
    pub notifier: Notifier,
    pub quarantine: Quarantine,
    /// On the repository's own file system: where a file is moved before it is looked at.
    pub aside: PathBuf,
    pub later: OnDeferred,
    /// What effects wrote and what is not on disk yet. The workspace sees to it.
    pub unsynced: Mutex<Unsynced>,
}

/// What became of an effect.
#[derive(Debug)]
pub enum Applied {
    Done,
    Fact(Fact),
    /// It goes on in the background; [`Later`] tells its end.
    Later,
    /// It cannot be done now; the same effect may work later.
    NotNow(Failure, Obstacle),
    Failed(Failure),
}

/// What keeps an effect from being done for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A full disk, an I/O error, no descriptors (DM-21).
    Machine,
    /// A worktree is not the directory that we made (SE-08).
    ForeignTree,
    /// A program outside the repository that a gate names was changed (LP-34).
    GateProgram,
}

/// Takes the end of an effect that went on in the background.
pub type OnDeferred = Arc<dyn Fn(Later) + Send + Sync>;

/// The end of an effect that went on in the background.
#[derive(Debug)]
pub struct Later {
    pub protocol: String,
    pub key: Key,
    pub failure: Option<Failure>,
}

#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Edit(#[from] EditError<NotAnObject>),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    NoAgent(#[from] NoAgent),
    #[error(transparent)]
    Escalate(#[from] EscalateError),
    #[error("cannot write the event log")]
    Events(#[source] std::io::Error),
    #[error("the tree is not under git")]
    NoGit,
    #[error("there is no commit to check out yet")]
    NoCommit,
    #[error("`{name}` is no name for a worktree")]
    OddName { name: String },
    #[error("only {free} bytes are free, and {floor} must stay free")]
    DiskFull { free: u64, floor: u64 },
    #[error("cannot read `{path}`")]
    Read {
        path: RelPath,
        #[source]
        source: std::io::Error,
    },
    #[error("`{}` is {found}", path.display())]
    ForeignTree { path: PathBuf, found: String },
    #[error("the gate's program `{}` was changed", path.display())]
    GateProgram { path: PathBuf },
    #[error("cannot prepare `{}`", path.display())]
    Prepare {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl EffectRunner {
    /// Leases and replies are the workspace's own; everything else happens here.
    /// `allow`: the command lines that an agent may run to check its work.
    pub async fn apply(&self, protocol: &str, keyed: &Keyed, allow: &[String]) -> Applied {
        match self.try_apply(protocol, keyed, allow).await {
            Ok(applied) => applied,
            Err(error @ ApplyError::ForeignTree { .. }) => {
                Applied::NotNow(failure(&error), Obstacle::ForeignTree)
            }
            Err(error @ ApplyError::GateProgram { .. }) => {
                Applied::NotNow(failure(&error), Obstacle::GateProgram)
            }
            Err(error) if passing::may_pass(&error) => {
                Applied::NotNow(failure(&error), Obstacle::Machine)
            }
            Err(error) => {
                let failure = failure(&error);
                tracing::error!(key = %keyed.key, said = %failure.said, "an effect failed");
                Applied::Failed(failure)
            }
        }
    }

    async fn try_apply(
        &self,
        protocol: &str,
        keyed: &Keyed,
        allow: &[String],
    ) -> Result<Applied, ApplyError> {
        let key = &keyed.key;
        let root = &self.places.root;
        match &keyed.effect {
            Effect::Replace { path, bytes, seen } => {
                let (bytes, mut unsynced) = (&bytes.0, self.unsynced());
                let (seen, shelf) = (seen.as_ref(), self.shelf());
                store::replace(root, path, bytes, seen, shelf, key, &mut unsynced)?;
            }
            Effect::Create { path, bytes, under, start } => {
                return self.create(path, &bytes.0, under, start);
            }
            Effect::Take { path, seen, why } => {
                let (seen, shelf, mut unsynced) = (seen.as_ref(), self.shelf(), self.unsynced());
                store::take(root, path, seen, shelf, key, why, &mut unsynced)?;
            }
            Effect::Move { from, to, bytes, seen } => {
                let what = Relocation { from, to, bytes: &bytes.0, seen, key };
                if store::relocate(root, &what)? == Relocated::Superseded {
                    let said = format!("`{from}` is no longer what was read there");
                    return Ok(Applied::Failed(Failure { kind: FailureKind::Moved, said }));
                }
            }
            Effect::Amend { path, fields } => {
                store::amend(root, path, fields)?;
            }
            Effect::Copy { from, to, seen } => {
                store::copy(root, from, to, seen, store::SEEN_MAX, &mut self.unsynced())?;
            }
            Effect::Ask { query } => return Ok(Applied::Fact(self.answer(query).await?)),
            Effect::Spawn(spawn) => {
                self.check_programs(spawn, allow)?;
                let spawn = Box::pin(self.prepared(spawn)).await?;
                self.spawn(protocol, &spawn, allow)?;
            }
            Effect::Stop { run, why } => {
                self.executor.cancel(run, why, GRACE)?;
            }
            Effect::Commit(planned) => return self.commit(planned).await,
            Effect::Merge(planned) => return self.merge(planned).await,
            Effect::Worktree(wanted) => self.add_worktree(wanted).await?,
            Effect::DropWorktree { name, branch } => {
                self.drop_worktree(name, branch.as_ref(), key).await?;
            }
            Effect::Ref { name, was, to } => {
                return self.move_ref(name, was.as_ref(), to.as_ref()).await;
            }
            Effect::Push { .. } => return Ok(self.push(protocol, keyed)),
            Effect::Escalate(escalation) => {
                let escalation = with_journal(escalation, &self.places.journal());
                self.outbox.raise(&escalation, key, crate::clock::now().wall)?;
                self.notifier.nudge();
                self.show(|| Happening::Told(Box::new(escalation)));
            }
            Effect::Resolve { cause, .. } => {
                self.outbox.resolve(cause, key, crate::clock::now().wall)?;
                self.notifier.nudge();
                self.show(|| Happening::Resolved { subject: cause.subject.clone() });
            }
            Effect::Log(event) => {
                events::append(&self.places.events(), event, key).map_err(ApplyError::Events)?;
                self.show(|| Happening::Logged(event.clone()));
                if let Some(run) = event.without_artifact() {
                    self.executor.note_no_artifact(&run)?;
                }
            }
            Effect::Lease { .. } | Effect::Release { .. } | Effect::Reply { .. } => {}
        }
        Ok(Applied::Done)
    }

    fn show(&self, what: impl FnOnce() -> Happening) {
        self.notifier.live.send(&self.places.root, what);
    }

    fn shelf(&self) -> TakeTarget<'_> {
        TakeTarget { aside: &self.aside, quarantine: &self.quarantine }
    }

    pub fn unsynced(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(
        &self,
        path: &RelPath,
        bytes: &[u8],
        under: &RelPath,
        start: &str,
    ) -> Result<Applied, ApplyError> {
        let failed = |kind, said| Ok(Applied::Failed(Failure { kind, said }));
        match store::create(&self.places.root, path, bytes, under, start)? {
            Created::Written | Created::Same => Ok(Applied::Done),
            Created::Taken { by } => failed(FailureKind::Moved, format!("`{by}` is there already")),
            Created::Busy => {
                failed(FailureKind::Busy, format!("somebody else writes in `{under}`"))
            }
        }
    }

    fn spawn(&self, protocol: &str, spawn: &Spawn, allow: &[String]) -> Result<(), ApplyError> {
        let prompt_file = self.executor.folder(&spawn.run)?.prompt();
        let dir = self.enter(&spawn.tree)?;
        let git_dirs = match (&self.git, spawn.access) {
            (Some(git), Access::Commit) => git.dirs_of(&dir),
            _ => Vec::new(),
        };
        let mut spec = self.launcher.spec(spawn, protocol, &dir, &prompt_file, allow, &git_dirs)?;
        if let Some(plan) = &mut spec.sandbox {
            self.open_repository(plan, protocol, &dir);
        }
        self.executor.submit(&spec)?;
        if let Some(command) = &spawn.command {
            self.show(|| Happening::Command { line: command.line.clone() });
        }
        tracing::info!(run = %spawn.run, seat = %spawn.seat, task = %spawn.task, phase = %spawn.phase, "started");
        Ok(())
    }

    /// The parts of the repository outside its tree that a run which may write its tree needs.
    fn open_repository(&self, plan: &mut sandbox::Plan, protocol: &str, dir: &Path) {
        if !plan.write_exact.iter().any(|path| path == dir) {
            return;
        }
        if let Some(git) = &self.git {
            sandbox::add_git(plan, git.writes_of(dir));
        }
        if crate::route::edits_main_tree(protocol) {
            sandbox::show_git_sign_ins(plan);
            if dir != self.places.root {
                plan.write_exact.push(self.places.root.clone());
            }
        }
    }

    async fn commit(&self, planned: &PlannedCommit) -> Result<Applied, ApplyError> {
        let repo = self.repo_on(&planned.branch).await?;
        Ok(match repo.commit(planned).await? {
            Committed::Done { .. } | Committed::Already { .. } => Applied::Done,
            Committed::Moved { found } => trees::moved(&planned.branch, found),
        })
    }

    /// A push may take minutes; nothing waits for it.
    fn push(&self, protocol: &str, keyed: &Keyed) -> Applied {
        let (Effect::Push { branch, commit }, Some(repo)) = (&keyed.effect, &self.git) else {
            return Applied::Done;
        };
        let (repo, branch, commit) = (repo.clone(), branch.clone(), commit.clone());
        let (protocol, key, later) =
            (protocol.to_owned(), keyed.key.clone(), Arc::clone(&self.later));
        tokio::spawn(async move {
            let failure = pushed(repo.push(&branch, &commit).await);
            // Nobody listens any more when the daemon stops; the push is then done again at its next start.
            later(Later { protocol, key, failure });
        });
        Applied::Later
    }
}

fn failure(error: &ApplyError) -> Failure {
    match error {
        ApplyError::Git(error) => git_failure(error),
        error => Failure { kind: FailureKind::Broken, said: chain(error) },
    }
}

fn git_failure(error: &GitError) -> Failure {
    match error {
        GitError::Held { changes } => {
            Failure { kind: FailureKind::GitHeld, said: changes.join("\n") }
        }
        error => Failure { kind: FailureKind::Broken, said: chain(error) },
    }
}

fn pushed(result: Result<Pushed, GitError>) -> Option<Failure> {
    let broken = |said| Some(Failure { kind: FailureKind::Broken, said });
    match result {
        Ok(Pushed::Done) => None,
        Ok(Pushed::NotFastForward { said }) => {
            Some(Failure { kind: FailureKind::NotFastForward, said })
        }
        Ok(Pushed::NoRemote) => broken("there is no remote to push to".to_owned()),
        Ok(Pushed::Failed { said }) => broken(said),
        Err(error) => Some(git_failure(&error)),
    }
}

/// An error with everything below it, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        below = cause.source();
    }
    text
}
