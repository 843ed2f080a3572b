//! One path that changed: when to look at it again, and whether what we saw may be delivered.
//! It does no IO and reads no clock.

use super::Times;
use crate::model::Ticks;
use crate::read::Stamp;
use std::time::Duration;

/// What a file event says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// Something happened; more may follow.
    Changed,
    /// The writer closed it or moved it in: it can be judged at once.
    Whole,
}

/// What to do with a path that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    Read,
}

/// How a file that was read looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    Whole,
    /// Cut text.
    Unfinished,
    /// A second hard link.
    Linked,
    /// It changed while it was read.
    Moving,
    /// The machine could not read it.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Wait,
    Deliver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// Until it is unchanged for `settle`.
    Settling,
    /// Until it changes, or is unchanged for `unfinished`.
    Patient(Looks),
}

#[derive(Clone, Debug)]
pub(super) struct Pending {
    stamp: Option<Stamp>,
    changed: Ticks,
    due: Ticks,
    waiting: Waiting,
    at_once: bool,
}

impl Pending {
    /// A path that a listing showed to be new or other than before. `age` is how long its own dates say it is unchanged:
    /// believed only when it is long, since clocks differ.
    pub(super) fn found(stamp: Option<Stamp>, age: Duration, now: Ticks, times: &Times) -> Self {
        let old = age >= times.unfinished;
        let back = if old { u64::try_from(age.as_millis()).unwrap_or(u64::MAX) } else { 0 };
        let changed = Ticks(now.0.saturating_sub(back));
        let due = if old { now } else { now.after(times.settle) };
        Self { stamp, changed, due, waiting: Waiting::Settling, at_once: old }
    }

    /// A path that an event names.
    pub(super) fn hinted(hint: Hint, stamp: Option<Stamp>, now: Ticks, times: &Times) -> Self {
        let mut pending = Self::found(stamp, Duration::ZERO, now, times);
        pending.hear(hint, stamp, now, times);
        pending
    }

    pub(super) fn hear(&mut self, hint: Hint, stamp: Option<Stamp>, now: Ticks, times: &Times) {
        self.stamp = stamp;
        self.changed = now;
        self.waiting = Waiting::Settling;
        self.at_once = hint == Hint::Whole;
        self.due = if self.at_once { now } else { now.after(times.settle) };
    }

    pub(super) fn due(&self) -> Ticks {
        self.due
    }

    /// It is due, and this is its stamp now.
    pub(super) fn tick(&mut self, stamp: Option<Stamp>, now: Ticks, times: &Times) -> Step {
        let unlinked = self.lost_a_name(stamp);
        self.note(stamp, now);
        if self.at_once || unlinked || now.since(self.changed) >= self.patience(times) {
            return Step::Read;
        }
        self.wait(now, times);
        Step::Wait
    }

    /// It was read, and this is how it looks.
    pub(super) fn judge(
        &mut self,
        looks: Looks,
        stamp: Option<Stamp>,
        now: Ticks,
        times: &Times,
    ) -> Verdict {
        self.note(stamp, now);
        self.at_once = false;
        match looks {
            Looks::Whole => return Verdict::Deliver,
            Looks::Unfinished | Looks::Linked | Looks::Failed => {
                if now.since(self.changed) >= times.unfinished {
                    return Verdict::Deliver;
                }
                self.waiting = Waiting::Patient(looks);
            }
            Looks::Moving => {
                self.changed = now;
                self.waiting = Waiting::Settling;
            }
        }
        self.wait(now, times);
        Verdict::Wait
    }

    fn note(&mut self, stamp: Option<Stamp>, now: Ticks) {
        if stamp != self.stamp {
            self.stamp = stamp;
            self.changed = now;
            self.waiting = Waiting::Settling;
        }
    }

    /// The same bytes with other names: what a link-then-unlink writer does last, and we waited for it.
    fn lost_a_name(&self, stamp: Option<Stamp>) -> bool {
        let Waiting::Patient(Looks::Linked) = self.waiting else { return false };
        stamp != self.stamp
            && self.stamp.zip(stamp).is_some_and(|(old, new)| old.same_content(&new))
    }

    fn patience(&self, times: &Times) -> Duration {
        match self.waiting {
            Waiting::Settling => times.settle,
            Waiting::Patient(_) => times.unfinished,
        }
    }

    /// Also without events a change is seen within `settle`.
    fn wait(&mut self, now: Ticks, times: &Times) {
        let end = self.changed.after(self.patience(times));
        self.due = now.after(times.settle).min(end).max(Ticks(now.0.saturating_add(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times =
        Times { settle: Duration::from_millis(250), unfinished: Duration::from_secs(10) };

    fn stamp(size: u64, ctime_ns: i64) -> Option<Stamp> {
        Some(Stamp { dev: 1, ino: 1, size, mtime_ns: 0, ctime_ns })
    }

    fn young(stamp: Option<Stamp>, now: u64) -> Pending {
        Pending::found(stamp, Duration::ZERO, Ticks(now), &TIMES)
    }

    /// Looks at it whenever it is due, until it wants to be read; says when.
    fn read_at(pending: &mut Pending, stamp: impl Fn(u64) -> Option<Stamp>) -> u64 {
        loop {
            let now = pending.due();
            if pending.tick(stamp(now.0), now, &TIMES) == Step::Read {
                return now.0;
            }
            assert!(pending.due() > now, "it must wait, not spin");
        }
    }

    // covers: DM-03
    #[test]
    fn a_closed_file_is_read_at_once_and_another_when_it_rests() {
        let mut closed = Pending::hinted(Hint::Whole, stamp(1, 0), Ticks(1000), &TIMES);
        assert_eq!(read_at(&mut closed, |_| stamp(1, 0)), 1000);
        let mut open = Pending::hinted(Hint::Changed, stamp(1, 0), Ticks(1000), &TIMES);
        assert_eq!(read_at(&mut open, |_| stamp(1, 0)), 1250);
    }

    #[test]
    fn a_file_that_grows_is_read_when_it_has_stopped_for_the_whole_settle_time() {
        let mut pending = young(stamp(0, 0), 1000);
        let read = read_at(&mut pending, |now| stamp(now.min(3000), 0));
        assert!((3250..=3500).contains(&read), "{read}");
    }

    #[test]
    fn an_event_of_more_writing_takes_the_closing_back() {
        let mut pending = Pending::hinted(Hint::Whole, stamp(1, 0), Ticks(1000), &TIMES);
        pending.hear(Hint::Changed, stamp(2, 0), Ticks(1010), &TIMES);
        assert_eq!(read_at(&mut pending, |_| stamp(2, 0)), 1260);
    }

    // covers: DM-03
    #[test]
    fn cut_text_is_waited_for_and_then_delivered_as_it_is() {
        let mut pending = young(stamp(1, 0), 1000);
        let mut now = read_at(&mut pending, |_| stamp(1, 0));
        while pending.judge(Looks::Unfinished, stamp(1, 0), Ticks(now), &TIMES) == Verdict::Wait {
            now = read_at(&mut pending, |_| stamp(1, 0));
        }
        assert_eq!(now, 11_000, "ten seconds after its last change, neither sooner nor later");
    }

    #[test]
    fn the_second_half_starts_the_wait_again() {
        let mut pending = young(stamp(1, 0), 1000);
        let now = read_at(&mut pending, |_| stamp(1, 0));
        assert_eq!(
            pending.judge(Looks::Unfinished, stamp(1, 0), Ticks(now), &TIMES),
            Verdict::Wait
        );
        let now = read_at(&mut pending, |now| stamp(1 + now / 9000, 0));
        assert!((9250..=9750).contains(&now), "{now}");
        assert_eq!(
            pending.judge(Looks::Unfinished, stamp(2, 0), Ticks(now), &TIMES),
            Verdict::Wait
        );
    }

    // covers: DM-03
    #[test]
    fn an_unlinked_second_name_is_seen_within_one_settle_time() {
        let mut pending = young(stamp(1, 0), 1000);
        let now = read_at(&mut pending, |_| stamp(1, 0));
        assert_eq!(pending.judge(Looks::Linked, stamp(1, 0), Ticks(now), &TIMES), Verdict::Wait);
        let now = read_at(&mut pending, |now| stamp(1, i64::from(now >= 5000)));
        assert!((5000..=5250).contains(&now), "{now}");
        assert_eq!(pending.judge(Looks::Whole, stamp(1, 1), Ticks(now), &TIMES), Verdict::Deliver);
    }

    #[test]
    fn a_file_whose_own_dates_are_old_is_not_waited_for() {
        let mut pending =
            Pending::found(stamp(1, 0), Duration::from_secs(60), Ticks(100_000), &TIMES);
        assert_eq!(read_at(&mut pending, |_| stamp(1, 0)), 100_000);
        let verdict = pending.judge(Looks::Unfinished, stamp(1, 0), Ticks(100_000), &TIMES);
        assert_eq!(verdict, Verdict::Deliver);
    }

    #[test]
    fn a_file_that_moves_while_it_is_read_settles_again() {
        let mut pending = Pending::hinted(Hint::Whole, stamp(1, 0), Ticks(1000), &TIMES);
        assert_eq!(pending.judge(Looks::Moving, stamp(2, 0), Ticks(1000), &TIMES), Verdict::Wait);
        assert_eq!(read_at(&mut pending, |_| stamp(2, 0)), 1250);
    }
}
