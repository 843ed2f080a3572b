//! A run has ended and its claims are checked: the handoff ends, waits, or is tried again (HO-13).

use super::hold::{self, Reason};
use super::memory::{Draft, Ended, Known, Left, Memo, Subject, Turn, Workflow};
use super::message::Message;
use super::noting::{close, take_in};
use super::payload::Payload;
use super::table::{self, AgentStatus, Folder, Kind, Needs, ResultRow};
use super::turn::leave;
use super::{Handoff, claims, failure, state, upkeep};
use crate::model::{Decision, Effect, Now, RowId, Severity, TreeRef, clip};
use std::collections::BTreeMap;

/// What became of a turn.
enum Verdict {
    Done(&'static ResultRow),
    /// An answer was taken note of; nothing has to follow.
    Noted,
    /// The agent waits for the owner.
    Asks(String),
    /// The owner was faster than its end: it goes on with the answer.
    Answered,
    /// The recipient refused the handoff.
    Rejected,
    Wrong(Vec<String>),
}

pub(super) fn end_of_run(handoff: &Handoff, now: Now) -> Option<Decision> {
    let workflow = handoff.index.memory.under_way()?;
    let turn = handoff.index.memory.turn.as_ref()?;
    let ended = turn.ended.as_ref()?;
    let Some(left) = &ended.left else { return Some(claims::look(handoff, turn, ended, now)) };
    let mine = left_by(handoff, ended);
    if let Some(decision) = claims::check(handoff, turn, ended, left, &mine) {
        return Some(decision);
    }
    Some(match judge(handoff, turn, left, &mine) {
        Verdict::Done(row) => finish(handoff, workflow, turn, ended, &mine, Some(row), now),
        Verdict::Noted => finish(handoff, workflow, turn, ended, &mine, None, now),
        Verdict::Asks(id) => wait_for_answer(handoff, turn, Some(id), now),
        Verdict::Answered => wait_for_answer(handoff, turn, None, now),
        Verdict::Rejected => rejected(handoff, turn, &mine, now),
        Verdict::Wrong(words) => failure::try_again(handoff, turn, ended, &mine, words, now),
    })
}

/// The messages that a run left, by their ids.
fn left_by(handoff: &Handoff, ended: &Ended) -> BTreeMap<String, Message> {
    let open = handoff.index.memory.open.iter();
    let mine = open.filter(|(_, known)| known.by.as_ref() == Some(&ended.run));
    mine.map(|(id, known)| (id.clone(), known.message())).collect()
}

/// The result table, against what the run left.
fn judge(handoff: &Handoff, turn: &Turn, left: &Left, mine: &BTreeMap<String, Message>) -> Verdict {
    let subject = match &turn.subject {
        Subject::Plan => None,
        Subject::Message(id) => handoff.index.memory.open.get(id),
    };
    if subject.is_some_and(|known| known.folder == Folder::Rejected) {
        return Verdict::Rejected;
    }
    let mut wrong: Vec<String> = left.checked.values().flatten().cloned().collect();
    let said = mine.values().filter_map(|message| message.payload.said());
    let said: Vec<_> = said.filter_map(|said| table::find_result(turn.who, said)).collect();
    let handed: Vec<Kind> = handoffs(mine).map(|message| message.kind).collect();
    let is_answer = subject.is_some_and(|known| known.message().kind == Kind::Answer);
    wrong.extend(said.iter().filter_map(|row| mismatch(row, &handed, is_answer)));
    if said.windows(2).any(|pair| pair[0] != pair[1]) {
        wrong.push("several completions that say different things".to_owned());
    }
    if said.is_empty() && handed.is_empty() && mine.values().any(is_completion) {
        let words: Vec<_> = table::results_of(turn.who).map(|row| row.said.word()).collect();
        wrong.push(format!("a completion without `payload.status`; write {}", words.join("|")));
    }
    let implied = handed.first().and_then(|kind| table::implied_result(turn.who, *kind));
    match (said.first().copied().or(implied), asks(handoff, mine)) {
        _ if !wrong.is_empty() => Verdict::Wrong(wrong),
        (Some(_), _) if is_answer && handed.is_empty() => Verdict::Noted,
        (Some(row), _) => Verdict::Done(row),
        (None, Some(id)) => Verdict::Asks(id),
        (None, None) if has_new_answer(handoff, turn) => Verdict::Answered,
        (None, None) => Verdict::Wrong(Vec::new()),
    }
}

fn is_completion(message: &Message) -> bool {
    message.kind == Kind::Completion
}

fn has_new_answer(handoff: &Handoff, turn: &Turn) -> bool {
    let open = |id: &String| handoff.index.memory.open.get(id);
    turn.answers.iter().filter_map(open).any(|known| known.folder == Folder::Pending)
}

fn handoffs(mine: &BTreeMap<String, Message>) -> impl Iterator<Item = &Message> {
    mine.values().filter(|message| !matches!(message.kind, Kind::Completion | Kind::Escalation))
}

fn mismatch(row: &ResultRow, handed: &[Kind], is_answer: bool) -> Option<String> {
    let said = row.said.word();
    match row.needs {
        Needs::Handoff(kind) if !handed.contains(&kind) && !is_answer => {
            Some(format!("`{said}` without a `{}` in pending/", kind.word()))
        }
        Needs::Nothing if !handed.is_empty() => {
            Some(format!("`{said}` together with a `{}`; say one of them", handed[0].word()))
        }
        Needs::Handoff(_) | Needs::Nothing => None,
    }
}

/// The question that blocks the agent, if it left one that is not answered yet.
fn asks(handoff: &Handoff, mine: &BTreeMap<String, Message>) -> Option<String> {
    let asked = mine
        .keys()
        .find(|id| handoff.index.memory.asked.get(*id).is_some_and(|handoff| handoff.blocking));
    asked.cloned()
}

/// With `None` the answer is there: it only has to be accepted.
fn wait_for_answer(handoff: &Handoff, turn: &Turn, id: Option<String>, now: Now) -> Decision {
    let mut decision = handoff.builder();
    let ready = id.is_some();
    let shown = AgentStatus::Waiting;
    upkeep::show_agent(handoff, &mut decision, turn.who, shown, now);
    let next = Turn { ended: None, waits_for: id, ready, shown, ..turn.clone() };
    decision.remember(Memo::turn(next));
    decision.effect(Effect::Release { tree: TreeRef::Main });
    decision.finish()
}

/// HO-02: the recipient does not take it. The orchestrator is the arbiter, and asks.
fn rejected(
    handoff: &Handoff,
    turn: &Turn,
    mine: &BTreeMap<String, Message>,
    now: Now,
) -> Decision {
    let mut decision = handoff.builder();
    // What it left beside its refusal would wait for nobody.
    withdraw(handoff, &mut decision, mine, "its run rejected the handoff");
    leave(handoff, &mut decision, now);
    let id = turn.messages().next().map_or("", String::as_str);
    if handoff.index.memory.open.contains_key(id) {
        close(&mut decision, id, "rejected by its recipient");
    }
    let summary = format!("`{}` rejected the handoff `{id}`", turn.who.word());
    let mut reason = Reason::new("HO-02", id, summary);
    reason.evidence = turn.ended.iter().map(|ended| clip(&ended.tail, 400)).collect();
    reason.wont = "We send no other one by ourselves; `agency handoff send` does.".to_owned();
    hold::hold(handoff, &mut decision, reason);
    decision.finish()
}

fn finish(
    handoff: &Handoff,
    workflow: &Workflow,
    turn: &Turn,
    ended: &Ended,
    mine: &BTreeMap<String, Message>,
    row: Option<&'static ResultRow>,
    now: Now,
) -> Decision {
    let mut decision = handoff.builder();
    if let Some(row) = row {
        decision.row(RowId::new(row.id));
    }
    let completions = mine.iter().filter(|(_, message)| message.kind == Kind::Completion);
    for id in turn.messages().chain(completions.map(|(id, _)| id)) {
        if let Some(known) = handoff.index.memory.open.get(id) {
            take_in(&mut decision, id, known, "completed");
        }
    }
    let workflow = moved_on(workflow, turn, mine, row);
    let fields = upkeep::wanted(&workflow, None, handoff.index.memory.last_handoff.as_deref());
    upkeep::amend(
        &mut decision,
        fields,
        state::agent_fields(turn.who, AgentStatus::Completed, now.wall),
    );
    let seconds = (ended.at - ended.since).num_seconds().max(0).to_string();
    let said = row.map_or("noted", |row| row.said.word());
    let more = [("run", ended.run.as_str()), ("result", said), ("seconds", seconds.as_str())];
    handoff.log(&mut decision, "agent_completed", Some(turn.who), &more);
    decision.effect(Effect::Release { tree: TreeRef::Main });
    decision.remember(Memo::Workflow(Some(workflow)));
    decision.remember(Memo::Turn(None));
    decision.remember(Memo::Refused(None));
    decision.finish()
}

fn moved_on(
    workflow: &Workflow,
    turn: &Turn,
    mine: &BTreeMap<String, Message>,
    row: Option<&ResultRow>,
) -> Workflow {
    let mut next = workflow.clone();
    for message in handoffs(mine) {
        match &message.payload {
            Payload::Task { spec } => next.spec.clone_from(spec),
            Payload::Rereview { .. } => next.iteration = message.iteration,
            Payload::Review { .. }
            | Payload::Fix
            | Payload::Completion { .. }
            | Payload::Escalation { .. }
            | Payload::Answer => {}
        }
    }
    if turn.subject == Subject::Plan {
        next.planned = true;
    }
    if let Some(row) = row {
        next.approved = row.needs == Needs::Nothing;
    }
    next
}

/// Nothing is left to be worked on.
fn is_idle(handoff: &Handoff) -> bool {
    let memory = &handoff.index.memory;
    let mut open = memory.open.iter();
    memory.turn.is_none() && open.all(|(id, _)| memory.asked.contains_key(id))
}

/// HO-13: approved, and nothing is open any more.
pub(super) fn conclude(handoff: &Handoff, now: Now) -> Option<Decision> {
    let memory = &handoff.index.memory;
    let workflow = memory.under_way().filter(|workflow| workflow.approved)?;
    if !is_idle(handoff) {
        return None;
    }
    let ended = Workflow { ended: Some(now.wall), ..workflow.clone() };
    let mut decision = handoff.builder();
    upkeep::amend(&mut decision, upkeep::wanted(&ended, None, memory.last_handoff.as_deref()), []);
    let summary = format!(
        "the {} is approved and complete, in iteration {}",
        workflow.flow.word(),
        workflow.iteration
    );
    let mut reason = Reason::new("HO-13", workflow.id.as_str(), summary);
    reason.did = "Every message is in completed/; no agent is started any more.".to_owned();
    reason.wont = "We begin nothing new by ourselves; `agency handoff start` does.".to_owned();
    hold::tell(handoff, &mut decision, Severity::Notice, reason);
    decision.remember(Memo::Workflow(Some(ended)));
    Some(decision.finish())
}

/// HO-11: not approved, and nobody has anything to do: a handoff is missing.
pub(super) fn stranded(handoff: &Handoff, _: Now) -> Option<Decision> {
    let workflow = handoff.index.memory.under_way()?;
    if !workflow.planned
        || workflow.approved
        || !is_idle(handoff)
        || !handoff.index.dirty.is_empty()
    {
        return None;
    }
    let summary = "the workflow is not approved and has no open handoff".to_owned();
    let mut reason = Reason::new("HO-11", workflow.id.as_str(), summary);
    reason.wont =
        "We invent no handoff; send one with `agency handoff send`, then resume, or `agency handoff cancel`."
            .to_owned();
    let mut decision = handoff.builder();
    hold::hold(handoff, &mut decision, reason);
    Some(decision.finish())
}

/// Handoffs that somebody accepted by hand a long time ago.
pub(super) fn left_lying(handoff: &Handoff, now: Now) -> impl Iterator<Item = (&String, &Known)> {
    let late = move |known: &Known| known.by_hand.is_some_and(|until| until.left(now).is_none());
    let open = handoff.index.memory.open.iter();
    open.filter(move |(_, known)| known.folder == Folder::Accepted && late(known))
}

/// HO-11: accepted by hand, and nothing came of it.
pub(super) fn forgotten(handoff: &Handoff, now: Now) -> Option<Decision> {
    let (id, known) = left_lying(handoff, now).next()?;
    let to = known.to().word();
    let summary =
        format!("the handoff `{id}` to `{to}` was accepted by hand and nothing came of it");
    let mut reason = Reason::new("HO-11", id.as_str(), summary);
    reason.wont =
        format!("We take it from nobody; complete it, or resume: `{to}` is started then.");
    let mut decision = handoff.builder();
    hold::hold(handoff, &mut decision, reason);
    Some(decision.finish())
}

/// For a turn that goes nowhere: what it left is taken away, so that its next try begins with a clean table.
pub(super) fn withdraw(
    handoff: &Handoff,
    decision: &mut Draft,
    mine: &BTreeMap<String, Message>,
    why: &str,
) {
    for (id, message) in mine.iter().filter(|(_, message)| message.kind != Kind::Escalation) {
        let Some(known) = handoff.index.memory.open.get(id) else { continue };
        let (path, seen) = (known.path(), Some(known.digest.clone()));
        decision.effect(Effect::Take { path, seen, why: why.to_owned() });
        close(decision, &message.id, why);
    }
}
