//! A run has ended and left no flag: try again later, park, or ask the owner (SU-05, SU-06).

use super::{
    ReviewLoop,
    hold::{self, Reason},
    memory::{Ended, Turn},
    table::Holder,
    turn::seat,
};
use crate::model::{
    Builder, Decision, Digest, Effect, Event, Failure, Fate, Moment, Now, Outcome, RunId, Runner,
    Spawn, counted, fate,
};
use std::time::Duration;

const DEFAULT_TRIES: (u32, Duration) = (2, Duration::from_secs(30));

/// A run has ended and left no flag: try again, wait, or ask.
pub(super) fn try_again(review_loop: &ReviewLoop, turn: &Turn, now: Now) -> Option<Decision> {
    let ended = turn.ended.as_ref()?;
    let mut next = Turn { ended: None, refused: false, ..turn.clone() };
    let mut decision = review_loop.builder();
    let holder = review_loop.index.memory.state.as_ref().map(|state| state.active_agent);
    let agent = holder.map_or("the agent", Holder::word);
    let (_, backoff) = holder.map_or(DEFAULT_TRIES, |holder| tries(review_loop, holder));
    let runner = Runner { protocol: super::NAME, agent, backoff };
    let reason = match (fate(&ended.outcome, runner, turn.outage.as_ref(), now), &ended.outcome) {
        (Fate::Park(park), _) => {
            (next.not_before, next.paused) = (Some(park.until), park.words);
            next.outage = park.outage;
            decision.effects(park.tell);
            None
        }
        (Fate::Ask { rule, summary }, _) => Some(failed(rule, ended, summary)),
        (Fate::Count, Outcome::Stopped { why }) if !turn.refused => {
            Some(failed("SU-03", ended, format!("`{}` was stopped: {why}", ended.run)))
        }
        (Fate::Count, _) => count_failure(review_loop, turn, ended, &mut next, &mut decision, now),
    };
    decision.remember("turn", next);
    if let Some(reason) = reason {
        hold::hold(review_loop, &mut decision, reason);
    }
    Some(decision.finish())
}

/// The next try waits, and says why.
fn pause(review_loop: &ReviewLoop, ended: &Ended, next: &mut Turn, until: Moment, now: Now) {
    let holder = review_loop.index.memory.state.as_ref().map(|state| state.active_agent);
    next.paused = ended.outcome.pause(holder.map_or("the agent", Holder::word), until, now.wall);
    next.not_before = Some(until);
}

/// How often its agent is tried again, and the first pause.
fn tries(review_loop: &ReviewLoop, holder: Holder) -> (u32, Duration) {
    *review_loop.limits.tries.get(&seat(holder)).unwrap_or(&DEFAULT_TRIES)
}

/// SU-06: a bounded number of tries, each later than the one before.
fn count_failure(
    review_loop: &ReviewLoop,
    turn: &Turn,
    ended: &Ended,
    next: &mut Turn,
    decision: &mut Builder,
    now: Now,
) -> Option<Reason> {
    if turn.refused {
        return None;
    }
    let holder = review_loop.index.memory.state.as_ref()?.active_agent;
    if ended.outcome == Outcome::Ok {
        decision.effect(Effect::Log(Event::no_artifact(&ended.run, seat(holder))));
    }
    let (retries, backoff) = tries(review_loop, holder);
    next.failures += 1;
    if next.failures <= retries {
        let wait = backoff * 2_u32.saturating_pow(next.failures - 1);
        pause(review_loop, ended, next, Moment::after(now, jittered(wait, &ended.run)), now);
        return None;
    }
    let summary = format!(
        "{} left no flag in {}; the last run {}",
        holder.word(),
        counted(next.failures, "try"),
        ended.outcome.sentence()
    );
    Some(failed("SU-06", ended, summary))
}

fn failed(rule: &'static str, ended: &Ended, summary: String) -> Reason {
    let mut reason = Reason::new(rule, ended.run.as_str(), summary);
    reason.evidence = vec![ended.tail.clone()];
    reason
}

/// Up to a quarter more, different for each run, the same for the same run.
fn jittered(wait: Duration, run: &RunId) -> Duration {
    let dice = Digest::of(run.as_str().as_bytes());
    let share = u32::from(u8::from_str_radix(&dice.as_str()[..2], 16).unwrap_or_default());
    wait + wait * share / 1024
}

/// The agent could not even be started: the same as a crash at once.
pub(super) fn spawn_failed(
    review_loop: &ReviewLoop,
    spawn: &Spawn,
    failure: &Failure,
    now: Now,
) -> Option<Decision> {
    let mut turn = review_loop.index.memory.turn.clone()?;
    turn.run.take_if(|running| running.run == spawn.run)?;
    turn.ended = Some(Ended {
        run: spawn.run.clone(),
        outcome: Outcome::Crash { how: failure.said.clone() },
        at: now.wall,
        tail: failure.said.clone(),
        looked: false,
        began: None,
    });
    let mut decision = review_loop.builder();
    decision.remember("turn", turn);
    Some(decision.finish())
}
