//! `agency escalations`: what the owner was or must be told.

use super::context::Context;
use super::exit::Exit;
use super::show;
use crate::escalate::{Outbox, Record, State};

/// What was broken, and the command that resolves it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency escalations\n  agency escalations --all --json")]
pub(super) struct Args {
    /// For machines
    #[arg(long)]
    json: bool,
    /// Resolved ones too
    #[arg(long)]
    all: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let known = context.known()?;
    let mut records: Vec<Record> =
        known.iter().flat_map(|known| Outbox::list(&known.folder.join("outbox"))).collect();
    records.sort_by(|a, b| (a.first_seen, &a.id).cmp(&(b.first_seen, &b.id)));
    if args.json {
        show::json(&records)?;
        return Ok(Exit::Fine);
    }
    records.retain(|record| args.all || record.state != State::Resolved);
    if records.is_empty() {
        anstream::println!("nothing is open");
    }
    for record in &records {
        print(record);
    }
    Ok(Exit::Fine)
}

fn print(record: &Record) {
    let severity = format!("{:?}", record.severity).to_lowercase();
    let state = format!("{:?}", record.state).to_lowercase();
    let (id, rule, summary) = (&record.id, &record.rule, &record.summary);
    anstream::println!("{id}  {rule}  {severity}, {state}, seen {} times  {summary}", record.count);
    anstream::println!("  where    {} ({})", record.repo.display(), record.protocol);
    anstream::println!("  since    {} ago", show::age(record.first_seen));
    anstream::println!("  did      {}", record.did);
    anstream::println!("  won't    {}", record.wont);
    anstream::println!("  resolve  {}", record.resolve);
}
