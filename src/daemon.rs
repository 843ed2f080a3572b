//! Keeps one workspace task per repository at work, freezes a broken one, and stops them all. It looks into none of them.

use crate::apply::chain;
use crate::control;
use crate::model::{Cause, Digest, Escalation, Key, RuleId, Severity};
use crate::repository::{Repository, RepositoryError};
use crate::watch::Watcher;
use crate::workspace::{
    Left, OpenError, RepoStatus, Request, STOP_LIMIT, Settings, Stranger, Until, Workspace,
    WorkspaceError,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Between two tries to open a frozen repository; doubles.
const FIRST_RETRY: Duration = Duration::from_secs(30);
const LAST_RETRY: Duration = Duration::from_secs(600);

pub struct Daemon {
    pub settings: Settings,
    pub watcher: Watcher,
    pub until: Until,
}

/// How the work on one repository ended.
#[derive(Debug)]
pub struct Outcome {
    pub root: PathBuf,
    pub error: Option<KeepError>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Work(#[from] WorkspaceError),
    #[error(transparent)]
    Control(#[from] control::ControlError),
    #[error("a bug of ours: {0}")]
    Bug(String),
}

impl KeepError {
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Open(OpenError::Repository(RepositoryError::Busy { .. })))
    }
}

impl Daemon {
    /// Works on all repositories until `stop`, or until each is quiet. Returns what went wrong in the end, per repository.
    pub async fn run(self, roots: Vec<PathBuf>, stop: CancellationToken) -> Vec<Outcome> {
        let mut tasks = JoinSet::new();
        for root in roots {
            let keeper = Keeper {
                root,
                settings: self.settings.clone(),
                watcher: self.watcher.clone(),
                until: self.until,
                stop: stop.clone(),
            };
            tasks.spawn(keeper.keep());
        }
        let mut outcomes = Vec::new();
        loop {
            let limit = if stop.is_cancelled() { STOP_LIMIT } else { Duration::MAX };
            tokio::select! {
                joined = timeout(limit, tasks.join_next()) => match joined {
                    Ok(Some(Ok(outcome))) => outcomes.push(outcome),
                    Ok(Some(Err(error))) => tracing::error!(%error, "a keeper ended badly"),
                    Ok(None) | Err(_) => return outcomes,
                },
                () = stop.cancelled(), if !stop.is_cancelled() => {}
            }
        }
    }
}

/// Keeps one repository at work.
#[derive(Clone)]
struct Keeper {
    root: PathBuf,
    settings: Settings,
    watcher: Watcher,
    until: Until,
    stop: CancellationToken,
}

impl Keeper {
    async fn keep(self) -> Outcome {
        let mut wait = FIRST_RETRY;
        loop {
            // In a task of its own, so that a bug freezes this repository and no other (DM-10).
            let keeper = self.clone();
            let joined = tokio::spawn(async move { keeper.work().await }).await;
            let result = joined.unwrap_or_else(|error| Err(KeepError::Bug(panic_text(error))));
            let error = match result {
                Ok(()) => return Outcome { root: self.root, error: None },
                Err(error) => error,
            };
            if self.until == Until::Quiet || self.stop.is_cancelled() || error.is_busy() {
                return Outcome { root: self.root, error: Some(error) };
            }
            self.freeze(&error);
            tokio::select! {
                () = self.stop.cancelled() => return Outcome { root: self.root, error: Some(error) },
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LAST_RETRY),
            }
        }
    }

    /// Opens the repository and works on it; opens it again when the owner adopts it.
    async fn work(&self) -> Result<(), KeepError> {
        let mut stranger = Stranger::Wait;
        let mut left_over: Option<Request> = None;
        loop {
            let mut workspace = Workspace::open(&self.root, &self.settings, stranger).await?;
            let (sender, mut requests) = mpsc::channel(16);
            let served = control::serve(&workspace.places().control_sock(), sender.clone())?;
            if let Some(request) = left_over.take() {
                drop(sender.try_send(request));
            }
            drop(sender);
            let left = workspace.run(&self.watcher, &mut requests, &self.stop, self.until).await?;
            drop(served);
            match left {
                Left::Stopped | Left::Quiet => return Ok(()),
                Left::Reopen(request) => {
                    left_over = Some(request);
                    stranger = Stranger::Adopt;
                }
            }
        }
    }

    /// Shows and tells that nothing happens here any more.
    fn freeze(&self, error: &KeepError) {
        let why = chain(error);
        tracing::error!(repo = %self.root.display(), %why, "frozen");
        let common = common_git_dir(&self.root);
        let look = Repository::look(&self.root, common.as_deref(), &self.settings.state_dir);
        let Ok(Some(places)) = look else { return };
        let status = RepoStatus {
            path: self.root.clone(),
            held: true,
            closed: Some(format!("frozen: {why}")),
            pid: std::process::id(),
            ..RepoStatus::default()
        };
        let written = status.write(&places.folder).map_err(|error| error.to_string());
        let outbox = crate::escalate::Outbox::open(places.outbox(), &places.id.short(), &self.root);
        let key = Key::new(format!("frozen-{}", Digest::of(why.as_bytes()).short()));
        let told =
            outbox.and_then(|outbox| outbox.raise(&frozen(&why), &key, crate::clock::now().wall));
        if let Err(error) = written.and(told.map_err(|error| chain(&error))) {
            tracing::error!(%error, "that it is frozen cannot be written down");
        }
    }
}

/// Without running git: a work tree's own folder, or the one that a linked work tree names.
fn common_git_dir(root: &Path) -> Option<PathBuf> {
    let dir = root.join(".git");
    dir.is_dir().then_some(dir)
}

fn frozen(why: &str) -> Escalation {
    Escalation {
        cause: Cause {
            protocol: "agency".to_owned(),
            rule: RuleId::new("DM-10"),
            subject: why.to_owned(),
            epoch: 0,
        },
        severity: Severity::Critical,
        holds: true,
        summary: format!("frozen: {why}"),
        what: why.to_owned(),
        did: "Nothing happens in this repository until it can be opened again; it is tried from time to time.".to_owned(),
        wont: "We repair no journal and skip no line of it.".to_owned(),
        resolve: "agency journal verify".to_owned(),
        evidence: Vec::new(),
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
            .unwrap_or_else(|| "a panic".to_owned()),
        Err(error) => error.to_string(),
    }
}
