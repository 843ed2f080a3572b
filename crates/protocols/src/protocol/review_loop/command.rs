//! What the owner asks of the loop: begin, resume, adopt, restore, inject, stop. The same journal as everything else.

use super::owner_verbs::NO_LOOP;
use super::{
    ReviewLoop, STATE, away, base,
    memory::{Anchor, Base, Hold, LoopState, Moving, Opens, Refusals, Start, Turn, WayOut},
    owner_verbs, review, run_changes, steps,
    table::{Holder, Phase},
    takeover, transition, turn,
};
use crate::model::{
    Answer, Builder, Bytes, Command, Decision, Digest, Effect, Fact, Now, RelPath, Verb, clip,
};
use std::collections::BTreeMap;

/// Answers the oldest command that is for us.
pub(super) fn answer(review_loop: &ReviewLoop, now: Now) -> Option<Decision> {
    let command = review_loop.index.commands.first()?;
    let verb = match command.verb {
        Verb::Init => init,
        Verb::Resume => resume,
        Verb::Adopt => adopt,
        Verb::Restore => restore,
        Verb::Inject => inject,
        Verb::Stop => stop,
        Verb::Trust => trust,
        Verb::Do => owner_verbs::run,
        Verb::Ack | Verb::Pause | Verb::Unpause | Verb::Forget => not_ours,
    };
    let (mut decision, answer) = match verb(review_loop, command, now) {
        Ok((decision, text)) => (decision, Answer { accepted: true, text }),
        Err(No::Refused(text)) => (review_loop.builder(), Answer { accepted: false, text }),
        Err(No::NotYet(question)) => return Some(question),
    };
    decision.effect(Effect::Reply { command: command.id.clone(), answer });
    Some(decision.finish())
}

/// What to do and what to say, or why not.
pub(super) type Outcome = Result<(Builder, String), No>;

/// Why a command is not carried out.
pub(super) enum No {
    Refused(String),
    /// A question comes first; the command is looked at again with its answer.
    NotYet(Decision),
}

impl From<String> for No {
    fn from(text: String) -> Self {
        Self::Refused(text)
    }
}

impl From<&str> for No {
    fn from(text: &str) -> Self {
        Self::Refused(text.to_owned())
    }
}

fn init(review_loop: &ReviewLoop, command: &Command, now: Now) -> Outcome {
    let steps = match (command.arg("steps"), command.arg("plan")) {
        (Some(list), _) => steps::from_list(list)?,
        (None, Some(plan)) => steps::from_plan(plan)?,
        (None, None) => return Err("no steps; give --steps 1,2,3 or --plan FILE".into()),
    };
    let memory = &review_loop.index.memory;
    let running = memory.state.as_ref().filter(|state| state.phase != Phase::Complete);
    if let Some(state) = running {
        return Err(format!("a loop is under way at step `{}`", state.current_step).into());
    }
    let seen = review_loop.index.whole(STATE).map(|file| file.digest.clone());
    if seen.is_some() && memory.state.is_none() {
        return Err(format!(
            "this repository already has a `{STATE}` that agency has not managed here; `agency adopt` continues it"
        )
        .into());
    }
    let anchor = anchor_here(review_loop)?;
    let state = LoopState {
        current_step: steps[0].clone(),
        current_round: 1,
        phase: Phase::Propose,
        status: "starting".to_owned(),
        active_agent: Holder::Builder,
        steps,
        steps_complete: Vec::new(),
        history: Vec::new(),
        escalations: Vec::new(),
        last_updated: now.wall,
    };
    let mut text = format!("the loop begins at step `{}`", state.current_step);
    let start = start_here(review_loop)?;
    let mut decision = review_loop.builder();
    if let Some((key, _, fact)) = review_loop.index.answer.as_deref() {
        decision.used(key.clone(), fact.clone());
    }
    text.push_str(&without_text(command.arg("plan"), &state.steps));
    decision.forget("plan");
    remember_plan(&mut decision, command.arg("plan"));
    write_state(&mut decision, &state, seen);
    decision.remember("refusals", Refusals::default());
    decision.remember("base", base::opened(review_loop, start.as_ref()));
    decision.remember("turn", Turn { start, ..Turn::new(now.wall, review_loop.limits.max_rounds) });
    remember_anchor(&mut decision, anchor);
    review::take_as_known(review_loop, &mut decision);
    Ok((decision, text))
}

/// The tree as the first turn finds it: what is dirty now is the owner's, what changes from now on is the turn's (LP-19).
fn start_here(review_loop: &ReviewLoop) -> Result<Option<Start>, No> {
    const LABEL: &str = "loop-open";
    if !review_loop.place.git {
        return Ok(None);
    }
    match run_changes::answer(review_loop, LABEL) {
        None => Err(No::NotYet(run_changes::ask_snapshot(review_loop, LABEL.to_owned(), None))),
        Some((_, Fact::Snapshot(snapshot))) => {
            Ok(Some(turn::start_point(None, snapshot, Holder::Builder)))
        }
        // Git is held or broken: the first turn will say so.
        Some(_) => Ok(None),
    }
}

/// LP-32: each step's text counts as the owner gave it.
pub(super) fn remember_plan(decision: &mut Builder, plan: Option<&str>) {
    if let Some(plan) = plan {
        let sections: BTreeMap<_, _> = steps::sections(plan).into_iter().collect();
        decision.remember("plan", sections);
    }
}

fn without_text(plan: Option<&str>, steps: &[String]) -> String {
    let Some(plan) = plan else { return String::new() };
    let sections: BTreeMap<_, _> = steps::sections(plan).into_iter().collect();
    let missing: Vec<_> = steps.iter().filter(|step| !sections.contains_key(*step)).collect();
    if missing.is_empty() {
        return String::new();
    }
    let missing: Vec<_> = missing.iter().map(|step| format!("`## Step {step}`")).collect();
    format!("; the plan has no {}", missing.join(", "))
}

/// Where the loop lives from now on. Without git there is nothing to remember.
pub(super) fn anchor_here(review_loop: &ReviewLoop) -> Result<Option<Anchor>, String> {
    if !review_loop.place.git {
        return Ok(None);
    }
    let checkout = review_loop.index.checkout.as_ref().ok_or("git has not been looked at yet")?;
    if let Some(busy) = checkout.busy {
        return Err(format!("{}; finish that first", busy.words()));
    }
    let branch = checkout.branch.clone().ok_or("HEAD is detached; check out a branch first")?;
    Ok(Some(Anchor { branch, commit: checkout.head.clone() }))
}

fn remember_anchor(decision: &mut Builder, anchor: Option<Anchor>) {
    if let Some(anchor) = anchor {
        decision.remember("anchor", anchor);
    }
}

pub(super) fn write_state(decision: &mut Builder, state: &LoopState, seen: Option<Digest>) {
    let (path, bytes) = (RelPath::fixed(STATE), Bytes(state.to_bytes()));
    decision.effect(Effect::Replace { path, bytes, seen });
    decision.remember("state", state);
}

fn resume(review_loop: &ReviewLoop, command: &Command, _: Now) -> Outcome {
    let memory = &review_loop.index.memory;
    let resumes = |way_out| matches!(way_out, WayOut::Resume | WayOut::AcceptHistory);
    if let Some(hold) = memory.holds.iter().find(|hold| !resumes(hold.way_out)) {
        let way = match hold.way_out {
            WayOut::AdoptOrRestore => "`agency adopt` or `agency loop restore`",
            WayOut::Trust => "`agency trust`",
            WayOut::Adopt | WayOut::Resume | WayOut::AcceptHistory => "`agency adopt`",
        };
        return Err(format!("{}; {way} ends this", hold.summary).into());
    }
    if !memory.is_held() {
        return Err("the loop is not held".into());
    }
    let mut decision = review_loop.builder();
    if memory.is_history_held() {
        accept_history(review_loop, &mut decision)?;
    }
    let accepted = base::resumed(review_loop, &mut decision, command)?;
    let text = release(review_loop, &mut decision, "the owner resumed");
    let text = accepted.map_or(text.clone(), |accepted| format!("{text}; {accepted}"));
    decision.remember("refusals", Refusals { in_a_row: 0, ..memory.refusals.clone() });
    decision.forget("spent");
    decision.remember("gates", super::detect::gates(review_loop));
    if let (Some(turn), Some(state)) = (&memory.turn, &memory.state) {
        decision.remember("turn", fresh_chance(review_loop, turn, state));
    }
    decision.announce("resume", &text);
    Ok((decision, text))
}

/// LP-20: the loop goes on from the history as it is now. The run may have moved our state file with it.
fn accept_history(review_loop: &ReviewLoop, decision: &mut Builder) -> Result<(), No> {
    if let (Some(git), Some(why)) = (away::way_back(review_loop), away::reason(review_loop)) {
        return Err(format!("{why}; first: {git}").into());
    }
    remember_anchor(decision, anchor_here(review_loop)?);
    write_back(review_loop, decision);
    review::take_as_known(review_loop, decision);
    Ok(())
}

/// Our state, where something else lies in its place; what lies there is kept.
pub(super) fn write_back(review_loop: &ReviewLoop, decision: &mut Builder) {
    let memory = &review_loop.index.memory;
    let here = review_loop.index.whole(STATE).map(|file| &file.digest);
    let ours = memory.state_file.as_ref().map(|file| &file.digest);
    if let Some(state) = memory.state.as_ref().filter(|_| here != ours) {
        write_state(decision, state, None);
    }
}

/// All tries again, as many rounds again, and another look at what the last run left.
fn fresh_chance(review_loop: &ReviewLoop, turn: &Turn, state: &LoopState) -> Turn {
    let mut turn = turn.clone();
    turn.failures = 0;
    turn.not_before = None;
    turn.round_limit =
        turn.round_limit.max(state.current_round - 1 + review_loop.limits.max_rounds);
    turn.look_again = turn.left.is_some();
    turn
}

/// SE-01: the shell has pinned what git finds now; what waited for that goes on.
fn trust(review_loop: &ReviewLoop, _: &Command, _: Now) -> Outcome {
    let mut decision = review_loop.builder();
    let waited = review_loop.index.memory.is_git_held();
    let how = "the owner trusts the repository's settings as they are";
    if !waited {
        return Ok((decision, "the loop did not wait for this".to_owned()));
    }
    let text = release_those(review_loop, &mut decision, how, |hold| hold.way_out == WayOut::Trust);
    Ok((decision, format!("the loop goes on: {text}")))
}

/// Ends all holds but those on git, which end when it is trusted; the causes' epoch is over.
pub(super) fn release(review_loop: &ReviewLoop, decision: &mut Builder, how: &str) -> String {
    release_those(review_loop, decision, how, |hold| hold.way_out != WayOut::Trust)
}

fn release_those(
    review_loop: &ReviewLoop,
    decision: &mut Builder,
    how: &str,
    ends: fn(&Hold) -> bool,
) -> String {
    let (over, rest): (Vec<Hold>, Vec<Hold>) =
        review_loop.index.memory.holds.iter().cloned().partition(ends);
    let causes =
        if over.len() == 1 { "one cause".to_owned() } else { format!("{} causes", over.len()) };
    for hold in over {
        decision.effect(Effect::Resolve { cause: hold.cause, how: how.to_owned() });
    }
    if rest.is_empty() {
        decision.forget("holds");
    } else {
        decision.remember("holds", rest);
    }
    decision.remember("epoch", review_loop.index.memory.epoch + 1);
    format!("{how}; {causes} resolved")
}

/// The repository is right: its state file and its history are taken as they are.
fn adopt(review_loop: &ReviewLoop, command: &Command, now: Now) -> Outcome {
    let memory = &review_loop.index.memory;
    let asked = memory
        .holds
        .iter()
        .any(|hold| matches!(hold.way_out, WayOut::Adopt | WayOut::AdoptOrRestore));
    if memory.state.is_some() && !asked {
        return Err("there is nothing to adopt: our journal knows this loop".into());
    }
    let file =
        review_loop.index.whole(STATE).ok_or_else(|| format!("there is no readable `{STATE}`"))?;
    let list = match (command.arg("steps"), command.arg("plan")) {
        (Some(list), _) => Some(steps::from_list(list)?),
        (None, Some(plan)) => Some(steps::from_plan(plan)?),
        (None, None) => None,
    };
    let state = takeover::read(&file.bytes, list, now.wall)?;
    let anchor = anchor_here(review_loop)?;
    let mut decision = review_loop.builder();
    // Their bytes are kept where ours are others.
    let seen = Some(file.digest.clone()).filter(|_| *file.bytes == *state.to_bytes());
    write_state(&mut decision, &state, seen);
    remember_plan(&mut decision, command.arg("plan"));
    begin_turn(review_loop, &mut decision, &state, now);
    remember_anchor(&mut decision, anchor);
    review::take_as_known(review_loop, &mut decision);
    let text = release(review_loop, &mut decision, "the owner adopted the repository as it is");
    decision.announce("adopt", &text);
    Ok((decision, text))
}

/// Our journal is right: its state is written back, on whatever the branch is now.
fn restore(review_loop: &ReviewLoop, _: &Command, now: Now) -> Outcome {
    let state = review_loop.index.memory.state.as_ref().ok_or(NO_LOOP)?;
    let anchor = anchor_here(review_loop)?;
    let mut decision = review_loop.builder();
    let seen = review_loop.index.whole(STATE).map(|file| file.digest.clone());
    write_state(&mut decision, state, seen);
    begin_turn(review_loop, &mut decision, state, now);
    remember_anchor(&mut decision, anchor);
    review::take_as_known(review_loop, &mut decision);
    let text = release(review_loop, &mut decision, "the owner restored our state");
    decision.announce("restore", &text);
    Ok((decision, text))
}

fn begin_turn(review_loop: &ReviewLoop, decision: &mut Builder, state: &LoopState, now: Now) {
    if state.phase == Phase::Complete {
        decision.forget("turn");
    } else {
        let round_limit = state.current_round.max(1) - 1 + review_loop.limits.max_rounds;
        let mut turn = Turn::new(now.wall, round_limit);
        // What the runs of the same turn left is still theirs, and not somebody's unfinished work.
        let place =
            |state: &LoopState| (state.current_step.clone(), state.phase, state.active_agent);
        let same =
            review_loop.index.memory.state.as_ref().is_some_and(|old| place(old) == place(state));
        if let Some(old) = review_loop.index.memory.turn.as_ref().filter(|_| same) {
            (turn.start, turn.left) = (old.start.clone(), old.left.clone());
            turn.look_again = turn.left.is_some();
        }
        decision.remember("turn", turn);
    }
}

/// Why, which the owner must say.
pub(super) fn reason(command: &Command) -> Result<&str, No> {
    let reason = command.arg("reason").filter(|reason| !reason.trim().is_empty());
    Ok(reason.ok_or("a reason is required: --reason TEXT")?)
}

/// An earlier command's transition is committed first: without a daemon it waits in the journal. One that cannot be
/// committed now (git is held, HEAD is elsewhere) gives way.
pub(super) fn finish_move(review_loop: &ReviewLoop, now: Now) -> Result<(), No> {
    let pending = review_loop
        .index
        .memory
        .transition
        .is_some()
        .then(|| transition::go_on(review_loop, now))
        .flatten();
    pending.map_or(Ok(()), |decision| Err(No::NotYet(decision)))
}

pub(super) fn no_live_run(review_loop: &ReviewLoop) -> Result<(), No> {
    let turn = review_loop.index.memory.turn.as_ref();
    match turn.and_then(|turn| turn.run.as_ref()) {
        Some(running) => Err(format!("a run is alive; first: agency stop {}", running.run).into()),
        None => Ok(()),
    }
}

/// LP-26: the owner's way out, past the table. Needs a reason; is journalled, committed and announced.
fn inject(review_loop: &ReviewLoop, command: &Command, now: Now) -> Outcome {
    let memory = &review_loop.index.memory;
    let state = memory.state.as_ref().ok_or(NO_LOOP)?;
    let reason = self::reason(command)?;
    let mut next = state.clone();
    if let Some(step) = command.arg("step") {
        let known = state.steps.iter().any(|known| known == step);
        next.current_step = known.then(|| step.to_owned()).ok_or_else(|| {
            let steps = state.steps.join(", ");
            format!("`{}` is not a step of this loop; the steps are {steps}", clip(step, 40))
        })?;
    }
    if let Some(phase) = command.arg("phase") {
        next.phase = Phase::parse(phase).ok_or_else(|| {
            let wanted = "wanted: propose, review, execute or verify";
            format!("`{}` is not a phase; {wanted}", clip(phase, 40))
        })?;
    }
    if let Some(turn) = command.arg("turn") {
        next.active_agent = Holder::parse(turn).ok_or_else(|| {
            format!("`{}` holds no turn; wanted: claude-code or codex", clip(turn, 40))
        })?;
    }
    no_live_run(review_loop)?;
    finish_move(review_loop, now)?;
    anchor_here(review_loop)?;
    next.current_round = 1;
    next.status = "injected".to_owned();
    let mut state = transition::record(review_loop, state, next, "inject", &command.by, now);
    // They are resolved in this very decision.
    state.escalations = Vec::new();
    let transition = Moving {
        at: now.wall,
        row: "inject".to_owned(),
        flag: None,
        state,
        action: "injected".to_owned(),
        take: Vec::new(),
        settled: false,
        opens: Opens::Turn,
    };
    let mut decision = review_loop.builder();
    decision.remember("moving", transition);
    release(review_loop, &mut decision, "the owner injected a state");
    let text = format!("injected: {}", clip(reason, 200));
    decision.announce("inject", &text);
    Ok((decision, text))
}

fn not_ours(_: &ReviewLoop, _: &Command, _: Now) -> Outcome {
    Err("that is not the loop's to do".into())
}

fn stop(review_loop: &ReviewLoop, command: &Command, _: Now) -> Outcome {
    let turn = review_loop.index.memory.turn.as_ref();
    let agent = turn.and_then(|turn| turn.run.as_ref()).map(|running| &running.run);
    let checks = turn.and_then(|turn| turn.checks.as_ref());
    let gate = checks.and_then(|checks| checks.running.as_ref()).map(|(run, _)| run);
    let base = review_loop.index.memory.base.as_ref().and_then(Base::run);
    let mut alive = agent.into_iter().chain(gate).chain(base);
    let run = alive.find(|run| command.arg("run") == Some(run.as_str()));
    let run = run.ok_or("no such run is alive in this loop")?.clone();
    let mut decision = review_loop.builder();
    let text = format!("`{run}` is being stopped");
    decision.effect(Effect::Stop { run, why: format!("stopped by {}", command.by) });
    Ok((decision, text))
}
