//! The loop of one repository: receive a wake, absorb, decide, journal, apply, arm the next deadline.
//! It owns everything about its repository and knows no protocol's words.

mod asked_once;
mod command;
mod condition;
mod ends;
mod foreign_acts;
pub mod leases;
mod look;
mod open;
mod owner_tools;
mod pause;
mod programs;
mod protocols;
mod record;
mod remembered;
mod replay;
mod run_permits;
mod settle;
mod slot;

mod status;
mod stuck;
mod trust;
mod watchdog;

pub use open::{OpenError, Settings, UnknownRepoPolicy};
pub use pause::Pause;
pub use remembered::{pinned, remembered};
pub use status::{ConditionStatus, Kind, ProtocolStatus, RepoStatus};

use crate::apply::{Applied, EffectRunner, Later};
use crate::capacity::Permit;
use crate::clock;
use crate::escalate::Proof;
use crate::git::{GitError, Pin};
use crate::live::Happening;
use crate::model::{
    Answer, Checkout, Command, Deadline, Digest, Effect, Escalation, Key, Keyed, RunEvent, RunId,
    Spawn, Ticks, TreeRef, Wake,
};
use crate::repository::Repository;
use crate::run::RunError;
use crate::store::{Durability, Journal, StoreError};
use crate::watch::{Survey, Watcher};
use asked_once::AskedOnce;
use command::Waiter;
use leases::{Claim, Leases};
use look::{Trees, Writers};
use owner_tools::Seen;
use record::{Entry, Snapshot};
use run_permits::{Grant, Running};
use settle::{Settled, Settling};
use slot::Slot;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stuck::StuckEffects;
use tokio::sync::{mpsc, oneshot, watch::Receiver};
use tokio_util::sync::CancellationToken;
use watchdog::Watchdog;

pub struct Workspace {
    repository: Repository,
    settings: Settings,
    runner: EffectRunner,
    journal: Journal,
    slots: Vec<Slot>,
    /// Journalled effects whose turn has not come.
    pending: VecDeque<(String, Keyed)>,
    leases: Leases,
    waiters: BTreeMap<String, Waiter>,
    /// Places that were granted and not used yet, by protocol and tree.
    permits: BTreeMap<(String, TreeRef), Permit>,
    /// Runs that are alive, as far as we know.
    running: BTreeMap<RunId, Running>,
    /// Runs that the journal started and whose end it does not know; only while opening.
    unaccounted: BTreeSet<RunId>,
    /// What git runs, includes and obeys here, as the owner last trusted it.
    pin: Option<Arc<Pin>>,
    /// No new run is started; those that are alive are waited for.
    draining: bool,
    /// Set while the owner lets no run start here.
    pause: Option<Pause>,
    /// Requests that came already.
    asked: AskedOnce,
    /// Starts that wait for the end of the pause.
    paused_claims: Vec<(Claim, TreeRef)>,
    /// Why nothing may happen here, although no protocol says so.
    closed: Option<String>,
    /// Announcements of the owner's own commands, which are recorded and not sent.
    own_verbs: BTreeSet<Key>,
    /// Off where a command line works without a daemon: an agent that is to start waits in the journal until a daemon runs.
    starts_runs: bool,
    notes: Vec<String>,
    /// Of the text: the status itself is many times as large.
    written_status: Option<Digest>,
    /// The owner forgets this repository: the loop is left.
    forgotten: bool,
    /// Set when the repository must be opened anew, with the command that is to be answered then.
    reopen: Option<Request>,
    /// A protocol came to work: what it wants to know must be watched and looked at.
    newcomer: bool,
    /// Where the owner's checkout stood at the last look.
    checkout: Option<Checkout>,
    /// What the last look at the watched trees found.
    survey: Survey,
    /// When old runs were last cleared away.
    cleared: Option<Ticks>,
    /// Our promise to show that this repository is looked after (ES-08).
    proof: Option<Proof>,
    /// Which protocols the owner knows to be frozen.
    told_frozen: condition::Told,
    programs: programs::Programs,
    /// A look at everything has come through; what follows it completes the proof.
    proving: bool,
    run_sender: mpsc::UnboundedSender<Box<RunEvent>>,
    run_events: mpsc::UnboundedReceiver<Box<RunEvent>>,
    /// One channel for all of it: an empty one has room for many.
    background: (
        mpsc::UnboundedSender<Box<BackgroundEvent>>,
        mpsc::UnboundedReceiver<Box<BackgroundEvent>>,
    ),
    settling: Settling,
    stuck: StuckEffects,
    watchdog: Watchdog,
}

/// From what we ourselves set going.
enum BackgroundEvent {
    Ended(Later),
    Granted(Grant),
    Settled(Settled),
    /// To be told to the owner, whatever the protocols do.
    Tell(Escalation),
}

/// What ends the loop from outside.
pub struct Outside<'a> {
    pub requests: &'a mut mpsc::Receiver<Request>,
    pub reload: &'a mut Receiver<Settings>,
    pub stop: &'a CancellationToken,
    /// On a stop, wait for the runs that are alive.
    pub drain: bool,
    pub until: Until,
}

/// A command on its way in, and where its answer goes.
pub struct Request {
    /// Boxed, as are the messages below: a channel keeps room for many, in every repository.
    pub command: Box<Command>,
    pub reply: oneshot::Sender<Answer>,
}

/// Why a workspace stopped working. Its repository is frozen; the others go on.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("the journal cannot be written")]
    Journal(#[from] StoreError),
    #[error("a run cannot be acknowledged")]
    Run(#[from] RunError),
    #[error(transparent)]
    Repository(#[from] crate::repository::RepositoryError),
    #[error("the outbox cannot be written")]
    Outbox(#[from] crate::escalate::EscalateError),
    #[error("git's settings cannot be read")]
    Git(#[from] GitError),
    #[error("somebody removed our lock; another daemon may be at work here")]
    LockLost,
    #[error("`{}` was removed or replaced while the daemon worked", path.display())]
    StateReplaced { path: PathBuf },
}

/// Why the loop was left.
pub enum Left {
    Stopped,
    Quiet,
    /// The owner forgets it: its state is about to be deleted.
    Forgotten,
    /// The settings changed: it must be opened anew.
    Reload,
    /// The owner adopts it: it must be opened anew as theirs, and this request answered then.
    Reopen(Request),
}

/// When to leave the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Cancelled,
    /// Nothing runs, nothing waits.
    Quiet,
}

impl Drop for Workspace {
    /// Only while the lock is still ours: if it was removed, another daemon may be writing this journal.
    fn drop(&mut self) {
        if self.repository.is_ours()
            && let Err(error) = self.journal.close()
        {
            tracing::debug!(error = &error as &dyn std::error::Error, "journal head not anchored");
        }
    }
}

impl Workspace {
    /// Works until it is told to stop.
    pub async fn run(
        &mut self,
        watcher: &Watcher,
        outside: &mut Outside<'_>,
    ) -> Result<Left, WorkspaceError> {
        self.check_own_files()?;
        let mut watch = self.watch(watcher);
        Box::pin(self.look_at_everything(Writers::Perhaps)).await;
        loop {
            Box::pin(self.work()).await?;
            self.prove()?;
            if std::mem::take(&mut self.newcomer) {
                watch = self.watch(watcher);
                Box::pin(self.look_at_everything(Writers::Perhaps)).await;
                continue;
            }
            if let Some(left) = self.leaves(outside.until) {
                if matches!(left, Left::Quiet) {
                    self.tell_stalls_at_the_end(clock::now());
                }
                return Ok(left);
            }
            if self.has_stalled(clock::now()) {
                return Ok(Left::Reload);
            }
            let deadline = self.deadline();
            tokio::select! {
                biased;
                () = outside.stop.cancelled(), if !self.draining => {
                    if !outside.drain {
                        self.write_status();
                        return Ok(Left::Stopped);
                    }
                    self.draining = true;
                }
                Ok(()) = outside.reload.changed() => return Ok(Left::Reload),
                // Boxed, as is all that is only at work for a moment: an idle repository waits in the size of the largest.
                Some(event) = self.run_events.recv() => Box::pin(self.on_run(*event)).await?,
                Some(background) = self.background.1.recv() => self.on_news(*background)?,
                Some(request) = outside.requests.recv() => Box::pin(self.on_request(request)).await?,
                Some(sighting) = watch.recv() => Box::pin(self.on_sighting(sighting)).await?,
                () = sleep_until(deadline) => Box::pin(self.on_deadline()).await,
            }
        }
    }

    /// A look went through watch, decide and journal: that is what a proof of life must be.
    fn prove(&mut self) -> Result<(), WorkspaceError> {
        if std::mem::take(&mut self.proving) && self.proof.is_some() {
            self.note(&Entry::Proved {}, Durability::Lazy)?;
            if let Some(proof) = self.proof.as_ref().filter(|_| self.may_beat()) {
                proof.beat();
            }
        }
        Ok(())
    }

    fn leaves(&mut self, until: Until) -> Option<Left> {
        if let Some(request) = self.reopen.take() {
            return Some(Left::Reopen(request));
        }
        if self.forgotten {
            return Some(Left::Forgotten);
        }
        if self.draining && self.running.is_empty() && self.is_settled() {
            return Some(Left::Stopped);
        }
        (until == Until::Quiet && self.is_quiet()).then_some(Left::Quiet)
    }

    /// Decides and acts until nothing is left to do now.
    pub(crate) async fn work(&mut self) -> Result<(), WorkspaceError> {
        if self.closed.is_none() {
            loop {
                self.apply_pending().await?;
                if !self.decide_once(|_| true)? {
                    break;
                }
            }
            self.rotate_if_due()?;
        }
        self.settle()?;
        if !self.settling.status_waits() {
            self.write_status();
        }
        Ok(())
    }

    /// True when one of the concerned protocols had something to do. The journalled decision is the commit point.
    fn decide_once(&mut self, concerned: impl Fn(&str) -> bool) -> Result<bool, WorkspaceError> {
        let now = clock::now();
        let mut slots =
            self.slots.iter_mut().enumerate().filter(|(_, slot)| concerned(slot.name()));
        let found = slots.find_map(|(at, slot)| Some((at, slot.decide(now)?)));
        let Some((at, decision)) = found else { return Ok(false) };
        let protocol = self.slots[at].name().to_owned();
        if let Some(row) = &decision.row {
            tracing::info!(%protocol, %row, "moved");
        }
        for rejection in &decision.rejections {
            tracing::info!(%protocol, %rejection, "refused");
            self.settings.notifier.live.send(&self.runner.places.root, || {
                let (protocol, rejection) = (protocol.clone(), rejection.clone());
                Happening::Refused { protocol, rejection }
            });
        }
        let durability = if decision.only_starts() { Durability::Lazy } else { Durability::Synced };
        self.settling.note_behind(!decision.only_asks() && decision.only_starts());
        let entry = Entry::Decided { protocol: protocol.clone(), decision: decision.clone() };
        self.note(&entry, durability)?;
        self.note_own_verb(&decision);
        let effects = decision.effects.clone();
        self.slots[at].absorb(&Wake::Decided(decision));
        self.pending.extend(effects.into_iter().map(|keyed| (protocol.clone(), keyed)));
        Ok(true)
    }

    async fn apply_pending(&mut self) -> Result<(), WorkspaceError> {
        let mut waiting = VecDeque::new();
        while let Some((protocol, keyed)) = self.pending.pop_front() {
            if self.stuck.is_waiting(&protocol, clock::now()) || self.start_waits(&keyed.effect) {
                waiting.push_back((protocol, keyed));
                continue;
            }
            match &keyed.effect {
                Effect::Lease { tree, seat, role } => {
                    let agent = self.agent_of(seat, role);
                    self.lease(Claim { protocol, key: keyed.key, agent }, tree)?;
                }
                Effect::Release { tree } => self.release(&protocol, &keyed, tree)?,
                Effect::Reply { command, answer } => {
                    self.answer(command, answer);
                    self.done(&protocol, &keyed, Wake::Done { key: keyed.key.clone() })?;
                }
                Effect::Escalate(escalation) if self.own_verbs.remove(&keyed.key) => {
                    self.runner.outbox.note(escalation, &keyed.key, clock::now().wall)?;
                    self.done(&protocol, &keyed, Wake::Done { key: keyed.key.clone() })?;
                }
                _ => {
                    self.perform(&protocol, &keyed).await?;
                    if self.stuck.is_waiting(&protocol, clock::now()) {
                        waiting.push_back((protocol, keyed));
                    }
                }
            }
        }
        // It keeps its room, and mostly nothing is pending.
        self.pending = waiting;
        Ok(())
    }

    /// What an agent that is about to start may run to check its work.
    fn commands_of(&self, protocol: &str, effect: &Effect) -> Vec<String> {
        let Effect::Spawn(_) = effect else { return Vec::new() };
        let slot = self.slots.iter().find(|slot| slot.name() == protocol);
        slot.map(|slot| slot.protocol.commands()).unwrap_or_default()
    }

    async fn perform(&mut self, protocol: &str, keyed: &Keyed) -> Result<(), WorkspaceError> {
        let key = keyed.key.clone();
        // What git needs for a moment would else be kept for as long as the repository is.
        let allow = self.commands_of(protocol, &keyed.effect);
        // Before the agent starts: it may change them at once.
        let tools = match &keyed.effect {
            Effect::Spawn(spawn) if spawn.command.is_none() => {
                Some((spawn.tree.clone(), self.owner_tools(&spawn.tree)))
            }
            _ => None,
        };
        let applied = Box::pin(self.runner.apply(protocol, keyed, &allow)).await;
        if let Applied::NotNow(failure, obstacle) = &applied {
            self.not_now(protocol, keyed, failure, *obstacle);
            return Ok(());
        }
        self.unstick(protocol);
        match applied {
            Applied::Done => {
                if let Effect::Spawn(spawn) = &keyed.effect {
                    self.note_start(protocol, spawn, tools);
                }
                self.done(protocol, keyed, Wake::Done { key })
            }
            Applied::Fact(value) => self.done(protocol, keyed, Wake::Fact { key, value }),
            Applied::Later | Applied::NotNow(..) => Ok(()),
            Applied::Failed(failure) => {
                self.look_at_checkout().await;
                if let Effect::Spawn(spawn) = &keyed.effect {
                    // The place is another's: the protocol asks for one again with its next try.
                    self.permits.remove(&(protocol.to_owned(), spawn.tree.clone()));
                }
                self.note(
                    &Entry::Failed { key: key.clone(), failure: failure.clone() },
                    Durability::Lazy,
                )?;
                let effect = keyed.effect.clone();
                self.absorb_in(protocol, &Wake::Failed { key, effect, failure });
                Ok(())
            }
        }
    }

    /// A command line of the owner's needs no place of its own: its tree is held already.
    fn note_start(&mut self, protocol: &str, spawn: &Spawn, tools: Option<(TreeRef, Seen)>) {
        let apart = spawn.tree != TreeRef::Main;
        let _alive = self.settings.capacity.note_alive();
        let running = if spawn.command.is_some() {
            Running { agent: None, apart, _permit: None, _alive, tools: None }
        } else {
            let permit = self.permits.remove(&(protocol.to_owned(), spawn.tree.clone()));
            let agent = Some(self.agent_of(&spawn.seat, &spawn.role));
            Running { agent, apart, _permit: permit, _alive, tools }
        };
        self.running.insert(spawn.run.clone(), running);
        self.settling.note_start();
    }

    fn done(&mut self, protocol: &str, keyed: &Keyed, wake: Wake) -> Result<(), WorkspaceError> {
        self.note(&Entry::Done { key: keyed.key.clone() }, Durability::Lazy)?;
        self.absorb_in(protocol, &wake);
        Ok(())
    }

    /// The writers of a run's files are gone with it: what lies there now is final, so it is looked at first.
    async fn on_run(&mut self, event: RunEvent) -> Result<(), WorkspaceError> {
        let RunEvent::Ended(end) = &event else {
            self.absorb_all(&Wake::Run(event));
            return Ok(());
        };
        tracing::info!(run = %end.run, outcome = end.outcome.word(), "ended");
        self.check_own_files()?;
        let live = &self.settings.notifier.live;
        live.send(&self.runner.places.root, || Happening::Ended(end.clone()));
        let run = end.run.clone();
        let outcome = end.outcome.sentence() + &self.changed_tools(&run);
        let entry = Entry::Ran { run: run.clone(), outcome };
        let apart = self.running.get(&run).is_some_and(|running| running.apart);
        let hears = self.slots.iter().any(Slot::hears_worktrees);
        self.note_end(end);
        if apart && !hears {
            self.look_at_checkout().await;
            self.look_at_files(Writers::Gone, Trees::Later);
        } else {
            self.look_at_everything(Writers::Gone).await;
        }
        self.absorb_all(&Wake::Run(event));
        self.work().await?;
        self.note(&entry, Durability::Lazy)?;
        self.settle_end(run);
        Ok(())
    }

    fn on_news(&mut self, background: BackgroundEvent) -> Result<(), WorkspaceError> {
        match background {
            BackgroundEvent::Ended(later) => self.on_later(later),
            BackgroundEvent::Granted(grant) => self.granted(grant),
            BackgroundEvent::Settled(settled) => self.on_settled(settled),
            BackgroundEvent::Tell(escalation) => {
                self.tell(escalation);
                Ok(())
            }
        }
    }

    fn on_later(&mut self, later: Later) -> Result<(), WorkspaceError> {
        let Later { protocol, key, failure } = later;
        let slot = self.slots.iter().find(|slot| slot.name() == protocol);
        let Some(keyed) = slot.and_then(|slot| slot.is_open(&key)).cloned() else { return Ok(()) };
        match failure {
            None => self.done(&protocol, &keyed, Wake::Done { key }),
            Some(failure) => {
                self.note(
                    &Entry::Failed { key: key.clone(), failure: failure.clone() },
                    Durability::Lazy,
                )?;
                let effect = keyed.effect;
                self.absorb_in(&protocol, &Wake::Failed { key, effect, failure });
                Ok(())
            }
        }
    }

    /// What the deadline was about may have ended without an event.
    async fn on_deadline(&mut self) {
        self.look_at_checkout().await;
        self.absorb_all(&Wake::Deadline);
    }

    fn absorb_all(&mut self, wake: &Wake) {
        self.slots.iter_mut().for_each(|slot| slot.absorb(wake));
    }

    fn absorb_in(&mut self, protocol: &str, wake: &Wake) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.name() == protocol) {
            slot.absorb(wake);
        }
    }

    fn note(&mut self, entry: &Entry, durability: Durability) -> Result<(), WorkspaceError> {
        let text = entry.text();
        let (kind, body) = text.split();
        self.journal.append(kind, &body, clock::now().wall, durability)?;
        Ok(())
    }

    fn rotate_if_due(&mut self) -> Result<(), WorkspaceError> {
        // A snapshot forgets the effects that are done, so they must be on disk.
        if self.journal.should_rotate() && self.is_settled() {
            let text = Entry::Snapshot(self.snapshot()).text();
            match self.journal.rotate(&text.split().1, clock::now().wall) {
                // The segment grows on: a long journal is better than a repository that stands still.
                Err(error @ StoreError::RecordTooLong { .. }) => {
                    tracing::warn!(%error, "the journal goes on in one segment");
                    return Ok(());
                }
                rotated => rotated?,
            }
            self.note(&Entry::opened(), Durability::Lazy)?;
            self.pack_journal();
        }
        Ok(())
    }

    /// Beside the work: segments before the last two are never written again.
    fn pack_journal(&self) {
        let dir = self.runner.places.journal();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = crate::store::pack(&dir) {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "old parts of the journal stay unpacked"
                );
            }
        });
    }

    fn snapshot(&self) -> Snapshot {
        let remembered = |slot: &Slot| (slot.name().to_owned(), slot.to_remembered());
        let held = self.leases.held();
        Snapshot {
            protocols: self.slots.iter().map(remembered).collect(),
            leases: held.map(|(tree, protocol)| (tree.clone(), protocol.to_owned())).collect(),
            running: self.running.keys().cloned().collect(),
            pin: self.pin.as_deref().cloned(),
            pause: self.pause.clone(),
            requests: self.asked.last().map(str::to_owned).collect(),
        }
    }

    fn deadline(&self) -> Option<Deadline> {
        let slots = self.slots.iter().filter_map(|slot| slot.deadline.clone()).min();
        Deadline::earlier(slots, Deadline::earlier(self.stuck.deadline(), self.watchdog.deadline()))
    }

    /// Nothing runs, nothing is under way, and time alone will change nothing.
    fn is_quiet(&self) -> bool {
        // A start that waits for tomorrow's money or for the owner is no work of today.
        let no_start = self.settings.capacity.is_spent() || self.pause.is_some();
        let waits = |keyed: &Keyed| {
            self.start_waits(&keyed.effect)
                || (no_start && matches!(keyed.effect, Effect::Lease { .. }))
        };
        let open = self.slots.iter().any(|slot| slot.open().any(|keyed| !waits(keyed)));
        let mut deadlines = self.slots.iter().filter_map(|slot| slot.deadline.as_ref());
        let due = deadlines.any(|deadline| !deadline.is_patrol());
        // What the owner was told of waits for them, not for us.
        let open = open && (self.stuck.is_empty() || self.stuck.is_trying());
        self.running.is_empty() && !open && !due && self.is_settled()
    }
}

async fn sleep_until(deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(deadline.at.since(clock::now().ticks)).await,
        None => std::future::pending().await,
    }
}

/// How long repositories may take to stop before we go anyway. DM-09 allows 10 s in all; the courier needs up to 3 s of them.
pub const STOP_LIMIT: Duration = Duration::from_secs(6);
