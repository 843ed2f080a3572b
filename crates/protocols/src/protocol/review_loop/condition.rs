//! What the loop does right now, or why it does nothing (DM-16). It decides nothing.

use super::{
    ReviewLoop, STATE, away, base, hold,
    memory::{Checks, LoopState, Running, Turn},
    owner_verbs,
    table::Phase,
    takeover,
};
use crate::model::{BOM, Condition, FileState, LiveRun, Now, Work, clip, clock_time};

pub(super) fn condition(review_loop: &ReviewLoop, now: Now) -> Condition {
    let memory = &review_loop.index.memory;
    if let Some(hold) = memory.holds.first() {
        return Condition::held(&hold.summary, hold::command(review_loop, hold.way_out));
    }
    match &memory.state {
        Some(state) => of_loop(review_loop, state, now),
        None => match review_loop.index.busy_with() {
            Some(effect) => Condition::doing(effect),
            None => without_loop(review_loop),
        },
    }
}

fn without_loop(review_loop: &ReviewLoop) -> Condition {
    match review_loop.index.file(STATE) {
        Some(FileState::Unreadable(odd)) => Condition::frozen(
            format!("`{STATE}` cannot be read: it is {}", odd.found),
            format!("replace `{STATE}` by {}, then: agency adopt", odd.wanted),
        ),
        Some(FileState::Whole(file)) => match takeover::check(&file.bytes) {
            Ok(()) => Condition::step(format!("looking at `{STATE}`")),
            Err(why) => Condition::frozen(
                format!("`{STATE}` cannot be read: {}", unreadable(&file.bytes, why)),
                format!("put `{STATE}` right, or move it away and begin anew: agency loop init"),
            ),
        },
        Some(FileState::Absent) | None => Condition::idle("no loop; `agency loop init` begins one"),
    }
}

fn unreadable(bytes: &[u8], why: String) -> String {
    match bytes.starts_with(BOM) {
        true => "it begins with a byte-order mark; write it without one".to_owned(),
        false => why,
    }
}

fn of_loop(review_loop: &ReviewLoop, state: &LoopState, now: Now) -> Condition {
    let memory = &review_loop.index.memory;
    let turn = memory.turn.as_ref();
    let who = state.active_agent.word();
    if let Some(doing) = base::doing(review_loop) {
        return Condition::step(doing);
    }
    if let Some(run) = turn.and_then(|turn| alive(state, turn)) {
        return Condition::Working(Work::Run(run));
    }
    if let Some(reason) = outside(review_loop) {
        return Condition::waits_for(reason);
    }
    if let Some(effect) = review_loop.index.busy_with() {
        return Condition::doing(effect);
    }
    if state.phase == Phase::Complete && memory.transition.is_none() {
        return complete(review_loop, state, now);
    }
    if review_loop.index.is_waiting_for_lease() {
        return Condition::starts(who, format!("step {}", state.current_step));
    }
    let pause = turn.and_then(|turn| Some((turn, turn.not_before?)));
    match pause.filter(|(_, at)| at.left(now).is_some()) {
        Some((turn, at)) if turn.paused.is_empty() => {
            Condition::waits_until(format!("next try of {who} {}", clock_time(at.wall())), at)
        }
        Some((turn, at)) => Condition::waits_until(&turn.paused, at),
        None => Condition::step(format!("preparing {who}'s turn at step {}", state.current_step)),
    }
}

/// The agent of this turn, or the gate that checks its work.
fn alive(state: &LoopState, turn: &Turn) -> Option<LiveRun> {
    let task = format!("step {}", state.current_step);
    let live = |run, agent: &str, task, since| LiveRun {
        run,
        agent: agent.to_owned(),
        task,
        since,
        trouble: None,
        others: 0,
    };
    match turn {
        Turn { run: Some(Running { run, since, .. }), .. } => {
            Some(live(run.clone(), state.active_agent.word(), task, Some(*since)))
        }
        Turn { checks: Some(Checks { running: Some((run, gate)), .. }), .. } => {
            Some(live(run.clone(), &format!("the gate `{}`", clip(gate, 60)), task, None))
        }
        Turn { .. } => None,
    }
}

/// What we wait for and cannot do ourselves: the owner works on another branch, or git is at work.
pub(super) fn outside(review_loop: &ReviewLoop) -> Option<String> {
    let memory = &review_loop.index.memory;
    let open = memory.state.as_ref().is_some_and(|state| state.phase != Phase::Complete);
    away::reason(review_loop).filter(|_| open)
}

fn complete(review_loop: &ReviewLoop, state: &LoopState, now: Now) -> Condition {
    let push = review_loop.index.memory.push.as_ref();
    match push.and_then(|push| push.not_before).filter(|at| at.left(now).is_some()) {
        Some(at) => Condition::waits_until(
            format!("the last push failed; next try {}", clock_time(at.wall())),
            at,
        ),
        None if push.is_some() => Condition::step("pushing the last step"),
        None if state.status == owner_verbs::ENDED => {
            Condition::done(format!("the owner ended the loop at step {}", state.current_step))
        }
        None => match state.steps_complete.len() {
            1 => Condition::done("the only step is complete"),
            steps => Condition::done(format!("all {steps} steps are complete")),
        },
    }
}
