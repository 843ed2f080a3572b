//! `agency status` in words.

use super::{Repo, Status};
use crate::cli::show;
use crate::escalate::{DeliveryState, Record, in_repo};
use crate::model::clock_time;
use crate::run::history::RunRecord;
use crate::workspace::{ConditionStatus, ProtocolStatus};
use std::fmt::Write as _;

pub(super) fn text(status: &Status) -> String {
    format!("{}\n{}", status.daemon.line(), below(status))
}

/// All of it but the daemon.
pub(super) fn below(status: &Status) -> String {
    let mut text = String::new();
    if let Some(problem) = &status.problem {
        text.push_str(&format!("{problem}\n"));
    }
    if status.repos.is_empty() {
        text.push_str("no repository is known yet; `agency run` in one begins\n");
        return text;
    }
    if status.problem.is_none() && status.channels.is_empty() {
        text.push_str("no channel is configured: what is wrong is shown only here\n");
    }
    for repo in &status.repos {
        write_repo(&mut text, repo).expect("writing to a String cannot fail");
    }
    text.push_str(&status.kept_in.sentence());
    text.push('\n');
    text
}

/// Only what is wrong, for `--check`.
pub(super) fn report(status: &Status) -> String {
    let mut text = format!("{}\n", status.daemon.line());
    for repo in status.repos.iter().filter(|repo| repo.attended && (repo.held || repo.frozen)) {
        write_problem(&mut text, repo).expect("writing to a String cannot fail");
    }
    text
}

fn write_problem(text: &mut String, repo: &Repo) -> std::fmt::Result {
    write_conditions(text, repo)?;
    repo.escalations
        .iter()
        .filter(|record| record.holds)
        .try_for_each(|record| write_escalation(text, record))
}

fn write_repo(text: &mut String, repo: &Repo) -> std::fmt::Result {
    write_conditions(text, repo)?;
    for run in &repo.runs {
        write_run(text, run)?;
    }
    for record in &repo.escalations {
        write_escalation(text, record)?;
    }
    for note in &repo.notes {
        writeln!(text, "  note      {}", show::plain(note))?;
    }
    Ok(())
}

fn write_conditions(text: &mut String, repo: &Repo) -> std::fmt::Result {
    let mark = match (repo.frozen, repo.held, &repo.paused) {
        (true, _, _) => "  FROZEN",
        (false, true, _) => "  HELD",
        (false, false, Some(_)) => "  PAUSED",
        (false, false, None) => "",
    };
    writeln!(text, "{}{mark}", show::plain(&repo.path.display().to_string()))?;
    if let Some(why) = &repo.closed {
        writeln!(text, "  {}", show::plain(why))?;
    }
    if let Some(pause) = &repo.paused {
        let unpause = in_repo("agency unpause", &repo.path);
        writeln!(text, "  {}; to end it: {}", show::plain(&pause.words()), show::plain(&unpause))?;
    }
    for protocol in &repo.protocols {
        write_protocol(text, repo, protocol)?;
    }
    Ok(())
}

fn write_protocol(text: &mut String, repo: &Repo, protocol: &ProtocolStatus) -> std::fmt::Result {
    let ProtocolStatus { name, condition, summary, .. } = protocol;
    // What closes the whole repository is said above.
    let said = repo.closed.as_ref().is_some_and(|why| why.ends_with(&condition.reason));
    let pause = repo.paused.as_ref().map(crate::workspace::Pause::words);
    let paused = pause.is_some_and(|pause| pause == condition.reason);
    let words = if said {
        String::new()
    } else if paused {
        ": paused".to_owned()
    } else {
        format!(": {}", words(condition))
    };
    writeln!(text, "  {name:<9} {}{words}", condition.kind.word())?;
    // Why it is held was just said.
    let summary = summary.replace(&format!("held: {}", condition.reason), "");
    let summary = summary.trim_end().trim_end_matches(" ·");
    if *summary != condition.reason && !summary.is_empty() && !repo.frozen {
        writeln!(text, "            {}", show::plain(summary))?;
    }
    for line in protocol.detail["lines"].as_array().into_iter().flatten() {
        writeln!(text, "            {}", show::plain(line.as_str().unwrap_or_default()))?;
    }
    // A notice that holds says it below.
    let told = repo.escalations.iter().any(|record| record.holds);
    if let Some(resolve) = condition.resolve.as_ref().filter(|_| !told && !paused) {
        writeln!(text, "            resolve: {}", show::plain(resolve))?;
    }
    Ok(())
}

/// Why, and until when.
fn words(condition: &ConditionStatus) -> String {
    let reason = show::plain(&condition.reason);
    match condition.until.map(clock_time) {
        Some(until) if !reason.contains(&until) => format!("{reason}; until {until}"),
        Some(_) | None => reason,
    }
}

fn write_run(text: &mut String, run: &RunRecord) -> std::fmt::Result {
    let silent = run
        .last_output_at
        .map_or("no output yet".to_owned(), |at| format!("last output {} ago", show::age(at)));
    let (id, agent, age) = (&run.id, &run.agent, show::age(run.started_at));
    let trouble = run.trouble.as_ref();
    let trouble =
        trouble.map_or_else(String::new, |why| format!("  reports: {}", show::plain(why)));
    writeln!(
        text,
        "  run       {id}  {agent} as {} on {}/{}  {age}  {silent}{trouble}",
        run.role, run.task, run.phase
    )
}

fn write_escalation(text: &mut String, record: &Record) -> std::fmt::Result {
    let severity = format!("{:?}", record.severity).to_lowercase();
    let summary = show::plain(&record.summary);
    writeln!(text, "  {severity:<9} {}  {}  {summary}", record.id, record.rule)?;
    if record.holds {
        let resolve = in_repo(&record.resolve, &record.repo);
        writeln!(text, "            resolve: {}", show::plain(&resolve))?;
    }
    for dead in record.deliveries.iter().filter(|one| one.state == DeliveryState::Dead) {
        writeln!(text, "            could not be delivered by {}", dead.channel)?;
    }
    Ok(())
}
