//! Carries what is due from the outboxes to the channels, and writes down every step before it counts.
//!
//! One task owns all that is known about deliveries. Each channel has at most one attempt under way, in a task that
//! touches no file; so a slow channel never blocks another, and whoever drops the courier at any moment loses
//! nothing: what was under way is sent again under the same id. What is due is decided in `plan`, not here.

mod queue;

use super::channels::Channels;
use super::outbox::Outbox;
use super::pace::Outcome;
use super::send::ATTEMPT_LIMIT;
use super::unwritten::Unwritten;
use crate::model::Timestamp;
use queue::{OutboxQueue, ParcelPlace};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;

/// Outboxes are looked at this often even when nobody says that something changed.
const RESCAN: Duration = Duration::from_secs(30);
/// A storm of nudges is answered this often.
const REFRESH_PAUSE: Duration = Duration::from_millis(100);
/// Whoever waits for the messages waits for a second try that is due this soon, not for a later one.
const SOON: Duration = Duration::from_secs(5);

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub struct Courier {
    channels: Channels,
    clock: Clock,
    orders: mpsc::UnboundedReceiver<Order>,
    nudged: Arc<Notify>,
    shelves: BTreeMap<PathBuf, OutboxQueue>,
    /// Outboxes that wait for a channel: while there is none, nothing of them is kept or looked at.
    shut: BTreeMap<PathBuf, Unwritten>,
    attempts: JoinSet<Outcome>,
    /// What each attempt carries; also which channels are busy.
    under_way: HashMap<Id, Job>,
    refresh_at: Instant,
    refreshed: Instant,
    /// When the next message is due.
    next_due: Option<Timestamp>,
    drained: Vec<oneshot::Sender<()>>,
}

#[derive(Clone, Debug)]
struct Job {
    channel: String,
    dir: PathBuf,
    place: ParcelPlace,
}

enum Order {
    Watch(PathBuf, Unwritten),
    Forget(PathBuf),
    Reload(Box<Channels>),
    /// Say when no message is due any more.
    Drain(oneshot::Sender<()>),
    Stop,
}

/// How the rest of the daemon talks to its courier.
#[derive(Clone)]
pub struct CourierHandle {
    orders: mpsc::UnboundedSender<Order>,
    nudged: Arc<Notify>,
}

impl CourierHandle {
    /// Looks after this outbox from now on.
    pub fn watch(&self, outbox: PathBuf) {
        self.order(Order::Watch(outbox, Unwritten::default()));
    }

    /// The same, with what the disk does not take for now.
    pub fn watch_outbox(&self, outbox: &Outbox) {
        let (dir, unwritten) = outbox.shared();
        self.order(Order::Watch(dir, unwritten));
    }

    pub fn forget(&self, outbox: PathBuf) {
        self.order(Order::Forget(outbox));
    }

    /// The owner has changed the configuration.
    pub fn reload(&self, channels: Channels) {
        self.order(Order::Reload(Box::new(channels)));
    }

    /// Something was raised, resolved or acknowledged: look now.
    pub fn nudge(&self) {
        self.nudged.notify_one();
    }

    fn order(&self, order: Order) {
        // A courier that has ended needs no orders.
        drop(self.orders.send(order));
    }
}

/// A courier in a task of its own.
pub struct Running {
    handle: CourierHandle,
    task: JoinHandle<()>,
}

impl Running {
    pub fn handle(&self) -> CourierHandle {
        self.handle.clone()
    }

    /// Returns when every message that is due was tried, and none is to be tried again soon.
    pub async fn drain(&self) {
        let (sender, drained) = oneshot::channel();
        self.handle.order(Order::Drain(sender));
        // A courier that has ended carries nothing any more.
        drop(drained.await);
    }

    /// Starts nothing new, waits for what is under way, but not for ever.
    pub async fn stop(self) {
        let Self { handle, mut task } = self;
        handle.order(Order::Stop);
        if tokio::time::timeout(ATTEMPT_LIMIT, &mut task).await.is_err() {
            task.abort();
        }
    }
}

impl Courier {
    /// Must be called inside a runtime.
    pub fn start(channels: Channels) -> Running {
        let (courier, handle) = Self::new(channels);
        Running { handle, task: tokio::spawn(courier.run()) }
    }

    pub fn new(channels: Channels) -> (Self, CourierHandle) {
        Self::with_clock(channels, Arc::new(|| crate::clock::now().wall))
    }

    pub fn with_clock(channels: Channels, clock: Clock) -> (Self, CourierHandle) {
        let (sender, orders) = mpsc::unbounded_channel();
        let nudged = Arc::new(Notify::new());
        let handle = CourierHandle { orders: sender, nudged: Arc::clone(&nudged) };
        let (shelves, shut, attempts) = (BTreeMap::new(), BTreeMap::new(), JoinSet::new());
        let (refresh_at, refreshed) = (Instant::now() + RESCAN, Instant::now());
        let under_way = HashMap::new();
        let courier = Self {
            channels,
            clock,
            orders,
            nudged,
            shelves,
            shut,
            attempts,
            under_way,
            refresh_at,
            refreshed,
            next_due: None,
            drained: Vec::new(),
        };
        (courier, handle)
    }

    /// Until it is stopped or the last handle is gone. May be dropped at any moment.
    pub async fn run(mut self) {
        let mut wake = self.dispatch();
        loop {
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(Order::Stop) | None => break,
                    Some(order) => self.obey(order),
                },
                Some(ended) = self.attempts.join_next_with_id() => self.note(ended),
                () = self.nudged.notified() => {
                    self.refresh_at = self.refreshed + REFRESH_PAUSE;
                    // In a storm of nudges not each one is worth a look.
                    if Instant::now() < self.refresh_at {
                        wake = wake.min(self.refresh_at);
                        continue;
                    }
                }
                () = tokio::time::sleep_until(wake) => {}
            }
            self.refresh();
            wake = self.dispatch();
            self.answer_drained();
        }
        while let Some(ended) = self.attempts.join_next_with_id().await {
            self.note(ended);
        }
    }

    fn obey(&mut self, order: Order) {
        let now = (self.clock)();
        match order {
            Order::Watch(dir, unwritten) => self.open(dir, unwritten, now),
            Order::Forget(dir) => {
                self.shelves.remove(&dir);
                self.shut.remove(&dir);
            }
            Order::Reload(channels) => {
                self.channels = *channels;
                self.shelves.values_mut().for_each(|queue| queue.meet(&self.channels, now));
                if !self.channels.list.is_empty() {
                    let shut = std::mem::take(&mut self.shut);
                    shut.into_iter().for_each(|(dir, unwritten)| self.open(dir, unwritten, now));
                }
            }
            Order::Drain(sender) => {
                self.refresh_at = Instant::now();
                self.drained.push(sender);
            }
            Order::Stop => {}
        }
    }

    fn answer_drained(&mut self) {
        let soon = (self.clock)() + SOON;
        if self.under_way.is_empty() && self.next_due.is_none_or(|at| at > soon) {
            for sender in self.drained.drain(..) {
                if sender.send(()).is_err() {
                    tracing::trace!("the asker did not wait until the outboxes were empty");
                }
            }
        }
    }

    /// Without channels too: what was on its way when there were some must be written off.
    fn open(&mut self, dir: PathBuf, unwritten: Unwritten, now: Timestamp) {
        if let Some(queue) = self.shelves.get_mut(&dir) {
            queue.share(unwritten);
            return;
        }
        if let Some(known) = self.shut.get_mut(&dir) {
            unwritten.take_over(known);
            *known = unwritten;
            return;
        }
        let queue = OutboxQueue::open(dir.clone(), unwritten.clone(), &self.channels, now);
        if self.channels.list.is_empty() && queue.is_saved() {
            self.shut.insert(dir, unwritten);
        } else {
            self.shelves.insert(dir, queue);
        }
    }

    fn refresh(&mut self) {
        let now = Instant::now();
        if now >= self.refresh_at {
            self.shelves.values_mut().for_each(OutboxQueue::refresh);
            self.refreshed = Instant::now();
            self.refresh_at = self.refreshed + RESCAN;
        }
    }

    /// Starts whatever may start now. Gives the time of the next look.
    fn dispatch(&mut self) -> Instant {
        let now = (self.clock)();
        let mut wakes: Vec<Timestamp> = Vec::new();
        for queue in self.shelves.values_mut() {
            wakes.extend(queue.plan(&self.channels, now));
        }
        for channel in self.channels.list.clone() {
            if !self.under_way.values().any(|job| job.channel == channel.name) {
                wakes.extend(self.start_next(&channel.name, now));
            }
        }
        self.next_due = wakes.into_iter().min();
        let soonest = self.next_due.map(|at| (at - now).to_std().unwrap_or_default());
        let wait = soonest.unwrap_or(RESCAN).clamp(Duration::from_millis(1), RESCAN);
        self.refresh_at.min(Instant::now() + wait)
    }

    /// Tries the most urgent parcel of a channel; when there is none, says when there will be one.
    fn start_next(&mut self, channel: &str, now: Timestamp) -> Option<Timestamp> {
        let quiet = self.channels.get(channel)?.quiet;
        let backoff = self.channels.pace.backoff;
        let next = |(dir, queue): (&PathBuf, &OutboxQueue)| {
            Some((queue.next(channel, quiet, backoff, now)?, dir.clone()))
        };
        let (ready, dir) =
            self.shelves.iter().filter_map(next).min_by(|(a, _), (b, _)| a.cmp(b))?;
        if ready.at > now {
            return Some(ready.at);
        }
        let queue = self.shelves.get_mut(&dir)?;
        let outgoing = queue.start(&ready.place, &self.channels, now);
        let sender = Arc::clone(self.channels.get(channel)?);
        let attempt = self.attempts.spawn(async move { sender.send(&outgoing).await });
        let job = Job { channel: channel.to_owned(), dir, place: ready.place };
        self.under_way.insert(attempt.id(), job);
        None
    }

    fn note(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => (error.id(), Outcome::later("our own failure while sending")),
        };
        let Some(job) = self.under_way.remove(&id) else { return };
        let now = (self.clock)();
        if let Some(queue) = self.shelves.get_mut(&job.dir) {
            queue.finish(&job.place, outcome, &self.channels, now);
        }
    }
}
