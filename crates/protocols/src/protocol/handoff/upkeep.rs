//! `.claude/state.json` is kept as the workflow is: its shape, our own fields, the locks in it (HO-04, HO-05, HO-11).

use super::hold::{self, Reason};
use super::index::StateSeen;
use super::locks;
use super::memory::{Draft, Memo, Memory, WayOut, Workflow};
use super::state::{self, State, field};
use super::table::{AgentStatus, Who};
use super::{Handoff, command};
use crate::model::{Decision, Effect, Field, Moment, Now, Rejection, RelPath, Severity, clip};
use serde_json::{Value, json};
use std::time::Duration;

/// Agents write the state in several steps; what comes right by itself is nobody's fault.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
const SUSPECT: &str = "state";

/// What the state file must say of a workflow.
pub(super) fn wanted(workflow: &Workflow, agent: Option<Who>, last: Option<&str>) -> Vec<Field> {
    let spec = if workflow.spec.is_empty() { Value::Null } else { workflow.spec.as_str().into() };
    let mut fields = vec![
        field(&["schema_version"], state::VERSION.into()),
        field(&["current_workflow", "id"], workflow.id.as_str().into()),
        field(&["current_workflow", "type"], workflow.flow.word().into()),
        field(&["current_workflow", "started"], json!(workflow.started)),
        field(&["current_workflow", "spec"], spec),
        field(&["current_agent"], json!(agent.map(Who::word))),
        field(&["last_handoff"], json!(last)),
        field(&["iteration"], workflow.iteration.into()),
    ];
    if let Some(ended) = workflow.ended {
        fields.push(field(&["current_workflow", "status"], "completed".into()));
        fields.push(field(&["current_workflow", "ended"], json!(ended)));
    }
    fields
}

/// Writes what the workflow is from now on, and what else is to be said there.
pub(super) fn amend(
    decision: &mut Draft,
    mut fields: Vec<Field>,
    more: impl IntoIterator<Item = Field>,
) {
    fields.extend(more);
    decision.effect(Effect::Amend { path: RelPath::fixed(state::PATH), fields });
}

/// What memory says that the file must say now.
pub(super) fn due(memory: &Memory) -> Option<Vec<Field>> {
    let workflow = memory.under_way()?;
    let agent = memory.turn.as_ref().filter(|turn| turn.has_begun()).map(|turn| turn.who);
    Some(wanted(workflow, agent, memory.last_handoff.as_deref()))
}

pub(super) fn state(handoff: &Handoff, now: Now) -> Option<Decision> {
    match handoff.index.state.as_ref()? {
        StateSeen::Bad(foreign) => other_shape(handoff, &foreign.problems),
        StateSeen::Absent => ours_again(handoff).or_else(|| absent(handoff, now)),
        StateSeen::Good(state) => ours_again(handoff)
            .or_else(|| changed_locks(handoff, state, now))
            .or_else(|| foreign_edit(handoff, state, now)),
    }
}

/// HO-04, HO-14: something else lies there. It is refused and never overwritten. Without a workflow or a message it is another
/// tool's file, and only `status` tells of it.
pub(super) fn other_shape(handoff: &Handoff, problems: &[Rejection]) -> Option<Decision> {
    let matters =
        handoff.index.memory.under_way().is_some() || handoff.index.has_waiting_messages();
    if !matters || hold::is_held_by(handoff, "HO-04") {
        return None;
    }
    let mut decision = handoff.builder();
    for problem in problems {
        decision.reject(problem.clone());
    }
    let mut reason = Reason::new("HO-04", state::PATH, state::other_format(problems));
    reason.evidence = problems.iter().map(ToString::to_string).collect();
    reason.did = "The file is unchanged; handoffs wait.".to_owned();
    reason.wont =
        "We do not overwrite it. Handoffs continue when it is moved away or has our format again. \
         `agency handoff adopt` keeps a copy and writes our own file, with the other keys in it."
            .to_owned();
    reason.way_out = WayOut::AdoptState;
    hold::hold(handoff, &mut decision, reason);
    Some(decision.finish())
}

/// The owner moved the other file away or put ours back: that is the way out which we named.
fn ours_again(handoff: &Handoff) -> Option<Decision> {
    let memory = &handoff.index.memory;
    if !memory.holds.iter().any(|hold| hold.way_out == WayOut::AdoptState) {
        return None;
    }
    let mut decision = handoff.builder();
    let how = format!("`{}` is ours again or gone", state::PATH);
    command::release_those(handoff, &mut decision, &how, |hold| hold.way_out == WayOut::AdoptState);
    Some(decision.finish())
}

/// Says in the shared state what an agent does now; a file of another format stays as it is.
pub(super) fn show_agent(
    handoff: &Handoff,
    decision: &mut Draft,
    who: Who,
    status: AgentStatus,
    now: Now,
) {
    if who != Who::Orchestrator && !matches!(handoff.index.state, Some(StateSeen::Bad(_))) {
        amend(decision, Vec::new(), state::agent_fields(who, status, now.wall));
    }
}

fn absent(handoff: &Handoff, now: Now) -> Option<Decision> {
    let fields = due(&handoff.index.memory)?;
    if let Some(waiting) = wait_first(handoff, SUSPECT, now) {
        return waiting;
    }
    let mut decision = handoff.builder();
    decision.remember(Memo::Suspect(SUSPECT.to_string(), None));
    amend(&mut decision, fields, []);
    let summary = format!("`{}` was removed; what is ours of it is back", state::PATH);
    let mut reason = Reason::new("HO-04", "removed", summary);
    reason.did = "We wrote it anew from our journal; locks and keys of others are gone.".to_owned();
    reason.wont = String::from("We cannot bring back what others kept in it.");
    hold::tell(handoff, &mut decision, Severity::Warning, reason);
    Some(decision.finish())
}

/// `Some(..)`: not yet, with what must be remembered until then.
pub(super) fn wait_first(handoff: &Handoff, what: &str, now: Now) -> Option<Option<Decision>> {
    match handoff.index.memory.suspects.get(what) {
        None => {
            let mut decision = handoff.builder();
            decision.remember(Memo::Suspect(what.to_string(), Some(Moment::after(now, PATIENCE))));
            Some(Some(decision.finish()))
        }
        Some(moment) if moment.left(now).is_some() => Some(None),
        Some(_) => None,
    }
}

/// HO-05: a lock that changed hands before its time was written around the lock.
fn changed_locks(handoff: &Handoff, state: &State, now: Now) -> Option<Decision> {
    let before = &handoff.index.memory.locks;
    if *before == state.locks {
        return None;
    }
    let mut decision = handoff.builder();
    decision.remember(Memo::Locks(Some(state.locks.clone())));
    for (resource, after) in &state.locks {
        let Some(before) =
            before.get(resource).filter(|handoff| locks::is_stolen(handoff, after, now.wall))
        else {
            continue;
        };
        let found = format!("the lock on `{}` is now {}", clip(resource, 60), after.sentence());
        let wanted = format!("it had not expired: {}", before.sentence());
        decision.reject(Rejection::new(
            "HO-05",
            &RelPath::fixed(state::PATH),
            found.as_str(),
            &wanted,
        ));
        let mut reason = Reason::new("HO-05", resource.as_str(), format!("{found}; {wanted}"));
        reason.did = "It is noted; `agency lock list` shows who holds what.".to_owned();
        reason.wont = "We do not stop whoever writes around the lock.".to_owned();
        hold::tell(handoff, &mut decision, Severity::Warning, reason);
    }
    Some(decision.finish())
}

/// HO-11: we are the arbiter of the fields that are ours. Two current agents are the owner's matter.
fn foreign_edit(handoff: &Handoff, state: &State, now: Now) -> Option<Decision> {
    let memory = &handoff.index.memory;
    let fields = due(memory)?;
    let wrong: Vec<&Field> = fields.iter().filter(|field| !state.holds(field)).collect();
    if wrong.is_empty() {
        memory.suspects.get(SUSPECT)?;
        let mut decision = handoff.builder();
        decision.remember(Memo::Suspect(SUSPECT.to_string(), None));
        return Some(decision.finish());
    }
    if let Some(waiting) = wait_first(handoff, SUSPECT, now) {
        return waiting;
    }
    let mut decision = handoff.builder();
    decision.remember(Memo::Suspect(SUSPECT.to_string(), None));
    for field in &wrong {
        decision.reject(edited(state, field));
    }
    let rival = rival(handoff, state);
    amend(&mut decision, fields.clone(), []);
    if let Some(rival) = rival {
        hold::hold(handoff, &mut decision, two_agents(handoff, state, &rival));
    }
    Some(decision.finish())
}

fn edited(state: &State, field: &Field) -> Rejection {
    let name = field.at.join(".");
    let found =
        field.at[1..].iter().fold(state.document.get(&field.at[0]), |at, name| at?.get(name));
    let found = found.map_or("nothing".to_owned(), |value| clip(&value.to_string(), 60));
    let wanted = field.value.as_ref().map_or("nothing".to_owned(), ToString::to_string);
    let file = RelPath::fixed(state::PATH);
    Rejection::new(
        "HO-11",
        &file,
        format!("`{name}` = {found}"),
        &format!("our {wanted}; it is put back"),
    )
}

/// Another agent that calls itself the current one while ours is at work. The next one that ours has handed on to is none.
fn rival(handoff: &Handoff, state: &State) -> Option<String> {
    let (turn, running) = handoff.index.memory.running()?;
    let said = state.current_agent().filter(|said| *said != turn.who.word())?;
    let open = handoff.index.memory.open.values();
    let mut handed = open.filter(|known| known.by.as_ref() == Some(&running.run));
    let handed_on = handed.any(|known| known.to().word() == said);
    (!handed_on).then(|| clip(said, 60))
}

fn two_agents(handoff: &Handoff, state: &State, rival: &str) -> Reason {
    let ours = handoff.index.memory.turn.as_ref().map_or("nobody", |turn| turn.who.word());
    let summary = format!("two current agents: `{ours}` runs, and the state says `{rival}`");
    let mut reason = Reason::new("HO-11", "current_agent", summary);
    reason.evidence =
        vec![format!("agents that call themselves active: {}", state.active().join(", "))];
    reason.did =
        "Our fields are back in the state; the run goes on, nothing follows it.".to_owned();
    reason
}
