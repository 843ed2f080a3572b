//! The verbs that only look: list, show, next, validate, contract.

use super::super::context::Context;
use super::super::exit::{Exit, Refused};
use super::super::show as paper;
use super::ground::{Ground, no_contract};
use super::moves::summary;
use super::survey::{self, Survey};
use super::who::read_agent;
use crate::model::{clip, counted};
use crate::protocol::codifica::{self, Finding, Level, Owner, State};

/// All tasks, in file order
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency work list --state todo\n  agency work list --owner agent:builder --json"
)]
pub(in crate::cli) struct ListArgs {
    /// Only these states, separated by commas
    #[arg(long, value_delimiter = ',')]
    state: Vec<String>,
    /// human, unassigned, or an agent
    #[arg(long)]
    owner: Option<String>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// One task, as it stands
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency work show FEAT-101")]
pub(in crate::cli) struct ShowArgs {
    id: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Which task an agent would take next
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency work next --agent builder")]
pub(in crate::cli) struct NextArgs {
    #[arg(long, value_name = "NAME")]
    agent: String,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Everything that is wrong with codifica.json and the state files
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency work validate --json")]
pub(in crate::cli) struct ValidateArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// What every agent in this repository is told
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency work contract")]
pub(in crate::cli) struct ContractArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn list(context: &Context, args: &ListArgs) -> anyhow::Result<Exit> {
    let board = Ground::new(context)?.newest()?;
    warn(&board.problems);
    let wanted = |task: &&codifica::Glance| {
        let owner = args.owner.as_deref();
        (args.state.is_empty()
            || args.state.iter().any(|word| State::read(word) == Some(task.state)))
            && owner.is_none_or(|owner| is_owner(&task.owner, owner))
    };
    let tasks: Vec<_> = board.glances().filter(wanted).collect();
    if args.json {
        let row = |task: &&codifica::Glance| {
            serde_json::json!({"id": task.id, "type": task.kind.word(), "state": task.state.word(), "owner": task.owner.to_string(),
                "priority": task.priority.word(), "depends_on": task.depends_on, "title": title(&board, &task.id), "at": board.spot(&task.id)})
        };
        paper::json(&tasks.iter().map(row).collect::<Vec<_>>())?;
        return Ok(Exit::Fine);
    }
    let mut table = paper::table(&["id", "state", "owner", "priority", "title"]);
    for task in tasks {
        let title = title(&board, &task.id).unwrap_or_default();
        table.add_row([
            task.id.clone(),
            task.state.to_string(),
            task.owner.to_string(),
            task.priority.to_string(),
            clip(&title, 60),
        ]);
    }
    anstream::println!("{table}");
    Ok(Exit::Fine)
}

fn is_owner(owner: &Owner, wanted: &str) -> bool {
    let bare = wanted.strip_prefix("agent:").unwrap_or(wanted);
    owner.to_string() == wanted || *owner == Owner::Agent(bare.to_owned())
}

fn title(board: &codifica::Board, id: &str) -> Option<String> {
    board.task(id)?.ok().map(|task| task.title)
}

pub(super) fn show(context: &Context, args: &ShowArgs) -> anyhow::Result<Exit> {
    let board = Ground::new(context)?.newest()?;
    let Some(spot) = board.spot(&args.id) else {
        return Err(Refused(format!(
            "there is no task `{}` in the state files; `agency work list` shows all",
            args.id
        ))
        .into());
    };
    if args.json {
        let mut task = board.json(&args.id).unwrap_or_default();
        task["at"] = spot.into();
        paper::json(&task)?;
    } else {
        anstream::eprintln!("{spot}");
        let text = board.text(&args.id).unwrap_or_default();
        for line in text.trim_end().lines() {
            anstream::println!("{}", clip(line, 2000));
        }
    }
    Ok(Exit::Fine)
}

pub(super) fn next(context: &Context, args: &NextArgs) -> anyhow::Result<Exit> {
    let agent = read_agent(&args.agent)?;
    let board = Ground::new(context)?.newest()?;
    warn(&board.problems);
    let task = codifica::next(&board, &agent).map_err(|nothing| Refused(nothing.to_string()))?;
    if args.json {
        paper::json(&summary(&board, &task.id))?;
    } else {
        let title = title(&board, &task.id).unwrap_or_default();
        anstream::println!("{}  {}  {}", task.id, task.priority, clip(&title, 80));
    }
    Ok(Exit::Fine)
}

pub(super) fn validate(context: &Context, args: &ValidateArgs) -> anyhow::Result<Exit> {
    let ground = Ground::new(context)?;
    let Some(Survey { board, findings }) = survey::look(&ground)? else {
        return Err(no_contract().into());
    };
    report(&findings, args.json)?;
    if let Some(board) = board.filter(|_| findings.is_empty() && !args.json) {
        anstream::println!(
            "{} in {}, nothing is wrong",
            counted(board.len(), "task"),
            counted(board.files.len(), "file")
        );
    }
    Ok(exit(&findings))
}

pub(super) fn contract(context: &Context, args: &ContractArgs) -> anyhow::Result<Exit> {
    let config = Ground::new(context)?.config()?;
    if args.json {
        let terms = codifica::TERMS
            .iter()
            .map(|term| serde_json::json!({"rule": term.rule, "text": term.text}));
        paper::json(&terms.collect::<Vec<_>>())?;
    } else {
        anstream::print!("{}", codifica::contract(Some(&config)));
    }
    Ok(Exit::Fine)
}

/// Prints findings as lines, or as a list for machines.
pub(super) fn report(findings: &[Finding], json: bool) -> anyhow::Result<()> {
    if json {
        return paper::json(&findings.iter().map(as_json).collect::<Vec<_>>());
    }
    for finding in findings {
        anstream::println!("{}{finding}", prefix(finding));
    }
    Ok(())
}

fn prefix(finding: &Finding) -> &'static str {
    match finding.level {
        Level::Warning => "warning: ",
        Level::Violation => "",
    }
}

pub(super) fn as_json(finding: &Finding) -> serde_json::Value {
    let rejection = &finding.rejection;
    serde_json::json!({"rule": rejection.rule, "level": if finding.is_violation() { "violation" } else { "warning" }, "file": rejection.file,
        "line": rejection.line, "task": finding.task, "found": rejection.found, "wanted": rejection.wanted})
}

/// Warnings alone are no finding.
pub(super) fn exit(findings: &[Finding]) -> Exit {
    if findings.iter().any(Finding::is_violation) { Exit::Finding } else { Exit::Fine }
}

fn warn(problems: &[Finding]) {
    for problem in problems {
        anstream::eprintln!("warning: {problem}");
    }
}
