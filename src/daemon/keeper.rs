//! Keeps one repository at work: opens it, opens it again when settings change or its owner adopts it, and freezes it when
//! it breaks (DM-10).

use super::Outcome;
use crate::apply::chain;
use crate::control;
use crate::escalate::{self, Outbox, State};
use crate::model::{Cause, Digest, Escalation, Key, RuleId, Severity};
use crate::repository::{Places, Repository};
use crate::watch::Watcher;
use crate::workspace::{
    Left, OpenError, Outside, RepoStatus, Request, Settings, Stranger, Until, Workspace,
    WorkspaceError,
};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Between two tries to open a frozen repository; doubles.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(600);
/// A command without a daemon holds the repository for a moment; whoever holds it longer is another daemon.
const BUSY_MAX: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(100);

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
        matches!(self, Self::Open(error) if error.is_busy())
    }
}

#[derive(Clone)]
pub(super) struct Keeper {
    pub(super) root: PathBuf,
    pub(super) settings: watch::Receiver<Settings>,
    pub(super) watcher: Watcher,
    pub(super) until: Until,
    pub(super) drain: bool,
    pub(super) stop: CancellationToken,
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
        let mut stranger = Stranger::Wait;
        let mut left_over: Option<Request> = None;
        let mut patience = BUSY_MAX;
        loop {
            let mut workspace = self.open(stranger, patience).await?;
            // Whoever slips in while we open it again is waited for: it is ours.
            patience = Duration::MAX;
            self.thaw(workspace.places());
            let (sender, mut requests) = mpsc::channel(16);
            let served = control::serve(&workspace.places().control_sock(), sender.clone())?;
            if let Some(request) = left_over.take() {
                drop(sender.try_send(request));
            }
            drop(sender);
            let mut outside = Outside {
                requests: &mut requests,
                reload: &mut self.settings,
                stop: &self.stop,
                drain: self.drain,
                until: self.until,
            };
            let left = workspace.run(&self.watcher, &mut outside).await?;
            drop(served);
            match left {
                Left::Stopped | Left::Quiet => return Ok(()),
                Left::Reload => stranger = Stranger::Wait,
                Left::Reopen(request) => {
                    left_over = Some(request);
                    stranger = Stranger::Adopt;
                }
            }
        }
    }

    async fn open(
        &mut self,
        stranger: Stranger,
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

    /// It is open again: what was told of it is over.
    fn thaw(&self, places: &Places) {
        let frozen = |record: &escalate::Record| {
            record.protocol == OURS && record.rule == FROZEN && record.state != State::Resolved
        };
        let records = Outbox::list(&places.outbox());
        for record in records.into_iter().filter(frozen) {
            let key = Key::new(format!("thawed-{}", record.id));
            let outbox = Outbox::open(places.outbox(), &places.id.short(), &self.root);
            let now = crate::clock::now().wall;
            let done = outbox.and_then(|outbox| outbox.resolve(&cause(&record.what), &key, now));
            if let Err(error) = done {
                tracing::warn!(error = %chain(&error), "an escalation stays open");
            }
        }
    }

    /// Shows and tells that nothing happens here any more.
    fn freeze(&self, error: &KeepError) {
        let why = chain(error);
        tracing::error!(repo = %self.root.display(), %why, "frozen");
        let common = common_git_dir(&self.root);
        let state_dir = self.settings.borrow().state_dir.clone();
        let Ok(Some(places)) = Repository::look(&self.root, common.as_deref(), &state_dir) else {
            return;
        };
        let status = RepoStatus {
            path: self.root.clone(),
            held: true,
            closed: Some(format!("frozen: {why}")),
            pid: std::process::id(),
            ..RepoStatus::default()
        };
        let written = status.write(&places.folder).map_err(|error| error.to_string());
        let outbox = Outbox::open(places.outbox(), &places.id.short(), &self.root);
        let key = Key::new(format!("frozen-{}", Digest::of(why.as_bytes()).short()));
        let told =
            outbox.and_then(|outbox| outbox.raise(&frozen(&why), &key, crate::clock::now().wall));
        if let Err(error) = written.and(told.map_err(|error| chain(&error))) {
            tracing::error!(%error, "that it is frozen cannot be written down");
        }
    }
}

/// Without running git, which may be what is broken.
fn common_git_dir(root: &Path) -> Option<PathBuf> {
    let dir = root.join(".git");
    dir.is_dir().then_some(dir)
}

/// Who speaks when no protocol can.
const OURS: &str = "agency";
const FROZEN: &str = "DM-10";

fn cause(why: &str) -> Cause {
    let (protocol, rule) = (OURS.to_owned(), RuleId::new(FROZEN));
    Cause { protocol, rule, subject: why.to_owned(), epoch: 0 }
}

fn frozen(why: &str) -> Escalation {
    let did = "Nothing happens in this repository until it can be opened again; it is tried from time to time.";
    Escalation {
        cause: cause(why),
        severity: Severity::Critical,
        holds: true,
        summary: format!("frozen: {why}"),
        what: why.to_owned(),
        did: did.to_owned(),
        wont: "We repair no journal and skip no line of it.".to_owned(),
        resolve: "agency journal verify".to_owned(),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: false,
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
