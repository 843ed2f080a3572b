//! `agency report ID`: the latest report of a task.

use super::super::context::Context;
use super::super::exit::{Exit, Refused};
use super::super::show;
use super::{Place, bytes, inspect, refused, task_id};
use crate::model::RelPath;
use crate::protocol::board::names::{self, TaskId, same_agent};
use crate::protocol::board::report::{self, ReportStatus};
use serde_json::json;

/// Print the latest report of a task
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency report T0007\n  agency report T0007 --json")]
pub(crate) struct Args {
    #[arg(value_parser = task_id)]
    id: TaskId,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let place = Place::of(context)?;
    let task = names::DocumentPath::parse(place.find(&args.id)?.as_str());
    let mut reports = inspect::reports(&place.root, &args.id);
    // Somebody else's file about this task is no report of it (AG-07); it is shown where there is nothing better.
    reports.sort_by_key(|path| {
        let by = names::DocumentPath::parse(path).zip(task.as_ref());
        by.is_some_and(|(report, task)| same_agent(&report.agent, &task.agent))
    });
    let Some(path) = reports.pop() else {
        return Err(Refused(format!("{} has no report yet", args.id)).into());
    };
    let text = bytes(&place.root, &path)?.unwrap_or_default();
    if !args.json {
        anstream::println!("{path}\n\n{}", show::plain(String::from_utf8_lossy(&text).trim_end()));
        return Ok(Exit::Fine);
    }
    let report = report::parse_in(&text, &RelPath::new(path.clone())?, place.manifest.zone)
        .map_err(|problems| refused(&problems))?;
    let status = match report.says {
        ReportStatus::ReadyForReview => "READY_FOR_REVIEW",
        ReportStatus::Blocked => "BLOCKED",
    };
    show::json(&json!({
        "task_id": report.task_id, "agent": report.agent, "status": status, "path": path,
        "started_at": report.started_at.to_rfc3339(), "finished_at": report.finished_at.to_rfc3339(),
        "files_modified": report.files_modified, "commands_run": report.commands_run,
        "dod_passed": report.dod_passed, "risks": report.risks, "reason": report.reason,
        "follow_ups": report.follow_ups, "body": report.body,
    }))?;
    Ok(Exit::Fine)
}
