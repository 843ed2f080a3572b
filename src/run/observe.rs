//! One task per run: tells once that it started and once how it ended. It starts nothing, and ends only what is lost.

use super::exit::ExitRecord;
use super::folder::{Folder, Stop};
use super::listen::{Heard, Listener};
use super::logs::tail;
use super::lost_run::{Attempt, Members, Trouble, attempt, recorded};
use crate::clock::boottime;
use crate::model::{RunEnd, RunEvent, RunId, Ticks, Usage};
use nix::sys::signal::Signal;
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
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// A look counts for at most this much silence, so that a suspended machine does not look like a stuck shim.
const LOOK_COUNTS_MAX: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Watched {
    pub(super) run: RunId,
    pub(super) folder: Folder,
    pub(super) stuck_after: Duration,
    pub(super) events: UnboundedSender<Box<RunEvent>>,
}

#[derive(Debug)]
enum Look {
    Running,
    Ended(ExitRecord),
    Trouble(Trouble),
}

/// `shim`: the one we started ourselves. It wakes us when it leaves; an adopted one is looked at again and again.
pub(super) async fn observe(watched: Watched, mut shim: Option<Child>) {
    let mut pulse = Pulse::new();
    // What was only just ordered has the machine to itself.
    wait(&mut shim, LOOK_SOON).await;
    let mut listener = Listener::of(&watched.folder);
    let mut started = false;
    let record = loop {
        started = started || watched.tell_start();
        if let Some(listener) = &mut listener {
            listener.listen().into_iter().for_each(|stop| watched.order_end(&stop));
        }
        let ended = match watched.look(shim.is_some(), &mut pulse) {
            Look::Running => None,
            Look::Ended(record) => Some(record),
            Look::Trouble(trouble) => watched.lose(trouble).await,
        };
        if let Some(record) = ended {
            break record;
        }
        wait(&mut shim, if started { LOOK_AGAIN } else { LOOK_SOON }).await;
    };
    let stays = !watched.shim_leaves(shim).await;
    watched.empty_tree(stays || record.survivors > 0).await;
    if !started {
        watched.tell_start();
    }
    watched.tell_end(&record, listener);
}

/// Returns when the shim has left (and is collected when it has gone), or after `pause`.
async fn wait(shim: &mut Option<Child>, pause: Duration) {
    match shim {
        Some(child) => {
            if timeout(pause, leaves(child)).await.is_ok() {
                collect(shim.take());
            }
        }
        None => sleep(pause).await,
    }
}

/// A process that nobody waits for would stay as a zombie.
fn collect(shim: Option<Child>) {
    if let Some(mut shim) = shim {
        tokio::spawn(async move { drop(shim.wait().await) });
    }
}

/// A shim closes its output when it has let go of the lock, or by its death. Its process takes a while longer to end, and nobody
/// else holds that pipe.
async fn leaves(shim: &mut Child) {
    match &mut shim.stdout {
        Some(output) => while output.read(&mut [0; 16]).await.is_ok_and(|count| count > 0) {},
        None => drop(shim.wait().await),
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
    fn look(&self, own_shim_lives: bool, pulse: &mut Pulse) -> Look {
        if let Some(record) = recorded(&self.folder) {
            return Look::Ended(record);
        }
        if pulse.silence(self.folder.last_beat(), boottime()) >= self.stuck_after {
            return Look::Trouble(Trouble::Stuck);
        }
        if !own_shim_lives && matches!(self.folder.try_lock(), Ok(Some(_))) {
            return Look::Trouble(Trouble::Dead);
        }
        Look::Running
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

    /// A shim leaves right after its record. One that stays has not written it: an agent of the same user can do that.
    async fn shim_leaves(&self, shim: Option<Child>) -> bool {
        let lock_is_free = async {
            while matches!(self.folder.try_lock(), Ok(None)) {
                sleep(LOOK_SOON).await;
            }
        };
        match shim {
            Some(mut shim) => {
                let left = timeout(LEAVES_WITHIN, leaves(&mut shim)).await.is_ok();
                collect(Some(shim));
                left
            }
            None => timeout(LEAVES_WITHIN, lock_is_free).await.is_ok(),
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
        let Heard { outcome, usage, said, last } =
            listener.map_or_else(plain, |listener| listener.end(record));
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
