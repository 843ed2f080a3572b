//! The list of runs as their folders tell it, for people and scripts. It takes no lock and changes nothing.

use super::exit::{ExitRecord, How};
use super::folder::{Folder, NO_ARTIFACT, SEEN};

/// The mark of a run of which nothing changes any more.
pub const DONE: &str = SEEN;

use crate::model::{Outcome, Timestamp, clip};
use chrono::{NaiveDate, NaiveTime};
use serde::Serialize;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Older runs than the newest so many are not listed.
const MOST: usize = 10_000;

const RUNNING: &str = "running";
const ENDED: &str = "ended";
/// A command of the owner's that exited with another code than 0.
const FAILED: &str = "failed";

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
    /// The cost is an estimate from tokens and `prices`.
    pub cost_estimated: bool,
    /// Why it ended, in words.
    pub reason: Option<String>,
    pub model: Option<String>,
    /// A command line of the owner's, and no agent.
    pub command: bool,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    /// The agent's own session, by which it can be resumed.
    pub session: Option<String>,
    /// What stands in its way by its own account, such as `rate-limited`.
    pub trouble: Option<String>,
    pub last_output_at: Option<Timestamp>,
    /// Files by which the owner's own tools run commands, and that it changed (SE-13).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
}

/// Oldest first. A folder that cannot be read is left out.
pub fn list(runs: &Path) -> Vec<RunRecord> {
    let Ok(entries) = std::fs::read_dir(runs) else { return Vec::new() };
    let mut records = Vec::new();
    for entry in entries.flatten() {
        records.extend(record(&Folder::new(entry.path())));
        if records.len() >= 2 * MOST {
            keep_newest(&mut records);
        }
    }
    keep_newest(&mut records);
    records
}

/// Those that fit, newest first, after the first `skip` of them; and whether there are more. Only so many folders are read.
pub fn newest(
    runs: &Path,
    (skip, most): (usize, usize),
    read_max: usize,
    fits: impl Fn(&RunRecord) -> bool,
) -> (Vec<RunRecord>, bool) {
    let mut folders: Vec<(SystemTime, PathBuf)> = entries(runs);
    folders.sort_by(|a, b| b.cmp(a));
    let records = folders.into_iter().take(read_max).filter_map(|(_, path)| one(&path));
    let mut found: Vec<RunRecord> =
        records.filter(|run| fits(run)).skip(skip).take(most + 1).collect();
    let more = found.len() > most;
    found.truncate(most);
    found.sort_by(|a, b| (b.started_at, &b.id).cmp(&(a.started_at, &a.id)));
    (found, more)
}

/// One run, by its folder.
pub fn one(folder: &Path) -> Option<RunRecord> {
    record(&Folder::new(folder))
}

/// When something last came into each folder, which is about when its run ended.
fn entries(runs: &Path) -> Vec<(SystemTime, PathBuf)> {
    let all = std::fs::read_dir(runs).into_iter().flatten().flatten();
    all.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect()
}

/// The folders in which something happened since then, oldest first.
pub fn since(runs: &Path, after: Timestamp) -> Vec<PathBuf> {
    let mut folders = entries(runs);
    folders.retain(|(at, _)| Timestamp::from(*at) >= after);
    folders.sort();
    folders.into_iter().map(|(_, path)| path).collect()
}

/// What the runs of one repository do and cost today, over any number of looks: one that is done with is read once, and one
/// of a former day not at all.
#[derive(Debug, Default)]
pub struct Today {
    day: Option<NaiveDate>,
    /// Done with, by name, on whatever day.
    done: HashSet<OsString>,
    /// Of those that ended on this day.
    done_cost_usd: f64,
    done_tokens: u64,
}

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Oldest first.
    pub running: Vec<RunRecord>,
    /// What those cost that ended today (UTC), as far as they say so.
    pub cost_usd: f64,
    /// Their input and output tokens.
    pub tokens: u64,
}

impl Today {
    pub fn look(&mut self, runs: &Path, now: Timestamp) -> Look {
        let today = now.date_naive();
        if self.day.replace(today) != Some(today) {
            (self.done_cost_usd, self.done_tokens) = (0.0, 0);
        }
        let midnight = today.and_time(NaiveTime::MIN).and_utc();
        let mut look = Look::default();
        for entry in std::fs::read_dir(runs).into_iter().flatten().flatten() {
            let (name, folder) = (entry.file_name(), Folder::new(entry.path()));
            if self.done.contains(&name) {
                continue;
            }
            // Asked before it is read: from then on nothing changes.
            let done = folder.has(SEEN);
            let former = done && folder.was_done_with_before(midnight);
            let record = if former { None } else { record(&folder) };
            let cost = record.as_ref().map_or(0.0, |record| record.cost_on(today));
            let tokens = record.as_ref().map_or(0, |record| record.tokens_on(today));
            if done {
                self.done.insert(name);
                self.done_cost_usd += cost;
                self.done_tokens += tokens;
            } else {
                look.cost_usd += cost;
                look.tokens += tokens;
            }
            look.running.extend(record.filter(|record| record.state == RUNNING));
        }
        look.cost_usd += self.done_cost_usd;
        look.tokens += self.done_tokens;
        keep_newest(&mut look.running);
        look
    }
}

impl RunRecord {
    fn cost_on(&self, day: NaiveDate) -> f64 {
        let ended = self.ended_at.is_some_and(|at| at.date_naive() == day);
        self.cost_usd.filter(|_| ended).unwrap_or(0.0)
    }

    fn tokens_on(&self, day: NaiveDate) -> u64 {
        let ended = self.ended_at.is_some_and(|at| at.date_naive() == day);
        if ended { self.tokens() } else { 0 }
    }

    /// Input and output together.
    pub fn tokens(&self) -> u64 {
        self.input_tokens.unwrap_or(0).saturating_add(self.output_tokens.unwrap_or(0))
    }
}

fn keep_newest(records: &mut Vec<RunRecord>) {
    records.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
    records.drain(..records.len().saturating_sub(MOST));
}

fn record(folder: &Folder) -> Option<RunRecord> {
    let run = folder.intent().ok()?;
    let alive = folder.alive();
    let exit = super::lost_run::recorded(folder);
    let said = folder.usage().unwrap_or_default();
    let outcome = exit.as_ref().map(|exit| said.outcome.clone().unwrap_or(exit.how.outcome()));
    let word = |outcome: &Outcome| match outcome {
        Outcome::Ok if folder.has(NO_ARTIFACT) => NO_ARTIFACT,
        // A gate or test that does not pass has not crashed.
        Outcome::Crash { .. } if run.command && exited(exit.as_ref()) => FAILED,
        outcome => outcome.word(),
    };
    let reason = |outcome: &Outcome| match outcome {
        Outcome::Crash { how } if run.command => how.clone(),
        outcome => clip(&outcome.sentence(), 200),
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
        state: if exit.is_some() { ENDED } else { RUNNING },
        outcome: outcome.as_ref().map(word),
        reason: outcome.as_ref().map(reason),
        model: run.model.clone().or_else(|| said.model.clone()),
        command: run.command,
        pid: child.map(|child| child.pid),
        started_at: alive.map_or(run.intended_at, |alive| alive.at),
        ended_at: exit.map(|exit| exit.ended_at),
        cost_usd: said.usage.cost_microusd.map(|micro| micro as f64 / 1e6),
        cost_estimated: said.usage.estimated,
        input_tokens: said.usage.input_tokens,
        output_tokens: said.usage.output_tokens,
        session: said.usage.session,
        trouble: said.trouble,
        last_output_at: last_output(folder),
        changed: folder.changed(),
    })
}

fn exited(exit: Option<&ExitRecord>) -> bool {
    matches!(exit, Some(ExitRecord { how: How::Exited(_), .. }))
}

fn last_output(folder: &Folder) -> Option<Timestamp> {
    [folder.stdout(), folder.stderr()]
        .iter()
        .filter_map(|path| path.symlink_metadata().ok()?.modified().ok())
        .max()
        .map(Timestamp::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::run::How;
    use chrono::TimeDelta;
    use serde_json::json;

    fn put(runs: &Path, name: &str, file: &str, value: &impl Serialize) {
        std::fs::create_dir_all(runs.join(name)).unwrap();
        let text = serde_json::to_vec(value).unwrap();
        std::fs::write(runs.join(name).join(file), text).unwrap();
    }

    fn begin(runs: &Path, name: &str, at: Timestamp) {
        let limits = super::super::Limits::default();
        let intent = json!({
            "version": 1, "run": name, "argv": ["true"], "dir": "/", "env": [], "limits": limits,
            "beat_ms": 1000, "repo": "/r", "protocol": "loop", "seat": "codex", "role": "reviewer",
            "task": "1", "phase": "review", "why": "a test", "prompt_file": null, "intended_at": at,
        });
        put(runs, name, "run.json", &intent);
    }

    fn end(runs: &Path, name: &str, at: Timestamp, dollars: u64) {
        begin(runs, name, at);
        put(runs, name, "exit.json", &ExitRecord::new(How::Stopped("a test".to_owned()), at));
        let usage = json!({ "cost_microusd": dollars * 1_000_000 });
        put(runs, name, "usage.json", &json!({ "version": 1, "usage": usage }));
    }

    // covers: SU-07
    #[test]
    fn what_is_done_with_is_counted_once_and_read_once() {
        let (dir, now) = (tempfile::tempdir().unwrap(), clock::wall());
        let (runs, mut today) = (dir.path(), Today::default());
        begin(runs, "alive", now);
        end(runs, "ended", now, 2);
        end(runs, "former", now - TimeDelta::days(2), 4);
        put(runs, "former", SEEN, &());
        let former = std::fs::File::open(runs.join("former")).unwrap();
        former.set_modified(SystemTime::from(now - TimeDelta::days(2))).unwrap();
        let mut look = |now| {
            let look = today.look(runs, now);
            let running: Vec<_> = look.running.into_iter().map(|run| run.id).collect();
            (running.join(" "), look.cost_usd)
        };
        assert_eq!(look(now), ("alive".to_owned(), 2.0));
        put(runs, "ended", SEEN, &());
        assert_eq!(look(now), ("alive".to_owned(), 2.0));
        std::fs::remove_dir_all(runs.join("ended")).unwrap();
        end(runs, "alive", now, 1);
        assert_eq!(look(now), (String::new(), 3.0));
        assert_eq!(look(now + TimeDelta::days(1)), (String::new(), 0.0));
    }
}
