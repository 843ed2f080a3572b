//! The daemon's own folder (DM-18): its lock, an outbox that is open before any repository, and the list of repositories in which
//! it cannot work. It opens no repository itself.

use super::presence::{Presence, PresenceError};
use super::router::CommandRouter;
use crate::clock;
use crate::escalate::{DeliveryState, EscalateError, Notifier, Outbox, Proof, Record, State};
use crate::live::Happening;
use crate::model::{Cause, Digest, Escalation, Key, RuleId, Severity, Timestamp};
use crate::repository::StateDir;
use crate::store::write_atomic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Between two looks at our own folder.
const TEND: Duration = Duration::from_secs(1);
/// How exactly a view knows when a killed daemon was last alive. Each touch is a write to the disk.
const TOUCH: chrono::TimeDelta = chrono::TimeDelta::seconds(10);
/// Resolved notices are kept this long.
const KEEP: chrono::TimeDelta = chrono::TimeDelta::days(90);
const LIST: &str = "frozen.json";
/// The protocol and the rule of our own messages.
const OURS: &str = "agency";
const FROZEN: &str = "DM-10";

/// A repository in which the daemon cannot work: as listed for every view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frozen {
    pub path: PathBuf,
    #[serde(default)]
    pub by: FrozenBy,
    pub cause: String,
    pub resolve: String,
    pub since: Timestamp,
}

/// What keeps the daemon out of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FrozenBy {
    /// Something in it cannot be opened, read or written.
    #[default]
    Trouble,
    /// Another process holds it and may well be at work there.
    AnotherDaemon,
}

/// Shared by all keepers of a daemon; a clone is the same one.
#[derive(Clone)]
pub struct Home(Arc<Shared>);

struct Shared {
    state_dir: StateDir,
    notifier: Notifier,
    inner: Mutex<Inner>,
    /// Counts how often our folder was removed under us.
    lost: watch::Sender<u64>,
    /// Our promise that this folder is looked after (ES-08).
    proof: Option<Proof>,
    router: CommandRouter,
}

struct Inner {
    presence: Presence,
    touched: Timestamp,
    frozen: BTreeMap<PathBuf, Listed>,
    /// Notices that an earlier daemon left open, by repository.
    left_open: BTreeMap<PathBuf, Vec<Record>>,
}

struct Listed {
    frozen: Frozen,
    notice: Notice,
}

/// How far the owner's notice of a frozen repository has come.
enum Notice {
    /// It could not be written down yet. The heartbeat is silent.
    Untold(Option<Proof>),
    /// It is on its way. The heartbeat is silent.
    Sent {
        id: String,
        _proof: Option<Proof>,
    },
    Delivered,
}

impl Home {
    pub fn open(state_dir: &StateDir, notifier: &Notifier) -> Result<Self, PresenceError> {
        let now = clock::wall();
        let presence = Presence::take(state_dir, now)?;
        let outbox = presence.folder().join("outbox");
        let mut left_open: BTreeMap<PathBuf, Vec<Record>> = BTreeMap::new();
        for record in Outbox::list(&outbox) {
            if record.rule == FROZEN && record.state != State::Resolved {
                left_open.entry(record.repo.clone()).or_default().push(record);
            }
        }
        let shared = Shared {
            state_dir: state_dir.clone(),
            notifier: notifier.clone(),
            inner: Mutex::new(Inner { presence, touched: now, frozen: BTreeMap::new(), left_open }),
            lost: watch::channel(0).0,
            proof: notifier.proofs.as_ref().map(|proofs| proofs.promise()),
            router: CommandRouter::default(),
        };
        let home = Self(Arc::new(shared));
        match Outbox::open(outbox.clone(), OURS, state_dir.path()) {
            Ok(outbox) => {
                outbox.mend(now);
                outbox.prune(now - KEEP);
            }
            Err(error) => tracing::error!(%error, "the daemon's own outbox cannot be used"),
        }
        if let Some(courier) = &home.0.notifier.courier {
            courier.watch(outbox);
        }
        home.0.write_list(&home.lock());
        Ok(home)
    }

    /// Looks after the folder for as long as it is polled.
    pub async fn tend(&self) {
        let mut ticks = tokio::time::interval(TEND);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.0.look(&mut self.lock());
        }
    }

    /// The way in for commands from inside the daemon.
    pub fn router(&self) -> &CommandRouter {
        &self.0.router
    }

    /// The daemon's own folder, as it is now.
    pub fn folder(&self) -> PathBuf {
        self.lock().presence.folder().to_owned()
    }

    /// Sends a report to all channels. It is over as soon as it is told: nothing waits for it.
    pub fn report(&self, report: &Escalation, at: Timestamp) -> Result<(), EscalateError> {
        let folder = self.folder();
        let outbox = self.0.outbox(&folder, Path::new("all repositories"))?;
        let key = Key::new(format!("report-{}", at.timestamp_millis()));
        outbox.report(report, &key, at)?;
        self.0.notifier.nudge();
        Ok(())
    }

    /// Changes when the state directory was removed under us: nothing that lies in it can be relied on.
    pub(super) fn lost(&self) -> watch::Receiver<u64> {
        self.0.lost.subscribe()
    }

    /// Tells something that is about no single repository.
    pub(super) fn raise(&self, escalation: &Escalation) {
        let now = clock::wall();
        let key = Key::new(format!("daemon-{}", now.timestamp_micros()));
        let folder = self.lock().presence.folder().to_owned();
        let root = self.0.state_dir.path();
        let raised =
            self.0.outbox(&folder, root).and_then(|outbox| outbox.raise(escalation, &key, now));
        if let Err(error) = raised {
            tracing::error!(error = %crate::apply::chain(&error), "the owner cannot be told");
        }
        self.0.notifier.nudge();
    }

    /// A cause of [`Self::raise`] is over.
    pub(super) fn settle(&self, cause: &Cause) {
        let now = clock::wall();
        let key = Key::new(format!("daemon-{}", now.timestamp_micros()));
        let folder = self.lock().presence.folder().to_owned();
        let outbox = self.0.outbox(&folder, self.0.state_dir.path());
        if let Err(error) = outbox.and_then(|outbox| outbox.resolve(cause, &key, now)) {
            tracing::warn!(error = %crate::apply::chain(&error), "a notice stays open");
        }
        self.0.notifier.nudge();
    }

    /// Lists and tells that nothing happens in this repository.
    pub(super) fn freeze(&self, root: &Path, by: FrozenBy, cause: &str, resolve: &str) {
        let now = clock::wall();
        let mut inner = self.lock();
        match inner.frozen.get(root) {
            Some(listed) if listed.frozen.cause == cause => return,
            Some(_) => self.0.resolve(&mut inner, root, now),
            None => {}
        }
        let (path, cause, resolve) = (root.to_owned(), cause.to_owned(), resolve.to_owned());
        let frozen = Frozen { path, by, cause, resolve, since: now };
        let notice = Notice::Untold(self.0.notifier.proofs.as_ref().map(|proofs| proofs.promise()));
        inner.frozen.insert(root.to_owned(), Listed { frozen, notice });
        self.0.write_list(&inner);
        self.0.tell(&mut inner);
    }

    /// It is open again, or no longer ours to open.
    pub(super) fn thaw(&self, root: &Path) {
        let mut inner = self.lock();
        if inner.frozen.contains_key(root) || inner.left_open.contains_key(root) {
            self.0.resolve(&mut inner, root, clock::wall());
            self.0.write_list(&inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        inner.presence.touch(clock::wall());
    }
}

impl Shared {
    fn look(&self, inner: &mut Inner) {
        let now = clock::wall();
        if !inner.presence.is_current() {
            self.rebuild(inner, now);
        }
        // Also after a clock that was put back.
        if (now - inner.touched).abs() >= TOUCH {
            inner.presence.touch(now);
            inner.touched = now;
        }
        self.tell(inner);
        self.note_deliveries(inner);
        if let Some(proof) = &self.proof {
            proof.beat();
        }
    }

    /// What was told lay in the folder that is gone, so it is told again.
    fn rebuild(&self, inner: &mut Inner, now: Timestamp) {
        tracing::error!(state_dir = %self.state_dir.path().display(), "the state directory was removed");
        match Presence::take(&self.state_dir, now) {
            Ok(presence) => inner.presence = presence,
            Err(error) => {
                tracing::error!(%error, "our folder cannot be made again; it is tried in a second");
                return;
            }
        }
        for listed in inner.frozen.values_mut() {
            let promise = self.notifier.proofs.as_ref().map(|proofs| proofs.promise());
            listed.notice = Notice::Untold(promise);
        }
        if let Some(courier) = &self.notifier.courier {
            let outbox = inner.presence.folder().join("outbox");
            courier.forget(outbox.clone());
            courier.watch(outbox);
        }
        self.write_list(inner);
        self.lost.send_modify(|times| *times += 1);
    }

    /// Tells whatever is not told yet; a notice that cannot be written is tried again at the next look.
    fn tell(&self, inner: &mut Inner) {
        let folder = inner.presence.folder().to_owned();
        let mut told = false;
        for Listed { frozen, notice } in inner.frozen.values_mut() {
            let Notice::Untold(proof) = notice else { continue };
            let key = key("frozen", frozen, frozen.since);
            let raised = self
                .outbox(&folder, &frozen.path)
                .and_then(|outbox| outbox.raise(&escalation(frozen), &key, frozen.since));
            match raised {
                Ok(id) => {
                    *notice = Notice::Sent { id, _proof: proof.take() };
                    told = true;
                    let happened = || Happening::Told(Box::new(escalation(frozen)));
                    self.notifier.live.send(&frozen.path, happened);
                }
                Err(error) => tracing::error!(
                    repo = %frozen.path.display(), error = %crate::apply::chain(&error),
                    "the owner cannot be told yet that it is frozen"
                ),
            }
        }
        if told {
            self.notifier.nudge();
        }
    }

    /// A notice that reached the owner lets the heartbeat go on (DM-18).
    fn note_deliveries(&self, inner: &mut Inner) {
        let on_its_way = |listed: &Listed| matches!(listed.notice, Notice::Sent { .. });
        if self.notifier.proofs.is_none() || !inner.frozen.values().any(on_its_way) {
            return;
        }
        let records = Outbox::list(&inner.presence.folder().join("outbox"));
        let arrived = |record: &&Record| {
            record.deliveries.iter().any(|one| one.state == DeliveryState::Delivered)
        };
        for record in records.iter().filter(arrived) {
            for listed in inner.frozen.values_mut() {
                if matches!(&listed.notice, Notice::Sent { id, .. } if *id == record.id) {
                    listed.notice = Notice::Delivered;
                }
            }
        }
    }

    /// Ends every notice about this repository.
    fn resolve(&self, inner: &mut Inner, root: &Path, now: Timestamp) {
        let folder = inner.presence.folder().to_owned();
        let left = inner.left_open.remove(root).into_iter().flatten();
        let mut causes: Vec<String> = left.map(|record| record.what).collect();
        causes.extend(inner.frozen.remove(root).map(|listed| listed.frozen.cause));
        for cause in causes {
            let key = Key::new(format!("thawed-{}-{}", digest(&cause), now.timestamp_millis()));
            let done = self
                .outbox(&folder, root)
                .and_then(|outbox| outbox.resolve(&cause_of(&cause), &key, now));
            if let Err(error) = done {
                tracing::warn!(error = %crate::apply::chain(&error), "a notice stays open");
            }
            self.notifier.live.send(root, || Happening::Resolved { subject: cause });
        }
        self.notifier.nudge();
    }

    fn outbox(&self, folder: &Path, root: &Path) -> Result<Outbox, EscalateError> {
        let repo_key = digest(&root.display().to_string());
        let outbox = Outbox::open(folder.join("outbox"), &repo_key, root)?;
        Ok(outbox.redacting(self.notifier.redactor.clone()))
    }

    fn write_list(&self, inner: &Inner) {
        let list: Vec<&Frozen> = inner.frozen.values().map(|listed| &listed.frozen).collect();
        let text = serde_json::to_vec_pretty(&list).expect("BUG: a list is plain data");
        if let Err(error) = write_atomic(&inner.presence.folder().join(LIST), &text) {
            tracing::error!(%error, "the list of frozen repositories cannot be written");
        }
    }
}

impl Frozen {
    /// Takes a repository out of the list that a daemon left behind when it stopped.
    pub fn drop_from(folder: &Path, path: &Path) -> Result<(), crate::store::StoreError> {
        let mut list = Self::list(folder);
        let before = list.len();
        list.retain(|frozen| frozen.path != path);
        if list.len() == before {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(&list).expect("BUG: a list is plain data");
        write_atomic(&folder.join(LIST), &text)
    }

    /// The list in a daemon's folder, for readers.
    pub fn list(folder: &Path) -> Vec<Self> {
        let text = std::fs::read(folder.join(LIST)).ok();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }
}

fn digest(text: &str) -> String {
    Digest::of(text.as_bytes()).short().to_owned()
}

fn key(what: &str, frozen: &Frozen, at: Timestamp) -> Key {
    Key::new(format!("{what}-{}-{}", digest(&frozen.cause), at.timestamp_millis()))
}

fn cause_of(why: &str) -> Cause {
    let (protocol, rule) = (OURS.to_owned(), RuleId::new(FROZEN));
    Cause { protocol, rule, subject: why.to_owned(), epoch: 0 }
}

fn escalation(frozen: &Frozen) -> Escalation {
    let (did, wont) = match frozen.by {
        FrozenBy::Trouble => (
            "Nothing happens in this repository; the others go on. It is opened again by itself when that is possible.",
            "agency repairs no damaged file of its own and skips no line of a journal.",
        ),
        FrozenBy::AnotherDaemon => (
            "This daemon does nothing in this repository; its others go on. It is opened by itself when the other daemon ends.",
            "Two daemons never work in one repository.",
        ),
    };
    Escalation {
        cause: cause_of(&frozen.cause),
        severity: Severity::Critical,
        holds: true,
        summary: format!("frozen: {}", frozen.cause),
        what: frozen.cause.clone(),
        did: did.to_owned(),
        wont: wont.to_owned(),
        resolve: frozen.resolve.clone(),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: false,
    }
}
