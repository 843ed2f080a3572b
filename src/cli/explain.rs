//! `agency explain`: what a rule or a row wants, why, and what to do about it.

use super::exit::{Exit, Misused};
use crate::protocol::board::table as board;
use crate::protocol::ledger;
use crate::protocol::review_loop::table::TABLE;
use crate::rules;

/// Explain a rule that a refusal or a message names
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency explain LP-06\n  agency explain RL3\n  agency explain        (lists all)"
)]
pub(super) struct Args {
    /// The rule or row
    rule: Option<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let Some(wanted) = &args.rule else {
        for rule in rules::RULES {
            anstream::println!("{:<6} {}", rule.id, rule.title);
        }
        return Ok(Exit::Fine);
    };
    let wanted = wanted.to_uppercase();
    if let Some(rule) = rules::find(&wanted) {
        anstream::println!("{}: {}\n\n{}", rule.id, rule.title, rule.text);
        return Ok(Exit::Fine);
    }
    if let Some(row) = ledger::table::TABLE.iter().find(|row| row.id == wanted) {
        let (agent, said, next) = (row.agent.word(), row.said.word(), row.next.word());
        anstream::println!("{}: when {agent} came to `{said}`: {next}", row.id);
        anstream::println!(
            "\nIt is a row of the ledger's table; `agency protocol show ledger` prints all of them."
        );
        return Ok(Exit::Fine);
    }
    if let Some(row) = board::TABLE.iter().find(|row| row.id == wanted) {
        let (to, who, guard) = (row.to.word(), row.who.word(), row.guard.words());
        anstream::println!(
            "{}: to {to}, by the {who}{}{guard}",
            row.id,
            if guard.is_empty() { "" } else { ", if " }
        );
        anstream::println!(
            "\nIt is a row of the board's table; `agency protocol show board` prints all of them."
        );
        return Ok(Exit::Fine);
    }
    let Some(row) = TABLE.iter().find(|row| row.id == wanted) else {
        return Err(
            Misused(format!("there is no rule `{wanted}`; `agency explain` lists them")).into()
        );
    };
    let (phase, holder, said) = (row.phase.word(), row.holder.word(), row.said.word());
    anstream::println!("{}: in `{phase}`, when {holder} holds the turn and says `{said}`", row.id);
    anstream::println!(
        "\nIt is a row of the review loop's table; `agency protocol show loop` prints all of them."
    );
    Ok(Exit::Fine)
}
