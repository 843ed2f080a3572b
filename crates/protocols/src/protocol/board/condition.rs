//! What happens on the board right now, or why nothing does (DM-16). It decides nothing, and looks at few tasks: a board may have
//! 100,000.

use super::memory::{Hold, Known, Stage, WayOut, Work as TaskWork};
use super::names::TaskId;
use super::table::Status;
use super::{Board, away, base, manifest};
use crate::model::{Condition, LiveRun, Moment, Now, TreeRef, Work, clip, clock_time};

/// How many reasons are named.
const NAMED: usize = 3;

pub(super) fn condition(board: &Board, now: Now) -> Condition {
    let memory = &board.index.memory;
    if let Some(hold) = memory.holds.first() {
        return held(hold);
    }
    if let Some(Err(_)) = &board.index.manifest {
        let why = board.is_frozen().unwrap_or_default();
        return Condition::frozen(why, format!("put `{}` right", manifest::PATH));
    }
    if memory.ours.is_none() {
        return match board.index.busy_with() {
            Some(effect) => Condition::doing(effect),
            None => stranger(board),
        };
    }
    if let Some(run) = alive(board) {
        return Condition::Working(Work::Run(run));
    }
    if let Some(doing) = base::doing(board) {
        return Condition::step(doing);
    }
    if let Some(effect) = board.index.busy_with() {
        return Condition::doing(effect);
    }
    if let Some(held) = unchecked(board, now) {
        return held;
    }
    if let Some(reason) = outside(board, now) {
        return Condition::waits_for(reason);
    }
    at_work(board, now).unwrap_or_else(|| at_rest(board, now))
}

fn held(hold: &Hold) -> Condition {
    let resolve = match hold.way_out {
        WayOut::Resume => "agency resume",
        WayOut::Adopt => "agency adopt",
    };
    Condition::held(&hold.summary, resolve)
}

fn stranger(board: &Board) -> Condition {
    match board.is_frozen() {
        None => Condition::step(format!("looking at `{}`", manifest::PATH)),
        Some(why) if board.index.is_unreadable(manifest::PATH) => {
            Condition::frozen(why, format!("put `{}` right", manifest::PATH))
        }
        Some(why) => Condition::idle(why),
    }
}

fn works(board: &Board) -> impl Iterator<Item = (&TaskId, &Known, &TaskWork)> {
    let memory = &board.index.memory;
    memory.working.iter().filter_map(|id| {
        let known = memory.tasks.get(id)?;
        Some((id, known, known.work.as_ref()?))
    })
}

/// The first run; the others are counted.
fn alive(board: &Board) -> Option<LiveRun> {
    let runs = works(board).filter(|(.., work)| work.checking.is_none());
    let mut runs = runs.filter_map(|(id, _, work)| Some((id, work, work.run.clone()?)));
    let (id, work, run) = runs.next()?;
    let others = runs.count();
    Some(LiveRun {
        run,
        agent: who(board, id, work.stage),
        task: id.to_string(),
        since: None,
        trouble: None,
        others,
    })
}

/// Whom a stage of a task waits for.
pub(super) fn who(board: &Board, id: &TaskId, stage: Stage) -> String {
    match stage {
        Stage::Audit | Stage::Audited => board.limits.auditor.clone(),
        Stage::Setup => "the set-up".to_owned(),
        Stage::Base | Stage::Verify | Stage::Verified => "the verify".to_owned(),
        Stage::Prepare
        | Stage::Build
        | Stage::Remedy
        | Stage::Built
        | Stage::Plan
        | Stage::Merged
        | Stage::Owner => {
            board.index.task(id).map(|task| task.assignee.clone()).unwrap_or_default()
        }
    }
}

/// A task that waits for its place, for its next try, or that is between two steps of ours.
fn at_work(board: &Board, now: Now) -> Option<Condition> {
    let open = || works(board).filter(|(.., work)| work.stage != Stage::Owner);
    let tree = |work: &TaskWork| match work.shared {
        true => TreeRef::Main,
        false => TreeRef::Worktree(work.tree.clone()),
    };
    if let Some((id, _, work)) = open().find(|(.., work)| board.index.is_leasing(&tree(work))) {
        return Some(Condition::starts(who(board, id, work.stage), id.to_string()));
    }
    let pause = |work: &TaskWork| work.not_before.filter(|at| at.left(now).is_some());
    if let Some((id, ..)) = open().find(|(.., work)| pause(work).is_none()) {
        return Some(Condition::step(format!("the next step of {id}")));
    }
    let pauses = open().filter_map(|(id, _, work)| Some((id, work, pause(work)?)));
    let (id, work, at) = pauses.min_by_key(|(.., at)| at.wall())?;
    Some(paused(board, id, work, at))
}

fn paused(board: &Board, id: &TaskId, work: &TaskWork, at: Moment) -> Condition {
    if !work.parked.is_empty() {
        return Condition::waits_until(format!("{id}: {}", work.parked), at);
    }
    let next = clock_time(at.wall());
    let why = work.refused.as_deref().unwrap_or(&work.last);
    let words = match why.lines().next().unwrap_or_default() {
        "" => format!("{id}: next try of {} {next}", who(board, id, work.stage)),
        why => format!("{id}: {}; next try {next}", clip(why, 160)),
    };
    Condition::waits_until(words, at)
}

fn at_rest(board: &Board, now: Now) -> Condition {
    let record = &board.index.memory.record;
    if let Some(at) = record.retry_at().filter(|at| at.left(now).is_some()) {
        let next = clock_time(at.wall());
        return Condition::waits_until(format!("the records are committed again {next}"), at);
    }
    if let Some((_, id)) = board.index.ready.first() {
        return Condition::step(format!("beginning {id}"));
    }
    if !board.index.due.is_empty() || !board.index.due_reports.is_empty() {
        return Condition::step("judging what was written");
    }
    let over = board.index.count(Status::Done) + board.index.count(Status::Canceled);
    match over {
        0 => Condition::idle("no task yet"),
        1 => Condition::done("the only task is over"),
        over => Condition::done(format!("all {over} tasks are over")),
    }
}

/// What we wait for and cannot do ourselves: the owner's branch, a person, a dependency, a commit to begin from.
pub(super) fn outside(board: &Board, now: Now) -> Option<String> {
    board.index.memory.ours.as_ref()?;
    if let Some(why) = away::reason(board).filter(|_| away::has_work(board)) {
        return Some(why);
    }
    if works(board).any(|(.., work)| work.stage != Stage::Owner) {
        return None;
    }
    let due = !board.index.due.is_empty() || !board.index.due_reports.is_empty();
    if due || board.index.memory.record.retry_at().is_some_and(|at| at.left(now).is_some()) {
        return None;
    }
    if !board.index.ready.is_empty() {
        return cannot_begin(board);
    }
    let reasons: Vec<String> =
        owners(board).chain(blocked(board)).chain(others(board)).take(NAMED).collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// A task may begin, and the repository lets none begin.
fn cannot_begin(board: &Board) -> Option<String> {
    if !board.place.git {
        let shared = board.limits.shared;
        return (!shared).then(|| {
            "no git here: `board.isolation: shared` allows the one tree there is".to_owned()
        });
    }
    if let Some(why) = board.index.memory.told.get(super::work::UNCOMMITTED) {
        return Some(why.clone());
    }
    match &board.index.checkout {
        Some(checkout) if checkout.head.is_none() => {
            Some("the repository has no commit to begin from".to_owned())
        }
        Some(_) => None,
        None => Some("the checkout was not looked at yet".to_owned()),
    }
}

/// No other work can go on, and the first task that waits for the owner has no checks that it could be verified by (AG-16).
fn unchecked(board: &Board, now: Now) -> Option<Condition> {
    let is_away = away::reason(board).is_some();
    if is_away || !board.index.ready.is_empty() || outside(board, now).is_none() {
        return None;
    }
    let no_checks =
        |known: &Known| known.told.as_ref().is_some_and(|told| told.rule.as_str() == "AG-16");
    let mut asked = works(board).filter(|(.., work)| work.stage == Stage::Owner);
    let (id, known, _) = asked.find(|(_, known, _)| no_checks(known))?;
    let why = clip(&known.reason, 160);
    let cause = format!("{id}: {why}; commit a profile with the commands that must pass");
    Some(Condition::held(cause, format!("agency task request-changes {id} --reason TEXT")))
}

fn owners(board: &Board) -> impl Iterator<Item = String> {
    let asked = works(board).filter(|(.., work)| work.stage == Stage::Owner);
    asked.map(|(id, ..)| format!("{id} waits for the owner (agency escalations)"))
}

fn column(board: &Board, status: Status) -> impl Iterator<Item = &TaskId> {
    let tasks = board.index.columns.get(&status).into_iter().flatten();
    tasks.map(|(_, id)| id).take(NAMED)
}

fn blocked(board: &Board) -> impl Iterator<Item = String> {
    column(board, Status::Blocked).map(|id| {
        let reason = board.index.memory.tasks.get(id).map_or("", |known| known.reason.as_str());
        match clip(reason, 100).as_str() {
            "" => format!("{id} is BLOCKED"),
            reason => format!("{id} is BLOCKED: {reason}"),
        }
    })
}

/// Tasks of people, and those that wait for another.
fn others(board: &Board) -> impl Iterator<Item = String> {
    let waiting = [Status::InProgress, Status::ReadyForReview, Status::Assigned, Status::New];
    let open = waiting
        .into_iter()
        .flat_map(move |status| column(board, status).map(move |id| (status, id)));
    open.filter(|(_, id)| !board.index.memory.working.contains(*id))
        .map(|(status, id)| why(board, status, id))
}

pub(super) fn why(board: &Board, status: Status, id: &TaskId) -> String {
    let Some(task) = board.index.task(id) else {
        return format!("{id} is {}, and its file cannot be read", status.word());
    };
    let waits = board.index.waits_for(task);
    if let Some(first) = waits.first().filter(|_| status == Status::Assigned) {
        let (dependency, state) = first.split_once(" is ").unwrap_or((first, "not DONE"));
        return format!("{id} waits: {dependency} is not DONE ({state})");
    }
    if board.index.find(id).is_some_and(|(path, _)| board.index.memory.refused.contains_key(path)) {
        return format!("{id} is {}, and its file is refused", status.word());
    }
    match board.index.is_person(&task.assignee) {
        true => format!("{id} is {}, for {}", status.word(), task.assignee),
        false => format!("{id} is {}", status.word()),
    }
}
