//! Keeps one repository at work: opens it, opens it again when settings change or its owner adopts it, and freezes it when
//! it breaks (DM-10). What is frozen is listed and told by the daemon's own folder, since the repository's may be what is broken.

use super::Outcome;
use super::descriptors::{Descriptors, TooFew};
use super::home::{FrozenBy, Home};
use super::reload::LookNow;
use crate::apply::chain;
use crate::control;
use crate::escalate::{Outbox, Record, State};
use crate::model::{Cause, Key, RuleId, Verb};
use crate::repository::{Places, Repository, RepositoryError};
use crate::watch::Watcher;
use crate::workspace::{
    Left, OpenError, Outside, RepoStatus, Request, Settings, UnknownRepoPolicy, Until, Workspace,
    WorkspaceError,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Between two tries to open a frozen repository; doubles.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// A command without a daemon holds the repository for a moment; whoever holds it longer is another daemon.
const BUSY_MAX: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(100);
/// A repository that works for so long is no longer frozen. One that fails at once would be told as mended at every try.
const MENDED_AFTER: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("there is no folder `{}`", path.display())]
    Missing { path: PathBuf },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Work(#[from] WorkspaceError),
    #[error(transparent)]
    Control(#[from] control::ControlError),
    #[error(transparent)]
    TooFew(#[from] TooFew),
    #[error("the state directory `{}` was removed while the daemon ran", path.display())]
    StateLost { path: PathBuf },
    #[error("a bug of ours: {0}")]
    Bug(String),
}

impl KeepError {
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Open(error) if error.is_busy())
    }

    /// Who has the repository, as far as they say so themselves.
    pub(super) fn other_daemon(&self) -> Option<String> {
        let Self::Open(OpenError::Repository(RepositoryError::Busy { holder, .. })) = self else {
            return None;
        };
        let pid = holder.strip_prefix("pid ").and_then(|rest| rest.split([' ', ',']).next());
        Some(match pid {
            Some(pid) => format!("another agency daemon (pid {pid}) has this repository"),
            None => "another agency daemon has this repository".to_owned(),
        })
    }

    /// What the owner can do.
    pub(super) fn resolve(&self, root: &Path) -> String {
        let again = "it is opened again by itself";
        match self {
            Self::Missing { .. } => format!(
                "put `{}` back or take it out of `repos:` in agency.yaml; {again}",
                root.display()
            ),
            Self::Open(OpenError::Journal(_) | OpenError::Replay(_)) => {
                "agency journal verify (names the damage: restore the file from a backup, or begin a new journal with `agency adopt`)"
                    .to_owned()
            }
            Self::Open(OpenError::Repository(
                RepositoryError::BadId { path, .. } | RepositoryError::BadRecord { path, .. },
            )) => format!(
                "restore `{}` from a backup; {again}. Without a backup: move it away, then run `agency adopt` there",
                path.display()
            ),
            Self::TooFew(few) => few.resolve(),
            Self::StateLost { path } => format!(
                "restore `{}` from a backup. Without a backup: agency adopt takes each repository over as it is",
                path.display()
            ),
            Self::Bug(_) => {
                format!("report this message with the daemon's log; {again}, and after a restart")
            }
            error if error.is_busy() => format!(
                "stop that daemon, or take `{}` out of `repos:` in one of the two agency.yaml; {again}",
                root.display()
            ),
            Self::Open(_) | Self::Work(_) | Self::Control(_) => {
                format!("put right what the message names; {again}")
            }
        }
    }
}

/// Passes commands on, each after a look at the configuration: `agency resume` right after an edit goes by the new settings.
async fn after_a_look(
    look_now: LookNow,
    mut arriving: mpsc::Receiver<Request>,
    on: mpsc::Sender<Request>,
) {
    while let Some(request) = arriving.recv().await {
        let command = &request.command;
        if command.verb == Verb::Trust && command.arg("settings").is_some() {
            let answer = look_now.trust(&command.by).await;
            // The caller may have gone.
            drop(request.reply.send(answer));
            continue;
        }
        look_now.look().await;
        // A repository that is closed answers nobody; the caller sees the connection end.
        drop(on.send(request).await);
    }
}

#[derive(Clone)]
pub(super) struct Keeper {
    pub(super) root: PathBuf,
    pub(super) settings: watch::Receiver<Settings>,
    pub(super) look_now: LookNow,
    pub(super) watcher: Watcher,
    pub(super) until: Until,
    pub(super) drain: bool,
    pub(super) stop: CancellationToken,
    pub(super) home: Home,
    pub(super) descriptors: Descriptors,
}

impl Keeper {
    pub(super) async fn keep(self) -> Outcome {
        let mut wait = FIRST_RETRY;
        loop {
            let begun = Instant::now();
            // In a task of its own, so that a bug freezes this repository and no other.
            let keeper = self.clone();
            let joined = tokio::spawn(async move { keeper.work().await }).await;
            let result = joined.unwrap_or_else(|error| Err(KeepError::Bug(panic_text(error))));
            let error = match result {
                Ok(()) => return Outcome { root: self.root, error: None },
                Err(error) => error,
            };
            if self.stop.is_cancelled() || error.is_busy() {
                return Outcome { root: self.root, error: Some(error) };
            }
            if begun.elapsed() > LAST_RETRY {
                wait = FIRST_RETRY;
            }
            self.freeze(&error);
            if self.until == Until::Quiet {
                return Outcome { root: self.root, error: Some(error) };
            }
            tokio::select! {
                () = self.stop.cancelled() => return Outcome { root: self.root, error: Some(error) },
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(LAST_RETRY),
            }
        }
    }

    async fn work(mut self) -> Result<(), KeepError> {
        let mut lost = self.home.lost();
        if !self.root.is_dir() {
            return Err(KeepError::Missing { path: self.root.clone() });
        }
        let _place = self.descriptors.take()?;
        let mut stranger = UnknownRepoPolicy::Wait;
        let mut left_over: Option<Request> = None;
        let mut patience = BUSY_MAX;
        // Kept when the repository is opened again: a command that waits for the new settings is not lost.
        let (sender, mut requests) = mpsc::channel(16);
        loop {
            let proofs = self.settings.borrow().notifier.proofs.clone();
            // An opening that hangs silences the heartbeat, too.
            let promise = proofs.as_ref().map(|proofs| proofs.promise());
            let mut workspace = self.open(stranger, patience).await?;
            drop(promise);
            // Whoever slips in while we open it again is waited for: it is ours.
            patience = Duration::MAX;
            let (fresh, arriving) = mpsc::channel(16);
            let _route = self.home.router().open(&self.root, fresh.clone());
            let served = control::serve(
                &workspace.places().control_sock(),
                fresh,
                workspace.on_socket_replaced(),
            )?;
            tokio::spawn(after_a_look(self.look_now.clone(), arriving, sender.clone()));
            if let Some(request) = left_over.take() {
                workspace.take_again(&request);
                drop(sender.try_send(request));
            }
            let left = tokio::select! {
                left = self.run(&mut workspace, &mut requests) => left?,
                Ok(()) = lost.changed() => {
                    let settings = self.settings.borrow();
                    // What the courier knows of an outbox that is gone must not outlive it.
                    if let Some(courier) = &settings.notifier.courier {
                        courier.forget(workspace.places().outbox());
                    }
                    let path = settings.state_dir.path().to_owned();
                    return Err(KeepError::StateLost { path });
                }
            };
            drop(served);
            match left {
                Left::Stopped | Left::Quiet => return Ok(()),
                Left::Forgotten => {
                    tracing::info!(repo = %self.root.display(), "forgotten");
                    if let Some(courier) = &self.settings.borrow().notifier.courier {
                        courier.forget(workspace.places().outbox());
                    }
                    return Ok(());
                }
                Left::Reload => stranger = UnknownRepoPolicy::Wait,
                Left::Reopen(request) => {
                    left_over = Some(request);
                    stranger = UnknownRepoPolicy::Adopt;
                }
            }
        }
    }

    async fn run(
        &mut self,
        workspace: &mut Workspace,
        requests: &mut mpsc::Receiver<Request>,
    ) -> Result<Left, WorkspaceError> {
        let places = workspace.places().clone();
        let (home, root) = (self.home.clone(), self.root.clone());
        let mut outside = Outside {
            requests,
            reload: &mut self.settings,
            stop: &self.stop,
            drain: self.drain,
            until: self.until,
        };
        let mut work = std::pin::pin!(workspace.run(&self.watcher, &mut outside));
        let early = timeout(MENDED_AFTER, &mut work).await;
        if !matches!(early, Ok(Err(_))) {
            home.thaw(&root);
            resolve_old_notices(&places);
        }
        match early {
            Ok(left) => left,
            Err(_) => work.await,
        }
    }

    async fn open(
        &mut self,
        stranger: UnknownRepoPolicy,
        patience: Duration,
    ) -> Result<Workspace, OpenError> {
        let began = Instant::now();
        loop {
            let settings = self.settings.borrow_and_update().clone();
            let opened = Box::pin(Workspace::open(&self.root, &settings, stranger)).await;
            let is_busy = matches!(&opened, Err(error) if error.is_busy());
            if !is_busy || began.elapsed() >= patience || self.stop.is_cancelled() {
                return opened;
            }
            drop(timeout(BUSY_PAUSE, self.stop.cancelled()).await);
        }
    }

    /// Shows and tells that nothing happens here any more.
    fn freeze(&self, error: &KeepError) {
        let why = chain(error);
        tracing::error!(repo = %self.root.display(), %why, "frozen");
        let resolve = error.resolve(&self.root);
        self.home.freeze(&self.root, FrozenBy::Trouble, &why, &resolve);
        let common = common_git_dir(&self.root);
        let state_dir = self.settings.borrow().state_dir.clone();
        // Where the folder of the repository cannot be found, the daemon's own list is all there is.
        if let Ok(Some(places)) = Repository::look(&self.root, common.as_deref(), &state_dir) {
            // The names of its protocols stay; each view shows them as frozen.
            let protocols = RepoStatus::read(&places.folder).unwrap_or_default().protocols;
            let status = RepoStatus {
                protocols,
                path: self.root.clone(),
                held: true,
                closed: Some(format!("frozen: {why}")),
                pid: std::process::id(),
                ..RepoStatus::default()
            };
            if let Err(error) = status.write(&places.folder) {
                tracing::warn!(%error, "the status cannot be written");
            }
        }
    }
}

/// Without running git, which may be what is broken.
fn common_git_dir(root: &Path) -> Option<PathBuf> {
    let dir = root.join(".git");
    dir.is_dir().then_some(dir)
}

/// Version 0.1 wrote these notices into the repository's own outbox.
fn resolve_old_notices(places: &Places) {
    const RULE: &str = "DM-10";
    let frozen = |record: &Record| {
        record.protocol == "agency" && record.rule == RULE && record.state != State::Resolved
    };
    for record in Outbox::list(&places.outbox()).into_iter().filter(frozen) {
        let key = Key::new(format!("thawed-{}", record.id));
        let (protocol, rule) = (record.protocol, RuleId::new(RULE));
        let cause = Cause { protocol, rule, subject: record.what, epoch: 0 };
        let outbox = Outbox::open(places.outbox(), &places.id.short(), &places.root);
        let now = crate::clock::now().wall;
        let done = outbox.and_then(|outbox| outbox.resolve(&cause, &key, now));
        if let Err(error) = done {
            tracing::warn!(error = %chain(&error), "an escalation stays open");
        }
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
