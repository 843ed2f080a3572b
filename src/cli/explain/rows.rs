//! One row of a transition table, in a sentence. `agency protocol show` prints the whole of it.

use crate::protocol::{board, codifica, handoff, ledger, review_loop};
use board::table::From as BoardFrom;
use handoff::table::{Folder, MOVES, Needs, RESULTS, TYPES};
use review_loop::table::Next;

/// The protocol whose row it is, and what the row says.
pub(super) fn find(id: &str) -> Option<(&'static str, String)> {
    let named = |name: &'static str| move |text: String| (name, text);
    let review_loop = || loop_row(id).map(named(review_loop::NAME));
    review_loop()
        .or_else(|| board_row(id).map(named(board::NAME)))
        .or_else(|| codifica_row(id).map(named(codifica::NAME)))
        .or_else(|| handoff_row(id).map(named(handoff::NAME)))
        .or_else(|| ledger_row(id).map(named(ledger::NAME)))
}

fn loop_row(id: &str) -> Option<String> {
    let row = review_loop::table::TABLE.iter().find(|row| row.id == id)?;
    let (phase, holder, said) = (row.phase.word(), row.holder.word(), row.said.word());
    let next = match row.next {
        Next::Advance => "the next step begins".to_owned(),
        Next::Hand(phase, holder, _) => {
            format!("`{}`, and the turn of {}", phase.word(), holder.word())
        }
    };
    Some(format!("in `{phase}`, when {holder} holds the turn and says `{said}`: {next}"))
}

fn board_row(id: &str) -> Option<String> {
    let row = board::table::TABLE.iter().find(|row| row.id == id)?;
    let from = match row.from {
        BoardFrom::Only(status) => status.word(),
        BoardFrom::Any => "any status",
    };
    let guard = Some(row.guard.words()).filter(|words| !words.is_empty());
    let guard = guard.map(|words| format!(", if {words}")).unwrap_or_default();
    Some(format!("from {from} to {}, by the {}{guard}", row.to.word(), row.who.word()))
}

fn codifica_row(id: &str) -> Option<String> {
    let row = codifica::table::TABLE.iter().find(|row| row.id == id)?;
    let guards: Vec<_> = row.guards.iter().map(|guard| format!("{guard:?}")).collect();
    let asks =
        if guards.is_empty() { String::new() } else { format!("; asks for {}", guards.join(", ")) };
    Some(format!("from {} to {}, by {}{asks}", row.from.word(), row.to.word(), row.who.word()))
}

/// Three tables: who sends what, how a message moves, what a result needs.
fn handoff_row(id: &str) -> Option<String> {
    let kind = TYPES.iter().find(|row| row.id == id).map(|row| {
        format!("`{}` goes from {} to {}", row.kind.word(), row.from.word(), row.to.word())
    });
    let moved = || {
        let row = MOVES.iter().find(|row| row.id == id)?;
        let from = row.from.map_or("(new)", Folder::word);
        Some(format!(
            "a message moves from {from} to {}, addressed to {}",
            row.to.word(),
            row.addressee.word()
        ))
    };
    let result = || {
        let row = RESULTS.iter().find(|row| row.id == id)?;
        let needs = match row.needs {
            Needs::Handoff(kind) => format!("must leave a `{}`", kind.word()),
            Needs::Nothing => "ends the workflow".to_owned(),
        };
        Some(format!("{} with the result `{}` {needs}", row.who.word(), row.said.word()))
    };
    kind.or_else(moved).or_else(result)
}

fn ledger_row(id: &str) -> Option<String> {
    let row = ledger::table::TABLE.iter().find(|row| row.id == id)?;
    let (agent, said, next) = (row.agent.word(), row.said.word(), row.next.word());
    Some(format!("when {agent} came to `{said}`: {next}"))
}
