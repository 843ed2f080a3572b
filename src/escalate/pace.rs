//! What an attempt means for its message: delivered, again later, or never. Pure: it waits for nothing.

use super::track::{Parcel, Stage};
use crate::model::{Timestamp, clip};
use chrono::TimeDelta;
use std::time::Duration;

/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// A receiver that refuses the message itself is asked this often: it may have been restarting.
const REFUSALS_MAX: u32 = 5;
const ERROR_MAX: usize = 200;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Delivered,
    /// It may work another time: no answer, a server in trouble, a key or an address that the owner can repair.
    Later {
        error: String,
        wait: Option<Duration>,
        reached: Vec<String>,
    },
    /// The receiver does not take this message. It is dead after a few of these.
    Refused {
        error: String,
    },
    /// Nobody is there who could take it.
    Never {
        error: String,
    },
}

impl Outcome {
    pub(super) fn later(error: impl Into<String>) -> Self {
        Self::Later { error: error.into(), wait: None, reached: Vec::new() }
    }

    /// How an HTTP answer counts (ES-02). A wrong key, a moved address or a missing page can be repaired by the owner
    /// within the time that we try; a body that is not understood, or an address that is gone for good, cannot.
    pub(super) fn of_status(status: u16, wait: Option<Duration>) -> Self {
        let error = match status {
            300..=399 => format!("the receiver answered {status}: redirects are not followed"),
            _ => format!("the receiver answered {status}"),
        };
        match status {
            200..=299 => Self::Delivered,
            400 | 405 | 406 | 410 | 411 | 413 | 414 | 415 | 422 => Self::Refused { error },
            _ => Self::Later { error, wait, reached: Vec::new() },
        }
    }

    /// How an SMTP reply counts: 4xx and trouble with the sign-in come again, another 5xx is final (RFC 5321 §4.2.1).
    pub(super) fn of_smtp(code: u16, error: String) -> Self {
        match code {
            530 | 534 | 535 | 538 => Self::later(error),
            500..=599 => Self::Never { error },
            _ => Self::later(error),
        }
    }
}

/// The pace of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    /// Before the second attempt; doubles.
    pub backoff: Duration,
    pub give_up: Duration,
}

impl Pace {
    pub(super) fn new(backoff: Duration) -> Self {
        Self { backoff, give_up: Duration::from_secs(72 * 3600) }
    }

    fn pause(&self, failures: u32) -> Duration {
        let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
        self.backoff.saturating_mul(doubled).min(PAUSE_MAX.max(self.backoff))
    }
}

impl Parcel {
    /// Written down before anything leaves.
    pub(super) fn start(&mut self, now: Timestamp) {
        self.stage = Stage::Active;
        self.tries = self.tries.saturating_add(1);
        self.first_try.get_or_insert(now);
    }

    pub(super) fn finish(&mut self, outcome: Outcome, pace: Pace, now: Timestamp) {
        self.error = None;
        self.failures = self.failures.saturating_add(u32::from(outcome != Outcome::Delivered));
        match outcome {
            Outcome::Delivered => self.stage = Stage::Delivered,
            Outcome::Never { error } => self.end(error),
            Outcome::Refused { error } if self.failures >= REFUSALS_MAX => self.end(error),
            Outcome::Refused { error } => self.defer(error, None, pace, now),
            Outcome::Later { error, wait, reached } => {
                self.reached.extend(reached);
                self.defer(error, wait, pace, now);
            }
        }
    }

    fn defer(&mut self, error: String, wait: Option<Duration>, pace: Pace, now: Timestamp) {
        let pause = pace.pause(self.failures).max(wait.unwrap_or_default().min(PAUSE_MAX));
        let since = now - self.first_try.unwrap_or(now);
        if since >= TimeDelta::from_std(pace.give_up).unwrap_or(TimeDelta::MAX) {
            return self.end(error);
        }
        self.stage = Stage::Deferred;
        self.due = now + pause;
        self.error = Some(clip(&error, ERROR_MAX));
    }

    fn end(&mut self, error: String) {
        self.stage = Stage::Dead;
        self.error = Some(clip(&error, ERROR_MAX));
    }

    /// May it be tried now? One that was under way when we died is tried again at once, under the same id.
    pub(super) fn is_due(&self, backoff: Duration, now: Timestamp) -> bool {
        match self.stage {
            Stage::New | Stage::Active => true,
            // A pause longer than any of ours is a clock that was set back.
            Stage::Deferred => self.due <= now || self.due > now + PAUSE_MAX.max(backoff),
            Stage::Delivered | Stage::Dead => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::escalate::message::Kind;
    use crate::escalate::track::Told;
    use crate::model::Severity;

    const SECOND: Duration = Duration::from_secs(1);

    fn parcel() -> Parcel {
        let (at, severity) = ("2026-01-01T00:00:00Z".parse().unwrap(), Severity::Warning);
        let told = Told { seq: 1, kind: Kind::Opened, at, opening: 1, holds: false, severity };
        Parcel::new("msg".to_owned(), &told)
    }

    /// Tries until it is settled: how often, how long, and how it ended.
    fn run(outcome: impl Fn() -> Outcome) -> (u32, Duration, Stage) {
        let (mut parcel, pace) = (parcel(), Pace::new(30 * SECOND));
        while !parcel.stage.is_settled() {
            let now = parcel.due;
            assert!(parcel.is_due(pace.backoff, now));
            parcel.start(now);
            parcel.finish(outcome(), pace, now);
        }
        let took = (parcel.due - parcel.made).to_std().unwrap();
        (parcel.tries, took, parcel.stage)
    }

    // covers: ES-02
    #[test]
    fn a_delivery_is_tried_for_72_hours_with_doubling_pauses() {
        let pauses: Vec<u64> = (1..10).map(|n| Pace::new(30 * SECOND).pause(n).as_secs()).collect();
        assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
        let (tries, took, stage) = run(|| Outcome::later("no answer"));
        assert_eq!(stage, Stage::Dead);
        assert!((72..74).contains(&(took.as_secs() / 3600)), "{took:?}");
        assert!(tries > 70, "{tries}");
    }

    #[test]
    fn what_cannot_be_repaired_is_dead_sooner() {
        assert_eq!(run(|| Outcome::of_status(422, None)).0, REFUSALS_MAX);
        assert_eq!(run(|| Outcome::of_smtp(550, String::new())).0, 1);
        assert!(run(|| Outcome::of_smtp(535, String::new())).0 > 70);
        for status in [301, 401, 403, 404, 408, 425, 429, 500, 503] {
            assert!(run(|| Outcome::of_status(status, None)).0 > 70, "{status}");
        }
        assert_eq!(run(|| Outcome::of_status(204, None)), (1, Duration::ZERO, Stage::Delivered));
    }

    #[test]
    fn a_receiver_may_ask_for_patience_but_not_for_ever() {
        for (asked, given) in [(SECOND, 30), (600 * SECOND, 600), (Duration::MAX, 3600)] {
            let (mut parcel, now) = (parcel(), parcel().made);
            parcel.start(now);
            parcel.finish(Outcome::of_status(429, Some(asked)), Pace::new(30 * SECOND), now);
            assert_eq!((parcel.due - now).num_seconds(), given);
        }
    }
}
