//! What the owner asks of the relay: start, send, answer, cancel, resume, adopt, stop. The same journal as everything else.

use super::index::{Foreign, StateSeen};
use super::memory::{Draft, Hold, Known, Memo, Refusals, Turn, WayOut, Workflow};
use super::noting::{self, take_in};
use super::state::{self, State, field};
use super::table::{AgentStatus, Flow, Folder, Who};
use super::{Handoff, decide, ending, mail, path_in, upkeep};
use crate::model::{Answer, Bytes, Command, Decision, Effect, Now, RelPath, TreeRef, Verb, clip};
use serde_json::{Value, json};

/// Answers the oldest command that is for us.
pub(super) fn answer(handoff: &Handoff, now: Now) -> Option<Decision> {
    let command = handoff.index.in_flight.command()?;
    // What somebody did to the files by hand comes before the answer to "look".
    if command.arg("do") == Some(LOOK) && decide::as_the_arbiter(handoff, now).is_some() {
        return None;
    }
    let verb = match (command.verb, command.arg("do")) {
        (Verb::Init, Some("send")) => mail::send,
        (Verb::Init, _) => start,
        (Verb::Do, Some("answer")) => mail::reply,
        (Verb::Do, Some("cancel")) => cancel,
        (Verb::Do, Some(LOOK)) => look,
        (Verb::Resume, _) => resume,
        (Verb::Adopt, _) => adopt,
        (Verb::Stop, _) => stop,
        (Verb::Trust, _) => trust,
        (
            Verb::Restore
            | Verb::Inject
            | Verb::Ack
            | Verb::Pause
            | Verb::Unpause
            | Verb::Forget
            | Verb::Do,
            _,
        ) => not_ours,
    };
    let (mut decision, answer) = match verb(handoff, command, now) {
        Ok((decision, text)) => (decision, Answer { accepted: true, text }),
        Err(text) => (handoff.builder(), Answer { accepted: false, text }),
    };
    decision.effect(Effect::Reply { command: command.id.clone(), answer });
    Some(decision.finish())
}

/// Take note of what was done to the files by hand.
const LOOK: &str = "look";

fn look(handoff: &Handoff, _: &Command, _: Now) -> Outcome {
    Ok((handoff.builder(), "looked at the messages".to_owned()))
}

/// What to do and what to say, or why not.
pub(super) type Outcome = Result<(Draft, String), String>;

/// HO-12: makes the workflow; the planner follows by itself.
fn start(handoff: &Handoff, command: &Command, now: Now) -> Outcome {
    let word = command.arg("type").unwrap_or("feature");
    let flow = Flow::parse(word)
        .ok_or_else(|| format!("`{}` is no workflow; wanted: {}", clip(word, 40), Flow::list()))?;
    let request = command.arg("text").filter(|text| !text.trim().is_empty());
    let request =
        request.ok_or("say what is to be done: agency handoff start --type feature TEXT")?;
    if let Some(workflow) = handoff.index.memory.under_way() {
        return Err(format!(
            "a {} is under way since {}; `agency handoff cancel` ends it",
            workflow.flow.word(),
            workflow.started.format("%Y-%m-%dT%H:%M:%SZ")
        ));
    }
    stranger(handoff)?;
    shape(handoff)?;
    let workflow = Workflow {
        id: command.id.clone(),
        flow,
        started: now.wall,
        spec: String::new(),
        request: request.to_owned(),
        planned: false,
        iteration: 1,
        iteration_limit: handoff.limits.max_iterations,
        approved: false,
        ended: None,
    };
    let mut decision = handoff.builder();
    decision.remember(Memo::Known(Some(true)));
    begin_state(handoff, &mut decision, &workflow);
    decision.remember(Memo::Workflow(Some(workflow.clone())));
    decision.remember(Memo::LastHandoff(None));
    Ok((decision, format!("the {} begins with the planner", flow.word())))
}

/// What lies here and is not in our journal is somebody else's until it is adopted.
pub(super) fn stranger(handoff: &Handoff) -> Result<(), String> {
    let adopt = handoff.index.memory.holds.iter().any(|hold| hold.way_out == WayOut::Adopt);
    let foreign =
        matches!(&handoff.index.state, Some(StateSeen::Good(state)) if state.workflow().is_some());
    if adopt || (!handoff.index.memory.known && foreign) {
        return Err("a workflow is here that is not in our journal; `agency adopt` takes it over"
            .to_owned());
    }
    Ok(())
}

/// HO-04: a state of another shape is never overwritten.
pub(super) fn shape(handoff: &Handoff) -> Result<(), String> {
    match &handoff.index.state {
        Some(StateSeen::Bad(foreign)) => {
            Err(format!("{} (HO-04)", state::other_format(&foreign.problems)))
        }
        Some(StateSeen::Absent | StateSeen::Good(_)) | None => Ok(()),
    }
}

pub(super) fn begin_state(handoff: &Handoff, decision: &mut Draft, workflow: &Workflow) {
    let idle = [Who::Planner, Who::Builder, Who::Reviewer, Who::Fixer]
        .map(|who| field(&["agents", who.word(), "status"], "idle".into()));
    let has_locks = matches!(&handoff.index.state, Some(StateSeen::Good(state)) if state.document.contains_key("locks"));
    let locks = (!has_locks).then(|| field(&["locks"], json!({})));
    let gone = ["status", "ended"].map(|name| crate::model::Field {
        at: vec!["current_workflow".to_owned(), name.to_owned()],
        value: None,
    });
    let request = field(&["current_workflow", "request"], workflow.request.as_str().into());
    let more = idle.into_iter().chain(locks).chain(gone).chain([request]);
    upkeep::amend(decision, upkeep::wanted(workflow, None, None), more);
}

/// Ends the workflow as it is: what is open is rejected, and no agent is started for it.
fn cancel(handoff: &Handoff, command: &Command, now: Now) -> Outcome {
    let memory = &handoff.index.memory;
    let workflow = memory.under_way().ok_or("no workflow is under way")?;
    if memory.running().is_some() {
        return Err("a run is alive; `agency stop RUN` first".to_owned());
    }
    let mut decision = handoff.builder();
    let ended = Workflow { ended: Some(now.wall), ..workflow.clone() };
    for (id, known) in &memory.open {
        let folder = Folder::Rejected;
        match known.folder {
            Folder::Pending | Folder::Accepted if known.to() != Who::Orchestrator => {
                let (from, to) = (known.path(), path_in(folder, &known.name));
                let bytes = known.bytes_in(folder);
                decision.effect(Effect::Move { from, to, bytes, seen: known.digest.clone() });
                noting::close(&mut decision, id, "cancelled with its workflow");
            }
            Folder::Pending | Folder::Accepted | Folder::Completed | Folder::Rejected => {
                take_in(&mut decision, id, known, "cancelled with its workflow");
            }
        }
    }
    let cancelled = field(&["current_workflow", "cancelled"], true.into());
    let fields = upkeep::wanted(&ended, None, memory.last_handoff.as_deref());
    if shape(handoff).is_ok() {
        let idle = memory
            .turn
            .iter()
            .flat_map(|turn| state::agent_fields(turn.who, AgentStatus::Idle, now.wall));
        upkeep::amend(&mut decision, fields, idle.chain([cancelled]));
    }
    for (id, asked) in &memory.asked {
        let how = "the owner cancelled the workflow".to_owned();
        decision.effect(Effect::Resolve { cause: asked.cause.clone(), how });
        decision.remember(Memo::Asked(id.to_string(), None));
    }
    release(handoff, &mut decision, "the owner cancelled the workflow");
    decision.effect(Effect::Release { tree: TreeRef::Main });
    decision.remember(Memo::Turn(None));
    decision.remember(Memo::Workflow(Some(ended)));
    let text =
        format!("cancelled: {}", clip(command.arg("reason").unwrap_or("no reason given"), 200));
    Ok((decision, text))
}

fn resume(handoff: &Handoff, _: &Command, now: Now) -> Outcome {
    let memory = &handoff.index.memory;
    if let Some(hold) = memory.holds.iter().find(|hold| hold.way_out == WayOut::Adopt) {
        return Err(format!("{}; `agency adopt` ends this", hold.summary));
    }
    shape(handoff)?;
    if memory.holds.iter().all(|hold| hold.way_out == WayOut::Trust) {
        let why = memory.holds.first().map_or(
            "the handoffs are not held",
            |_| "git is held; look at it, then `agency trust`",
        );
        return Err(why.to_owned());
    }
    let mut decision = handoff.builder();
    let text = release(handoff, &mut decision, "the owner resumed");
    for id in memory.asked.iter().filter(|(_, asked)| asked.blocking).map(|(id, _)| id) {
        decision.remember(Memo::Asked(id.to_string(), None));
        if let Some(known) = memory.open.get(id) {
            take_in(&mut decision, id, known, "resumed without an answer");
        }
    }
    for (id, known) in ending::left_lying(handoff, now) {
        decision.remember(Memo::open(id, Known { by_hand: None, ..known.clone() }));
    }
    if let Some(turn) = &memory.turn {
        let refusals = Refusals::default();
        let mut next = Turn { waits_for: None, refusals, ..turn.clone() };
        next.tries.renew();
        decision.remember(Memo::turn(next));
    }
    if let Some(workflow) = memory.under_way() {
        let limit = workflow.iteration - 1 + handoff.limits.max_iterations;
        let iteration_limit = workflow.iteration_limit.max(limit);
        decision.remember(Memo::Workflow(Some(Workflow { iteration_limit, ..workflow.clone() })));
    }
    decision.announce("resume", &text);
    Ok((decision, text))
}

/// The owner has looked at what git is held for.
fn trust(handoff: &Handoff, _: &Command, _: Now) -> Outcome {
    let mut decision = handoff.builder();
    if !handoff.index.memory.holds.iter().any(|hold| hold.way_out == WayOut::Trust) {
        return Ok((decision, "the handoffs did not wait for this".to_owned()));
    }
    let how = "the owner trusts the repository's settings as they are";
    let text = release_those(handoff, &mut decision, how, |hold| hold.way_out == WayOut::Trust);
    Ok((decision, format!("the handoffs go on: {text}")))
}

/// Ends all holds but those on git, which end when it is trusted; the causes' epoch is over.
fn release(handoff: &Handoff, decision: &mut Draft, how: &str) -> String {
    release_those(handoff, decision, how, |hold| hold.way_out != WayOut::Trust)
}

pub(super) fn release_those(
    handoff: &Handoff,
    decision: &mut Draft,
    how: &str,
    which: impl Fn(&Hold) -> bool,
) -> String {
    let (ended, kept): (Vec<Hold>, Vec<Hold>) =
        handoff.index.memory.holds.iter().cloned().partition(which);
    for hold in &ended {
        decision.effect(Effect::Resolve { cause: hold.cause.clone(), how: how.to_owned() });
    }
    if kept.is_empty() {
        decision.remember(Memo::Holds(None));
    } else {
        decision.remember(Memo::Holds(Some(kept)));
    }
    decision.remember(Memo::Epoch(Some(handoff.index.memory.epoch + 1)));
    let count =
        if ended.len() == 1 { "one cause".to_owned() } else { format!("{} causes", ended.len()) };
    format!("{how}; {count} resolved")
}

/// The repository is right: its workflow and its messages are taken as they lie.
fn adopt(handoff: &Handoff, command: &Command, now: Now) -> Outcome {
    if let Some(StateSeen::Bad(foreign)) = &handoff.index.state
        && command.arg("state") == Some("replace")
    {
        return adopt_state(handoff, foreign);
    }
    if handoff.index.memory.known {
        return Err("there is nothing to adopt: our journal knows these handoffs".to_owned());
    }
    if !handoff.index.has_files() {
        return Err("there is nothing to adopt: this repository has no handoff files".to_owned());
    }
    shape(handoff)?;
    let mut decision = handoff.builder();
    decision.remember(Memo::Known(Some(true)));
    let adopted = match &handoff.index.state {
        Some(StateSeen::Good(state)) => adopted(handoff, state, now),
        Some(StateSeen::Absent | StateSeen::Bad(_)) | None => None,
    };
    if let Some(workflow) = &adopted {
        begin_state(handoff, &mut decision, workflow);
        decision.remember(Memo::Workflow(Some(workflow.clone())));
    }
    let text = release(handoff, &mut decision, "the owner adopted the handoffs as they are");
    decision.announce("adopt", &text);
    Ok((decision, text))
}

/// HO-14: another tool's state file makes room for ours. Its bytes are kept, and its other keys stay in the new file.
fn adopt_state(handoff: &Handoff, foreign: &Foreign) -> Outcome {
    let Some((digest, bytes)) = &foreign.file else {
        let why = foreign.problems.first().map(ToString::to_string).unwrap_or_default();
        return Err(format!("`{}` cannot be read: {why}; move it away", state::PATH));
    };
    let mut decision = handoff.builder();
    let path = RelPath::fixed(state::PATH);
    let (seen, why) = (Some(digest.clone()), "the owner adopted the handoffs".to_owned());
    decision.effect(Effect::Take { path: path.clone(), seen, why });
    let bytes = Bytes(state::adopted(bytes));
    decision.effect(Effect::Replace { path, bytes, seen: None });
    if let Some(fields) = upkeep::due(&handoff.index.memory) {
        upkeep::amend(&mut decision, fields, []);
    }
    decision.remember(Memo::Known(Some(true)));
    let how = format!("`{}` is written in our format; a copy of the other is kept", state::PATH);
    release_those(handoff, &mut decision, &how, |hold| {
        matches!(hold.way_out, WayOut::Adopt | WayOut::AdoptState)
    });
    decision.announce("handoff adopt", &how);
    Ok((decision, how))
}

fn adopted(handoff: &Handoff, state: &State, now: Now) -> Option<Workflow> {
    let found = state.workflow()?;
    let text = |name: &str| found.get(name).and_then(Value::as_str).unwrap_or_default();
    let iteration = state.document.get("iteration").and_then(Value::as_u64).unwrap_or(1);
    let iteration = u32::try_from(iteration).unwrap_or(1).max(1);
    let has_messages = !handoff.index.messages.is_empty() || !handoff.index.history.is_empty();
    Some(Workflow {
        id: clip(text("id"), 100),
        flow: Flow::parse(text("type"))?,
        started: text("started").parse().unwrap_or(now.wall),
        spec: clip(text("spec"), 400),
        request: clip(text("request"), 4000),
        planned: has_messages || text("request").is_empty(),
        iteration,
        iteration_limit: handoff.limits.max_iterations.max(iteration),
        approved: false,
        ended: None,
    })
}

fn stop(handoff: &Handoff, command: &Command, _: Now) -> Outcome {
    let running = handoff.index.memory.running().map(|(_, running)| &running.run);
    let run = running.filter(|run| command.arg("run") == Some(run.as_str()));
    let run = run.ok_or("no such run is alive among the handoffs")?.clone();
    let mut decision = handoff.builder();
    let text = format!("`{run}` is being stopped");
    decision.effect(Effect::Stop { run, why: format!("stopped by {}", command.by) });
    Ok((decision, text))
}

fn not_ours(_: &Handoff, _: &Command, _: Now) -> Outcome {
    Err("that is not for handoffs to do".to_owned())
}
