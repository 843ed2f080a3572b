//! What the ledger's loop does right now, or why it does nothing (DM-16). It decides nothing.

use super::memory::{Stage, Turn};
use super::{Ledger, foreign, parking};
use crate::model::{Condition, LiveRun, Now, Work, clock_time};

pub(super) fn condition(it: &Ledger, now: Now) -> Condition {
    let memory = &it.index.memory;
    if let Some(hold) = memory.holds.first() {
        return Condition::held(&hold.summary, format!("agency {}", hold.way_out.verb()));
    }
    if let Some(turn) = &memory.turn
        && let Stage::Running { run, since, .. } = &turn.stage
    {
        return Condition::Working(Work::Run(LiveRun {
            run: run.clone(),
            agent: turn.agent.role().to_owned(),
            task: task(turn),
            since: Some(*since),
            trouble: None,
            others: 0,
        }));
    }
    if let Some(effect) = it.index.busy_with() {
        return Condition::doing(effect);
    }
    if let Some(summary) = parking::only_parked_left(it) {
        return Condition::held(summary, "agency resume".to_owned());
    }
    match (&memory.main, &memory.turn) {
        (None, _) => without_loop(it),
        (Some(_), Some(turn)) => of_turn(it, turn, now),
        (Some(_), None) if memory.rest.is_some() => {
            Condition::done("all features pass; new features start it again")
        }
        (Some(main), None) => Condition::step(format!("looking for the next session on `{main}`")),
    }
}

fn without_loop(it: &Ledger) -> Condition {
    // The owner configured a ledger here: a file found by its content alone would be one that can be used.
    match foreign::in_tree(it) {
        Some(foreign) => Condition::frozen(foreign.found(), foreign.way_out("agency ledger init")),
        None => Condition::idle("no loop; `agency ledger init` begins one"),
    }
}

fn of_turn(it: &Ledger, turn: &Turn, now: Now) -> Condition {
    let agent = turn.agent.role();
    if it.index.is_waiting_for_lease() {
        return Condition::starts(agent, task(turn));
    }
    if let Some(at) = turn.not_before.filter(|at| at.left(now).is_some()) {
        return if turn.paused.is_empty() {
            Condition::waits_until(format!("next try of {agent} {}", clock_time(at.wall())), at)
        } else {
            Condition::waits_until(&turn.paused, at)
        };
    }
    Condition::step(match &turn.stage {
        Stage::Opening | Stage::Based { .. } => format!("preparing {agent} for {}", task(turn)),
        Stage::Running { run, .. } => format!("following the run {run}"),
        Stage::Ended(_) | Stage::Left { .. } => format!("judging what {agent} left"),
        Stage::Moving(_) => format!("recording {}", task(turn)),
    })
}

fn task(turn: &Turn) -> String {
    turn.feature.clone().unwrap_or_else(|| turn.branch.clone())
}
