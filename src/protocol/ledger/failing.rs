//! Runs that come to nothing: try again later, park, or ask the owner (SU-05, SU-06).

use super::memory::{Ended, Stage, Turn};
use super::{Ledger, hold, hold::Reason};
use crate::model::{
    Builder, Decision, Digest, Effect, Moment, Now, Outcome, RunId, Seat, TreeRef, clip, clock_time,
};
use std::time::Duration;

/// How long a usage limit without a known end parks a session.
const LIMIT_WAIT: Duration = Duration::from_secs(15 * 60);
const DEFAULT_TRIES: (u32, Duration) = (2, Duration::from_secs(30));

/// Ends that say nothing about the work: it is parked, or the owner is asked. No try is spent.
pub(super) fn not_its_fault(it: &Ledger, turn: &Turn, ended: &Ended, now: Now) -> Option<Decision> {
    let mut next = turn.at(Stage::Opening);
    let reason = match &ended.outcome {
        Outcome::UsageLimit { until } => {
            let wait =
                until.and_then(|until| (until - now.wall).to_std().ok()).unwrap_or(LIMIT_WAIT);
            let until = Moment::after(now, wait);
            next.paused = ended.outcome.pause(turn.agent.role(), until);
            next.not_before = Some(until);
            None
        }
        Outcome::Stopped { why } => Some(("SU-03", format!("`{}` was stopped: {why}", ended.run))),
        Outcome::Auth { .. } => {
            Some(("SU-05", format!("`{}` {}", ended.run, ended.outcome.sentence())))
        }
        Outcome::Ok
        | Outcome::Crash { .. }
        | Outcome::Timeout { .. }
        | Outcome::Lost
        | Outcome::Denied { .. } => {
            return None;
        }
    };
    let mut decision = it.builder();
    clear(&mut decision, turn);
    decision.remember("turn", next);
    if let Some((rule, summary)) = reason {
        let mut reason = Reason::new(rule, ended.run.as_str(), summary);
        reason.evidence = vec![ended.tail.clone()];
        hold::hold(it, &mut decision, reason);
    }
    Some(decision.finish())
}

/// The worktree goes; what is in no commit is kept by the shell.
fn clear(decision: &mut Builder, turn: &Turn) {
    decision.effect(Effect::DropWorktree { name: turn.tree(), branch: None });
    decision.effect(Effect::Release { tree: TreeRef::Worktree(turn.tree()) });
}

/// The words for an end that is no success, whatever lies there.
pub(super) fn failed(ended: &Ended) -> Option<String> {
    match &ended.outcome {
        Outcome::Crash { .. } | Outcome::Timeout { .. } | Outcome::Lost => {
            Some(format!("the run {}", ended.outcome.sentence()))
        }
        Outcome::Ok
        | Outcome::Stopped { .. }
        | Outcome::UsageLimit { .. }
        | Outcome::Auth { .. }
        | Outcome::Denied { .. } => None,
    }
}

/// SU-06: a bounded number of tries, each later than the one before; then the owner.
pub(super) fn try_again(
    it: &Ledger,
    decision: &mut Builder,
    turn: &Turn,
    run: &RunId,
    why: &str,
    now: Now,
) -> Turn {
    let seat = Seat::new(turn.agent.role());
    let (retries, backoff) = *it.limits.tries.get(&seat).unwrap_or(&DEFAULT_TRIES);
    let mut next = turn.at(Stage::Opening);
    next.failures += 1;
    if next.failures <= retries {
        let wait = backoff * 2_u32.saturating_pow(next.failures - 1);
        let until = Moment::after(now, jittered(wait, run));
        let at = clock_time(until.wall());
        next.paused = format!("{}: {}; next try {at}", turn.agent.role(), clip(why, 160));
        next.not_before = Some(until);
        return next;
    }
    let tries =
        if next.failures == 1 { "one try".to_owned() } else { format!("{} tries", next.failures) };
    let summary = format!("{} came to nothing in {tries}; the last: {why}", turn.agent.word());
    let mut reason = Reason::new("SU-06", run.as_str(), summary);
    reason.evidence = vec![why.to_owned()];
    hold::hold(it, decision, reason);
    next.failures = 0;
    next
}

/// Up to a quarter more, different for each run, the same for the same run.
fn jittered(wait: Duration, run: &RunId) -> Duration {
    let dice = Digest::of(run.as_str().as_bytes());
    let share = u32::from(u8::from_str_radix(&dice.as_str()[..2], 16).unwrap_or_default());
    wait + wait * share / 1024
}
