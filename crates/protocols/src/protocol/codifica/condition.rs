//! What happens to the tasks right now, or why nothing does (DM-16). It decides nothing.

use super::board::Board;
use super::keeper::Codifica;
use super::memory::{Hold, Job, Stage};
use super::task::Glance;
use super::words::{Owner, State};
use super::{FILE, away, dispatch};
use crate::model::{Condition, LiveRun, Moment, Now, RunId, Work, clock_time, counted};

pub(super) fn condition(codifica: &Codifica, now: Now) -> Condition {
    if let Some(hold) = codifica.index.memory.holds.first() {
        return held(hold);
    }
    if let Some(run) = alive(codifica) {
        return Condition::Working(Work::Run(run));
    }
    if let Some(effect) = codifica.index.in_flight.blocking() {
        return Condition::doing(effect);
    }
    if !codifica.desk.git {
        let resolve = "git init, commit the state files, then: agency adopt";
        return Condition::frozen("Codifica needs git, and this folder has none", resolve);
    }
    let Some(board) = codifica.index.ruling_board() else {
        return Condition::idle(format!("no readable `{FILE}`"));
    };
    if let Some(reason) = outside(codifica) {
        return Condition::waits_for(reason);
    }
    if let Some(job) = codifica.index.memory.jobs.values().find(|job| is_leasing(codifica, job)) {
        return Condition::starts(format!("agent:{}", job.agent), &job.task);
    }
    let pauses =
        codifica.index.memory.jobs.values().filter_map(|job| Some((job, pause(job, now)?)));
    if let Some((job, at)) = pauses.min_by_key(|(_, at)| at.wall()) {
        return paused(job, at);
    }
    if let Some(job) = codifica.index.memory.jobs.values().next() {
        return Condition::step(step(job));
    }
    without_jobs(codifica, board, now)
}

fn held(hold: &Hold) -> Condition {
    let resolve = match (hold.waits_for_trust(), hold.cause.rule.as_str()) {
        (true, _) => "agency trust".to_owned(),
        (false, "DM-13") => "agency adopt".to_owned(),
        (false, "CD-01") => format!("correct `{FILE}` or the file it names"),
        (false, _) => "agency resume".to_owned(),
    };
    Condition::held(&hold.summary, resolve)
}

/// The first run of a job or of a warning; the others are counted.
fn alive(codifica: &Codifica) -> Option<LiveRun> {
    let memory = &codifica.index.memory;
    let of_job = |job: &Job| match &job.stage {
        Stage::Claiming { run } | Stage::Working { run } => {
            Some((run.clone(), format!("agent:{}", job.agent), job.task.clone()))
        }
        Stage::Claim | Stage::Base { .. } | Stage::Tree | Stage::Ended { .. } => None,
    };
    let note = memory.noting.as_ref().and_then(|noting| {
        Some((noting.run.clone()?, "agency".to_owned(), format!("a note in {}", noting.task)))
    });
    let runs: Vec<(RunId, String, String)> =
        memory.jobs.values().filter_map(of_job).chain(note).collect();
    let others = runs.len().saturating_sub(1);
    let (run, agent, task) = runs.into_iter().next()?;
    Some(LiveRun { run, agent, task, since: None, trouble: None, others })
}

fn is_leasing(codifica: &Codifica, job: &Job) -> bool {
    match job.stage {
        Stage::Claim => codifica.index.in_flight.is_leasing(&crate::model::TreeRef::Main),
        Stage::Tree => codifica.index.in_flight.is_leasing(&job.tree()),
        Stage::Claiming { .. }
        | Stage::Base { .. }
        | Stage::Working { .. }
        | Stage::Ended { .. } => false,
    }
}

fn pause(job: &Job, now: Now) -> Option<Moment> {
    job.not_before.filter(|at| job.stage == Stage::Tree && at.left(now).is_some())
}

fn paused(job: &Job, at: Moment) -> Condition {
    if job.paused.is_empty() {
        let (agent, task) = (&job.agent, &job.task);
        let reason = format!("{task}: next try of agent:{agent} {}", clock_time(at.wall()));
        return Condition::waits_until(reason, at);
    }
    Condition::waits_until(format!("{}: {}", job.task, job.paused), at)
}

fn step(job: &Job) -> String {
    let Job { task, agent, .. } = job;
    match job.stage {
        Stage::Claim | Stage::Claiming { .. } => format!("claiming {task} for agent:{agent}"),
        Stage::Base { .. } => format!("merging what {task} depends on"),
        Stage::Tree | Stage::Working { .. } => format!("preparing agent:{agent} for {task}"),
        Stage::Ended { .. } => format!("judging what agent:{agent} left of {task}"),
    }
}

fn without_jobs(codifica: &Codifica, board: &Board, now: Now) -> Condition {
    let memory = &codifica.index.memory;
    if memory.accepted.is_none() {
        return Condition::step("reading the state files");
    }
    let resting = memory.rests.iter().filter(|(_, rest)| rest.not_before.left(now).is_some());
    if let Some((agent, rest)) = resting.min_by_key(|(_, rest)| rest.not_before.wall()) {
        let at = rest.not_before;
        let next = clock_time(at.wall());
        let reason = format!("agent:{agent} could not claim a task; next try {next}");
        return Condition::waits_until(reason, at);
    }
    if memory.noting.is_some() || !memory.warnings.is_empty() {
        return Condition::step("writing a warning into a task");
    }
    if dispatch::is_wanted(codifica, board) {
        return Condition::step("handing out the next task");
    }
    match board.glances().count() {
        0 => Condition::idle("no tasks"),
        1 => Condition::done("the only task is over"),
        count => Condition::done(format!("all {count} tasks are over")),
    }
}

/// What we wait for and cannot do ourselves: the owner's branch, a person's task, a dependency.
pub(super) fn outside(codifica: &Codifica) -> Option<String> {
    let memory = &codifica.index.memory;
    memory.accepted.as_ref()?;
    if let Some(why) = away::reason(codifica).filter(|_| away::has_work(codifica)) {
        return Some(why);
    }
    let board = codifica.index.ruling_board()?;
    if !memory.jobs.is_empty() || memory.noting.is_some() || !memory.warnings.is_empty() {
        return None;
    }
    if dispatch::is_wanted(codifica, board) {
        return stuck_claims(codifica);
    }
    let open = board.glances().find(|task| !task.state.is_terminal())?;
    Some(why_open(board, open))
}

/// Claims that failed too often are tried again when the branch moves.
fn stuck_claims(codifica: &Codifica) -> Option<String> {
    let head = codifica.index.head();
    let stuck = codifica
        .index
        .memory
        .rests
        .iter()
        .find(|(_, rest)| rest.failures >= dispatch::CLAIM_TRIES && rest.head.as_ref() == head);
    let (agent, rest) = stuck?;
    let tries = counted(rest.failures, "try");
    Some(format!("agent:{agent} could not claim a task in {tries}; the branch must move"))
}

/// Why no agent is given this task.
fn why_open(board: &Board, task: &Glance) -> String {
    let id = &task.id;
    let not_done =
        |dep: &&String| board.glance(dep.as_str()).is_none_or(|task| task.state != State::Done);
    if task.state != State::Todo {
        return format!("{id} is {} and belongs to {}", task.state.word(), owner(&task.owner));
    }
    match (task.depends_on.iter().find(not_done), &task.owner) {
        (Some(dependency), _) => format!("{id} waits: {dependency} is not done"),
        (None, Owner::Human) => format!("{id} is a human's"),
        (None, other) => format!("{id} is todo and no agent may take it ({})", owner(other)),
    }
}

fn owner(owner: &Owner) -> String {
    match owner {
        Owner::Human => "a human".to_owned(),
        Owner::Agent(name) => format!("agent:{name}"),
        Owner::Unassigned => "nobody".to_owned(),
    }
}
