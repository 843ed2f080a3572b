//! `agency metrics`: how long agents took, how much was handed on, how often it was fixed, how often you were called.

use super::context::Context;
use super::exit::Exit;
use super::show;
use crate::metrics::{self, Metrics};

/// Time per agent, handoffs per workflow, fix iterations, escalation rate
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency metrics\n  agency metrics --prometheus > /var/lib/node_exporter/agency.prom\n\nThe daemon answers `GET /metrics` on each repository's control.sock:\n  curl --unix-socket ~/.local/state/agency/REPO/control.sock http://agency/metrics"
)]
pub(super) struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
    /// As Prometheus reads it
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let mut repos = Vec::new();
    for known in context.known()? {
        let events = known.folder.join("events.ndjson");
        repos.push((known.path.display().to_string(), metrics::read(&events)?));
    }
    if args.prometheus {
        anstream::print!("{}", metrics::prometheus(&repos));
    } else if args.json {
        let all = repos
            .iter()
            .map(|(path, metrics)| serde_json::json!({"repo": path, "metrics": metrics}));
        show::json(&all.collect::<Vec<_>>())?;
    } else {
        repos.iter().for_each(|(path, metrics)| print(path, metrics));
    }
    Ok(Exit::Fine)
}

fn print(path: &str, metrics: &Metrics) {
    anstream::println!("{path}");
    for (agent, spent) in &metrics.time_per_agent {
        anstream::println!("  time       {agent}: {:.1}s in {} runs", spent.seconds, spent.runs);
    }
    for (workflow, count) in &metrics.handoffs_per_workflow {
        let fixes = metrics.fix_iterations.get(workflow).copied().unwrap_or(0);
        anstream::println!("  workflow   {workflow}: {count} handoffs, {fixes} fix iterations");
    }
    let (rate, all) = (metrics.escalation_rate, metrics.escalations);
    anstream::println!(
        "  called     {all} times, {rate:.2} for each handoff; {} errors",
        metrics.errors
    );
}
