//! The three tables of the handoff protocol: who sends what, how a message moves, what a result needs.

use super::super::show;
use crate::protocol::handoff::table::{Folder, MOVES, Needs, RESULTS, TYPES};
use comfy_table::Table;

pub(super) fn tables() {
    let mut types = show::table(&["row", "type", "from", "to"]);
    for row in TYPES {
        types.add_row([row.id, row.kind.word(), row.from.word(), row.to.word()]);
    }
    let mut results = show::table(&["row", "agent", "result", "must leave"]);
    for row in RESULTS {
        let needs = match row.needs {
            Needs::Handoff(kind) => kind.word(),
            Needs::Nothing => "nothing; it ends the workflow",
        };
        results.add_row([row.id, row.who.word(), row.said.word(), needs]);
    }
    let moves = moves();
    anstream::println!("{types}\n\n{moves}\n\n{results}");
}

/// How a message moves.
pub(super) fn moves() -> Table {
    let mut moves = show::table(&["row", "from folder", "to folder", "addressed to"]);
    for row in MOVES {
        let from = row.from.map_or("(new)", Folder::word);
        moves.add_row([row.id, from, row.to.word(), row.addressee.word()]);
    }
    moves
}

pub(super) fn diagram() {
    anstream::println!("stateDiagram-v2\n  [*] --> planner");
    for row in RESULTS {
        let (from, said) = (row.who.word(), row.said.word());
        match row.needs {
            Needs::Handoff(kind) => {
                let sent = TYPES.iter().find(|sent| sent.kind == kind);
                let to = sent.map_or("[*]", |sent| sent.to.word());
                anstream::println!("  {from} --> {to}: {} {}", row.id, kind.word());
            }
            Needs::Nothing => anstream::println!("  {from} --> [*]: {} {said}", row.id),
        }
    }
}
