//! Opening a repository: its lock, identity, journal, git, runs; then its memory is replayed and unfinished work is found.

use super::asked_once::AskedOnce;
use super::record::Entry;
use super::replay::ReplayError;
use super::settle::{Settling, Unsettled};
use super::trust::{OWN_CONFIG, Trust};
use super::{BackgroundEvent, Running, Workspace, WorkspaceError};
use crate::apply::EffectRunner;
use crate::capacity::Capacity;
use crate::clock;
use crate::config::Config;
use crate::escalate::{EscalateError, Notifier, Outbox, Proofs};
use crate::git::{GitError, Repo};
use crate::model::{
    Cause, Digest, Effect, Escalation, FileState, Key, Outcome, RelPath, RuleId, RunEnd, RunEvent,
    RunId, Severity, Usage,
};
use crate::repository::{Origin, Places, Repository, RepositoryError, StateDir};
use crate::run::sandbox::Ours;
use crate::run::{Executor as _, HeldState, Launcher, LocalExecutor, RunError, Spares};
use crate::store::{Durability, Journal, Opened, Quarantine, StoreError};
use crate::watch::{RootWatch, Survey, Watcher};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedSender};

/// What a daemon or a command line brings along.
#[derive(Clone)]
pub struct Settings {
    pub state_dir: StateDir,
    /// The owner's. Shared, like everything large that a thousand repositories have in common.
    pub config: Arc<Config>,
    /// Our own environment.
    pub env: Arc<Vec<(String, String)>>,
    /// This program, to be started as a shim.
    pub program: PathBuf,
    /// Shared by all repositories of the process.
    pub capacity: Capacity,
    /// So is the shim that waits for the next run.
    pub spares: Spares,
    /// How the owner hears of it.
    pub notifier: Notifier,
    /// What is wrong with the newest configuration, while an older one is in force.
    pub problem: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error("git does not work here")]
    Git(#[from] GitError),
    #[error("the journal cannot be used")]
    Journal(#[from] StoreError),
    #[error("the journal cannot be understood")]
    Replay(#[from] ReplayError),
    #[error("the runs cannot be found again")]
    Run(#[from] RunError),
    #[error(transparent)]
    Escalate(#[from] EscalateError),
    #[error(transparent)]
    Work(#[from] WorkspaceError),
}

impl OpenError {
    /// Somebody else works in it.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Repository(RepositoryError::Busy { .. }))
    }
}

/// Whose a repository is that this machine does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRepoPolicy {
    /// It stays closed.
    Wait,
    /// The owner adopts it with this opening.
    Adopt,
}

impl Workspace {
    pub async fn open(
        root: &Path,
        settings: &Settings,
        stranger: UnknownRepoPolicy,
    ) -> Result<Self, OpenError> {
        let git = Repo::open(root).await?;
        let common = git.as_ref().map(|git| git.common_dir().to_owned());
        let now = clock::now().wall;
        let (mut repository, mut origin) =
            Repository::open(root, common.as_deref(), &settings.state_dir, now)?;
        let known = matches!(origin, Origin::Known | Origin::Moved { .. });
        let trust = if stranger == UnknownRepoPolicy::Adopt && !known {
            Trust::Anew
        } else {
            Trust::AsPinned
        };
        if stranger == UnknownRepoPolicy::Adopt && !matches!(origin, Origin::Moved { .. }) {
            repository.adopt(now)?;
            origin = Origin::Known;
        }
        let opened = open_journal(&repository, stranger)?;
        let trust = if opened.is_new { Trust::Anew } else { trust };
        let (mut workspace, unsettled) = Self::assemble(repository, git, settings, opened)?;
        workspace.guard_git(trust)?;
        if let Some(git) = &workspace.runner.git {
            git.clear_left_lock();
        }
        workspace.close_if_foreign(&origin)?;
        workspace.activate_configured();
        workspace.recall_told();
        workspace.redo(unsettled).await;
        workspace.adopt_runs()?;
        workspace.give_up_lost_runs();
        workspace.count_spent();
        Ok(workspace)
    }

    fn assemble(
        repository: Repository,
        git: Option<Repo>,
        settings: &Settings,
        opened: OpenedJournal,
    ) -> Result<(Self, Unsettled), OpenError> {
        let OpenedJournal { journal, opened, .. } = opened;
        let places = repository.places().clone();
        let (run_sender, run_events) = mpsc::unbounded_channel();
        let background = mpsc::unbounded_channel();
        let ended = background.0.clone();
        let aside = aside_of(&places, git.as_ref());
        let (config, note) = effective_config(&places, settings);
        let runner = EffectRunner {
            executor: executor(places.runs(), settings, run_sender.clone())
                .on_forged(super::foreign_acts::on_forged(background.0.clone())),
            launcher: launcher(&places, settings, config),
            outbox: outbox(&places, &settings.notifier)?,
            notifier: settings.notifier.clone(),
            quarantine: Quarantine::new(places.quarantine()),
            aside,
            later: Arc::new(move |later| drop(ended.send(Box::new(BackgroundEvent::Ended(later))))),
            unsynced: Mutex::default(),
            git,
            trees: Default::default(),
            places,
        };
        let mut workspace = Self {
            repository,
            settings: settings.clone(),
            runner,
            journal,
            slots: Vec::new(),
            pending: VecDeque::new(),
            leases: Default::default(),
            waiters: BTreeMap::new(),
            permits: BTreeMap::new(),
            running: BTreeMap::new(),
            unaccounted: BTreeSet::new(),
            pin: None,
            draining: false,
            pause: None,
            paused_claims: Vec::new(),
            closed: None,
            asked: AskedOnce::default(),
            own_verbs: BTreeSet::new(),
            starts_runs: true,
            notes: opened.notes.into_iter().chain(note).chain(settings.problem.clone()).collect(),
            written_status: None,
            forgotten: false,
            reopen: None,
            newcomer: false,
            checkout: None,
            survey: Survey::default(),
            cleared: None,
            proof: settings.notifier.proofs.as_ref().map(Proofs::promise),
            told_frozen: Default::default(),
            programs: Default::default(),
            proving: false,
            run_sender,
            run_events,
            background,
            settling: Settling::default(),
            stuck: Default::default(),
            watchdog: Default::default(),
        };
        let mut unsettled = workspace.replay(opened.records)?;
        if opened.was_rewritten {
            unsettled.distrust();
        }
        workspace.note_opened()?;
        Ok((workspace, unsettled))
    }

    /// The first line of all is on disk before `repo.json` says that there is a journal.
    fn note_opened(&mut self) -> Result<(), OpenError> {
        if self.repository.has_journal() {
            self.note(&Entry::opened(), Durability::Lazy)?;
        } else {
            self.note(&Entry::opened(), Durability::Synced)?;
            self.repository.note_journal()?;
        }
        Ok(())
    }

    /// DM-13: a copy, or another machine's state, is nobody's until the owner says so.
    fn close_if_foreign(&mut self, origin: &Origin) -> Result<(), OpenError> {
        let why = match origin {
            Origin::Known | Origin::New => return Ok(()),
            Origin::Moved { from } => {
                tracing::info!(from = %from.display(), "the repository was moved");
                return Ok(());
            }
            Origin::Copied { original } => {
                format!(
                    "this is a copy of `{}`; `agency adopt` makes it a repository of its own",
                    original.display()
                )
            }
            Origin::OtherHost { host } => {
                format!("its state belongs to the machine `{host}`; `agency adopt` takes it over")
            }
        };
        let key = Key::new(format!("open-{}", Digest::of(why.as_bytes()).short()));
        self.runner.outbox.raise(&foreign(&why), &key, clock::now().wall)?;
        self.runner.notifier.nudge();
        self.closed = Some(why);
        Ok(())
    }

    /// Runs that outlived the daemon are ours again; their ends come as events.
    fn adopt_runs(&mut self) -> Result<(), OpenError> {
        for held in self.runner.executor.adopt()? {
            self.unaccounted.remove(&held.run);
            let decided = self.pending.iter().any(
                |(_, keyed)| matches!(&keyed.effect, Effect::Spawn(spawn) if spawn.run == held.run),
            );
            match held.state {
                HeldState::Alive | HeldState::Ended | HeldState::Losing => self.count_in(held.run),
                // Its spawn is among the unfinished effects and will be submitted again.
                HeldState::Intended if decided => {}
                HeldState::Intended => {
                    self.runner.executor.cancel(
                        &held.run,
                        "nobody decided it",
                        Default::default(),
                    )?;
                }
            }
        }
        Ok(())
    }

    /// A run whose folder is gone can never tell its end: it is lost, and its protocol must hear that (SU-02).
    fn give_up_lost_runs(&mut self) {
        let pending = self.pending.iter().filter_map(|(_, keyed)| match &keyed.effect {
            Effect::Spawn(spawn) => Some(&spawn.run),
            _ => None,
        });
        let still_to_start: BTreeSet<_> = pending.cloned().collect();
        for run in std::mem::take(&mut self.unaccounted).difference(&still_to_start) {
            tracing::warn!(%run, "its folder is gone; it counts as lost");
            let end = RunEnd {
                run: run.clone(),
                outcome: Outcome::Lost,
                ended_at: clock::now().wall,
                tail: "the folder of this run is gone".to_owned(),
                exit_code: None,
                usage: Usage::default(),
                said: None,
            };
            // The receiver is ours and lives as long as we do.
            drop(self.run_sender.send(Box::new(RunEvent::Ended(Box::new(end)))));
        }
    }

    /// A run that is alive takes its place, whatever the limits say now.
    fn count_in(&mut self, run: RunId) {
        let intent = self.runner.executor.folder(&run).ok().and_then(|folder| folder.intent().ok());
        let agent = match &intent {
            Some(intent) if intent.command => None,
            Some(intent) => Some(self.agent_of(&intent.seat, &intent.role)),
            None => Some(String::new()),
        };
        let permit = agent.as_ref().map(|agent| self.settings.capacity.count_in(self.asker(agent)));
        // Where an earlier daemon started it is not asked: it counts as one of the owner's tree.
        let _alive = self.settings.capacity.note_alive();
        self.running
            .insert(run, Running { agent, apart: false, _permit: permit, _alive, tools: None });
    }

    /// Watches what the protocols at work want to know.
    pub(super) fn watch(&self, watcher: &Watcher) -> RootWatch {
        let mut dirs = Vec::new();
        if let Some(git) = &self.runner.git {
            dirs.extend(git.work_dir().ok());
            dirs.push(git.git_dir().to_owned());
            dirs.push(git.common_dir().join("refs/heads"));
        }
        watcher.watch(self.runner.places.root.clone(), self.interest(), dirs)
    }

    pub fn places(&self) -> &Places {
        &self.runner.places
    }
}

struct OpenedJournal {
    journal: Journal,
    opened: Opened,
    /// The owner adopts the repository although its journal was damaged: nothing is remembered.
    is_new: bool,
}

/// A journal that was begun and is empty or gone is damage (DM-08). `agency adopt` keeps a damaged journal aside and begins
/// a new one.
fn open_journal(
    repository: &Repository,
    stranger: UnknownRepoPolicy,
) -> Result<OpenedJournal, StoreError> {
    let (dir, pins) = (repository.places().journal(), repository.places().pins());
    let opened = Journal::open(&dir, &pins).and_then(|(journal, opened)| {
        if repository.has_journal() && journal.head().n == 0 {
            return Err(StoreError::JournalGone { dir: dir.clone() });
        }
        Ok(OpenedJournal { journal, opened, is_new: false })
    });
    match opened {
        Err(error) if stranger == UnknownRepoPolicy::Adopt && error.is_damage() => {
            let aside = Journal::set_aside(&dir, &pins, clock::now().wall)?;
            let (journal, mut opened) = Journal::open(&dir, &pins)?;
            let aside = aside.display();
            opened.notes.push(format!("a new journal was begun; the damaged one is in `{aside}`"));
            Ok(OpenedJournal { journal, opened, is_new: true })
        }
        other => other,
    }
}

/// `AGENCY_STUCK_AFTER_MS` is for tests: a shim that hangs is noticed sooner than any owner would want it.
fn executor(
    runs: PathBuf,
    settings: &Settings,
    events: UnboundedSender<Box<RunEvent>>,
) -> LocalExecutor {
    let executor =
        LocalExecutor::new(runs, settings.program.clone(), events).spares(settings.spares.clone());
    let set = settings.env.iter().find(|(name, _)| name == "AGENCY_STUCK_AFTER_MS");
    match set.and_then(|(_, value)| value.parse().ok()) {
        Some(limit) => executor.stuck_after(Duration::from_millis(limit)),
        None => executor,
    }
}

/// Old news is cleared away; what is open stays whatever its age.
fn outbox(places: &Places, notifier: &Notifier) -> Result<Outbox, EscalateError> {
    const KEEP: chrono::TimeDelta = chrono::TimeDelta::days(90);
    let outbox = Outbox::open(places.outbox(), &places.id.short(), &places.root)?;
    outbox.mend(clock::now().wall);
    outbox.prune(clock::now().wall - KEEP);
    if let Some(courier) = &notifier.courier {
        courier.watch_outbox(&outbox);
    }
    Ok(outbox.redacting(notifier.redactor.clone()))
}

fn launcher(places: &Places, settings: &Settings, config: Arc<Config>) -> Launcher {
    let state_dir = settings.state_dir.path().to_owned();
    Launcher {
        repo: places.root.clone(),
        config,
        env: Arc::clone(&settings.env),
        ours: Ours { state_dir, folder: places.folder.clone() },
    }
}

/// On the file system of the repository, so that a rename is enough.
fn aside_of(places: &Places, git: Option<&Repo>) -> PathBuf {
    match git.and_then(|git| git.work_dir().ok()) {
        Some(ours) => ours.join("aside"),
        None => places.root.join(".agency/aside"),
    }
}

/// The owner's settings with the repository's own on top, as far as the owner trusted them.
fn effective_config(places: &Places, settings: &Settings) -> (Arc<Config>, Option<String>) {
    let owner = &settings.config;
    let trusted = std::fs::read(places.trusted().join(OWN_CONFIG)).ok();
    let config = match trusted.as_deref().map(|bytes| Config::overlay(owner, bytes)) {
        Some(Ok(config)) => Arc::new(config),
        Some(Err(error)) => {
            let note =
                format!("the trusted `{OWN_CONFIG}` is not used: {}", crate::apply::chain(&error));
            return (Arc::clone(owner), Some(note));
        }
        None => Arc::clone(owner),
    };
    let path = RelPath::fixed(OWN_CONFIG);
    let found = crate::read::read(&places.root, &path, 1 << 20, clock::now());
    let untrusted = match found.map(|reading| reading.state) {
        Ok(FileState::Whole(file)) => trusted.as_deref() != Some(&*file.bytes),
        _ => false,
    };
    let note = untrusted.then(|| format!("`{OWN_CONFIG}` in the repository is not trusted as it is; `agency trust` makes it count"));
    (config, note)
}

fn foreign(why: &str) -> Escalation {
    Escalation {
        cause: Cause {
            protocol: "agency".to_owned(),
            rule: RuleId::new("DM-13"),
            subject: why.to_owned(),
            epoch: 0,
        },
        severity: Severity::Critical,
        holds: true,
        summary: why.to_owned(),
        what: why.to_owned(),
        did: "Nothing is judged, written or started here.".to_owned(),
        wont: "We take over no repository by ourselves.".to_owned(),
        resolve: "agency adopt".to_owned(),
        options: vec!["adopt".to_owned()],
        evidence: Vec::new(),
        everywhere: false,
    }
}
