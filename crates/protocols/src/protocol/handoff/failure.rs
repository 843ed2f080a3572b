//! A run has ended without a result: try again later, wait, or ask the owner (HO-06).

use super::hold::{self, Reason};
use super::memory::{Ended, Memo, Turn};
use super::message::Message;
use super::table::AgentStatus;
use super::{Handoff, ending, upkeep};
use crate::engine::{Retries, Verdict};
use crate::model::{
    Decision, Failure, Fate, Moment, Now, Outcome, Runner, Seat, Spawn, clip, clock_time, counted,
    fate,
};
use std::collections::BTreeMap;

/// `words` say what is wrong with what it left; none: it left nothing.
pub(super) fn try_again(
    handoff: &Handoff,
    turn: &Turn,
    ended: &Ended,
    mine: &BTreeMap<String, Message>,
    words: Vec<String>,
    now: Now,
) -> Decision {
    let mut decision = handoff.builder();
    let mut next = Turn { ended: None, shown: AgentStatus::Waiting, ..turn.clone() };
    upkeep::show_agent(handoff, &mut decision, turn.who, AgentStatus::Waiting, now);
    let mut reason = None;
    let backoff = retries(handoff, turn).backoff;
    let runner = Runner { protocol: super::NAME, agent: turn.who.word(), backoff };
    match (fate(&ended.outcome, runner, turn.tries.outage(), now), &ended.outcome) {
        (Fate::Park(park), _) => {
            decision.effects(next.tries.park(*park));
        }
        // The spec's fatal errors: another try would end the same way.
        (Fate::Ask { rule, summary }, _) => reason = Some(failed(rule, ended, summary)),
        (Fate::Count, Outcome::Stopped { why }) => {
            reason = Some(failed("SU-03", ended, format!("`{}` was stopped: {why}", ended.run)));
        }
        (Fate::Count, _) => reason = count(handoff, turn, ended, &words, &mut next, now),
    }
    let why = words.first().map_or("its run left no result", String::as_str);
    let refused = refused_in_this_try(handoff, turn);
    ending::withdraw(handoff, &mut decision, mine, &clip(why, 200));
    let said = match (words.is_empty(), refused) {
        (true, Some(refused)) => refused,
        (true, None) => format!("it left no result; it {}", ended.outcome.sentence()),
        (false, _) => words.join("; "),
    };
    let failures = next.tries.failures().to_string();
    let more =
        [("run", ended.run.as_str()), ("error", said.as_str()), ("failures", failures.as_str())];
    handoff.log(&mut decision, "error_occurred", Some(turn.who), &more);
    let refused = handoff.index.memory.refused.iter().cloned().chain(words);
    decision.remember(Memo::Refused(Some(refused.collect::<Vec<_>>())));
    decision.remember(Memo::turn(next));
    if let Some(reason) = reason {
        handoff.log(&mut decision, "escalation_triggered", Some(turn.who), &more[..1]);
        hold::hold(handoff, &mut decision, reason);
    }
    decision.finish()
}

/// How often its agent is tried again (spec 4, Retry Protocol: three tries), and the first pause.
fn retries(handoff: &Handoff, turn: &Turn) -> Retries {
    let tries = handoff.limits.tries.get(&Seat::new(turn.who.word()));
    tries.map_or_else(Retries::default, |(max, backoff)| Retries { max: *max, backoff: *backoff })
}

/// A bounded number of tries, each later than the one before.
fn count(
    handoff: &Handoff,
    turn: &Turn,
    ended: &Ended,
    words: &[String],
    next: &mut Turn,
    now: Now,
) -> Option<Reason> {
    let why = |until: Moment| match refused_in_this_try(handoff, turn) {
        Some(refused) => format!("{refused}; next try {}", clock_time(until.wall())),
        None => ended.outcome.pause(turn.who.word(), until, now.wall),
    };
    let Verdict::Spent { tries } = next.tries.fail(retries(handoff, turn), &ended.run, now, why)
    else {
        return None;
    };
    let tries = counted(tries, "try");
    let last = words.first().map_or_else(|| ended.outcome.sentence(), Clone::clone);
    let summary = match (refused_in_this_try(handoff, turn), words.is_empty()) {
        (Some(refused), true) => refused,
        _ => format!("`{}` left no result in {tries}; the last run: {last}", turn.who.word()),
    };
    let mut reason = failed("HO-06", ended, summary);
    reason.evidence.extend(
        words.iter().chain(&handoff.index.memory.refused).map(|handoff| clip(handoff, 400)),
    );
    Some(reason)
}

/// HO-15: its messages were refused, so what it left is known: no "no result".
fn refused_in_this_try(handoff: &Handoff, turn: &Turn) -> Option<String> {
    turn.refusals.sentence(turn.who).filter(|_| !handoff.index.memory.refused.is_empty())
}

fn failed(rule: &'static str, ended: &Ended, summary: String) -> Reason {
    let mut reason = Reason::new(rule, ended.run.as_str(), summary);
    reason.evidence = vec![ended.tail.clone()];
    reason
}

/// The agent could not even be started: the same as a crash at once.
pub(super) fn spawn_failed(
    handoff: &Handoff,
    spawn: &Spawn,
    failure: &Failure,
    now: Now,
) -> Option<Decision> {
    let mut turn = handoff.index.memory.turn.clone()?;
    let running = turn.run.take_if(|running| running.run == spawn.run)?;
    turn.ended = Some(Ended {
        run: spawn.run.clone(),
        outcome: Outcome::Crash { how: failure.said.clone() },
        since: running.since,
        at: now.wall,
        tail: failure.said.clone(),
        left: None,
    });
    let mut decision = handoff.builder();
    decision.remember(Memo::turn(turn));
    Some(decision.finish())
}
