//! What the end of an agent's run means for its turn: wait, ask the owner, or count a try (SU-05, SU-09, SU-10). All protocols
//! share this decision; each keeps the [`Outage`] of its turn in its own memory.

use super::{
    Cause, Effect, Escalation, Moment, Now, Outcome, RuleId, Severity, Timestamp, clip, clock_time,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest pause between two tries while a provider cannot serve, and the pause after a usage limit without a known end.
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);
/// A provider that names no time is not asked again sooner than this.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The owner hears of an outage when it has lasted this long.
const TELL_AFTER: chrono::TimeDelta = chrono::TimeDelta::minutes(30);

/// What is to be done after a run that left no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The agent did nothing wrong. It is started again at `until`, and no try is spent.
    Park(Box<Park>),
    /// Only the owner can mend it; `summary` says how.
    Ask { rule: &'static str, summary: String },
    /// The agent failed, so that a try is spent.
    Count,
}

/// A turn that waits for its agent's provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Park {
    pub until: Moment,
    /// Why it waits, for people.
    pub words: String,
    /// What the turn remembers of it.
    pub outage: Option<Outage>,
    /// The owner is told now.
    pub tell: Option<Effect>,
}

/// How long a provider has not served the agent of one turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outage {
    since: Timestamp,
    pauses: u32,
    /// What the owner was told, once they were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<Cause>,
}

/// Who runs for whom.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
    pub protocol: &'static str,
    /// The seat, as the owner knows it.
    pub agent: &'a str,
    /// The first pause; it doubles.
    pub backoff: Duration,
}

impl Outage {
    /// A run has ended. If its provider served it, the outage is over, and the owner who was told of it is told that too.
    pub fn after(outage: &mut Option<Self>, outcome: &Outcome) -> Option<Effect> {
        if matches!(outcome, Outcome::Provider { .. }) {
            return None;
        }
        let cause = outage.take()?.told?;
        Some(Effect::Resolve { cause, how: "the provider answers again".to_owned() })
    }
}

/// The one place where the end of a run becomes a pause, a question or a spent try.
pub fn fate(outcome: &Outcome, runner: Runner<'_>, outage: Option<&Outage>, now: Now) -> Fate {
    match outcome {
        Outcome::UsageLimit { until } => {
            let wait = until.and_then(|until| (until - now.wall).to_std().ok());
            let until = Moment::after(now, wait.unwrap_or(PAUSE_MAX));
            let words = outcome.pause(runner.agent, until, now.wall);
            Fate::Park(Box::new(Park { until, words, outage: outage.cloned(), tell: None }))
        }
        Outcome::Provider { what, retry_at } => {
            Fate::Park(Box::new(parked(what, *retry_at, runner, outage, now)))
        }
        Outcome::Auth { .. } => ask("SU-10", outcome, runner),
        Outcome::NotFound { .. } => ask("SU-11", outcome, runner),
        Outcome::Denied { .. } => ask("SU-12", outcome, runner),
        Outcome::Stopped { .. }
        | Outcome::Ok
        | Outcome::Crash { .. }
        | Outcome::Timeout { .. }
        | Outcome::Lost => Fate::Count,
    }
}

fn ask(rule: &'static str, outcome: &Outcome, runner: Runner<'_>) -> Fate {
    Fate::Ask { rule, summary: outcome.request(runner.agent) }
}

fn parked(
    what: &str,
    retry_at: Option<Timestamp>,
    runner: Runner<'_>,
    outage: Option<&Outage>,
    now: Now,
) -> Park {
    let began = || Outage { since: now.wall, pauses: 0, told: None };
    let mut outage = outage.cloned().unwrap_or_else(began);
    let growing = runner.backoff.max(PAUSE_MIN) * 2_u32.saturating_pow(outage.pauses.min(16));
    let named = retry_at.and_then(|at| (at - now.wall).to_std().ok());
    let wait = named.unwrap_or(growing).clamp(PAUSE_MIN, PAUSE_MAX);
    let until = Moment::after(now, wait);
    outage.pauses = outage.pauses.saturating_add(1);
    let since = clock_time(outage.since);
    let words = format!(
        "{} {} since {since}; next try {}",
        runner.agent,
        clip(what, 160),
        clock_time(until.wall())
    );
    let tell = (outage.told.is_none() && now.wall - outage.since >= TELL_AFTER).then(|| {
        let escalation = told(&words, runner);
        outage.told = Some(escalation.cause.clone());
        Effect::Escalate(Box::new(escalation))
    });
    Park { until, words, outage: Some(outage), tell }
}

fn told(words: &str, runner: Runner<'_>) -> Escalation {
    Escalation {
        cause: Cause {
            protocol: runner.protocol.to_owned(),
            rule: RuleId::new("SU-09"),
            subject: format!("the provider of {}", runner.agent),
            epoch: 0,
        },
        severity: Severity::Warning,
        holds: false,
        summary: clip(words, 200),
        what: format!("{} cannot work because its provider does not serve it.", runner.agent),
        did: "The run was ended and is started again by itself; no try was spent.".to_owned(),
        wont: "We do not count an outage of the provider as a failure of the agent.".to_owned(),
        resolve: "nothing to do; you are told when the provider answers again".to_owned(),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ticks;

    const RUNNER: Runner<'static> =
        Runner { protocol: "loop", agent: "codex", backoff: Duration::from_secs(30) };

    fn at(minutes: u64) -> Now {
        let start: Timestamp = "2026-01-01T03:12:00Z".parse().unwrap();
        let wall = start + Duration::from_secs(60 * minutes);
        Now { wall, ticks: Ticks(minutes * 60_000) }
    }

    fn trouble(retry_at: Option<Timestamp>) -> Outcome {
        Outcome::Provider { what: "cannot reach its provider (no connection)".to_owned(), retry_at }
    }

    fn park(outcome: &Outcome, outage: Option<&Outage>, now: Now) -> Park {
        let Fate::Park(park) = fate(outcome, RUNNER, outage, now) else { panic!("not parked") };
        *park
    }

    // covers: SU-09
    #[test]
    fn pauses_grow_to_a_quarter_of_an_hour_and_the_owner_is_told_once_and_at_the_end() {
        let (mut outage, mut minute, mut pauses, mut told) = (None, 0, Vec::new(), 0);
        for _ in 0..9 {
            let parked = park(&trouble(None), outage.as_ref(), at(minute));
            let wait = (parked.until.wall() - at(minute).wall).num_seconds();
            pauses.push(wait);
            assert_eq!(parked.tell.is_some(), minute >= 30 && told == 0, "minute {minute}");
            told += u32::from(parked.tell.is_some());
            outage = parked.outage;
            minute += u64::try_from(wait).unwrap().div_ceil(60);
        }
        assert_eq!(pauses, [30, 60, 120, 240, 480, 900, 900, 900, 900]);
        assert_eq!(told, 1);
        assert_eq!(Outage::after(&mut outage, &trouble(None)), None, "it is not over");
        let over = Outage::after(&mut outage, &Outcome::Ok);
        assert!(matches!(over, Some(Effect::Resolve { .. })), "{over:?}");
        assert_eq!(outage, None);
    }

    // covers: SU-09
    #[test]
    fn a_short_outage_is_not_told_and_the_providers_own_time_counts() {
        let soon = at(0).wall + Duration::from_secs(5);
        let parked = park(&trouble(Some(soon)), None, at(0));
        assert_eq!((parked.until.wall(), parked.tell), (soon, None));
        let mut outage = parked.outage;
        assert_eq!(Outage::after(&mut outage, &Outcome::Ok), None, "nobody was told");
        let late = at(0).wall + Duration::from_secs(86_400);
        let parked = park(&trouble(Some(late)), None, at(0));
        assert_eq!(parked.until.wall(), at(15).wall, "a provider's word parks for 15 min at most");
        assert_eq!(
            parked.words,
            "codex cannot reach its provider (no connection) since 03:12Z; next try 03:27Z"
        );
    }

    // covers: SU-09
    #[test]
    fn a_usage_limit_parks_until_its_reset() {
        let until = Some(at(95).wall);
        let parked = park(&Outcome::UsageLimit { until }, None, at(0));
        assert_eq!(parked.until.wall(), at(95).wall);
        assert_eq!(parked.words, "codex's usage limit, resets 04:47Z");
        let parked = park(&Outcome::UsageLimit { until: None }, None, at(0));
        assert_eq!(parked.until.wall(), at(15).wall);
    }

    // covers: SU-10
    #[test]
    fn a_failed_sign_in_asks_with_the_way_out() {
        let said = "401".to_owned();
        let asks = "claude-code cannot sign in (401). Check ANTHROPIC_API_KEY or run \"claude\" once, then: agency resume";
        let auth = Outcome::Auth { said: said.clone(), ask: asks.to_owned() };
        let summary = asks.to_owned();
        assert_eq!(fate(&auth, RUNNER, None, at(0)), Fate::Ask { rule: "SU-10", summary });
        let old = Outcome::Auth { said, ask: String::new() };
        let summary = "codex cannot sign in (401). Sign in once, then: agency resume".to_owned();
        assert_eq!(fate(&old, RUNNER, None, at(0)), Fate::Ask { rule: "SU-10", summary });
    }
}
