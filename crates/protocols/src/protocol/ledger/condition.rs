//! What the ledger's loop does right now, or why it does nothing (DM-16). It decides nothing.

use super::{Ledger, foreign, parking};
use crate::engine::{self, StageKind};
use crate::model::{Condition, Now};

pub(super) fn condition(ledger: &Ledger, now: Now) -> Condition {
    let memory = &ledger.index.memory;
    if let Some(hold) = memory.holds.open.first() {
        return Condition::held(&hold.summary, hold.way_out.command());
    }
    if let Some(turn) = memory.turn().filter(|turn| turn.stage.kind() == StageKind::Running) {
        return engine::condition(ledger, turn, now);
    }
    if let Some(effect) = ledger.index.in_flight.blocking() {
        return Condition::doing(effect);
    }
    if let (Some(_), Some(name)) = (&memory.main, foreign::unread(ledger)) {
        return Condition::waits_for(format!(
            "`{name}` is empty or stops in the middle; it goes on when the file is whole or moved away"
        ));
    }
    if let Some(summary) = parking::only_parked_left(ledger) {
        return Condition::held(summary, "agency resume".to_owned());
    }
    match (&memory.main, memory.turn()) {
        (None, _) => without_loop(ledger),
        (Some(_), Some(turn)) => engine::condition(ledger, turn, now),
        (Some(_), None) if memory.rest().is_some() => {
            Condition::done("all features pass; new features start it again")
        }
        (Some(main), None) => Condition::step(format!("looking for the next session on `{main}`")),
    }
}

fn without_loop(ledger: &Ledger) -> Condition {
    // The owner configured a ledger here: a file found by its content alone would be one that can be used.
    match foreign::in_tree(ledger) {
        Some(foreign) => Condition::frozen(foreign.found(), foreign.way_out("agency ledger init")),
        None => Condition::idle("no loop; `agency ledger init` begins one"),
    }
}
