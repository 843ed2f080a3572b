//! One task per run: tells once that it started and once how it ended. It starts nothing, and ends only what is lost.
//!
//! SE-09: a record counts only when its shim has left. Of a shim that we started ourselves the digest that it said on its way
//! out must be the record's; one that was found after a restart must have let go of its lock.

use super::exit::ExitRecord;
use super::folder::{EXIT, Folder, Stop, USAGE};
use super::listen::{Earlier, Heard, Listener};
use super::logs::tail;
use super::lost_run::{Attempt, Members, Trouble, attempt, recorded};
use crate::clock::boottime;
use crate::model::{RunEnd, RunEvent, RunId, Ticks, Usage};
use nix::sys::signal::Signal;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{sleep, timeout};

const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Until it has started, which is a matter of milliseconds.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// More than the writing of a record takes on a busy disk.
const LEAVES_WITHIN: Duration = Duration::from_secs(5);
/// A digest and a line end.
const SAID_MAX: usize = 128;
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// A look counts for at most this much silence, so that a suspended machine does not look like a stuck shim.
const LOOK_COUNTS_MAX: Duration = Duration::from_secs(1);

pub(super) struct Watched {
    pub(super) run: RunId,
    pub(super) folder: Folder,
    pub(super) stuck_after: Duration,
    pub(super) events: UnboundedSender<Box<RunEvent>>,
    pub(super) on_forged: OnForged,
}

/// Hears which file of which run was forged, and where it is kept.
pub type OnForged = Arc<dyn Fn(&RunId, &str) + Send + Sync>;

/// A shim that we started: its process, and what it has said so far on its way out.
#[derive(Debug)]
pub(super) struct OwnShim {
    child: Child,
    said: Vec<u8>,
}

impl OwnShim {
    pub(super) fn new(child: Child) -> Self {
        Self { child, said: Vec::new() }
    }

    /// It closes its output when it has let go of the lock, or by its death. Its process takes a while longer to end. Nothing
    /// that was read is lost when this is dropped.
    async fn leaves(&mut self) {
        let Some(output) = &mut self.child.stdout else {
            drop(self.child.wait().await);
            return;
        };
        let mut bytes = [0; 128];
        while let Ok(count @ 1..) = output.read(&mut bytes).await {
            let room = SAID_MAX.saturating_sub(self.said.len());
            self.said.extend_from_slice(&bytes[..count.min(room)]);
        }
    }
}

/// The keeper of a run, as we know it.
#[derive(Debug)]
enum Shim {
    Own(OwnShim),
    /// Found after a restart: it is looked at again and again.
    Adopted,
    /// One of our own has left, with this as its last word.
    Left(String),
}

#[derive(Debug)]
enum Look {
    Running,
    Ended(ExitRecord),
    Trouble(Trouble),
}

/// `shim`: the one we started ourselves. It wakes us when it leaves.
pub(super) async fn observe(watched: Watched, shim: Option<OwnShim>) {
    let earlier = if shim.is_some() { Earlier::Nothing } else { Earlier::AsWritten };
    let mut shim = shim.map_or(Shim::Adopted, Shim::Own);
    let mut pulse = Pulse::new();
    // What was only just ordered has the machine to itself.
    wait(&mut shim, LOOK_SOON).await;
    let mut listener = Listener::of(&watched.folder, earlier);
    let mut early = EarlyRecord::default();
    let mut started = false;
    let record = loop {
        started = started || watched.tell_start();
        if let Some(listener) = &mut listener {
            listener.listen().into_iter().for_each(|stop| watched.order_end(&stop));
            watched.tell_forged_usage(listener);
        } else if watched.folder.has(USAGE) {
            // Nobody reads this run's output, so nobody of ours wrote it.
            watched.set_aside(USAGE);
        }
        let ended = match watched.look(&shim, &mut pulse, &mut early) {
            Look::Running => None,
            Look::Ended(record) => Some(record),
            Look::Trouble(trouble) => watched.lose(trouble).await,
        };
        if let Some(record) = ended {
            break record;
        }
        wait(&mut shim, if started { LOOK_AGAIN } else { LOOK_SOON }).await;
    };
    watched.empty_tree(record.survivors > 0).await;
    if !started {
        watched.tell_start();
    }
    watched.tell_end(&record, listener);
}

/// Returns when the shim has left (and is collected when it has gone), or after `pause`.
async fn wait(shim: &mut Shim, pause: Duration) {
    let Shim::Own(own) = shim else {
        sleep(pause).await;
        return;
    };
    if timeout(pause, own.leaves()).await.is_ok() {
        let said = String::from_utf8_lossy(&own.said).trim().to_owned();
        if let Shim::Own(mut own) = std::mem::replace(shim, Shim::Left(said)) {
            // A process that nobody waits for would stay as a zombie.
            tokio::spawn(async move { drop(own.child.wait().await) });
        }
    }
}

/// Since when there is a record although its shim is still there.
#[derive(Debug, Default)]
struct EarlyRecord(Option<Ticks>);

impl EarlyRecord {
    /// A shim leaves right after its record. One that stays has not written it.
    fn is_forged(&mut self, is_there: bool, now: Ticks) -> bool {
        if !is_there {
            self.0 = None;
            return false;
        }
        let since = *self.0.get_or_insert(now);
        now.since(since) >= LEAVES_WITHIN
    }
}

impl Watched {
    /// The output says that the run cannot come to anything: its shim ends it.
    fn order_end(&self, stop: &Stop) {
        tracing::info!(run = %self.run, why = stop.why, "ending a run early");
        if let Err(cause) = self.folder.publish_json("stop.json", stop) {
            tracing::warn!(run = %self.run, %cause, "a run cannot be ended early");
            return;
        }
        self.folder.alive().into_iter().for_each(|alive| alive.shim.signal(Signal::SIGTERM));
    }

    /// The lock of a shim of our own is not probed: it lives as long as its process does.
    fn look(&self, shim: &Shim, pulse: &mut Pulse, early: &mut EarlyRecord) -> Look {
        let is_there = self.folder.has(EXIT);
        let has_left = match shim {
            Shim::Own(_) => false,
            Shim::Left(said) => {
                let own = self.folder.record_digest().is_some_and(|found| found.as_str() == said);
                if is_there && !own {
                    self.set_aside(EXIT);
                }
                true
            }
            Shim::Adopted => matches!(self.folder.try_lock(), Ok(Some(_))),
        };
        if has_left {
            return recorded(&self.folder).map_or(Look::Trouble(Trouble::Dead), Look::Ended);
        }
        if early.is_forged(is_there, boottime()) {
            // Whoever forges it wants the next one to start beside it.
            self.set_aside(EXIT);
            return Look::Trouble(Trouble::Forged);
        }
        if pulse.silence(self.folder.last_beat(), boottime()) >= self.stuck_after {
            return Look::Trouble(Trouble::Stuck);
        }
        Look::Running
    }

    /// It counts for nothing from here on, and the owner hears of it.
    fn set_aside(&self, name: &str) {
        match self.folder.set_aside(name) {
            Ok(kept) => {
                let found = format!("`{name}` is kept as `{}`", kept.display());
                tracing::warn!(run = %self.run, found, "a run's record was forged");
                (self.on_forged)(&self.run, &found);
            }
            Err(cause) => tracing::warn!(run = %self.run, %cause, "a forged record stays"),
        }
    }

    fn tell_forged_usage(&self, listener: &mut Listener) {
        if let Some(found) = listener.forged() {
            (self.on_forged)(&self.run, &found);
        }
    }

    /// `None`: it turned out to be alive.
    async fn lose(&self, trouble: Trouble) -> Option<ExitRecord> {
        tracing::warn!(run = %self.run, ?trouble, "a run has lost its supervisor; ending its tree");
        loop {
            let folder = self.folder.clone();
            match tokio::task::spawn_blocking(move || attempt(&folder, trouble)).await {
                Ok(Attempt::Ended(record)) => return Some(record),
                Ok(Attempt::Alive) => return None,
                Ok(Attempt::Again) | Err(_) => {}
            }
            // While anything of it lives, the run has not ended: nobody else may enter its tree.
            sleep(TRY_AGAIN).await;
        }
    }

    /// Something of the run may be `left`; then its end is not told before the tree is empty.
    async fn empty_tree(&self, mut left: bool) {
        while left {
            tracing::warn!(run = %self.run, "processes of an ended run are still there");
            let folder = self.folder.clone();
            let ended = tokio::task::spawn_blocking(move || Members::of(&folder).end()).await;
            left = !ended.unwrap_or(false);
            sleep(TRY_AGAIN).await;
        }
    }

    /// `true`: the child runs, or has run.
    fn tell_start(&self) -> bool {
        let Some(alive) = self.folder.alive().filter(|alive| alive.child.is_some()) else {
            return false;
        };
        self.tell(RunEvent::Started { run: self.run.clone(), at: alive.at });
        true
    }

    /// Without a listener there is only the process to judge by.
    fn tell_end(&self, record: &ExitRecord, listener: Option<Listener>) {
        let plain = || Heard {
            outcome: record.how.outcome(),
            usage: Usage::default(),
            said: None,
            last: None,
        };
        let is_understood = listener.is_some();
        let Heard { outcome, usage, said, last } = listener.map_or_else(plain, |mut listener| {
            self.tell_forged_usage(&mut listener);
            listener.end(record)
        });
        let tail = tail(&self.folder);
        self.tell(RunEvent::Ended(Box::new(RunEnd {
            run: self.run.clone(),
            outcome,
            ended_at: record.ended_at,
            tail: if is_understood { legible(&tail, last) } else { tail },
            exit_code: record.code,
            usage,
            said,
        })));
    }

    fn tell(&self, event: RunEvent) {
        if self.events.send(Box::new(event)).is_err() {
            tracing::debug!(run = %self.run, "nobody listens for run events any more");
        }
    }
}

/// The last message and the end of a CLI's output without its structured events, which say little to people. The first line may
/// be the rest of an event.
fn legible(tail: &str, last: Option<String>) -> String {
    let is_event = |(n, line): &(usize, &str)| {
        line.starts_with('{') || (*n == 0 && line.trim_end().ends_with('}'))
    };
    let lines = tail.lines().enumerate().filter(|line| !is_event(line));
    last.iter()
        .map(String::as_str)
        .chain(lines.map(|(_, line)| line))
        .collect::<Vec<_>>()
        .join("\n")
}

/// How long the beat has not changed while we were awake to see it. Stamps are compared, never subtracted.
#[derive(Debug)]
struct Pulse {
    beat: Option<SystemTime>,
    looked: Ticks,
    silence: Duration,
}

impl Pulse {
    fn new() -> Self {
        Self { beat: None, looked: boottime(), silence: Duration::ZERO }
    }

    fn silence(&mut self, beat: Option<SystemTime>, now: Ticks) -> Duration {
        self.silence = if beat == self.beat {
            self.silence + now.since(self.looked).min(LOOK_COUNTS_MAX)
        } else {
            Duration::ZERO
        };
        (self.beat, self.looked) = (beat, now);
        self.silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_for_people_has_no_events() {
        let tail = "t\",\"effort\"]}\n{\"type\":\"result\"}\nAttempt 1 failed\nno quota left\n";
        assert_eq!(legible(tail, None), "Attempt 1 failed\nno quota left");
        assert_eq!(legible("plain words\n", Some("done".to_owned())), "done\nplain words");
    }

    #[test]
    fn a_long_sleep_of_the_machine_is_not_a_silent_shim() {
        let mut pulse = Pulse { beat: None, looked: Ticks(0), silence: Duration::ZERO };
        let beat = Some(SystemTime::UNIX_EPOCH);
        assert_eq!(pulse.silence(beat, Ticks(200)), Duration::ZERO);
        assert_eq!(pulse.silence(beat, Ticks(400)), Duration::from_millis(200));
        assert_eq!(pulse.silence(beat, Ticks(8 * 3_600_000)), Duration::from_millis(1_200));
        let earlier = SystemTime::UNIX_EPOCH - Duration::from_secs(9);
        assert_eq!(pulse.silence(Some(earlier), Ticks(8 * 3_600_001)), Duration::ZERO);
    }
}
