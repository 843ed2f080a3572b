//! `agency runs`: every run that this machine remembers, newest last.

use super::context::Context;
use super::exit::Exit;
use super::show;
use crate::run::history::{self, RunRecord};
use std::path::Path;

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
    let head = [
        "run", "repo", "agent", "task", "phase", "start", "took", "outcome", "tokens", "cost",
        "reason",
    ];
    let mut table = show::table(&head);
    for run in shown {
        table.add_row(row(run));
    }
    anstream::println!("{table}");
    Ok(Exit::Fine)
}

fn row(run: &RunRecord) -> [String; 11] {
    let running = run.state == "running";
    let reason = match run.last_output_at {
        Some(at) if running => format!("last output {} ago", show::age(at)),
        None if running => "no output yet".to_owned(),
        _ => run.reason.clone().unwrap_or_default(),
    };
    let repo = Path::new(&run.repo).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let until = run.ended_at.filter(|_| !running);
    let age =
        until.map_or_else(|| show::age(run.started_at), |end| show::between(run.started_at, end));
    [
        run.id.clone(),
        show::plain(&repo),
        run.agent.clone(),
        run.task.clone(),
        run.phase.clone(),
        run.started_at.format("%m-%d %H:%MZ").to_string(),
        age,
        run.outcome.unwrap_or(run.state).to_owned(),
        match run.tokens() {
            0 => String::new(),
            tokens => tokens.to_string(),
        },
        cost(run),
        show::plain(&reason),
    ]
}

/// `~`: an estimate from tokens and `prices`.
fn cost(run: &RunRecord) -> String {
    let mark = if run.cost_estimated { "~" } else { "" };
    run.cost_usd.map_or(String::new(), |cost| format!("{mark}${cost:.2}"))
}

/// Of all repositories, by the time of their start.
pub(super) fn all(context: &Context) -> anyhow::Result<Vec<RunRecord>> {
    let known = context.known()?;
    let mut runs: Vec<_> =
        known.iter().flat_map(|known| history::list(&known.folder.join("runs"))).collect();
    runs.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
    Ok(runs)
}
