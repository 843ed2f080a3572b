//! `agency runs`: every run that this machine remembers, newest last.

use super::context::Context;
use super::exit::Exit;
use super::show;
use crate::run::history::{self, RunRecord};

/// What was started, by whom, and how it ended
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency runs\n  agency runs --all --json")]
pub(super) struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// Not only the newest twenty
    #[arg(long)]
    all: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let runs = all(context)?;
    if args.json {
        show::json(&runs)?;
        return Ok(Exit::Fine);
    }
    let shown = if args.all { &runs[..] } else { &runs[runs.len().saturating_sub(20)..] };
    let head =
        ["run", "agent", "role", "task", "phase", "age", "state", "last output", "outcome", "cost"];
    let mut table = show::table(&head);
    for run in shown {
        table.add_row(row(run));
    }
    anstream::println!("{table}");
    Ok(Exit::Fine)
}

fn row(run: &RunRecord) -> [String; 10] {
    let running = run.state == "running";
    let silent = match run.last_output_at {
        Some(at) if running => format!("{} ago", show::age(at)),
        None if running => "none yet".to_owned(),
        _ => String::new(),
    };
    let until = run.ended_at.filter(|_| !running);
    let age =
        until.map_or_else(|| show::age(run.started_at), |end| show::between(run.started_at, end));
    [
        run.id.clone(),
        run.agent.clone(),
        run.role.clone(),
        run.task.clone(),
        run.phase.clone(),
        age,
        run.state.to_owned(),
        silent,
        run.outcome.unwrap_or_default().to_owned(),
        run.cost_usd.map_or(String::new(), |cost| format!("${cost:.2}")),
    ]
}

/// Of all repositories, by the time of their start.
pub(super) fn all(context: &Context) -> anyhow::Result<Vec<RunRecord>> {
    let known = context.known()?;
    let mut runs: Vec<_> =
        known.iter().flat_map(|known| history::list(&known.folder.join("runs"))).collect();
    runs.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
    Ok(runs)
}
