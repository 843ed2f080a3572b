//! Two clocks, told apart by type. Nothing here reads a clock.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Wall time, for stamps that people and files use. It may jump.
pub type Timestamp = chrono::DateTime<chrono::Utc>;

/// Milliseconds since the machine booted, suspend included. It never jumps; it starts again at a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticks(pub u64);

impl Ticks {
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was. A stamp from before a reboot counts as now: downtime is nobody's fault.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// The time of a decision, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub wall: Timestamp,
    pub ticks: Ticks,
}

/// A moment to wait for, on both clocks: the steady one counts, and the wall one ends the wait after a reboot, when the
/// steady one has begun again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    ticks: Ticks,
    wall: Timestamp,
}

impl Moment {
    pub fn after(now: Now, wait: Duration) -> Self {
        let wall = chrono::TimeDelta::from_std(wait)
            .ok()
            .and_then(|wait| now.wall.checked_add_signed(wait));
        Self { ticks: now.ticks.after(wait), wall: wall.unwrap_or(Timestamp::MAX_UTC) }
    }

    /// The moment as people write it.
    pub fn wall(&self) -> Timestamp {
        self.wall
    }

    /// How long it still is; `None` when it has come.
    pub fn left(&self, now: Now) -> Option<Duration> {
        let steady = self.ticks.since(now.ticks);
        let by_wall = (self.wall - now.wall).to_std().unwrap_or_default();
        Some(steady.min(by_wall)).filter(|left| !left.is_zero())
    }
}

/// Notices when the wall clock is set back: less of its time has passed than on the steady clock (DM-11).
#[derive(Clone, Debug, Default)]
pub struct ClockWatch {
    last: Option<Now>,
    /// By how much it was set back, and when that was seen.
    set_back: Option<(chrono::TimeDelta, Ticks)>,
}

impl ClockWatch {
    /// Smaller steps are corrections of a clock that runs fast.
    const SLACK: chrono::TimeDelta = chrono::TimeDelta::seconds(5);
    /// What was written before the clock was set back is seen within this time, or is stale by its own protocol's rules.
    const COUNTS_FOR: Duration = Duration::from_secs(600);

    /// Takes note of both clocks. A look that comes out of order shows nothing.
    pub fn look(&mut self, now: Now) {
        let before = self.last.unwrap_or(now);
        if now.ticks < before.ticks {
            return;
        }
        self.last = Some(now);
        let steady = chrono::TimeDelta::from_std(now.ticks.since(before.ticks)).unwrap_or_default();
        let jump = now.wall - before.wall - steady;
        if jump < -Self::SLACK {
            self.set_back = Some((-jump, now.ticks));
        }
    }

    /// The latest time that an honest writer can have read from the wall clock by `now`.
    pub fn latest(&self, now: Now) -> Timestamp {
        match self.set_back {
            Some((by, at)) if now.ticks.since(at) <= Self::COUNTS_FOR => now.wall + by,
            Some(_) | None => now.wall,
        }
    }
}

/// When a protocol wants to look again although nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    pub at: Ticks,
    pub why: &'static str,
}

/// Between two looks at something outside that we wait for. Events and regular looks tell of it too; this one is certain.
const PATROL: Duration = Duration::from_secs(60);
const PATROL_WHY: &str = "look outside";

impl Deadline {
    /// A protocol waits for a person, a branch or a file: look again before long (DM-17).
    pub fn patrol(now: Now) -> Self {
        Self { at: now.ticks.after(PATROL), why: PATROL_WHY }
    }

    /// Nothing is due then: it is only the next look.
    pub fn is_patrol(&self) -> bool {
        self.why == PATROL_WHY
    }

    pub fn earlier(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(seconds: u64, wall: &str) -> Now {
        Now { ticks: Ticks(seconds * 1000), wall: wall.parse().unwrap() }
    }

    // covers: DM-11
    #[test]
    fn a_time_of_before_the_clock_was_set_back_is_not_in_the_future_for_ten_minutes() {
        let mut watch = ClockWatch::default();
        let before = now(1000, "2026-01-01T12:00:00Z");
        assert_eq!(watch.latest(before), before.wall);
        watch.look(before);
        watch.look(now(1060, "2026-01-01T12:01:00Z"));
        let corrected = now(1061, "2026-01-01T12:00:58Z");
        watch.look(corrected);
        assert_eq!(watch.latest(corrected), corrected.wall, "a small correction");
        let after = now(1071, "2026-01-01T10:01:08Z");
        watch.look(after);
        assert_eq!(watch.latest(after), "2026-01-01T12:01:08Z".parse::<Timestamp>().unwrap());
        let later = now(1671, "2026-01-01T10:11:08Z");
        watch.look(later);
        assert!(watch.latest(later) > later.wall, "still within ten minutes");
        let late = now(1672, "2026-01-01T10:11:09Z");
        assert_eq!(watch.latest(late), late.wall);
        watch.look(before);
        watch.look(late);
        assert_eq!(watch.latest(late), late.wall, "an old look is no news");
    }

    // covers: DM-11
    #[test]
    fn a_moment_comes_after_a_reboot_and_a_jump_back_does_not_delay_it() {
        let set = now(1_000_000, "2026-01-01T00:00:00Z");
        let moment = Moment::after(set, Duration::from_secs(600));
        assert_eq!(moment.left(set), Some(Duration::from_secs(600)));
        let jumped_back = now(1_000_601, "2025-12-31T00:00:00Z");
        assert_eq!(moment.left(jumped_back), None, "the steady clock counts");
        let rebooted = now(30, "2026-01-01T00:20:00Z");
        assert_eq!(moment.left(rebooted), None, "the wall clock ends the wait after a reboot");
        let rebooted_early = now(30, "2026-01-01T00:05:00Z");
        assert_eq!(moment.left(rebooted_early), Some(Duration::from_secs(300)));
    }
}
