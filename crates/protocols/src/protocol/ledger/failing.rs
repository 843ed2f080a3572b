//! Runs that come to nothing: try again later, park, or ask the owner (SU-05, SU-06).

use super::memory::{Ended, Stage, Turn};
use super::{Ledger, hold, hold::Reason};
use crate::model::{
    Builder, Decision, Digest, Effect, Fate, Moment, Now, Outcome, RunId, Runner, Seat, TreeRef,
    clip, clock_time, counted, fate,
};
use std::time::Duration;

const DEFAULT_TRIES: (u32, Duration) = (2, Duration::from_secs(30));

/// Ends that say nothing about the work: it is parked, or the owner is asked. No try is spent.
pub(super) fn not_its_fault(it: &Ledger, turn: &Turn, ended: &Ended, now: Now) -> Option<Decision> {
    let mut next = turn.at(Stage::Opening);
    let mut decision = it.builder();
    let agent = turn.agent.role();
    let runner = Runner { protocol: super::NAME, agent, backoff: tries(it, turn).1 };
    let reason = match (fate(&ended.outcome, runner, turn.outage.as_ref(), now), &ended.outcome) {
        (Fate::Park(park), _) => {
            (next.not_before, next.paused) = (Some(park.until), park.words);
            next.outage = park.outage;
            decision.effects(park.tell);
            None
        }
        (Fate::Count, Outcome::Stopped { why }) => {
            Some(("SU-03", format!("`{}` was stopped: {why}", ended.run)))
        }
        // What was denied matters only if something is missing.
        (Fate::Ask { .. }, Outcome::Denied { .. }) | (Fate::Count, _) => return None,
        (Fate::Ask { rule, summary }, _) => Some((rule, summary)),
    };
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
        | Outcome::Provider { .. }
        | Outcome::Auth { .. }
        | Outcome::NotFound { .. }
        | Outcome::Denied { .. } => None,
    }
}

/// How often its agent is tried again, and the first pause.
fn tries(it: &Ledger, turn: &Turn) -> (u32, Duration) {
    *it.limits.tries.get(&Seat::new(turn.agent.role())).unwrap_or(&DEFAULT_TRIES)
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
    let (retries, backoff) = tries(it, turn);
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
    let tries = counted(next.failures, "try");
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
