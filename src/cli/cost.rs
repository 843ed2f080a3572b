//! `agency cost`: what the runs have used, added up by repository, agent or task. It reads the runs' own records only.

use super::context::Context;
use super::exit::{Exit, Misused};
use super::{runs, show};
use crate::clock;
use crate::model::Timestamp;
use crate::run::history::RunRecord;
use chrono::TimeDelta;
use serde::Serialize;
use std::collections::BTreeMap;

/// Add up tokens and money of the runs
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency cost --since 24h\n  agency cost --by agent --json")]
pub(super) struct Args {
    /// Only runs that started within this time, such as 30m, 24h or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Group by repository, agent or task
    #[arg(long, value_enum, default_value = "repo")]
    by: By,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum By {
    Repo,
    Agent,
    Task,
}

/// One line.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Sum {
    name: String,
    runs: u64,
    input_tokens: u64,
    output_tokens: u64,
    cost_usd: f64,
    /// How much of the cost is estimated from `prices`.
    estimated_usd: f64,
    /// Runs that named neither a cost nor tokens that have a price.
    without_cost: u64,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let after = args.since.as_deref().map(since).transpose()?;
    let runs = runs::all(context)?;
    let counted = runs.iter().filter(|run| after.is_none_or(|after| run.started_at >= after));
    let sums = add_up(counted, args.by);
    if args.json {
        show::json(&sums)?;
        return Ok(Exit::Fine);
    }
    let mut table = show::table(&["", "runs", "input", "output", "cost"]);
    for sum in &sums {
        table.add_row(row(sum));
    }
    anstream::println!("{table}");
    Ok(Exit::Fine)
}

/// The moment that lies `text` before now.
pub(super) fn since(text: &str) -> anyhow::Result<Timestamp> {
    let wrong = || Misused(format!("`{text}` is not a duration; write for example 30m, 24h or 7d"));
    let unit = text.chars().last().ok_or_else(wrong)?;
    let number: i64 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong().into()),
    };
    let back = number.checked_mul(seconds).and_then(TimeDelta::try_seconds);
    let at = back.and_then(|back| clock::now().wall.checked_sub_signed(back));
    Ok(at.ok_or_else(wrong)?)
}

/// The owner's own commands cost nothing and are left out. The last line is the total.
fn add_up<'a>(runs: impl Iterator<Item = &'a RunRecord>, by: By) -> Vec<Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut total = Sum { name: "total".to_owned(), ..Sum::default() };
    for run in runs.filter(|run| !run.command) {
        let name = match by {
            By::Repo => run.repo.clone(),
            By::Agent => run.agent.clone(),
            By::Task => format!("{} {}", run.repo, run.task),
        };
        sums.entry(name.clone()).or_insert(Sum { name, ..Sum::default() }).add(run);
        total.add(run);
    }
    sums.into_values().chain([total]).collect()
}

impl Sum {
    fn add(&mut self, run: &RunRecord) {
        self.runs += 1;
        self.input_tokens += run.input_tokens.unwrap_or(0);
        self.output_tokens += run.output_tokens.unwrap_or(0);
        let cost = run.cost_usd.unwrap_or(0.0);
        self.cost_usd += cost;
        self.estimated_usd += if run.cost_estimated { cost } else { 0.0 };
        self.without_cost += u64::from(run.cost_usd.is_none());
    }
}

fn row(sum: &Sum) -> [String; 5] {
    let mut cost = format!("${:.2}", sum.cost_usd);
    if sum.estimated_usd > 0.0 {
        cost.push_str(&format!(" (${:.2} estimated)", sum.estimated_usd));
    }
    match sum.without_cost {
        0 => {}
        1 => cost.push_str("; 1 run without a price"),
        many => cost.push_str(&format!("; {many} runs without a price")),
    }
    [
        show::plain(&sum.name),
        sum.runs.to_string(),
        sum.input_tokens.to_string(),
        sum.output_tokens.to_string(),
        cost,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(agent: &str, cost_usd: Option<f64>, estimated: bool, command: bool) -> RunRecord {
        RunRecord {
            id: "r".to_owned(),
            repo: "/r".to_owned(),
            protocol: "loop".to_owned(),
            agent: agent.to_owned(),
            role: "builder".to_owned(),
            task: "1".to_owned(),
            phase: "execute".to_owned(),
            state: "ended",
            outcome: Some("ok"),
            pid: None,
            started_at: clock::wall(),
            ended_at: None,
            cost_usd,
            cost_estimated: estimated,
            reason: None,
            model: None,
            command,
            input_tokens: Some(1_000),
            output_tokens: Some(10),
            session: None,
            trouble: None,
            last_output_at: None,
            changed: Vec::new(),
        }
    }

    // covers: SU-13
    #[test]
    fn runs_are_added_up_and_estimates_are_marked() {
        let runs = [
            record("claude-code", Some(0.5), false, false),
            record("codex", Some(0.25), true, false),
            record("codex", None, false, false),
            record("gate", None, false, true),
        ];
        let sums = add_up(runs.iter(), By::Agent);
        let names: Vec<_> = sums.iter().map(|sum| (sum.name.as_str(), sum.runs)).collect();
        assert_eq!(names, [("claude-code", 1), ("codex", 2), ("total", 3)]);
        let total = &sums[2];
        assert_eq!((total.input_tokens, total.output_tokens, total.without_cost), (3_000, 30, 1));
        let shown = row(total);
        assert_eq!(shown[4], "$0.75 ($0.25 estimated); 1 run without a price");
    }

    #[test]
    fn a_time_has_a_unit() {
        assert!(since("24h").is_ok() && since("7d").is_ok());
        for wrong in ["", "h", "24", "24x", "-", "99999999999999999999d", "2é"] {
            assert!(since(wrong).is_err(), "{wrong}");
        }
    }
}
