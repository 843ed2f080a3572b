//! The tries of one piece of work: how many failed, and why the next one waits (SU-05, SU-06, SU-09). It starts nothing.

use crate::model::{Deadline, Digest, Effect, Moment, Now, Outage, Outcome, Park, RunId};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often an agent is tried again after its first try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    pub max: u32,
    /// The first pause; it doubles with every failure.
    pub backoff: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { max: 2, backoff: Duration::from_secs(30) }
    }
}

/// Failures since the work began or the owner resumed, and the pause before the next try.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Tries {
    failures: u32,
    pause: Option<Pause>,
    /// The agent's provider has not served it since then (SU-09).
    outage: Option<Outage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pause {
    until: Moment,
    /// Why, for people. Journals of before it was kept have none.
    words: String,
}

/// The form that journals have always had.
#[derive(Serialize, Deserialize)]
struct Stored {
    failures: u32,
    not_before: Option<Moment>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    paused: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outage: Option<Outage>,
}

impl From<Stored> for Tries {
    fn from(stored: Stored) -> Self {
        let pause = stored.not_before.map(|until| Pause { until, words: stored.paused });
        Self { failures: stored.failures, pause, outage: stored.outage }
    }
}

impl From<Tries> for Stored {
    fn from(tries: Tries) -> Self {
        let (not_before, paused) = tries.pause.map(|pause| (pause.until, pause.words)).unzip();
        let paused = paused.unwrap_or_default();
        Self { failures: tries.failures, not_before, paused, outage: tries.outage }
    }
}

/// What follows from a try that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Again,
    /// All tries are spent: so many.
    Spent {
        tries: u32,
    },
}

impl Tries {
    pub fn failures(&self) -> u32 {
        self.failures
    }

    pub fn outage(&self) -> Option<&Outage> {
        self.outage.as_ref()
    }

    /// The end of the pause and why there is one, while it lasts.
    pub fn pause(&self, now: Now) -> Option<(Moment, &str)> {
        let pause = self.pause.as_ref().filter(|pause| pause.until.left(now).is_some())?;
        Some((pause.until, &pause.words))
    }

    pub fn deadline(&self, now: Now) -> Option<Deadline> {
        let left = self.pause.as_ref()?.until.left(now)?;
        Some(Deadline { at: now.ticks.after(left), why: "try again" })
    }

    /// The next run starts: the pause before it is over.
    pub fn start(&mut self) {
        self.pause = None;
    }

    /// The owner resumed: all tries are there again, at once.
    pub fn renew(&mut self) {
        (self.failures, self.pause) = (0, None);
    }

    /// A run ended. If its provider served it, an outage that the owner was told of is over.
    pub fn after(&mut self, outcome: &Outcome) -> Option<Effect> {
        Outage::after(&mut self.outage, outcome)
    }

    /// The agent did nothing wrong, so no try is spent. Returns what the owner is told.
    pub fn park(&mut self, park: Park) -> Option<Effect> {
        self.pause = Some(Pause { until: park.until, words: park.words });
        self.outage = park.outage;
        park.tell
    }

    /// SU-06: a bounded number of tries, each later than the one before. `words` says why the next one waits until then.
    pub fn fail(
        &mut self,
        retries: Retries,
        run: &RunId,
        now: Now,
        words: impl FnOnce(Moment) -> String,
    ) -> Verdict {
        self.failures += 1;
        if self.failures > retries.max {
            return Verdict::Spent { tries: self.failures };
        }
        let wait = retries.backoff * 2_u32.saturating_pow(self.failures - 1);
        let until = Moment::after(now, jittered(wait, run));
        self.pause = Some(Pause { until, words: words(until) });
        Verdict::Again
    }
}

/// Up to a quarter more, different for each run and the same for the same run, so that agents that failed together do not come
/// back together.
fn jittered(wait: Duration, run: &RunId) -> Duration {
    let dice = Digest::of(run.as_str().as_bytes());
    let share = u32::from(u8::from_str_radix(&dice.as_str()[..2], 16).unwrap_or_default());
    wait + wait * share / 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ticks;

    fn now() -> Now {
        Now { wall: "2026-01-01T00:00:00Z".parse().unwrap(), ticks: Ticks(0) }
    }

    // covers: SU-06
    #[test]
    fn pauses_double_with_a_jitter_of_a_quarter_until_the_tries_are_spent() {
        let (mut tries, retries) = (Tries::default(), Retries::default());
        let run = RunId::new("r-1");
        for base in [30, 60] {
            let verdict = tries.fail(retries, &run, now(), |_| "it failed".to_owned());
            assert_eq!(verdict, Verdict::Again);
            let (until, words) = tries.pause(now()).unwrap();
            let wait = (until.wall() - now().wall).num_milliseconds();
            assert!((base * 1000..=base * 1250).contains(&wait), "{wait} ms");
            assert_eq!(words, "it failed");
        }
        let verdict = tries.fail(retries, &run, now(), |_| unreachable!("there is no next try"));
        assert_eq!(verdict, Verdict::Spent { tries: 3 });
        tries.renew();
        assert_eq!((tries.failures(), tries.pause(now())), (0, None), "the owner resumed");
    }

    // covers: DM-08
    #[test]
    fn tries_keep_the_form_that_journals_have() {
        let old = serde_json::json!({"failures": 1, "not_before": {"ticks": 30000, "wall": "2026-01-01T00:00:30Z"},
            "paused": "builder: it failed; next try 00:00Z"});
        let tries: Tries = serde_json::from_value(old.clone()).unwrap();
        assert_eq!(tries.pause(now()).unwrap().1, "builder: it failed; next try 00:00Z");
        assert_eq!(serde_json::to_value(&tries).unwrap(), old);
        let fresh = serde_json::json!({"failures": 0, "not_before": null});
        assert_eq!(serde_json::from_value::<Tries>(fresh.clone()).unwrap(), Tries::default());
        assert_eq!(serde_json::to_value(Tries::default()).unwrap(), fresh);
    }
}
