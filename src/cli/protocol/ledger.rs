//! The ledger's tables: who follows whom, and who may do what.

use super::show;
use crate::protocol::ledger::table::{Action, Next, TABLE};
use comfy_table::Table;

/// Who follows whom, then who may do what.
pub(super) fn tables() {
    anstream::println!("{}\n", rows());
    let mut table = show::table(&["action", "who"]);
    for action in Action::ALL {
        table.add_row([action.words().to_owned(), action.allowed()]);
    }
    anstream::println!("{table}");
}

/// Who follows whom.
pub(super) fn rows() -> Table {
    let mut table = show::table(&["row", "agent", "came to", "fix attempts", "next"]);
    for row in TABLE {
        let cycles = row.cycles.word();
        table.add_row([row.id, row.agent.word(), row.said.word(), cycles, row.next.word()]);
    }
    table
}

pub(super) fn diagram() {
    anstream::println!("stateDiagram-v2\n  [*] --> INITIALIZER");
    for row in TABLE {
        let to = match row.next {
            Next::Start | Next::Merge | Next::Reject | Next::Pick => "IMPLEMENT",
            Next::ReviewIt => "REVIEW",
            Next::FixIt => "FIX",
            Next::Again => row.agent.word(),
        };
        let (from, said, what) = (row.agent.word(), row.said.word(), row.next.word());
        anstream::println!("  {from} --> {to}: {} {said}, {what}", row.id);
    }
}
