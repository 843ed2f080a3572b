//! Turns file events, rescans and timers into what was seen of each repository's files (DM-02, DM-03).
//! Events are hints: it works without any of them, only later. It does not know what a file means.
//!
//! Reading order: [`Watcher`] hands out one task per root; `look` is one root's view; `pending` decides when a changed
//! path may be read; `hub` shares one file watcher among all roots and fills each root's `inbox`.

mod barrier;
mod canary;
mod extra;
mod folders;
mod glance;
mod hub;
mod inbox;
mod known;
mod look;
mod pace;
mod patrol;
mod pending;
mod plan;
mod proof;
mod queue;
mod scan;
mod survey;
mod whole;

pub(crate) use survey::Survey;
pub(crate) use whole::looks_unfinished;

use crate::clock;
use crate::model::{FileSeen, Interest, RelPath, Ticks};
use hub::Hub;
use inbox::Inbox;
use look::Look;
use patrol::Patrol;
use plan::Plans;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, spawn_blocking};

/// Looks at the disk that run at the same time. A dead network mount holds one of them.
const MOST_LOOKS: usize = 32;

/// Sightings that wait for a slow receiver; the rest waits on disk.
const CHANNEL: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Events,
    /// No events at all: every root is looked at by the clock.
    Polling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    pub mode: Mode,
    /// How often everything is looked at although events arrive.
    pub rescan: Duration,
    /// A file unchanged for so long is whole.
    pub settle: Duration,
    /// How long text that looks cut, and a second hard link, are waited for. A canary may take as long.
    pub unfinished: Duration,
    /// How often everything is looked at where no events arrive.
    pub poll: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Events,
            rescan: Duration::from_secs(30),
            settle: Duration::from_millis(250),
            unfinished: Duration::from_secs(10),
            poll: Duration::from_secs(1),
        }
    }
}

/// The two waits of a single path.
#[derive(Clone, Copy, Debug)]
struct Times {
    settle: Duration,
    unfinished: Duration,
}

impl WatchOptions {
    fn times(&self) -> Times {
        Times { settle: self.settle, unfinished: self.unfinished }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sighting {
    File(FileSeen),
    /// Something in one of the folders outside the tree changed: look again at the git checkout.
    Checkout,
    /// A rescan is over: all that it found was delivered before this, except what is still being written. The first
    /// one says that everything there is has been delivered.
    Rescanned,
    /// Watching works less well than it should; why. Each reason is said once.
    Degraded(String),
}

/// The file watcher of the process. A clone is the same watcher.
#[derive(Clone)]
pub struct Watcher {
    shared: Arc<Shared>,
}

struct Shared {
    options: WatchOptions,
    /// Why there is none, if there should be one.
    hub: Result<Option<Arc<Hub>>, String>,
    looks: Arc<Semaphore>,
    patrol: Arc<Patrol>,
    plans: Plans,
}

impl Watcher {
    pub fn start(options: WatchOptions) -> Self {
        let hub = match options.mode {
            Mode::Polling => Ok(None),
            Mode::Events => Hub::start().map(|hub| Some(Arc::new(hub))),
        };
        Self::with(options, hub.map_err(|error| format!("there are no file events: {error}")))
    }

    fn with(options: WatchOptions, hub: Result<Option<Arc<Hub>>, String>) -> Self {
        let looks = Arc::new(Semaphore::new(MOST_LOOKS));
        let patrol = Patrol::new(Arc::clone(&looks));
        let plans = Plans::default();
        Self { shared: Arc::new(Shared { options, hub, looks, patrol, plans }) }
    }

    /// Watches one root until the [`RootWatch`] is dropped. `extra_dirs` are folders whose change means
    /// [`Sighting::Checkout`]; the first of them must be a folder of ours: it gets the canary. Needs a tokio runtime.
    pub fn watch(&self, root: PathBuf, interest: Interest, extra_dirs: Vec<PathBuf>) -> RootWatch {
        let Shared { options, hub, looks, patrol, plans } = &*self.shared;
        let plan = plans.plan(interest);
        let inbox = Arc::new(Inbox::new(Arc::clone(&plan)));
        if let Err(reason) = hub {
            inbox.tell(|dirty| dirty.ended = Some(reason.clone()));
        }
        let hub = hub.clone().unwrap_or(None);
        let look = Look::new(root, extra_dirs, *options, hub, plan, Arc::clone(&inbox));
        let (send, sightings) = mpsc::channel(CHANNEL);
        let ways = Ways { looks: Arc::clone(looks), patrol: Arc::clone(patrol) };
        tokio::spawn(run(Box::new(look), Arc::clone(&inbox), send, ways));
        RootWatch { inbox, sightings }
    }
}

/// One watched root.
pub struct RootWatch {
    inbox: Arc<Inbox>,
    sightings: mpsc::Receiver<Box<Sighting>>,
}

impl RootWatch {
    /// The next news. `None` only when watching ended by a fault of ours.
    pub async fn recv(&mut self) -> Option<Sighting> {
        self.sightings.recv().await.map(|sighting| *sighting)
    }

    /// Looks at everything now; [`Sighting::Rescanned`] follows.
    pub fn rescan_now(&self) {
        self.inbox.tell(|dirty| dirty.rescan = true);
    }

    /// Delivers this path again at the next look at it (an event or a rescan), even if it has not changed.
    pub fn forget(&self, path: &RelPath) {
        self.inbox.tell(|dirty| {
            dirty.forgotten.insert(path.clone());
        });
    }
}

/// The task of one root. The view moves into each step on a thread that may block, and comes back.
async fn run(
    mut look: Box<Look>,
    inbox: Arc<Inbox>,
    send: mpsc::Sender<Box<Sighting>>,
    ways: Ways,
) {
    let mut hurry = true;
    loop {
        let Some((back, sightings)) = ways.step(look, hurry).await else { return };
        look = back;
        for sighting in sightings {
            if send.send(Box::new(sighting)).await.is_err() {
                return leave(look).await;
            }
        }
        let due = look.next_due();
        tokio::select! {
            () = inbox.rung() => hurry = true,
            () = sleep_until(due) => hurry = !look.is_rescan(due),
            () = send.closed() => return leave(look).await,
        }
    }
}

/// How a root comes to be looked at.
struct Ways {
    looks: Arc<Semaphore>,
    patrol: Arc<Patrol>,
}

impl Ways {
    /// At once for what somebody did, with the others for what only the clock says. `None`: watching ends.
    async fn step(&self, mut look: Box<Look>, hurry: bool) -> Option<(Box<Look>, Vec<Sighting>)> {
        let step = move || {
            let sightings = look.step();
            (look, sightings)
        };
        if !hurry {
            return self.patrol.take_along(step).await;
        }
        let permit = self.looks.acquire().await.ok()?;
        let stepped = spawn_blocking(step).await;
        drop(permit);
        stepped.inspect_err(|error| tell_of(error, "a look at a root failed")).ok()
    }
}

/// Ending the watches waits for the watcher's thread.
async fn leave(look: Box<Look>) {
    if let Err(error) = spawn_blocking(move || drop(look)).await {
        tell_of(&error, "a root was not left cleanly");
    }
}

/// What is only broken off ends with the process, as it should.
fn tell_of(error: &JoinError, what: &'static str) {
    if !error.is_cancelled() {
        tracing::error!(%error, what, "the watch of a root has a bug");
    }
}

async fn sleep_until(due: Ticks) {
    tokio::time::sleep(due.since(clock::now().ticks)).await;
}

#[cfg(test)]
mod tests;
