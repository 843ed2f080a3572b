//! One turn: lease the tree, look at it, start the agent, note its end. It judges no flag.

use super::{
    COMMENTS, RESPONSE, ReviewLoop, STATE, base, flag, gates,
    hold::{self, Reason},
    memory::{Ended, LoopState, Running, Start, Turn},
    prompt, review,
    run_changes::{answer, ask_snapshot, cannot_look, without},
    table::{Holder, Phase},
};
use crate::model::{
    Access, Builder, Decision, Effect, Event, Fact, Now, Outage, Outcome, RelPath, RunId, Seat,
    Severity, Snapshot, Spawn, Ticks, TreeRef,
};

/// A run of ours has ended: remember that before anything else.
pub(super) fn note_end(review_loop: &ReviewLoop, now: Now) -> Option<Decision> {
    let end = review_loop.index.ended.as_ref()?;
    let mut turn = review_loop.index.memory.turn.clone()?;
    let running = turn.run.take_if(|running| running.run == end.run)?;
    // A session that could not be gone on with is forgotten.
    let resumed = turn.session.is_some();
    let lost = resumed && matches!(end.outcome, Outcome::Crash { .. });
    turn.session = end.usage.session.clone().filter(|_| !lost);
    turn.ended = Some(Ended {
        run: end.run.clone(),
        outcome: end.outcome.clone(),
        at: end.ended_at,
        tail: end.tail.clone(),
        looked: false,
        began: Some((running.since, running.ticks)),
    });
    let mut decision = review_loop.builder();
    decision.effects(Outage::after(&mut turn.outage, &end.outcome));
    let tampered = review::changed_mandates(review_loop, &turn, end.run.as_str());
    decision.remember("turn", turn);
    if let Some(cost) = end.usage.cost_microusd {
        decision.remember("spent", review_loop.index.memory.spent.saturating_add(cost));
    }
    if let Some(reason) = tampered {
        hold::hold(review_loop, &mut decision, reason);
    }
    if end.outcome == Outcome::Lost && is_stale(review_loop, &running, now) {
        let reason = stale_lock(review_loop, &running, &end.tail);
        hold::tell(review_loop, &mut decision, Severity::Warning, reason);
    }
    Some(decision.finish())
}

/// LP-21: the run that holds the turn is the lock. While its process lives it may take its time; how long that is, is for
/// the limits of runs to say.
fn is_stale(review_loop: &ReviewLoop, running: &Running, now: Now) -> bool {
    // The steady clock counts; one that is behind has begun anew with the machine, and only the wall clock is left.
    let age = if now.ticks >= running.ticks {
        now.ticks.since(running.ticks)
    } else {
        (now.wall - running.since).to_std().unwrap_or_default()
    };
    age > review_loop.limits.lock_stale
}

fn stale_lock(review_loop: &ReviewLoop, running: &Running, tail: &str) -> Reason {
    let (run, minutes) = (&running.run, review_loop.limits.lock_stale.as_secs() / 60);
    let summary = format!("`{run}` held the turn past {minutes} min and no process of it is alive");
    let mut reason = Reason::new("LP-21", run.as_str(), summary);
    reason.what = format!(
        "The lock is stale: the turn belonged to `{run}` since {}, and nobody saw how it ended.",
        running.since.to_rfc3339()
    );
    reason.did =
        "The lock is released; the turn stays with its agent, who is tried again.".to_owned();
    reason.wont = "A lost run does not count as success.".to_owned();
    reason.evidence = vec![format!("lock: `{run}`, since {}", running.since.to_rfc3339())];
    reason.evidence.extend(Some(tail.to_owned()).filter(|tail| !tail.is_empty()));
    reason
}

/// A permission to start that cannot be used now is given back, so that nobody waits for a held or absent loop.
pub(super) fn give_back(review_loop: &ReviewLoop, _: Now) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    let stuck = memory.is_held() || super::away::is_away(review_loop);
    if !(review_loop.index.granted && stuck) {
        return None;
    }
    let mut decision = review_loop.builder();
    decision.effect(Effect::Release { tree: TreeRef::Main });
    Some(decision.finish())
}

/// Gives the turn to its holder: lease, look, start.
pub(super) fn begin(review_loop: &ReviewLoop, turn: &Turn, now: Now) -> Option<Decision> {
    let state = review_loop.index.memory.state.as_ref()?;
    let waits = turn.not_before.is_some_and(|at| at.left(now).is_some());
    if turn.run.is_some() || turn.ended.is_some() || waits || state.phase == Phase::Complete {
        return None;
    }
    if state.current_round > turn.round_limit {
        let mut decision = review_loop.builder();
        hold::hold(review_loop, &mut decision, too_many_rounds(review_loop, state));
        return Some(decision.finish());
    }
    if let Some(reason) = review::unreadable_mandates(review_loop) {
        let mut decision = review_loop.builder();
        hold::hold(review_loop, &mut decision, reason);
        return Some(decision.finish());
    }
    if let Some(cap) =
        review_loop.limits.cost_per_step.filter(|cap| review_loop.index.memory.spent >= *cap)
    {
        let mut decision = review_loop.builder();
        hold::hold(review_loop, &mut decision, too_expensive(review_loop, state, cap));
        return Some(decision.finish());
    }
    let gate = match base::duty(review_loop) {
        base::Duty::Clear => None,
        base::Duty::Wait => return None,
        base::Duty::Hold(decision) => return Some(*decision),
        base::Duty::Run(gate) => Some(gate),
    };
    if !review_loop.index.granted {
        if review_loop.index.is_waiting_for_lease() {
            return None;
        }
        let (seat, role) = (seat(state.active_agent), state.active_agent.role().to_owned());
        let mut decision = review_loop.builder();
        decision.effect(Effect::Lease { tree: TreeRef::Main, seat, role });
        return Some(decision.finish());
    }
    if let Some(gate) = gate {
        return Some(gates::start_on_base(review_loop, gate));
    }
    if !review_loop.place.git {
        return Some(start(review_loop, state, turn, None, now));
    }
    let label = "loop-start".to_owned();
    match answer(review_loop, &label) {
        None => {
            let since = turn.start.as_ref().map(|start| start.last.clone());
            Some(ask_snapshot(review_loop, label, since))
        }
        Some((_, Fact::Snapshot(snapshot))) => {
            Some(start(review_loop, state, turn, Some(snapshot), now))
        }
        Some((_, fact)) => Some(cannot_look(review_loop, fact)),
    }
}

fn start(
    review_loop: &ReviewLoop,
    state: &LoopState,
    turn: &Turn,
    snapshot: Option<&Snapshot>,
    now: Now,
) -> Decision {
    let mut decision = review_loop.builder();
    if let Some((key, _, fact)) = review_loop.index.answer.as_deref() {
        decision.used(key.clone(), fact.clone());
    }
    let run = RunId::new(format!("{}-{}", review_loop.place.repo, decision.key()));
    let holder = state.active_agent;
    archive(review_loop, holder, &mut decision, now);
    decision.effect(Effect::Log(Event {
        event: "run.start".to_owned(),
        agent: Some(seat(holder)),
        context: [
            ("run", run.as_str()),
            ("step", &state.current_step),
            ("phase", state.phase.word()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    }));
    decision.effect(Effect::Spawn(Box::new(Spawn {
        run: run.clone(),
        seat: seat(holder),
        role: holder.role().to_owned(),
        tree: TreeRef::Main,
        task: state.current_step.clone(),
        phase: state.phase.word().to_owned(),
        prompt: prompt::prompt(review_loop, state, &run),
        why: why(review_loop, state, turn),
        resume: turn.session.clone(),
        command: None,
        access: Access::Write,
    })));
    let mut next = turn.clone();
    next.start = snapshot.map(|snapshot| start_point(turn.start.as_ref(), snapshot, holder));
    if let (Some(left), Some(snapshot)) = (&mut next.left, snapshot) {
        left.changed = without(&left.changed, &snapshot.changed);
    }
    next.run = Some(Running { run, since: now.wall, ticks: now.ticks });
    next.not_before = None;
    next.paused = String::new();
    next.checks = None;
    base::close(review_loop, &mut decision);
    if let Some(gates) = gates::found_now(review_loop) {
        decision.remember("gates", gates);
    }
    next.mandates = review_loop.index.whole(super::MANDATES).map(|file| file.digest.clone());
    decision.remember("turn", next);
    decision.finish()
}

/// What was dirty at the first try, or became so between two, is somebody else's until it is committed. The holder's own review
/// file is not: its old bytes are archived first (LP-16), and nobody else writes it.
pub(super) fn start_point(earlier: Option<&Start>, snapshot: &Snapshot, holder: Holder) -> Start {
    let ours = [flag::PATH, STATE, review_file(holder)];
    let dirty = snapshot.dirty.iter().filter(|path| !ours.contains(&path.as_str()));
    let foreign = |path: &RelPath| {
        earlier.is_none_or(|start| {
            start.dirty.contains(path)
                || snapshot.changed.iter().any(|between| between.path == *path)
        })
    };
    Start {
        head: snapshot.checkout.head.clone(),
        refs: snapshot.refs.clone(),
        dirty: dirty.filter(|path| foreign(path)).cloned().collect(),
        last: snapshot.tree.clone(),
    }
}

fn why(review_loop: &ReviewLoop, state: &LoopState, turn: &Turn) -> String {
    let row = state.history.last().map_or("the beginning", |step| step.row.as_str());
    match (turn.failures, review_loop.index.memory.refusals.in_a_row) {
        (0, 0) => format!("{row} gave the turn"),
        (0, 1) => format!("{row} gave the turn; one flag was refused"),
        (0, refusals) => format!("{row} gave the turn; {refusals} flags were refused"),
        (failures, _) => format!("{row} gave the turn; try {}", failures + 1),
    }
}

/// LP-16: the file that this turn will rewrite is kept first, once for the same bytes.
fn archive(review_loop: &ReviewLoop, holder: Holder, decision: &mut Builder, now: Now) {
    let name = review_file(holder);
    let Some(file) = review_loop.index.whole(name) else { return };
    if file.bytes.is_empty() || review_loop.index.memory.archived.contains(file.digest.as_str()) {
        return;
    }
    let stem = name.trim_end_matches(".md");
    let to = format!("reviews/{stem}-{}.md", now.wall.format("%Y%m%dT%H%M%SZ"));
    let to = RelPath::new(to).expect("BUG: an archive's name is made of our own words");
    let (from, seen) = (RelPath::fixed(name), file.digest.clone());
    decision.remember(&format!("archived/{seen}"), true);
    decision.effect(Effect::Copy { from, to, seen });
}

/// SU-07: the step's runs have used up what the owner allowed.
fn too_expensive(review_loop: &ReviewLoop, state: &LoopState, cap: u64) -> Reason {
    let dollars = |micro: u64| format!("${}.{:02}", micro / 1_000_000, micro / 10_000 % 100);
    let spent = dollars(review_loop.index.memory.spent);
    let summary =
        format!("step `{}` has cost {spent}, the cap is {}", state.current_step, dollars(cap));
    let mut reason = Reason::new("SU-07", state.current_step.as_str(), summary);
    reason.wont = "We spend no more on this step; resume allows as much again.".to_owned();
    reason
}

fn too_many_rounds(review_loop: &ReviewLoop, state: &LoopState) -> Reason {
    let summary = format!(
        "step `{}` is past round {} of `{}` and the agents do not agree",
        state.current_step,
        state.current_round - 1,
        state.phase.word()
    );
    let subject = format!("{}/{}/{}", state.current_step, state.phase.word(), state.current_round);
    let mut reason = Reason::new("LP-25", subject, summary);
    reason.evidence = review::open_requests(review_loop);
    reason.wont = "We start no further round; resume allows as many again.".to_owned();
    reason
}

/// The file that this agent answers in (spec 1 §4).
pub(super) fn review_file(holder: Holder) -> &'static str {
    match holder {
        Holder::Builder => RESPONSE,
        Holder::Reviewer => COMMENTS,
    }
}

pub(super) fn seat(holder: Holder) -> Seat {
    Seat::new(holder.word())
}

/// When a flag that waits for its run's end was written off: see `moving::settle_deadline`.
pub(super) fn running_since(turn: &Turn) -> Option<Ticks> {
    turn.run.as_ref().map(|running| running.ticks)
}
