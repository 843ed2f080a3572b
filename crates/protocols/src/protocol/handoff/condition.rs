//! What the workflow does right now, or why it does nothing (DM-16). It decides nothing.

use super::Handoff;
use super::index::StateSeen;
use super::memory::{Hold, Subject, Turn, WayOut, Workflow};
use super::{away, state};
use crate::model::{Condition, LiveRun, Moment, Now, TreeRef, Work, clock_time};

pub(super) fn condition(handoff: &Handoff, now: Now) -> Condition {
    let memory = &handoff.index.memory;
    if let Some(hold) = memory.holds.first() {
        return held(handoff, hold);
    }
    match (&memory.workflow, handoff.index.in_flight.blocking()) {
        (Some(workflow), _) if workflow.ended.is_none() => under_way(handoff, workflow, now),
        (_, Some(effect)) => Condition::doing(effect),
        (Some(workflow), None) if workflow.approved => {
            Condition::done(format!("the {} is approved and complete", workflow.flow.word()))
        }
        (Some(workflow), None) => {
            Condition::done(format!("the {} was cancelled", workflow.flow.word()))
        }
        (None, None) => without_workflow(handoff),
    }
}

fn held(handoff: &Handoff, hold: &Hold) -> Condition {
    let resolve = match hold.way_out {
        WayOut::Resume => "agency resume".to_owned(),
        WayOut::Adopt => "agency adopt".to_owned(),
        WayOut::AdoptState => "agency handoff adopt".to_owned(),
        WayOut::Trust => "agency trust".to_owned(),
        WayOut::Answer => format!("agency answer {} TEXT", hold.cause.id(&handoff.place.repo)),
    };
    Condition::held(&hold.summary, resolve)
}

fn without_workflow(handoff: &Handoff) -> Condition {
    match &handoff.index.state {
        Some(StateSeen::Bad(foreign)) => {
            Condition::frozen(state::other_format(&foreign.problems), "agency handoff adopt")
        }
        Some(StateSeen::Absent | StateSeen::Good(_)) | None => {
            Condition::idle("no workflow; `agency handoff start` begins one")
        }
    }
}

fn under_way(handoff: &Handoff, workflow: &Workflow, now: Now) -> Condition {
    let memory = &handoff.index.memory;
    if let Some((turn, running)) = memory.running() {
        return Condition::Working(Work::Run(LiveRun {
            run: running.run.clone(),
            agent: turn.who.word().to_owned(),
            task: task(workflow, turn),
            since: Some(running.since),
            trouble: turn.refusals.sentence(turn.who),
            others: 0,
        }));
    }
    if let Some(effect) = handoff.index.in_flight.blocking() {
        return Condition::doing(effect);
    }
    if let Some(reason) = outside(handoff) {
        return Condition::waits_for(reason);
    }
    match &memory.turn {
        Some(turn) => of_turn(handoff, workflow, turn, now),
        None => between_turns(handoff, workflow, now),
    }
}

fn of_turn(handoff: &Handoff, workflow: &Workflow, turn: &Turn, now: Now) -> Condition {
    let who = turn.who.word();
    if handoff.index.in_flight.is_leasing(&TreeRef::Main) {
        return Condition::starts(who, task(workflow, turn));
    }
    match turn.tries.pause(now) {
        Some((at, "")) => {
            Condition::waits_until(format!("next try of {who} {}", clock_time(at.wall())), at)
        }
        Some((at, words)) => Condition::waits_until(words, at),
        None if turn.ended.is_some() => Condition::step(format!("judging what {who} left")),
        None => Condition::step(format!("preparing {who}'s turn")),
    }
}

/// Nobody has a handoff at the moment: a person has accepted one, or a file is not where it should be.
fn between_turns(handoff: &Handoff, workflow: &Workflow, now: Now) -> Condition {
    let memory = &handoff.index.memory;
    let soon = memory.suspects.values().filter(|at| at.left(now).is_some());
    let first = |moments: &mut dyn Iterator<Item = Moment>| moments.min_by_key(Moment::wall);
    if let Some(at) = first(&mut soon.copied()) {
        return Condition::waits_until("a file of the workflow changes right now", at);
    }
    let lent = memory.open.iter().filter_map(|(id, known)| Some((id, known, known.by_hand?)));
    if let Some((id, known, at)) =
        lent.filter(|(.., at)| at.left(now).is_some()).min_by_key(|(.., at)| at.wall())
    {
        let (to, until) = (known.to().word(), clock_time(at.wall()));
        let reason =
            format!("the handoff `{id}` to {to} was accepted by hand; you are told {until}");
        return Condition::waits_until(reason, at);
    }
    Condition::step(format!("looking for the next handoff of the {}", workflow.flow.word()))
}

/// What we wait for and cannot do ourselves.
pub(super) fn outside(handoff: &Handoff) -> Option<String> {
    let memory = &handoff.index.memory;
    memory.under_way()?;
    let busy = away::in_the_way(handoff).filter(|_| memory.running().is_none())?;
    Some(busy.words().to_owned())
}

fn task(workflow: &Workflow, turn: &Turn) -> String {
    match &turn.subject {
        Subject::Plan => format!("the plan of the {}", workflow.flow.word()),
        Subject::Message(id) => format!("handoff {id}"),
    }
}
