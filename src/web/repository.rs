//! The page of one repository: what its journal, its board and its runs say.

use super::places;
use super::run::line;
use super::spent::Spent;
use super::timeline;
use crate::cli::board::inspect::{Stands, tasks_that};
use crate::cli::context::Context;
use crate::clock;
use crate::protocol::board;
use crate::protocol::board::table::Status;
use crate::repository::Known;
use crate::run::history;
use crate::store::{self, Record};
use crate::verbs::TaskVerb;
use crate::workspace::remembered;
use agency_dashboard::view::{RepoCard, RepoPage, Task};

const RECORDS: usize = 600;
const STEPS: usize = 120;
const RUNS: usize = 25;
/// Folders that are read to find them.
const READ_MAX: usize = 200;

pub(super) fn read(card: RepoCard, context: &Context, spent: &mut Spent) -> RepoPage {
    let Some(known) = places::find(context, &card.key) else {
        return RepoPage { card, ..RepoPage::default() };
    };
    let records = store::tail(&known.folder.join("journal"), RECORDS);
    let runs = known.folder.join("runs");
    let (newest, _) = history::newest(&runs, (0, RUNS), READ_MAX, |run| !run.command);
    let sums = spent.sums(&runs, clock::wall());
    let tables = card.protocols.iter().filter_map(|one| timeline::table(&one.name, &records));
    RepoPage {
        timeline: timeline::steps(&records, STEPS),
        tables: tables.collect(),
        tasks: tasks(&card, &known),
        runs: newest.iter().map(|run| line(run, &card.key)).collect(),
        cost_per_day: sums.cost,
        time_per_agent: sums.time,
        card,
    }
}

/// Those of a board that are not over, by the owner's view: a file's word alone moves nothing.
fn tasks(card: &RepoCard, known: &Known) -> Vec<Task> {
    if !card.protocols.iter().any(|one| one.name == board::NAME) {
        return Vec::new();
    }
    let records: Vec<Record> = store::latest(&known.folder.join("journal"));
    let stands = Stands::of(&remembered(&records, board::NAME));
    let (found, _) = tasks_that(&known.path, |_| true);
    let mut tasks: Vec<_> =
        found.into_iter().map(|(_, task)| (stands.status(&task), task)).collect();
    tasks.retain(|(status, _)| !matches!(status, Status::Done | Status::Canceled));
    tasks.sort_by(|(_, a), (_, b)| a.id.cmp(&b.id));
    let tasks = tasks.into_iter().map(|(status, task)| Task {
        id: task.id.to_string(),
        title: task.title,
        status: status.word().to_owned(),
        assignee: task.assignee,
        verbs: TaskVerb::fitting(status).into_iter().map(TaskVerb::word).collect(),
    });
    tasks.collect()
}
