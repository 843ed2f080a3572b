//! A run has ended without a result: try again later, wait, or ask the owner (HO-06).

use super::hold::{self, Reason};
use super::memory::{Ended, Turn};
use super::message::Message;
use super::table::AgentStatus;
use super::{Handoff, ending, upkeep};
use crate::model::{
    Decision, Digest, Failure, Fate, Moment, Now, Outcome, RunId, Runner, Seat, Spawn, clip,
    clock_time, counted, fate,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// spec 4, Retry Protocol: three tries.
const DEFAULT_TRIES: (u32, Duration) = (2, Duration::from_secs(30));

/// `words` say what is wrong with what it left; none: it left nothing.
pub(super) fn try_again(
    it: &Handoff,
    turn: &Turn,
    ended: &Ended,
    mine: &BTreeMap<String, Message>,
    words: Vec<String>,
    now: Now,
) -> Decision {
    let mut decision = it.builder();
    let mut next = Turn { ended: None, shown: AgentStatus::Waiting, ..turn.clone() };
    upkeep::show_agent(it, &mut decision, turn.who, AgentStatus::Waiting, now);
    let mut reason = None;
    let (_, backoff) = tries(it, turn);
    let runner = Runner { protocol: super::NAME, agent: turn.who.word(), backoff };
    match (fate(&ended.outcome, runner, turn.outage.as_ref(), now), &ended.outcome) {
        (Fate::Park(park), _) => {
            (next.not_before, next.paused) = (Some(park.until), park.words);
            next.outage = park.outage;
            decision.effects(park.tell);
        }
        // The spec's fatal errors: another try would end the same way.
        (Fate::Ask { rule, summary }, _) => reason = Some(failed(rule, ended, summary)),
        (Fate::Count, Outcome::Stopped { why }) => {
            reason = Some(failed("SU-03", ended, format!("`{}` was stopped: {why}", ended.run)));
        }
        (Fate::Count, _) => reason = count(it, turn, ended, &words, &mut next, now),
    }
    let why = words.first().map_or("its run left no result", String::as_str);
    let refused = refused_in_this_try(it, turn);
    ending::withdraw(it, &mut decision, mine, &clip(why, 200));
    let said = match (words.is_empty(), refused) {
        (true, Some(refused)) => refused,
        (true, None) => format!("it left no result; it {}", ended.outcome.sentence()),
        (false, _) => words.join("; "),
    };
    let failures = next.failures.to_string();
    let more =
        [("run", ended.run.as_str()), ("error", said.as_str()), ("failures", failures.as_str())];
    it.log(&mut decision, "error_occurred", Some(turn.who), &more);
    let refused = it.index.memory.refused.iter().cloned().chain(words);
    decision.remember("refused", refused.collect::<Vec<_>>());
    decision.remember("turn", next);
    if let Some(reason) = reason {
        it.log(&mut decision, "escalation_triggered", Some(turn.who), &more[..1]);
        hold::hold(it, &mut decision, reason);
    }
    decision.finish()
}

/// The next try waits, and says why.
fn pause(ended: &Ended, next: &mut Turn, until: Moment, now: Now) {
    next.paused = ended.outcome.pause(next.who.word(), until, now.wall);
    next.not_before = Some(until);
}

/// How often its agent is tried again, and the first pause.
fn tries(it: &Handoff, turn: &Turn) -> (u32, Duration) {
    *it.limits.tries.get(&Seat::new(turn.who.word())).unwrap_or(&DEFAULT_TRIES)
}

/// A bounded number of tries, each later than the one before.
fn count(
    it: &Handoff,
    turn: &Turn,
    ended: &Ended,
    words: &[String],
    next: &mut Turn,
    now: Now,
) -> Option<Reason> {
    let (retries, backoff) = tries(it, turn);
    next.failures += 1;
    if next.failures <= retries {
        let wait = backoff * 2_u32.saturating_pow(next.failures - 1);
        let until = Moment::after(now, jittered(wait, &ended.run));
        pause(ended, next, until, now);
        if let Some(refused) = refused_in_this_try(it, turn) {
            next.paused = format!("{refused}; next try {}", clock_time(until.wall()));
        }
        return None;
    }
    let tries = counted(next.failures, "try");
    let last = words.first().map_or_else(|| ended.outcome.sentence(), Clone::clone);
    let summary = match (refused_in_this_try(it, turn), words.is_empty()) {
        (Some(refused), true) => refused,
        _ => format!("`{}` left no result in {tries}; the last run: {last}", turn.who.word()),
    };
    let mut reason = failed("HO-06", ended, summary);
    reason.evidence.extend(words.iter().chain(&it.index.memory.refused).map(|it| clip(it, 400)));
    Some(reason)
}

/// HO-15: its messages were refused, so what it left is known: no "no result".
fn refused_in_this_try(it: &Handoff, turn: &Turn) -> Option<String> {
    turn.refusals.sentence(turn.who).filter(|_| !it.index.memory.refused.is_empty())
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
    it: &Handoff,
    spawn: &Spawn,
    failure: &Failure,
    now: Now,
) -> Option<Decision> {
    let mut turn = it.index.memory.turn.clone()?;
    let running = turn.run.take_if(|running| running.run == spawn.run)?;
    turn.ended = Some(Ended {
        run: spawn.run.clone(),
        outcome: Outcome::Crash { how: failure.said.clone() },
        since: running.since,
        at: now.wall,
        tail: failure.said.clone(),
        left: None,
    });
    let mut decision = it.builder();
    decision.remember("turn", turn);
    Some(decision.finish())
}
