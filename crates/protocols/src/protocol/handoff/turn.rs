//! One turn: choose the handoff, lease the tree, accept, start the recipient, note its end. It judges no result.

use super::hold::{self, Reason};
use super::memory::{Draft, Ended, Known, Memo, Running, Start, Subject, Turn, Workflow};
use super::noting::about;
use super::table::{AgentStatus, Folder, Kind, Who};
use super::{Handoff, away, prompt, state, upkeep};
use crate::model::{
    Access, Decision, Effect, Fact, Key, Now, Outcome, Query, RowId, RunId, Seat, Snapshot, Spawn,
    TreeId, TreeRef,
};

/// A run of ours has ended: remember that before anything else.
pub(super) fn note_end(handoff: &Handoff, _: Now) -> Option<Decision> {
    let mut turn = handoff.index.memory.turn.clone()?;
    let running = turn.run.as_ref()?;
    let end = handoff.index.in_flight.end_of(&running.run)?;
    let since = running.since;
    turn.run = None;
    // A session that could not be gone on with is forgotten.
    let lost = turn.session.is_some() && matches!(end.outcome, Outcome::Crash { .. });
    turn.session = end.usage.session.clone().filter(|_| !lost);
    turn.ended = Some(Ended {
        run: end.run.clone(),
        outcome: end.outcome.clone(),
        since,
        at: end.ended_at,
        tail: end.tail.clone(),
        left: None,
    });
    let mut decision = handoff.builder();
    decision.effects(turn.tries.after(&end.outcome));
    decision.remember(Memo::turn(turn));
    Some(decision.finish())
}

/// A permission to start that cannot be used now is given back.
pub(super) fn give_back(handoff: &Handoff, _: Now) -> Option<Decision> {
    let memory = &handoff.index.memory;
    let idle = memory.is_held() || memory.turn.is_none();
    if !(handoff.index.in_flight.is_granted(&TreeRef::Main) && idle) {
        return None;
    }
    let mut decision = handoff.builder();
    decision.effect(Effect::Release { tree: TreeRef::Main });
    Some(decision.finish())
}

/// Gives the next handoff to its recipient: choose, lease, look, accept, start.
pub(super) fn begin(handoff: &Handoff, now: Now) -> Option<Decision> {
    let workflow = handoff.index.memory.under_way()?;
    if away::in_the_way(handoff).is_some() {
        return None;
    }
    let Some(turn) = &handoff.index.memory.turn else { return choose(handoff, workflow) };
    let waits = turn.tries.pause(now).is_some();
    if turn.run.is_some() || turn.ended.is_some() || turn.waits_for.is_some() || waits {
        return None;
    }
    if let Subject::Message(id) = &turn.subject
        && !handoff.index.memory.open.contains_key(id)
    {
        return Some(drop_turn(handoff, now));
    }
    if !handoff.index.in_flight.is_granted(&TreeRef::Main) {
        let wait = handoff.index.in_flight.is_leasing(&TreeRef::Main);
        return (!wait).then(|| lease(turn.who, handoff.builder()));
    }
    if turn.ready {
        return Some(start(handoff, workflow, turn, now));
    }
    if !handoff.place.git {
        return Some(prepare(handoff, workflow, turn, None, now));
    }
    const LABEL: &str = "handoff-start";
    match answer(handoff, LABEL) {
        None => Some(ask_snapshot(handoff, LABEL, None)),
        Some((_, Fact::Snapshot(snapshot))) => {
            Some(prepare(handoff, workflow, turn, Some(snapshot), now))
        }
        Some((_, fact)) => Some(cannot_look(handoff, fact)),
    }
}

fn drop_turn(handoff: &Handoff, now: Now) -> Decision {
    let mut decision = handoff.builder();
    leave(handoff, &mut decision, now);
    decision.finish()
}

/// The turn is over without a result: nobody is at work.
pub(super) fn leave(handoff: &Handoff, decision: &mut Draft, now: Now) {
    let memory = &handoff.index.memory;
    if let Some(workflow) = memory.under_way() {
        let fields = upkeep::wanted(workflow, None, memory.last_handoff.as_deref());
        let begun = memory.turn.as_ref().filter(|turn| turn.shown != AgentStatus::Idle);
        let idle = begun.map(|turn| state::agent_fields(turn.who, AgentStatus::Idle, now.wall));
        upkeep::amend(decision, fields, idle.into_iter().flatten());
    }
    decision.remember(Memo::Turn(None));
    decision.effect(Effect::Release { tree: TreeRef::Main });
}

fn lease(who: Who, mut decision: Draft) -> Decision {
    let (seat, role) = (Seat::new(who.word()), who.word().to_owned());
    decision.effect(Effect::Lease { tree: TreeRef::Main, seat, role });
    decision.finish()
}

/// HO-03: the highest priority first, then the oldest. Before all of them, the plan.
fn choose(handoff: &Handoff, workflow: &Workflow) -> Option<Decision> {
    let mut decision = handoff.builder();
    if !workflow.planned {
        decision.remember(Memo::turn(Turn::new(Subject::Plan, Who::Planner)));
        return Some(lease(Who::Planner, decision));
    }
    let waiting = |known: &Known| {
        known.to() != Who::Orchestrator
            && match known.folder {
                Folder::Pending => true,
                Folder::Accepted => known.by_hand.is_none(),
                Folder::Completed | Folder::Rejected => false,
            }
    };
    let settled = |id: &String| !handoff.index.dirty.contains(id);
    let open = handoff.index.memory.open.iter();
    let open = open.filter(|(id, known)| waiting(known) && settled(id));
    let (id, known) = open.min_by_key(|(id, known)| (known.rank(), (*id).clone()))?;
    let message = known.message();
    if message.kind == Kind::FixRequest && workflow.iteration > workflow.iteration_limit {
        hold::hold(handoff, &mut decision, too_many_fixes(workflow));
        return Some(decision.finish());
    }
    decision.remember(Memo::turn(Turn::new(Subject::Message(id.clone()), message.to)));
    Some(lease(message.to, decision))
}

/// HO-08.
fn too_many_fixes(workflow: &Workflow) -> Reason {
    let fixes = workflow.iteration - 1;
    let summary = format!("{fixes} fixes, and the reviewer still finds something");
    let mut reason = Reason::new("HO-08", format!("{}/{fixes}", workflow.id), summary);
    reason.wont = "We start no further fix; resume allows as many again.".to_owned();
    reason
}

/// Accepts the handoff and says so in the state; the agent follows once that is done.
fn prepare(
    handoff: &Handoff,
    workflow: &Workflow,
    turn: &Turn,
    snapshot: Option<&Snapshot>,
    now: Now,
) -> Decision {
    let mut decision = handoff.builder();
    if let Some((key, _, fact)) = handoff.index.in_flight.answers().last() {
        decision.used(key.clone(), fact.clone());
    }
    let mut last = handoff.index.memory.last_handoff.clone();
    for id in turn.messages() {
        let Some(known) = handoff.index.memory.open.get(id) else { continue };
        if known.folder == Folder::Pending {
            accept(handoff, &mut decision, id, known);
        }
        last = Some(id.clone());
    }
    let fields = upkeep::wanted(workflow, Some(turn.who), last.as_deref());
    upkeep::amend(
        &mut decision,
        fields,
        state::agent_fields(turn.who, AgentStatus::Active, now.wall),
    );
    decision.remember(Memo::LastHandoff(Some(last.clone())));
    let now_there = snapshot.map(|snapshot| Start {
        head: snapshot.checkout.head.clone(),
        tree: snapshot.tree.clone(),
    });
    // What was committed before a question to the owner is this turn's as well.
    let start = turn.start.clone().or(now_there);
    decision.remember(Memo::turn(Turn {
        ready: true,
        start,
        shown: AgentStatus::Active,
        ..turn.clone()
    }));
    decision.finish()
}

/// HO-02: the new content is durable before the old name goes.
fn accept(handoff: &Handoff, decision: &mut Draft, id: &str, known: &Known) {
    let accepted = known.in_folder(Folder::Accepted);
    decision.row(RowId::new("HM2"));
    decision.effect(Effect::Move {
        from: known.path(),
        to: accepted.path(),
        bytes: known.bytes_in(Folder::Accepted),
        seen: known.digest.clone(),
    });
    let message = known.message();
    handoff.log(decision, "handoff_accepted", Some(message.to), &about(&message));
    decision.remember(Memo::open(id, accepted));
}

fn start(handoff: &Handoff, workflow: &Workflow, turn: &Turn, now: Now) -> Decision {
    let mut decision = handoff.builder();
    let run = RunId::new(format!("{}-{}", handoff.place.repo, decision.key()));
    let (task, phase) = match &turn.subject {
        Subject::Plan => (workflow.id.clone(), "plan"),
        Subject::Message(id) => (id.clone(), handoff.index.memory.open[id].message().kind.word()),
    };
    if turn.shown != AgentStatus::Active {
        upkeep::show_agent(handoff, &mut decision, turn.who, AgentStatus::Active, now);
    }
    let try_number = (turn.tries.failures() + 1).to_string();
    let more = [("run", run.as_str()), ("message", task.as_str()), ("try", try_number.as_str())];
    handoff.log(&mut decision, "agent_started", Some(turn.who), &more);
    decision.effect(Effect::Spawn(Box::new(Spawn {
        run: run.clone(),
        seat: Seat::new(turn.who.word()),
        role: turn.who.word().to_owned(),
        tree: TreeRef::Main,
        task,
        phase: phase.to_owned(),
        prompt: prompt::prompt(handoff, workflow, turn, &run),
        why: why(turn, phase),
        resume: turn.session.clone(),
        command: None,
        access: match turn.who {
            Who::Builder | Who::Fixer => Access::Commit,
            Who::Planner | Who::Reviewer | Who::Orchestrator => Access::Write,
        },
    })));
    let mut next = turn.clone();
    next.run = Some(Running { run, since: now.wall, ticks: now.ticks });
    next.tries.start();
    next.shown = AgentStatus::Active;
    decision.remember(Memo::turn(next));
    decision.remember(Memo::Refused(None));
    decision.finish()
}

fn why(turn: &Turn, phase: &str) -> String {
    match (turn.tries.failures(), turn.answers.is_empty()) {
        (0, true) => format!("{phase} is handed to {}", turn.who.word()),
        (0, false) => "the owner answered".to_owned(),
        (failures, _) => format!("{phase} is handed to {}; try {}", turn.who.word(), failures + 1),
    }
}

pub(super) fn ask_snapshot(handoff: &Handoff, label: &str, since: Option<TreeId>) -> Decision {
    let mut decision = handoff.builder();
    let label = label.to_owned();
    decision.effect(Effect::Ask { query: Query::Snapshot { tree: TreeRef::Main, label, since } });
    decision.finish()
}

/// The answer to the snapshot of this name, if it has just come.
pub(super) fn answer<'a>(handoff: &'a Handoff, wanted: &str) -> Option<(&'a Key, &'a Fact)> {
    match handoff.index.in_flight.answers().last()? {
        (key, Query::Snapshot { label, .. }, fact) if label == wanted => Some((key, fact)),
        _ => None,
    }
}

pub(super) fn cannot_look(handoff: &Handoff, fact: &Fact) -> Decision {
    let mut decision = handoff.builder();
    hold::hold(handoff, &mut decision, hold::unanswered(fact));
    decision.finish()
}
