//! What one repository adds to the report: its journal since then, its runs, its messages.

use super::{Digest, LINES, RepoDigest, Wait, Waiting};
use crate::cli::narrate::logged;
use crate::escalate::{Outbox, Record, State, in_repo};
use crate::model::{Command, Decision, Effect, PlannedCommit, Timestamp, clip};
use crate::repository::Known;
use crate::run::history::{self, RunRecord};
use crate::store;
use crate::verbs::repo_name;
use chrono::{DurationRound as _, TimeDelta};
use serde::Deserialize as _;
use std::path::Path;

/// Records that are read at most.
const RECORDS: usize = 50_000;
const LINE: usize = 300;

pub(super) fn read(known: &Known, digest: &mut Digest) {
    let path = known.path.display().to_string();
    let mut repo = RepoDigest { path, name: repo_name(&known.path), ..RepoDigest::default() };
    let records = store::tail(&known.folder.join("journal"), RECORDS);
    for record in records.iter().filter(|one| one.at >= digest.since && one.at < digest.until) {
        repo.take(record);
    }
    for folder in history::since(&known.folder.join("runs"), digest.since) {
        let run = history::one(&folder).filter(|run| !run.command);
        if let Some((run, ended)) =
            run.and_then(|run| Some((run.ended_at?, run)).map(|(at, run)| (run, at)))
        {
            take_run(digest, &run, ended);
        }
    }
    for record in Outbox::list(&known.folder.join("outbox")) {
        take_message(digest, &repo.name, &record, &known.path);
    }
    if repo.is_worth_a_line() {
        digest.repos.push(repo);
    }
}

/// What the daemon itself has to tell.
pub(super) fn read_daemon(outbox: &Path, digest: &mut Digest) {
    for record in Outbox::list(outbox).into_iter().filter(|record| !record.is_report()) {
        take_message(digest, &repo_name(&record.repo), &record, &record.repo);
    }
}

impl RepoDigest {
    fn is_worth_a_line(&self) -> bool {
        [&self.done, &self.committed, &self.merged, &self.refused, &self.held, &self.asked]
            .iter()
            .any(|lines| !lines.is_empty())
    }

    fn take(&mut self, record: &store::Record) {
        match record.kind.as_str() {
            "decided" => {
                if let Ok(decision) = Decision::deserialize(&record.body["decision"]) {
                    self.take_decision(decision);
                }
            }
            "asked" => {
                let command = Command::deserialize(&record.body["command"]).ok();
                let line = command.map(|one| format!("{}: {}", one.by, verb_words(&one)));
                push(&mut self.asked, &mut self.left_out, line);
            }
            _ => {}
        }
    }

    fn take_decision(&mut self, decision: Decision) {
        let left_out = &mut self.left_out;
        for rejection in &decision.rejections {
            push(&mut self.refused, left_out, Some(rejection.to_string()));
        }
        for keyed in decision.effects {
            match keyed.effect {
                Effect::Log(event)
                    if event.event != "run.start" && event.event != "agent_started" =>
                {
                    push(&mut self.done, left_out, logged(&event));
                }
                Effect::Commit(planned) => {
                    push(&mut self.committed, left_out, Some(subject(&planned)))
                }
                Effect::Merge(planned) => push(&mut self.merged, left_out, Some(subject(&planned))),
                Effect::Escalate(one) if one.holds => {
                    push(
                        &mut self.held,
                        left_out,
                        Some(format!("{} ({})", one.summary, one.cause.rule)),
                    );
                }
                _ => {}
            }
        }
    }
}

fn verb_words(command: &Command) -> String {
    let verb = command
        .arg("do")
        .map_or_else(|| format!("{:?}", command.verb).to_lowercase(), str::to_owned);
    let why = command.arg("reason").map(|why| format!(" ({why})")).unwrap_or_default();
    verb + &why
}

fn subject(planned: &PlannedCommit) -> String {
    let first = planned.message.lines().next().unwrap_or_default();
    format!("{first} → {}", planned.branch.trim_start_matches("refs/heads/"))
}

fn push(lines: &mut Vec<String>, left_out: &mut u64, line: Option<String>) {
    match line {
        Some(line) if lines.len() < LINES => lines.push(clip(&line, LINE)),
        Some(_) => *left_out += 1,
        None => {}
    }
}

fn take_run(digest: &mut Digest, run: &RunRecord, ended: Timestamp) {
    if ended < digest.since || ended >= digest.until {
        return;
    }
    digest.runs += 1;
    *digest.outcomes.entry(run.outcome.unwrap_or("lost").to_owned()).or_default() += 1;
    let seconds = (ended - run.started_at).as_seconds_f64().max(0.0);
    *digest.time_per_agent.entry(run.agent.clone()).or_default() += seconds;
    digest.tokens += run.tokens();
    let cost = run.cost_usd.unwrap_or(0.0);
    digest.cost_usd += cost;
    digest.estimated_usd += if run.cost_estimated { cost } else { 0.0 };
    let hour = ended.duration_trunc(TimeDelta::hours(1)).unwrap_or(ended);
    let at = digest.cost_by_hour.binary_search_by_key(&hour, |(at, _)| *at);
    match at {
        Ok(at) => digest.cost_by_hour[at].1 += cost,
        Err(at) => digest.cost_by_hour.insert(at, (hour, cost)),
    }
}

fn take_message(digest: &mut Digest, name: &str, record: &Record, root: &Path) {
    let over = record.state == State::Resolved;
    let ended = if over { record.last_seen } else { digest.until };
    let began = record.first_seen.max(digest.since);
    if record.holds && ended > digest.since && began < digest.until {
        let seconds = (ended.min(digest.until) - began).as_seconds_f64().max(0.0);
        let (repo, what) = (name.to_owned(), record.summary.clone());
        digest.longest_waits.push(Wait { repo, what, seconds, over });
    }
    if record.is_for_owner() {
        digest.waiting.push(Waiting {
            repo: name.to_owned(),
            id: record.id.clone(),
            rule: record.rule.clone(),
            summary: record.summary.clone(),
            holds: record.holds,
            since: record.first_seen,
            resolve: in_repo(&record.resolve, root),
        });
    }
}
