//! The list of runs as their folders tell it, for people and scripts. It takes no lock and changes nothing.

use super::exit::ExitRecord;
use super::folder::{Folder, NO_ARTIFACT};
use crate::model::{Outcome, Timestamp};
use serde::Serialize;
use std::path::Path;

/// Older runs than the newest so many are not listed.
const MOST: usize = 10_000;

/// One line of `agency runs --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRecord {
    pub id: String,
    pub repo: String,
    pub protocol: String,
    pub agent: String,
    pub role: String,
    pub task: String,
    pub phase: String,
    /// `running` or `ended`.
    pub state: &'static str,
    /// The word of its outcome, once it has ended.
    pub outcome: Option<&'static str>,
    /// The agent's, while it runs.
    pub pid: Option<i32>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub cost_usd: Option<f64>,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// The agent's own session, by which it can be resumed.
    pub session: Option<String>,
    /// What stands in its way by its own account, such as `rate-limited`.
    pub trouble: Option<String>,
    pub last_output_at: Option<Timestamp>,
}

/// Oldest first. A folder that cannot be read is left out.
pub fn list(runs: &Path) -> Vec<RunRecord> {
    list_if(runs, |_| true)
}

/// Those that are alive, those that ended since then, and perhaps a few more. Of the others nothing is read.
pub fn since(runs: &Path, since: Timestamp) -> Vec<RunRecord> {
    list_if(runs, |folder| !folder.was_done_with_before(since))
}

fn list_if(runs: &Path, wanted: impl Fn(&Folder) -> bool) -> Vec<RunRecord> {
    let Ok(entries) = std::fs::read_dir(runs) else { return Vec::new() };
    let mut records = Vec::new();
    for folder in entries.flatten().map(|entry| Folder::new(entry.path())).filter(wanted) {
        records.extend(record(&folder));
        if records.len() >= 2 * MOST {
            keep_newest(&mut records);
        }
    }
    keep_newest(&mut records);
    records
}

fn keep_newest(records: &mut Vec<RunRecord>) {
    records.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
    records.drain(..records.len().saturating_sub(MOST));
}

fn record(folder: &Folder) -> Option<RunRecord> {
    let run = folder.intent().ok()?;
    let alive = folder.alive();
    let exit = super::lose::recorded(folder);
    let said = folder.usage().unwrap_or_default();
    let ended = |exit: &ExitRecord| match said.outcome.clone().unwrap_or(exit.how.outcome()) {
        Outcome::Ok if folder.has(NO_ARTIFACT) => NO_ARTIFACT,
        outcome => outcome.word(),
    };
    let child = alive.as_ref().and_then(|alive| alive.child).filter(|_| exit.is_none());
    Some(RunRecord {
        id: run.run.to_string(),
        repo: run.repo.display().to_string(),
        protocol: run.protocol,
        agent: run.seat.to_string(),
        role: run.role,
        task: run.task,
        phase: run.phase,
        state: if exit.is_some() { "ended" } else { "running" },
        outcome: exit.as_ref().map(ended),
        pid: child.map(|child| child.pid),
        started_at: alive.map_or(run.intended_at, |alive| alive.at),
        ended_at: exit.map(|exit| exit.ended_at),
        cost_usd: said.usage.cost_microusd.map(|micro| micro as f64 / 1e6),
        input_tokens: said.usage.input_tokens,
        output_tokens: said.usage.output_tokens,
        session: said.usage.session,
        trouble: said.trouble,
        last_output_at: last_output(folder),
    })
}

fn last_output(folder: &Folder) -> Option<Timestamp> {
    [folder.stdout(), folder.stderr()]
        .iter()
        .filter_map(|path| path.symlink_metadata().ok()?.modified().ok())
        .max()
        .map(Timestamp::from)
}
