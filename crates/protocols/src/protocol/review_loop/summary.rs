//! The loop in one line for `agency status`, and the word at its end.

use super::{
    GateTree, ReviewLoop, base,
    hold::{self, Reason},
    memory::{Checks, LoopState, Turn},
    owner_verbs,
    table::Phase,
};
use crate::model::{Builder, Now, Severity, clip, clock_time};
use std::time::Duration;

/// The completion of the whole loop is worth a word, and nothing to do.
pub(super) fn tell_complete(review_loop: &ReviewLoop, decision: &mut Builder, steps: usize) {
    let steps = match steps {
        1 => "its only step is verified".to_owned(),
        steps => format!("all {steps} steps are verified"),
    };
    let mut reason = Reason::new("LP-24", "complete", format!("the loop is complete: {steps}"));
    reason.did = "Every transition is committed; no agent is started any more.".to_owned();
    reason.wont = "We begin no new loop by ourselves; `agency loop init` does.".to_owned();
    hold::tell(review_loop, decision, Severity::Notice, reason);
}

/// One line for `agency status`.
pub(super) fn summary(review_loop: &ReviewLoop, state: &LoopState, now: Now) -> String {
    let memory = &review_loop.index.memory;
    if state.phase == Phase::Complete {
        let steps = match state.steps_complete.len() {
            1 => "1 step".to_owned(),
            steps => format!("{steps} steps"),
        };
        return if state.status == owner_verbs::ENDED {
            format!("ended by the owner at step {}, {steps} complete", state.current_step)
        } else {
            format!("complete, {steps}")
        };
    }
    let at = state.steps.iter().position(|step| *step == state.current_step).map_or(0, |at| at + 1);
    let place = format!(
        "step {} ({at} of {}) · {} · round {}",
        state.current_step,
        state.steps.len(),
        state.phase.word(),
        state.current_round
    );
    let base = base::doing(review_loop).filter(|_| memory.holds.is_empty());
    let doing = base.unwrap_or_else(|| doing(review_loop, state, now));
    let place = match review_loop.limits.gate_tree {
        GateTree::Clean => place,
        GateTree::Shared => {
            format!("{place} · gates run in the agents' own tree (gate_tree: shared)")
        }
    };
    match base::accepted(review_loop).as_slice() {
        [] => format!("{place} · {doing}"),
        [gate] => format!("{place} · {doing} · accepted although it fails: `{}`", clip(gate, 60)),
        gates => format!("{place} · {doing} · {} gates accepted although they fail", gates.len()),
    }
}

/// What happens, or why nothing does.
fn doing(review_loop: &ReviewLoop, state: &LoopState, now: Now) -> String {
    let (memory, who) = (&review_loop.index.memory, state.active_agent.word());
    match (&memory.turn, memory.holds.first(), &memory.away) {
        (_, Some(hold), _) => format!("held: {}", hold.summary),
        (_, _, Some(cause)) => format!("away: {}", cause.subject),
        (Some(Turn { run: Some(running), .. }), ..) => {
            format!("{who} works for {}", short(now.ticks.since(running.ticks)))
        }
        (Some(Turn { checks: Some(Checks { running: Some((_, gate)), .. }), .. }), ..) => {
            format!("the gate `{}` runs", clip(gate, 60))
        }
        (Some(Turn { not_before: Some(at), paused, .. }), ..)
            if at.left(now).is_some() && !paused.is_empty() =>
        {
            format!("waiting: {paused}")
        }
        (Some(Turn { not_before: Some(at), .. }), ..) if at.left(now).is_some() => {
            format!("waiting: the next run of {who} starts at {}", clock_time(at.wall()))
        }
        _ => format!("{who} is next"),
    }
}

fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}
