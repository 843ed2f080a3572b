//! `agency loop end` and `agency loop steps add|remove` (LP-36): the owner's, journalled and committed.

use super::{
    ReviewLoop, command,
    command::{No, Outcome},
    memory::{LoopState, Moving, Opens},
    steps,
    table::{Holder, Phase},
    transition,
};
use crate::model::{Command, Now, clip};

/// The `status` of a loop that its owner ended.
pub(super) const ENDED: &str = "ended";

/// The verb that `do` names.
pub(super) fn run(review_loop: &ReviewLoop, asked: &Command, now: Now) -> Outcome {
    match asked.arg("do") {
        Some("end") => end(review_loop, asked, now),
        Some("steps-add") => add(review_loop, asked, now),
        Some("steps-remove") => remove(review_loop, asked, now),
        _ => Err("that is not the loop's to do".into()),
    }
}

fn end(review_loop: &ReviewLoop, asked: &Command, now: Now) -> Outcome {
    command::finish_move(review_loop, now)?;
    let state = under_way(review_loop)?;
    let reason = command::reason(asked)?;
    command::no_live_run(review_loop)?;
    command::anchor_here(review_loop)?;
    let mut next = state.clone();
    next.phase = Phase::Complete;
    next.status = ENDED.to_owned();
    let mut next = transition::record(review_loop, state, next, "end", &asked.by, now);
    next.escalations = Vec::new();
    let mut decision = review_loop.builder();
    decision.remember("moving", moved(next, "end", ENDED, Opens::Turn, now));
    command::release(review_loop, &mut decision, "the owner ended the loop");
    let text = format!("the loop ends at step `{}`: {}", state.current_step, clip(reason, 200));
    decision.announce("loop end", &text);
    Ok((decision, text))
}

fn add(review_loop: &ReviewLoop, asked: &Command, now: Now) -> Outcome {
    command::finish_move(review_loop, now)?;
    let state = review_loop.index.memory.state.as_ref().ok_or(NO_LOOP)?;
    if state.status == ENDED {
        return Err("the owner ended this loop; `agency loop init` begins another".into());
    }
    let new = steps::from_list(asked.arg("steps").unwrap_or_default())?;
    if let Some(known) = new.iter().find(|step| state.steps.contains(step)) {
        return Err(format!("step `{known}` is in the list already").into());
    }
    let at = match asked.arg("after") {
        None => state.steps.len(),
        Some(after) => position(state, after)? + 1,
    };
    let current = position(state, &state.current_step)?;
    if at <= current {
        return Err(format!("step `{}` is under way; add after it", state.current_step).into());
    }
    let mut next = state.clone();
    next.steps.splice(at..at, new.iter().cloned());
    let mut opens = Opens::Nothing;
    if state.phase == Phase::Complete {
        (next.current_step, next.phase) = (new[0].clone(), Phase::Propose);
        (next.active_agent, next.current_round) = (Holder::Builder, 1);
        next = transition::record(review_loop, state, next, "steps", &asked.by, now);
        opens = Opens::Turn;
    }
    change_list(review_loop, asked, next, "steps-added", opens, now)
}

fn remove(review_loop: &ReviewLoop, asked: &Command, now: Now) -> Outcome {
    command::finish_move(review_loop, now)?;
    let state = under_way(review_loop)?;
    let gone = steps::from_list(asked.arg("steps").unwrap_or_default())?;
    for step in &gone {
        position(state, step)?;
        if state.steps_complete.contains(step) {
            return Err(format!("step `{step}` is complete").into());
        }
        if *step == state.current_step {
            let way = "`agency loop inject --step` goes to another one first";
            return Err(format!("step `{step}` is under way; {way}").into());
        }
    }
    let mut next = state.clone();
    next.steps.retain(|step| !gone.contains(step));
    change_list(review_loop, asked, next, "steps-removed", Opens::Nothing, now)
}

/// While a run is alive no commit of ours may move HEAD: the new list is then part of the next transition's commit.
fn change_list(
    review_loop: &ReviewLoop,
    asked: &Command,
    next: LoopState,
    action: &str,
    opens: Opens,
    now: Now,
) -> Outcome {
    let text = format!("steps: {}", next.steps.join(", "));
    let mut decision = review_loop.builder();
    command::remember_plan(&mut decision, asked.arg("plan"));
    if command::no_live_run(review_loop).is_err() {
        let seen = review_loop.index.memory.state_file.as_ref().map(|file| file.digest.clone());
        command::write_state(&mut decision, &next, seen);
        decision.announce("loop steps", &text);
        return Ok((decision, format!("{text} (committed with the next transition)")));
    }
    command::anchor_here(review_loop)?;
    if review_loop.index.memory.transition.is_some() {
        return Err("a transition cannot be committed yet; `agency status` says why".into());
    }
    decision.remember("moving", moved(next, "steps", action, opens, now));
    decision.announce("loop steps", &text);
    Ok((decision, text))
}

pub(super) const NO_LOOP: &str =
    "there is no loop here; `agency loop init --steps 1,2,3` begins one";

fn under_way(review_loop: &ReviewLoop) -> Result<&LoopState, No> {
    let state = review_loop.index.memory.state.as_ref().ok_or(NO_LOOP)?;
    if state.phase == Phase::Complete {
        return Err("the loop is over; `agency loop init` begins another".into());
    }
    Ok(state)
}

fn position(state: &LoopState, step: &str) -> Result<usize, No> {
    let at = state.steps.iter().position(|known| known == step);
    at.ok_or_else(|| {
        let (step, steps) = (clip(step, 40), state.steps.join(", "));
        format!("`{step}` is not a step of this loop; the steps are {steps}").into()
    })
}

fn moved(state: LoopState, row: &str, action: &str, opens: Opens, now: Now) -> Moving {
    Moving {
        at: now.wall,
        row: row.to_owned(),
        flag: None,
        state,
        action: action.to_owned(),
        take: Vec::new(),
        settled: false,
        opens,
    }
}
