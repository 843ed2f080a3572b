//! When a run has taken too long. Arithmetic only: it reads no clock and ends nothing.

use crate::run_file::Limits;
use agency_protocols::model::Ticks;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Deadlines {
    limits: Limits,
    start: Ticks,
    last_output: Option<Ticks>,
}

impl Deadlines {
    pub(crate) fn new(limits: Limits, start: Ticks) -> Self {
        Self { limits, start, last_output: None }
    }

    pub(crate) fn output(&mut self, now: Ticks) {
        self.last_output = Some(now);
    }

    /// The limit that is over at `now`.
    pub(crate) fn passed(&self, now: Ticks) -> Option<&'static str> {
        self.next().filter(|(at, _)| *at <= now).map(|(_, limit)| limit)
    }

    /// When to look again.
    pub(crate) fn next_at(&self) -> Option<Ticks> {
        self.next().map(|(at, _)| at)
    }

    fn next(&self) -> Option<(Ticks, &'static str)> {
        let after = |from: Ticks, seconds: Option<u64>, limit: &'static str| {
            seconds.map(|seconds| (from.after(Duration::from_secs(seconds)), limit))
        };
        let first = self.limits.first_output_s.filter(|_| self.last_output.is_none());
        let silent_since = self.last_output.unwrap_or(self.start);
        [
            after(self.start, first, "first-output"),
            after(silent_since, self.limits.silence_s, "silence"),
            after(self.start, self.limits.wall_s, "wall-clock"),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadlines() -> Deadlines {
        let limits = Limits {
            first_output_s: Some(5),
            silence_s: Some(10),
            wall_s: Some(30),
            ..Limits::default()
        };
        Deadlines::new(limits, Ticks(1_000))
    }

    // covers: SU-04
    #[test]
    fn each_limit_counts_from_its_own_beginning() {
        let mut run = deadlines();
        assert_eq!(run.passed(Ticks(5_999)), None);
        assert_eq!(run.passed(Ticks(6_000)), Some("first-output"));
        run.output(Ticks(6_000));
        assert_eq!(run.passed(Ticks(15_999)), None);
        assert_eq!(run.passed(Ticks(16_000)), Some("silence"));
        run.output(Ticks(25_000));
        assert_eq!(run.next_at(), Some(Ticks(31_000)));
        assert_eq!(run.passed(Ticks(31_000)), Some("wall-clock"));
    }

    #[test]
    fn without_limits_nothing_passes() {
        let off =
            Limits { first_output_s: None, silence_s: None, wall_s: None, ..Limits::default() };
        assert_eq!(Deadlines::new(off, Ticks(0)).passed(Ticks(u64::MAX)), None);
    }
}
