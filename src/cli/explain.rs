//! `agency explain`: what a rule or a row wants, why, and what to do about it.

mod rows;

use super::exit::{Exit, Misused};
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
    let Some((protocol, row)) = rows::find(&wanted) else {
        let hint = "`agency explain` lists the rules, `agency protocol show NAME` the rows";
        return Err(Misused(format!("there is no rule or row `{wanted}`; {hint}")).into());
    };
    anstream::println!("{wanted}: {row}\n");
    anstream::println!(
        "It is a row of a table; `agency protocol show {protocol}` prints the whole of it."
    );
    Ok(Exit::Fine)
}
