//! The order of duties: which one question the relay answers next. Each duty lives in its own file.

use super::index::StateSeen;
use super::memory::{Memo, WayOut};
use super::moves::NotMoved;
use super::table::Folder;
use super::{
    Handoff, away, command, condition, ending, failure, hold, moves, noting, state, turn, upkeep,
};
use crate::model::{Deadline, Decision, Effect, FailureKind, Moment, Now};

pub(super) fn decide(handoff: &Handoff, now: Now) -> Decision {
    if handoff.index.in_flight.blocking().is_some() {
        return Decision::default();
    }
    let decision = duties(handoff, now);
    if decision.is_quiet() {
        Decision { next_deadline: deadline(handoff, now), ..decision }
    } else {
        decision
    }
}

type Duty = fn(&Handoff, Now) -> Option<Decision>;

/// The first duty that has something to do is the decision.
fn duties(handoff: &Handoff, now: Now) -> Decision {
    let duties: [Duty; 7] = [
        command::answer,
        failed,
        unknown,
        // What a run left is its own as long as its end is not noted, so messages come first.
        as_the_arbiter,
        turn::note_end,
        turn::give_back,
        on_the_move,
    ];
    duties.iter().find_map(|duty| duty(handoff, now)).unwrap_or_default()
}

/// What is judged as long as the repository is known, held or not.
pub(super) fn as_the_arbiter(handoff: &Handoff, now: Now) -> Option<Decision> {
    if !handoff.index.memory.known {
        return None;
    }
    // A message that begins a workflow would be written into another tool's state.
    if matches!(handoff.index.state, Some(StateSeen::Bad(_)))
        && handoff.index.memory.under_way().is_none()
    {
        return upkeep::state(handoff, now);
    }
    let duties: [Duty; 3] = [upkeep::state, noting::refuse_odd, noting::messages];
    duties.iter().find_map(|duty| duty(handoff, now))
}

/// What only happens while the workflow is free to move.
fn on_the_move(handoff: &Handoff, now: Now) -> Option<Decision> {
    let memory = &handoff.index.memory;
    // A question of the agent's own does not keep its run from being judged.
    if memory.holds.iter().all(|hold| hold.way_out == WayOut::Answer)
        && let Some(decision) = ending::end_of_run(handoff, now)
    {
        return Some(decision);
    }
    if memory.is_held() {
        return None;
    }
    let duties: [Duty; 5] =
        [ending::conclude, ending::stranded, ending::forgotten, away::look, turn::begin];
    duties.iter().find_map(|duty| duty(handoff, now))
}

/// DM-13: a workflow without our journal. It may be a clone, or another box's; the owner must say.
fn unknown(handoff: &Handoff, now: Now) -> Option<Decision> {
    if handoff.index.memory.known {
        return None;
    }
    let by_state = match handoff.index.state.as_ref()? {
        StateSeen::Bad(_) => return upkeep::state(handoff, now),
        StateSeen::Good(state) => state.workflow().is_some(),
        StateSeen::Absent => false,
    };
    if handoff.index.memory.holds.iter().any(|hold| hold.way_out == WayOut::AdoptState) {
        return upkeep::state(handoff, now);
    }
    if handoff.index.memory.is_held() || !(by_state || handoff.index.has_waiting_messages()) {
        return None;
    }
    if is_a_beginning(handoff) {
        let mut decision = handoff.builder();
        decision.remember(Memo::Known(Some(true)));
        return Some(decision.finish());
    }
    let summary = "this repository already has handoffs that agency has not managed here; `agency adopt` continues them".to_owned();
    let mut reason = hold::Reason::new("DM-13", state::PATH, summary);
    reason.what = format!(
        "There is a workflow in `{}` or a message in `{}`, but no journal of it on this machine: it is a clone, a copy, \
         or another machine ran it.",
        state::PATH,
        super::HANDOFFS
    );
    // A message that would be refused after `adopt` is told now (HO-15).
    let problems = handoff.index.odd.values().flat_map(|odd| &odd.problems);
    reason.evidence = problems.take(5).map(ToString::to_string).collect();
    reason.way_out = WayOut::Adopt;
    let mut decision = handoff.builder();
    hold::hold(handoff, &mut decision, reason);
    Some(decision.finish())
}

/// HO-14: a message waits, and neither the state nor a folder shows earlier work. It begins a workflow and makes the state file.
fn is_a_beginning(handoff: &Handoff) -> bool {
    if matches!(&handoff.index.state, Some(StateSeen::Good(state)) if state.shows_work()) {
        return false;
    }
    let mut copies = handoff.index.messages.values().flat_map(|copies| copies.values()).peekable();
    copies.peek().is_some()
        && handoff.index.history.is_empty()
        && copies.all(|seen| seen.folder == Folder::Pending)
}

/// An effect of ours failed. What has its own way back is left to it; the rest waits for the owner.
fn failed(handoff: &Handoff, now: Now) -> Option<Decision> {
    let (effect, failure) = handoff.index.in_flight.failed()?;
    if let Effect::Move { from, to, bytes, seen } = effect
        && failure.kind == FailureKind::Moved
    {
        return Some(moves::not_moved(handoff, &NotMoved { from, to, bytes, seen }, now));
    }
    if let Effect::Spawn(spawn) = effect {
        return failure::spawn_failed(handoff, spawn, failure, now);
    }
    let mut decision = handoff.builder();
    hold::hold(handoff, &mut decision, hold::broken(effect, failure));
    Some(decision.finish())
}

/// The next moment at which time alone changes the answer.
fn deadline(handoff: &Handoff, now: Now) -> Option<Deadline> {
    let memory = &handoff.index.memory;
    let at = |moment: &Moment, why| {
        moment.left(now).map(|left| Deadline { at: now.ticks.after(left), why })
    };
    let suspect = memory.suspects.values().filter_map(|moment| at(moment, "look again")).min();
    let lent = memory.open.values().filter_map(|known| at(known.by_hand.as_ref()?, "by hand"));
    let suspect = Deadline::earlier(suspect, lent.min().filter(|_| memory.under_way().is_some()));
    let turn = memory.turn.as_ref().filter(|turn| turn.run.is_none() && !memory.is_held());
    let retry = turn.and_then(|turn| turn.tries.deadline(now));
    let away = turn.and(away::patience(handoff, now)).filter(|_| memory.away.is_none());
    let away = away.map(|left| Deadline { at: now.ticks.after(left), why: "in the way" });
    let outside = condition::outside(handoff).filter(|_| !memory.is_held());
    let away = Deadline::earlier(away, outside.map(|_| Deadline::patrol(now)));
    Deadline::earlier(suspect, Deadline::earlier(retry, away))
}
