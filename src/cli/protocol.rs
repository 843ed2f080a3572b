//! `agency protocol show`: a transition table as text or as a picture.

mod codifica;
mod handoff;
mod ledger;

use super::exit::{Exit, Misused};
use super::show;
use crate::protocol::board;
use crate::protocol::board::table::{From, Status};
use crate::protocol::review_loop::table::{Next, Round, Row, TABLE};
use comfy_table::Table;

/// The transition tables that we judge by
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency protocol show loop\n  agency protocol show loop --mermaid\n  agency protocol show handoff\n  agency protocol show ledger"
)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Print one table
    #[command(after_help = "Example:\n  agency protocol show loop --mermaid")]
    Show {
        /// loop, board, codifica, handoff or ledger
        name: String,
        /// As a Mermaid state diagram
        #[arg(long)]
        mermaid: bool,
    },
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Verb::Show { name, mermaid } = &args.verb;
    match (name.as_str(), mermaid) {
        (crate::protocol::review_loop::NAME, false) => anstream::println!("{}", rows()),
        (crate::protocol::review_loop::NAME, true) => diagram(),
        (crate::protocol::handoff::NAME, false) => handoff::tables(),
        (crate::protocol::handoff::NAME, true) => handoff::diagram(),
        (crate::protocol::ledger::NAME, false) => ledger::tables(),
        (crate::protocol::ledger::NAME, true) => ledger::diagram(),
        (crate::protocol::codifica::NAME, false) => anstream::println!("{}", codifica::rows()),
        (crate::protocol::codifica::NAME, true) => codifica::diagram(),
        (board::NAME, false) => anstream::println!("{}", board_rows()),
        (board::NAME, true) => board_diagram(),
        _ => {
            let wanted = "loop, board, codifica, handoff, ledger";
            return Err(Misused(format!("there is no protocol `{name}`; wanted: {wanted}")).into());
        }
    }
    Ok(Exit::Fine)
}

/// The table by which a protocol moves, for other views. `None`: there is no such protocol.
pub(crate) fn table(name: &str) -> Option<Table> {
    match name {
        crate::protocol::review_loop::NAME => Some(rows()),
        crate::protocol::handoff::NAME => Some(handoff::moves()),
        crate::protocol::ledger::NAME => Some(ledger::rows()),
        crate::protocol::codifica::NAME => Some(codifica::rows()),
        board::NAME => Some(board_rows()),
        _ => None,
    }
}

fn rows() -> Table {
    let mut table =
        show::table(&["row", "phase", "turn", "flag status", "next phase", "next turn", "round"]);
    for row in TABLE {
        let (phase, turn, round) = next(row);
        table.add_row([
            row.id,
            row.phase.word(),
            row.holder.word(),
            row.said.word(),
            phase,
            turn,
            round,
        ]);
    }
    table
}

fn next(row: &Row) -> (&'static str, &'static str, &'static str) {
    match row.next {
        Next::Advance => ("propose of the next step", "claude-code", "1"),
        Next::Hand(phase, holder, round) => {
            let round = match round {
                Round::First => "1",
                Round::Same => "the same",
                Round::More => "+1",
            };
            (phase.word(), holder.word(), round)
        }
    }
}

fn diagram() {
    anstream::println!("stateDiagram-v2\n  [*] --> propose_claude_code");
    let node = |phase: &str, turn: &str| format!("{phase}_{}", turn.replace('-', "_"));
    for row in TABLE {
        let from = node(row.phase.word(), row.holder.word());
        let to = match row.next {
            Next::Advance => "[*]".to_owned(),
            Next::Hand(phase, holder, _) => node(phase.word(), holder.word()),
        };
        anstream::println!("  {from} --> {to}: {} {}", row.id, row.said.word());
    }
}

fn board_rows() -> Table {
    let mut table = show::table(&["row", "from", "to", "who", "if"]);
    for row in board::table::TABLE {
        let from = match row.from {
            From::Only(status) => status.word(),
            From::Any => "any",
        };
        table.add_row([row.id, from, row.to.word(), row.who.word(), row.guard.words()]);
    }
    table
}

fn board_diagram() {
    anstream::println!("stateDiagram-v2\n  [*] --> NEW");
    for from in Status::ALL {
        for row in Status::ALL.into_iter().filter_map(|to| board::table::between(from, to)) {
            anstream::println!("  {} --> {}: {}", from.word(), row.to.word(), row.id);
        }
    }
    anstream::println!("  DONE --> [*]\n  CANCELED --> [*]");
}
