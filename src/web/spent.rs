//! What runs cost by day and how long agents worked, over any number of looks: a run that is done with is read once.

use crate::model::Timestamp;
use crate::run::Folder;
use crate::run::history::{self, RunRecord};
use chrono::{Days, NaiveDate};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

const DAYS: u64 = 14;
/// More runs than this are forgotten and read again.
const KEPT: usize = 20_000;
/// Of one repository, at one look.
const READ_MAX: usize = 5_000;

#[derive(Default)]
pub(super) struct Spent {
    done: HashMap<PathBuf, Brief>,
}

#[derive(Clone)]
struct Brief {
    day: NaiveDate,
    agent: String,
    cost: f64,
    seconds: f64,
}

/// Dollars by day, oldest first; seconds by agent, the most first.
pub(super) struct Sums {
    pub(super) cost: Vec<(String, f64)>,
    pub(super) time: Vec<(String, f64)>,
}

impl Spent {
    pub(super) fn sums(&mut self, runs: &Path, now: Timestamp) -> Sums {
        let today = now.date_naive();
        let first = today.checked_sub_days(Days::new(DAYS - 1)).unwrap_or(today);
        let days = first.iter_days().take_while(|day| *day <= today);
        let mut cost: BTreeMap<NaiveDate, f64> = days.map(|day| (day, 0.0)).collect();
        let mut time: BTreeMap<String, f64> = BTreeMap::new();
        let after = first.and_time(chrono::NaiveTime::MIN).and_utc();
        for folder in history::since(runs, after).into_iter().rev().take(READ_MAX) {
            let Some(brief) = self.brief(&folder) else { continue };
            if let Some(sum) = cost.get_mut(&brief.day) {
                *sum += brief.cost;
                *time.entry(brief.agent).or_default() += brief.seconds;
            }
        }
        let mut time: Vec<_> = time.into_iter().collect();
        time.sort_by(|a, b| b.1.total_cmp(&a.1));
        time.truncate(12);
        let cost = cost.into_iter().map(|(day, sum)| (day.format("%b %d").to_string(), sum));
        Sums { cost: cost.collect(), time }
    }

    /// Of an agent's run that has ended; the owner's own commands cost nothing.
    fn brief(&mut self, folder: &Path) -> Option<Brief> {
        if let Some(brief) = self.done.get(folder) {
            return Some(brief.clone());
        }
        // Asked before it is read: from then on nothing changes.
        let done = Folder::new(folder).has(history::DONE);
        let brief = brief(&history::one(folder)?)?;
        if done {
            if self.done.len() >= KEPT {
                self.done.clear();
            }
            self.done.insert(folder.to_owned(), brief.clone());
        }
        Some(brief)
    }
}

fn brief(run: &RunRecord) -> Option<Brief> {
    let ended = run.ended_at.filter(|_| !run.command)?;
    Some(Brief {
        day: ended.date_naive(),
        agent: run.agent.clone(),
        cost: run.cost_usd.unwrap_or(0.0),
        seconds: (ended - run.started_at).as_seconds_f64().max(0.0),
    })
}
