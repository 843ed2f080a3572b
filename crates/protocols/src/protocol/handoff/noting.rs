//! Messages as they come: refused with all their problems, or known from then on (HO-01, HO-07). Moves are in `moves.rs`.

use super::hold::{self, Reason};
use super::index::Seen;
use super::memory::{Asked, Draft, Known, Memo, Refusals, Turn, WayOut, Workflow};
use super::message::Message;
use super::payload::Payload;
use super::reconcile::{self, Finding};
use super::table::{self, AgentStatus, Flow, Folder, Kind, Needs, Who};
use super::{Handoff, command, json, locks, mail, moves, upkeep};
use crate::model::{
    Decision, Digest, Effect, Moment, Now, Rejection, RelPath, RowId, Severity, clip,
};

/// HO-01: a file that is no message is taken away with everything that is wrong with it.
pub(super) fn refuse_odd(handoff: &Handoff, _: Now) -> Option<Decision> {
    let (path, odd) = handoff.index.odd.first_key_value()?;
    let mut decision = handoff.builder();
    refuse(handoff, &mut decision, path, odd.digest.as_ref(), &odd.problems);
    Some(decision.finish())
}

pub(super) fn messages(handoff: &Handoff, now: Now) -> Option<Decision> {
    let found =
        handoff.index.dirty.iter().find_map(|id| match reconcile::find(&handoff.index, id) {
            Finding::Settled => None,
            Finding::New(path, seen) => Some(note(handoff, path, seen, now)),
            Finding::Copy(path, seen, why) => Some(moves::take_copy(handoff, path, seen, why)),
            Finding::Moved(row, path, seen) => {
                Some(moves::follow(handoff, id, row, path, seen, now))
            }
            Finding::Astray(path, seen) => Some(moves::put_back(handoff, id, path, seen)),
            Finding::Changed(path, seen) => Some(moves::put_right(handoff, id, path, seen)),
            Finding::Missing(known) => moves::missing(handoff, id, known, now),
        });
    found.or_else(|| moves::calm(handoff))
}

/// Takes a message away; its author hears of it in the next prompt, or the owner now.
fn refuse(
    handoff: &Handoff,
    decision: &mut Draft,
    path: &RelPath,
    digest: Option<&Digest>,
    problems: &[Rejection],
) {
    let words: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for problem in problems {
        decision.reject(problem.clone());
    }
    let rules: Vec<&str> = problems.iter().map(|problem| problem.rule.as_str()).collect();
    let why = format!("refused by {}", rules.first().unwrap_or(&"HO-01"));
    decision.effect(Effect::Take { path: path.clone(), seen: digest.cloned(), why });
    let first = problems.first().map(json::sentence).unwrap_or_default();
    if let Some((turn, _)) = handoff.index.memory.running() {
        let words = words.into_iter().map(|word| format!("refused message: {word}"));
        let refused = handoff.index.memory.refused.iter().cloned().chain(words);
        decision.remember(Memo::Refused(Some(refused.collect::<Vec<_>>())));
        let refusals = Refusals { count: turn.refusals.count + 1, last: clip(&first, 300) };
        decision.remember(Memo::turn(Turn { refusals, ..turn.clone() }));
        return;
    }
    // One cause for all of them: a flood of bad files is one message to the owner, and the journal has each.
    let summary = format!("a message was refused: {first}");
    let mut reason = Reason::new("HO-01", "messages", summary);
    reason.evidence = words;
    reason.did = "It is in quarantine, with its bytes; nothing was started for it.".to_owned();
    reason.wont = "We correct no message; write a new one.".to_owned();
    hold::tell(handoff, decision, Severity::Warning, reason);
}

/// A new message: judged against the workflow, then it counts.
fn note(handoff: &Handoff, path: &RelPath, seen: &Seen, now: Now) -> Decision {
    let mut decision = handoff.builder();
    let problems = judge(handoff, path, seen);
    if !problems.is_empty() {
        refuse(handoff, &mut decision, path, Some(&seen.digest), &problems);
        return decision.finish();
    }
    let known = Known {
        folder: seen.folder,
        name: path.file_name().to_owned(),
        digest: seen.digest.clone(),
        document: seen.message.document.clone(),
        by: handoff.index.memory.running().map(|(_, running)| running.run.clone()),
        by_hand: by_hand(handoff, seen.folder, now),
    };
    decision.row(RowId::new(table::type_of(seen.message.kind).id));
    admit(handoff, &mut decision, &seen.message, known, now);
    decision.finish()
}

/// SPEC GAP: the spec sets no time for whoever accepts; we leave it to them as long as a lock lives.
pub(super) fn by_hand(handoff: &Handoff, folder: Folder, now: Now) -> Option<Moment> {
    let theirs = folder == Folder::Accepted && handoff.index.memory.running().is_none();
    theirs.then(|| Moment::after(now, locks::EXPIRY))
}

/// What a message that is well formed may still get wrong.
fn judge(handoff: &Handoff, path: &RelPath, seen: &Seen) -> Vec<Rejection> {
    let message = &seen.message;
    let mut problems = judge_in_context(handoff, message, path);
    let renamed = seen.folder == Folder::Accepted && message.status == Folder::Pending;
    if message.status != seen.folder && !renamed {
        let found = format!("`status` = {} in {}/", message.status.word(), seen.folder.word());
        let wanted = format!("`status` as {}", seen.folder.word());
        problems.push(Rejection::new("HO-02", path, found, &wanted));
    }
    if message.from == Who::Orchestrator {
        let wanted = "`agency answer` by the owner; nobody else speaks for the orchestrator";
        problems.push(Rejection::new("HO-01", path, "`from` = orchestrator", wanted));
    } else if let Some((turn, _)) = handoff.index.memory.running()
        && turn.who != message.from
    {
        let found =
            format!("`from` = {} while `{}` is at work", message.from.word(), turn.who.word());
        let wanted =
            format!("`from` as {}; the owner may use `agency handoff send`", turn.who.word());
        problems.push(Rejection::new("HO-01", path, found, &wanted));
    }
    problems.into_iter().map(|problem| problem.with_digest(&seen.digest)).collect()
}

/// What a message must say in this workflow (HO-08, HO-13).
pub(super) fn judge_in_context(
    handoff: &Handoff,
    message: &Message,
    path: &RelPath,
) -> Vec<Rejection> {
    let mut problems = Vec::new();
    if let Some(said) = message.payload.said()
        && table::find_result(message.from, said).is_none()
    {
        let found = format!("`payload.status` = {} from {}", said.word(), message.from.word());
        let words: Vec<_> = table::results_of(message.from).map(|row| row.said.word()).collect();
        let wanted = format!("one of {}", words.join("|"));
        problems.push(Rejection::new("HO-13", path, found, &wanted));
    }
    let Some(workflow) = handoff.index.memory.under_way() else {
        if message.kind == Kind::Completion {
            let wanted = "a workflow that is under way; `agency handoff start` begins one";
            problems.push(Rejection::new("HO-11", path, "a completion of nothing", wanted));
        }
        return problems;
    };
    let Some(flow) = message.workflow else { return problems };
    if flow != workflow.flow {
        let found = format!("`context.workflow` = {}", flow.word());
        let wanted = format!("the workflow's type, {}", workflow.flow.word());
        problems.push(Rejection::new("HO-01", path, found, &wanted));
    }
    let right = iterations(workflow, message.kind);
    if !right.contains(&message.iteration) {
        let found = format!("`context.iteration` = {}", message.iteration);
        problems.push(Rejection::new("HO-08", path, found, &format!("iteration {}", right[0])));
    }
    problems
}

/// SPEC GAP: the spec shows iterations but not who counts; a re-review begins the next one, all else is of the current one.
pub(super) fn iterations(workflow: &Workflow, kind: Kind) -> Vec<u32> {
    let (now, next) = (workflow.iteration, workflow.iteration.saturating_add(1));
    match kind {
        Kind::RereviewRequest => vec![next],
        Kind::TaskHandoff | Kind::ReviewRequest | Kind::FixRequest => vec![now],
        Kind::Completion | Kind::Escalation | Kind::Answer => vec![now, next],
    }
}

/// A message that is good: known from now on.
pub(super) fn admit(
    handoff: &Handoff,
    decision: &mut Draft,
    message: &Message,
    mut known: Known,
    now: Now,
) {
    let id = message.id.as_str();
    let mut workflow = match handoff.index.memory.under_way() {
        Some(workflow) => workflow.clone(),
        None => {
            let implied = implied(handoff, message, now);
            command::begin_state(handoff, decision, &implied);
            implied
        }
    };
    handoff.log(decision, "handoff_created", Some(message.from), &about(message));
    if known.folder == Folder::Accepted {
        known = settle_in(decision, known, message.status != Folder::Accepted);
        handoff.log(decision, "handoff_accepted", Some(message.to), &about(message));
    }
    let by_hand = known.by.is_none();
    match &message.payload {
        // A question moves no workflow on, but the first message begins one, so that its answer reaches the agent.
        Payload::Escalation { .. } => {
            raise(handoff, decision, message, known);
            if handoff.index.memory.under_way().is_none() {
                decision.remember(Memo::Workflow(Some(workflow)));
            }
            return;
        }
        Payload::Completion { said, .. } if by_hand => {
            take_in(decision, id, &known, "taken in");
            let row = said.and_then(|said| table::find_result(message.from, said));
            workflow.approved = row.is_some_and(|row| row.needs == Needs::Nothing);
        }
        Payload::Task { spec } if by_hand => {
            workflow.spec.clone_from(spec);
            workflow.planned = true;
            decision.remember(Memo::open(id, known));
        }
        Payload::Rereview { .. } if by_hand => {
            workflow.iteration = message.iteration;
            decision.remember(Memo::open(id, known));
        }
        Payload::Task { .. }
        | Payload::Review { .. }
        | Payload::Fix
        | Payload::Rereview { .. }
        | Payload::Completion { .. }
        | Payload::Answer => drop(decision.remember(Memo::open(id, known))),
    }
    if message.kind != Kind::Completion {
        workflow.approved = false;
    }
    if by_hand {
        complete_by_hand(handoff, decision, message.from, now);
    }
    decision.remember(Memo::Workflow(Some(workflow)));
}

/// SPEC GAP: a handoff that nobody began a workflow for begins one itself.
fn implied(handoff: &Handoff, message: &Message, now: Now) -> Workflow {
    Workflow {
        id: message.id.clone(),
        flow: message.workflow.unwrap_or(Flow::Feature),
        started: now.wall,
        spec: message.spec.clone(),
        request: String::new(),
        planned: true,
        iteration: message.iteration.max(1),
        iteration_limit: handoff.limits.max_iterations.max(message.iteration),
        approved: false,
        ended: None,
    }
}

pub(super) fn about(message: &Message) -> [(&str, &str); 3] {
    [("message", message.id.as_str()), ("type", message.kind.word()), ("to", message.to.word())]
}

/// A person accepted a handoff and now hands on: theirs is complete.
fn complete_by_hand(handoff: &Handoff, decision: &mut Draft, from: Who, now: Now) {
    let open = handoff.index.memory.open.iter();
    let theirs = open.filter(|(_, known)| known.by_hand.is_some() && known.to() == from);
    for (id, known) in theirs.filter(|(_, known)| known.folder == Folder::Accepted) {
        take_in(decision, id, known, "completed by hand");
        upkeep::show_agent(handoff, decision, from, AgentStatus::Completed, now);
    }
}

/// Moves a message to `completed/` and is done with it.
pub(super) fn take_in(decision: &mut Draft, id: &str, known: &Known, how: &str) {
    if matches!(known.folder, Folder::Pending | Folder::Accepted) {
        let to = super::path_in(Folder::Completed, &known.name);
        let bytes = known.bytes_in(Folder::Completed);
        decision.effect(Effect::Move { from: known.path(), to, bytes, seen: known.digest.clone() });
    }
    close(decision, id, how);
}

pub(super) fn close(decision: &mut Draft, id: &str, how: &str) {
    decision.remember(Memo::Done(id.to_string(), Some(how.into())));
    decision.remember(Memo::Open(id.to_string(), None));
}

/// HO-07: an agent asks the owner. A blocking question holds the workflow.
fn raise(handoff: &Handoff, decision: &mut Draft, message: &Message, known: Known) {
    let Payload::Escalation { reason: why, details, options, blocking } = &message.payload else {
        return;
    };
    let accepted = known.in_folder(Folder::Accepted);
    if known.folder == Folder::Pending {
        let (from, to) = (known.path(), accepted.path());
        let bytes = known.bytes_in(Folder::Accepted);
        decision.effect(Effect::Move { from, to, bytes, seen: known.digest.clone() });
        handoff.log(decision, "handoff_accepted", Some(Who::Orchestrator), &about(message));
    }
    decision.remember(Memo::open(&message.id, accepted));
    let summary =
        format!("`{}` asks: {} ({})", message.from.word(), clip(details, 120), clip(why, 40));
    let mut reason = Reason::new("HO-07", message.id.as_str(), summary);
    reason.what = format!("{}: {}", clip(why, 100), clip(details, 1000));
    reason.evidence = message.document["payload"]
        .get("context")
        .map(|context| format!("context: {}", clip(&context.to_string(), 400)))
        .into_iter()
        .collect();
    reason.evidence.push(format!("message {}", message.id));
    reason.options = options.iter().take(20).map(|option| clip(option, mail::OPTION_MAX)).collect();
    reason.way_out = WayOut::Answer;
    let cause = hold::cause(handoff, "HO-07", &message.id);
    let asked = Asked { from: message.from, cause, blocking: *blocking };
    decision.remember(Memo::Asked(message.id.to_string(), Some(asked)));
    handoff.log(decision, "escalation_triggered", Some(message.from), &about(message));
    if *blocking {
        hold::hold(handoff, decision, reason);
    } else {
        reason.did = "The workflow goes on meanwhile.".to_owned();
        reason.wont = "We do not answer for you.".to_owned();
        hold::tell(handoff, decision, Severity::Warning, reason);
    }
}

/// The status in the file follows the folder that it was moved to.
fn settle_in(decision: &mut Draft, known: Known, other_status: bool) -> Known {
    if !other_status {
        return known;
    }
    let right = known.in_folder(known.folder);
    let (path, bytes, seen) = (known.path(), known.bytes_in(known.folder), Some(known.digest));
    decision.effect(Effect::Replace { path, bytes, seen });
    right
}
