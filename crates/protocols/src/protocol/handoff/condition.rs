//! What the workflow does right now, or why it does nothing (DM-16). It decides nothing.

use super::Handoff;
use super::index::StateSeen;
use super::memory::{Hold, Subject, Turn, WayOut, Workflow};
use super::{away, state};
use crate::model::{Condition, LiveRun, Moment, Now, TreeRef, Work, clock_time};

pub(super) fn condition(it: &Handoff, now: Now) -> Condition {
    let memory = &it.index.memory;
    if let Some(hold) = memory.holds.first() {
        return held(it, hold);
    }
    match (&memory.workflow, it.index.in_flight.blocking()) {
        (Some(workflow), _) if workflow.ended.is_none() => under_way(it, workflow, now),
        (_, Some(effect)) => Condition::doing(effect),
        (Some(workflow), None) if workflow.approved => {
            Condition::done(format!("the {} is approved and complete", workflow.flow.word()))
        }
        (Some(workflow), None) => {
            Condition::done(format!("the {} was cancelled", workflow.flow.word()))
        }
        (None, None) => without_workflow(it),
    }
}

fn held(it: &Handoff, hold: &Hold) -> Condition {
    let resolve = match hold.way_out {
        WayOut::Resume => "agency resume".to_owned(),
        WayOut::Adopt => "agency adopt".to_owned(),
        WayOut::AdoptState => "agency handoff adopt".to_owned(),
        WayOut::Trust => "agency trust".to_owned(),
        WayOut::Answer => format!("agency answer {} TEXT", hold.cause.id(&it.place.repo)),
    };
    Condition::held(&hold.summary, resolve)
}

fn without_workflow(it: &Handoff) -> Condition {
    match &it.index.state {
        Some(StateSeen::Bad(foreign)) => {
            Condition::frozen(state::other_format(&foreign.problems), "agency handoff adopt")
        }
        Some(StateSeen::Absent | StateSeen::Good(_)) | None => {
            Condition::idle("no workflow; `agency handoff start` begins one")
        }
    }
}

fn under_way(it: &Handoff, workflow: &Workflow, now: Now) -> Condition {
    let memory = &it.index.memory;
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
    if let Some(effect) = it.index.in_flight.blocking() {
        return Condition::doing(effect);
    }
    if let Some(reason) = outside(it) {
        return Condition::waits_for(reason);
    }
    match &memory.turn {
        Some(turn) => of_turn(it, workflow, turn, now),
        None => between_turns(it, workflow, now),
    }
}

fn of_turn(it: &Handoff, workflow: &Workflow, turn: &Turn, now: Now) -> Condition {
    let who = turn.who.word();
    if it.index.in_flight.is_leasing(&TreeRef::Main) {
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
fn between_turns(it: &Handoff, workflow: &Workflow, now: Now) -> Condition {
    let memory = &it.index.memory;
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
pub(super) fn outside(it: &Handoff) -> Option<String> {
    let memory = &it.index.memory;
    memory.under_way()?;
    let busy = away::in_the_way(it).filter(|_| memory.running().is_none())?;
    Some(busy.words().to_owned())
}

fn task(workflow: &Workflow, turn: &Turn) -> String {
    match &turn.subject {
        Subject::Plan => format!("the plan of the {}", workflow.flow.word()),
        Subject::Message(id) => format!("handoff {id}"),
    }
}
