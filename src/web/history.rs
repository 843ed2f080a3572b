//! Runs and messages of the past, searched. A search reads only so many folders; it says when there are more.

use super::overview::severity;
use super::{places, run::line};
use crate::cli::context::Context;
use crate::escalate::{Outbox, Record};
use crate::repository::Known;
use crate::run::history::{self, RunRecord};
use crate::verbs::repo_name;
use agency_dashboard::view::{HistoryPage, HistoryQuery, PastCause, RunLine};

const PAGE: usize = 40;
const PAGES: usize = 50;
/// In all repositories together.
const READ_MAX: usize = 3_000;
const CAUSES: usize = 40;

pub(super) fn read(context: &Context, query: &HistoryQuery) -> HistoryPage {
    let mut known = places::known(context);
    known.retain(|one| query.repo.is_empty() || key(one) == query.repo);
    let words: Vec<String> = query.q.split_whitespace().take(8).map(str::to_lowercase).collect();
    let skip = query.page.min(PAGES) * PAGE;
    let (runs, more) = runs(&known, &words, skip);
    HistoryPage {
        runs,
        more,
        causes: if query.page == 0 { causes(&known, &words) } else { Vec::new() },
    }
}

fn key(known: &Known) -> String {
    known.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Every word is somewhere in it.
fn fits(words: &[String], texts: &[&str]) -> bool {
    words.iter().all(|word| texts.iter().any(|text| text.to_lowercase().contains(word)))
}

fn runs(known: &[Known], words: &[String], skip: usize) -> (Vec<RunLine>, bool) {
    let each = READ_MAX / known.len().max(1);
    let mut found: Vec<RunLine> = Vec::new();
    let mut more = false;
    for one in known {
        let (name, key) = (repo_name(&one.path), key(one));
        let wanted = |run: &RunRecord| {
            let outcome = run.outcome.unwrap_or(run.state);
            let texts =
                [&run.id, &run.agent, &run.task, &run.phase, &run.protocol, &run.role, &name]
                    .map(String::as_str);
            !run.command && (fits(words, &texts) || fits(words, &[outcome]))
        };
        // Only as many as this page could show of one repository.
        let least = skip + PAGE;
        let (newest, left) =
            history::newest(&one.folder.join("runs"), (0, least), each.max(least + 1), wanted);
        more |= left;
        found.extend(newest.iter().map(|run| line(run, &key)));
    }
    found.sort_by(|a, b| (b.started, &b.id).cmp(&(a.started, &a.id)));
    more |= found.len() > skip + PAGE;
    (found.into_iter().skip(skip).take(PAGE).collect(), more)
}

fn causes(known: &[Known], words: &[String]) -> Vec<PastCause> {
    let mut found: Vec<PastCause> = Vec::new();
    for one in known {
        let (name, key) = (repo_name(&one.path), key(one));
        let wanted = |record: &Record| {
            fits(words, &[&record.rule, &record.protocol, &record.summary, &record.id, &name])
        };
        let records = Outbox::list(&one.folder.join("outbox")).into_iter().filter(wanted);
        found.extend(records.map(|record| past(&record, &key, &name)));
    }
    found.sort_by(|a, b| (b.first_seen, &b.id).cmp(&(a.first_seen, &a.id)));
    found.truncate(CAUSES);
    found
}

fn past(record: &Record, key: &str, name: &str) -> PastCause {
    PastCause {
        repo_key: key.to_owned(),
        repo: name.to_owned(),
        id: record.id.clone(),
        rule: record.rule.clone(),
        severity: severity(record.severity),
        summary: record.summary.clone(),
        state: format!("{:?}", record.state).to_lowercase(),
        first_seen: record.first_seen,
    }
}
