//! Codifica's table as text or as a picture.

use super::super::show;
use crate::protocol::codifica::State;
use crate::protocol::codifica::table::{From, TABLE};
use comfy_table::Table;

pub(super) fn rows() -> Table {
    let mut table = show::table(&["row", "from", "to", "who", "asks for"]);
    for row in TABLE {
        let guards: Vec<_> = row.guards.iter().map(|guard| format!("{guard:?}")).collect();
        let (from, to, who) = (row.from.word(), row.to.word(), row.who.word());
        table.add_row([row.id, from, to, who, &guards.join(", ")]);
    }
    table
}

pub(super) fn diagram() {
    anstream::println!("stateDiagram-v2\n  [*] --> todo");
    for row in TABLE {
        let froms: Vec<State> = match row.from {
            From::Is(state) => vec![state],
            From::Any => State::ALL.iter().copied().filter(|state| *state != row.to).collect(),
        };
        for from in froms {
            anstream::println!("  {from} --> {}: {} {}", row.to, row.id, row.who.word());
        }
    }
}
