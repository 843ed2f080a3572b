//! EffectRunner tasks to free agents (spec 3 §5.1): claim by our own command, a worktree on the task's branch, then the agent.

use super::board::Board;
use super::branch::branch;
use super::keeper::Codifica;
use super::memory::{Job, Noting, Rest, Stage};
use super::next::next;
use super::tell::{self, Notice};
use super::words::{Actor, OURSELVES, Owner, State};
use super::{finish, inherit, prompt};
use crate::model::{
    Access, Builder, CommandLine, Decision, Effect, Event, Fact, Failure, Moment, NewWorktree, Now,
    Query, RunId, Seat, Severity, Spawn, TreeRef, WrittenBy, counted,
};
use std::time::Duration;

/// A claim that fails so often waits for another head.
pub(super) const CLAIM_TRIES: u32 = 3;
const CLAIM_WAIT: Duration = Duration::from_secs(5);
const CLAIM_LIMIT_S: u64 = 900;
pub(super) const ROLE: &str = "builder";

impl Job {
    pub(super) fn of(codifica: &Codifica, task: &str, agent: &str, stage: Stage) -> Self {
        let board = codifica.index.ruling_board();
        let whole = board.and_then(|board| board.task(task)).and_then(Result::ok);
        let pattern = board.and_then(|board| board.config.rules.branch_pattern.clone());
        let branch = whole
            .map_or_else(|| format!("codifica/{task}"), |task| branch(pattern.as_deref(), &task));
        let (task, agent) = (task.to_owned(), agent.to_owned());
        Self {
            task,
            agent,
            stage,
            failures: 0,
            not_before: None,
            paused: String::new(),
            outage: None,
            branch,
            base: None,
            start: None,
            origin: None,
            inherited: Vec::new(),
            stopping: false,
        }
    }

    /// The worktree's name: the task's id is a name already.
    pub(super) fn tree(&self) -> TreeRef {
        TreeRef::Worktree(format!("codifica-{}", self.task))
    }

    pub(super) fn seat(&self) -> Seat {
        Seat::new(&self.agent)
    }
}

pub(super) fn remember(decision: &mut Builder, job: &Job) {
    decision.remember(&format!("job/{}", job.task), job);
}

pub(super) fn go_on(codifica: &Codifica, now: Now) -> Option<Decision> {
    let memory = &codifica.index.memory;
    if !memory.holds.is_empty() || !codifica.index.is_at_home() {
        return None;
    }
    let board = codifica.index.ruling_board()?;
    memory
        .jobs
        .values()
        .find_map(|job| step(codifica, job, board, now))
        .or_else(|| warn(codifica))
        .or_else(|| take_one(codifica, board, now))
}

fn step(codifica: &Codifica, job: &Job, board: &Board, now: Now) -> Option<Decision> {
    match &job.stage {
        Stage::Claim => claim(codifica, job),
        Stage::Tree | Stage::Base { .. }
            if is_taken_away(board, job) || is_handed_on(board, job) =>
        {
            Some(drop_job(codifica, job))
        }
        Stage::Base { base, left } => inherit::bring_next(codifica, job, base, left, now),
        Stage::Tree if job.not_before.is_some_and(|at| at.left(now).is_some()) => None,
        Stage::Tree => {
            inherit::find_base(codifica, job, board).or_else(|| begin(codifica, job, board))
        }
        Stage::Working { run } if !job.stopping && is_taken_away(board, job) => {
            let mut decision = codifica.builder();
            remember(&mut decision, &Job { stopping: true, ..job.clone() });
            let why = format!("{} was taken from agent:{}", job.task, job.agent);
            decision.effect(Effect::Stop { run: run.clone(), why });
            Some(decision.finish())
        }
        Stage::Claiming { .. } | Stage::Working { .. } | Stage::Ended { .. } => None,
    }
}

/// A human reclaimed, blocked or rejected the task, or gave it to another: two agents never work on one task. A checkout that has
/// not seen the claim yet says nothing about it.
fn is_taken_away(board: &Board, job: &Job) -> bool {
    let Some(Ok(task)) = board.task(&job.task) else { return false };
    let me = Actor::Agent(job.agent.clone());
    let claims = &mut task.state_transitions.iter().filter(|entry| entry.to == State::InProgress);
    match task.state {
        State::InProgress => !me.owns(&task.owner),
        State::Todo | State::Blocked | State::Rejected => claims.any(|entry| entry.by == me),
        State::ToBeTested | State::Done => false,
    }
}

/// There is nothing left for its agent to do.
fn is_handed_on(board: &Board, job: &Job) -> bool {
    let state = board.glance(&job.task).map(|task| task.state);
    matches!(state, Some(State::ToBeTested | State::Done))
}

fn drop_job(codifica: &Codifica, job: &Job) -> Decision {
    let mut decision = codifica.builder();
    decision.effect(log("task", job));
    finish::let_go(job, &mut decision);
    decision.finish()
}

/// The first free agent with something to do. One claim at a time: each looks at what the one before has left.
/// Some agent could be given a task.
pub(super) fn is_wanted(codifica: &Codifica, board: &Board) -> bool {
    codifica.roster(board).iter().any(|agent| next(board, agent).is_ok())
}

fn take_one(codifica: &Codifica, board: &Board, now: Now) -> Option<Decision> {
    if codifica.index.memory.uses_main() {
        return None;
    }
    let head = codifica.index.head();
    let rested = |agent: &String| {
        codifica.index.memory.rests.get(agent).is_none_or(|rest| {
            let again = rest.failures < CLAIM_TRIES || rest.head.as_ref() != head;
            again && rest.not_before.left(now).is_none()
        })
    };
    let busy = |agent: &String| codifica.index.memory.jobs.values().any(|job| job.agent == *agent);
    let roster = codifica.roster(board);
    let free = roster.iter().filter(|agent| !busy(agent) && rested(agent));
    let (agent, task) = free.filter_map(|agent| Some((agent, next(board, agent).ok()?))).next()?;
    let job = Job::of(codifica, &task.id, agent, Stage::Claim);
    let mut decision = codifica.builder();
    remember(&mut decision, &job);
    decision.effect(Effect::Lease { tree: TreeRef::Main, seat: job.seat(), role: ROLE.to_owned() });
    Some(decision.finish())
}

fn claim(codifica: &Codifica, job: &Job) -> Option<Decision> {
    if !codifica.index.in_flight.is_granted(&TreeRef::Main) {
        return (!codifica.index.asked_for(&TreeRef::Main)).then(|| {
            let mut decision = codifica.builder();
            decision.effect(Effect::Lease {
                tree: TreeRef::Main,
                seat: job.seat(),
                role: ROLE.to_owned(),
            });
            decision.finish()
        });
    }
    let mut decision = codifica.builder();
    let run = run_id(codifica, &decision);
    let line =
        format!("{} work claim {} --agent {}", quoted(&codifica.desk.program), job.task, job.agent);
    remember(&mut decision, &Job { stage: Stage::Claiming { run: run.clone() }, ..job.clone() });
    decision.effect(Effect::Spawn(Box::new(command(run, &job.agent, &job.task, "claim", line))));
    Some(decision.finish())
}

/// CD-24: a warning in somebody's task, by our own verb and under our own name.
fn warn(codifica: &Codifica) -> Option<Decision> {
    let memory = &codifica.index.memory;
    let mut decision = codifica.builder();
    match &memory.noting {
        Some(Noting { run: Some(_), .. }) => return None,
        Some(noting) if codifica.index.in_flight.is_granted(&TreeRef::Main) => {
            let run = run_id(codifica, &decision);
            let text = memory.warnings.get(&noting.task).cloned().unwrap_or_default();
            let line = format!(
                "{} work note {} --agent {OURSELVES} --text {}",
                quoted(&codifica.desk.program),
                noting.task,
                quoted(&text)
            );
            decision.remember("noting", Noting { run: Some(run.clone()), ..noting.clone() });
            decision.effect(Effect::Spawn(Box::new(command(
                run,
                OURSELVES,
                &noting.task,
                "note",
                line,
            ))));
        }
        Some(_) if codifica.index.asked_for(&TreeRef::Main) => return None,
        Some(_) => drop(decision.effect(Effect::Lease {
            tree: TreeRef::Main,
            seat: Seat::new(OURSELVES),
            role: ROLE.to_owned(),
        })),
        None if memory.uses_main() => return None,
        None => {
            let task = memory.warnings.keys().next()?.clone();
            decision.remember("noting", Noting { task, run: None });
            decision.effect(Effect::Lease {
                tree: TreeRef::Main,
                seat: Seat::new(OURSELVES),
                role: ROLE.to_owned(),
            });
        }
    }
    Some(decision.finish())
}

/// The task is claimed: its tree, a look at it, and then the agent.
fn begin(codifica: &Codifica, job: &Job, board: &Board) -> Option<Decision> {
    let tree = job.tree();
    if !codifica.index.in_flight.is_granted(&tree) {
        return (!codifica.index.asked_for(&tree)).then(|| ask_for_tree(codifica, job)).flatten();
    }
    let label = format!("codifica-{}-start", job.task);
    let mut decision = codifica.builder();
    let seen = codifica.index.answers().find_map(|(query, fact)| match (query, fact) {
        (Query::Snapshot { label: asked, .. }, Fact::Snapshot(snapshot)) if *asked == label => {
            Some(snapshot)
        }
        _ => None,
    });
    let Some(snapshot) = seen else {
        if let Some((_, Fact::GitHeld(said))) = codifica.index.unanswered() {
            tell::hold_git(codifica, &mut decision, said);
            return Some(decision.finish());
        }
        if codifica.index.answers().any(|(query, _)| matches!(query, Query::Snapshot { .. })) {
            let mut word = Notice::new(
                "DM-10",
                job.task.clone(),
                format!("git cannot look at the worktree of {}", job.task),
            );
            word.resolve = "agency resume".to_owned();
            tell::hold(codifica, &mut decision, word);
            return Some(decision.finish());
        }
        decision.effect(Effect::Ask { query: Query::Snapshot { tree, label, since: None } });
        return Some(decision.finish());
    };
    let run = run_id(codifica, &decision);
    let start = job.start.clone().or_else(|| Some(snapshot.tree.clone()));
    let origin = job.origin.clone().or_else(|| snapshot.checkout.head.clone());
    let stage = Stage::Working { run: run.clone() };
    remember(&mut decision, &Job { stage, start, origin, ..job.clone() });
    decision.effect(Effect::Spawn(Box::new(Spawn {
        prompt: prompt::prompt(codifica, board, job, &run),
        run,
        seat: job.seat(),
        role: ROLE.to_owned(),
        tree,
        task: job.task.clone(),
        phase: "work".to_owned(),
        why: format!("{} claimed {}", job.agent, job.task),
        resume: None,
        command: None,
        access: Access::Commit,
    })));
    decision.effect(log("run.start", job));
    Some(decision.finish())
}

fn ask_for_tree(codifica: &Codifica, job: &Job) -> Option<Decision> {
    let mut decision = codifica.builder();
    let TreeRef::Worktree(name) = job.tree() else { return None };
    let base = job.base.clone().or_else(|| codifica.index.head().cloned())?;
    let wanted = NewWorktree {
        name,
        branch: job.branch.clone(),
        base: base.clone(),
        copy: Vec::new(),
        disk_floor: codifica.desk.disk_floor,
    };
    remember(&mut decision, &Job { base: Some(base), ..job.clone() });
    decision.effect(Effect::Worktree(Box::new(wanted)));
    decision.effect(Effect::Lease { tree: job.tree(), seat: job.seat(), role: ROLE.to_owned() });
    Some(decision.finish())
}

/// A claim of ours has ended: the task is ours, or somebody was faster.
pub(super) fn claimed(
    codifica: &Codifica,
    job: &Job,
    code: Option<i32>,
    tail: &str,
    now: Now,
) -> Decision {
    let mut decision = codifica.builder();
    // A claim whose end nobody saw may have arrived all the same.
    let arrived =
        codifica.index.ruling_board().and_then(|board| board.glance(&job.task)).is_some_and(
            |task| task.state == State::InProgress && task.owner == Owner::Agent(job.agent.clone()),
        );
    if code == Some(0) || arrived {
        remember(&mut decision, &Job { stage: Stage::Tree, ..job.clone() });
        decision.forget(&format!("rest/{}", job.agent));
        decision.effect(Effect::Release { tree: TreeRef::Main });
        decision.effect(log("claim", job));
        return decision.finish();
    }
    let failures = codifica.index.memory.rests.get(&job.agent).map_or(0, |rest| rest.failures) + 1;
    let rest = Rest {
        failures,
        not_before: Moment::after(now, CLAIM_WAIT * failures),
        head: codifica.index.head().cloned(),
    };
    decision.forget(&format!("job/{}", job.task));
    decision.remember(&format!("rest/{}", job.agent), rest);
    decision.effect(Effect::Release { tree: TreeRef::Main });
    if failures == CLAIM_TRIES {
        let mut word = Notice::new(
            "CD-08",
            job.agent.clone(),
            format!("{} could not claim a task in {}", job.agent, counted(failures, "try")),
        );
        word.evidence = vec![tail.to_owned()];
        word.did = "We try again when the branch moves.".to_owned();
        word.resolve = "look at the reason, put it right, then agency resume".to_owned();
        tell::tell(codifica, &mut decision, Severity::Warning, word);
    }
    decision.finish()
}

pub(super) fn spawn_failed(
    codifica: &Codifica,
    spawn: &Spawn,
    failure: &Failure,
    now: Now,
) -> Option<Decision> {
    let job =
        codifica.index.memory.jobs.values().find(|job| job.stage.run() == Some(&spawn.run))?;
    if matches!(job.stage, Stage::Claiming { .. }) {
        return Some(claimed(codifica, job, None, &failure.said, now));
    }
    let outcome = crate::model::Outcome::Crash { how: failure.said.clone() };
    let mut decision = codifica.builder();
    remember(
        &mut decision,
        &Job {
            stage: Stage::Ended { run: spawn.run.clone(), outcome, tail: failure.said.clone() },
            ..job.clone()
        },
    );
    Some(decision.finish())
}

pub(super) fn log(event: &str, job: &Job) -> Effect {
    let context = [("task", &job.task), ("branch", &job.branch)]
        .map(|(name, value)| (name.to_owned(), value.clone()));
    Effect::Log(Event { event: event.to_owned(), agent: Some(job.seat()), context: context.into() })
}

fn run_id(codifica: &Codifica, decision: &Builder) -> RunId {
    RunId::new(format!("{}-{}", codifica.desk.repo, decision.key()))
}

/// Our own program as a run: it may take as long as a push takes, and its end is one more wake.
fn command(run: RunId, agent: &str, task: &str, phase: &str, line: String) -> Spawn {
    Spawn {
        run,
        seat: Seat::new(agent),
        role: ROLE.to_owned(),
        tree: TreeRef::Main,
        task: task.to_owned(),
        phase: phase.to_owned(),
        prompt: String::new(),
        why: format!("{phase} {task}"),
        resume: None,
        command: Some(CommandLine {
            line,
            timeout_s: CLAIM_LIMIT_S,
            by: WrittenBy::Agency,
            clean: None,
        }),
        access: Access::Write,
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
