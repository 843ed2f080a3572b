//! `agency metrics`: what each protocol does now, how long agents took, how much was handed on, how often it was fixed, how often you were called.

use super::context::Context;
use super::exit::Exit;
use super::{show, status};
use crate::metrics::{self, RepoMetrics};
use crate::model::counted;
use crate::repository::repositories;

/// What each protocol does; time per agent, handoffs per workflow, fix iterations, escalation rate
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency metrics\n  agency metrics --prometheus > /var/lib/node_exporter/agency.prom\n\nThe daemon answers `GET /metrics` at `metrics.listen`, and on each repository's control.sock:\n  curl --unix-socket ~/.local/state/agency/REPO/control.sock http://agency/metrics\nAlert rules and a Grafana dashboard: examples/monitoring"
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
    let (daemon_runs, repos) = collect(context)?;
    if args.prometheus {
        anstream::print!("{}", metrics::prometheus(daemon_runs, &repos));
    } else if args.json {
        show::json(&repos.iter().map(json).collect::<Vec<_>>())?;
    } else {
        repos.iter().for_each(print);
    }
    Ok(Exit::Fine)
}

/// Whether a daemon runs, and what each repository's files say.
pub(crate) fn collect(context: &Context) -> anyhow::Result<(bool, Vec<RepoMetrics>)> {
    let seen = status::seen(context)?;
    let known = repositories(&context.state_dir()?)?;
    let mut repos = Vec::new();
    for repo in seen.repos {
        let folder = known.iter().find(|known| known.path == repo.path).map(|known| &known.folder);
        let metrics = match folder {
            Some(folder) => metrics::read(&folder.join("events.ndjson"))?,
            None => Default::default(),
        };
        let (conditions, frozen) = (repo.conditions, repo.frozen);
        let repo = repo.path.display().to_string();
        repos.push(RepoMetrics { repo, metrics, conditions, frozen });
    }
    Ok((seen.daemon_runs, repos))
}

fn json(repo: &RepoMetrics) -> serde_json::Value {
    let conditions = repo.conditions.iter();
    let conditions: serde_json::Map<_, _> =
        conditions.map(|(name, kind)| (name.clone(), kind.word().into())).collect();
    let RepoMetrics { repo, metrics, frozen, .. } = repo;
    serde_json::json!({"repo": repo, "frozen": frozen, "conditions": conditions, "metrics": metrics})
}

fn print(repo: &RepoMetrics) {
    let RepoMetrics { repo, metrics, conditions, frozen } = repo;
    anstream::println!("{repo}{}", if *frozen { "  FROZEN" } else { "" });
    for (protocol, kind) in conditions {
        anstream::println!("  {protocol:<10} {}", kind.word());
    }
    for (agent, spent) in &metrics.time_per_agent {
        let runs = counted(spent.runs, "run");
        anstream::println!("  time       {agent}: {:.1}s in {runs}", spent.seconds);
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
