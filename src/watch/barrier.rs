//! When a rescan is over: everything it found has been delivered, or is still being written after a fair wait.
//! It delivers nothing.

use super::Times;
use crate::model::{RelPath, Ticks};
use std::collections::HashSet;

#[derive(Default)]
pub(super) struct Barrier {
    waiting: HashSet<RelPath>,
    until: Option<Ticks>,
}

impl Barrier {
    /// A second rescan before the first is over joins it: so a file that never rests cannot hold it up for ever.
    pub(super) fn raise<'a>(
        &mut self,
        found: impl Iterator<Item = &'a RelPath>,
        now: Ticks,
        times: &Times,
    ) {
        self.waiting.extend(found.cloned());
        self.until.get_or_insert(now.after(times.unfinished + times.settle * 2));
    }

    /// This path was delivered.
    pub(super) fn pass(&mut self, path: &RelPath) {
        self.waiting.remove(path);
    }

    pub(super) fn until(&self) -> Option<Ticks> {
        self.until
    }

    /// Is the rescan over? Said once.
    pub(super) fn take_done(&mut self, now: Ticks) -> bool {
        let done = self.until.is_some_and(|until| self.waiting.is_empty() || until <= now);
        if done {
            *self = Self::default();
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TIMES: Times =
        Times { settle: Duration::from_millis(250), unfinished: Duration::from_secs(10) };

    #[test]
    fn a_rescan_is_over_when_all_it_found_is_delivered() {
        let (mut barrier, path) = (Barrier::default(), RelPath::fixed("x"));
        assert!(!barrier.take_done(Ticks(0)), "nothing was rescanned");
        barrier.raise([&path].into_iter(), Ticks(0), &TIMES);
        assert!(!barrier.take_done(Ticks(1)));
        barrier.pass(&path);
        assert!(barrier.take_done(Ticks(2)));
        assert!(!barrier.take_done(Ticks(3)), "it is said once");
    }

    #[test]
    fn a_file_that_never_rests_does_not_hold_it_up_for_ever() {
        let (mut barrier, path) = (Barrier::default(), RelPath::fixed("x"));
        for now in (0..10_000).step_by(1000) {
            barrier.raise([&path].into_iter(), Ticks(now), &TIMES);
            assert!(!barrier.take_done(Ticks(now)));
        }
        assert!(barrier.take_done(Ticks(10_500)));
    }
}
