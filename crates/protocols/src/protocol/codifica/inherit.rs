//! Where a task's branch begins (CD-15): at the owner's branch, with the work of the tasks it depends on merged in where the
//! owner has not merged that yet. It makes no worktree.

use super::board::Board;
use super::branch::branch;
use super::dispatch::remember;
use super::keeper::Codifica;
use super::memory::{Inherited, Job, Stage, Unmerged};
use super::tell::{self, Notice};
use crate::model::{
    BranchTip, CommitId, Decision, Effect, Fact, MergeStyle, Moment, Now, Query, RelPath, Severity,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a task waits for the owner to merge what conflicts.
const CONFLICT_WAIT: Duration = Duration::from_secs(15 * 60);

/// The tasks that this one depends on, with their branches. A task without a branch here passes on those before it.
fn dependencies(board: &Board, task: &str) -> Vec<(String, String)> {
    let pattern = board.config.rules.branch_pattern.as_deref();
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([task.to_owned()]);
    let links = |id: &str| board.glance(id).map(|task| task.depends_on.clone()).unwrap_or_default();
    let mut open = links(task);
    while let Some(id) = open.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        open.extend(links(&id));
        if let Some(Ok(task)) = board.task(&id) {
            found.push((id, branch(pattern, &task)));
        }
    }
    found.sort();
    found
}

impl Job {
    /// A branch of this task is part of the base already.
    fn has(&self, task: &str) -> bool {
        self.inherited.iter().any(|work| work.task == task)
    }
}

/// What must be known before the worktree is made; `None`: nothing is missing.
pub(super) fn find_base(codifica: &Codifica, job: &Job, board: &Board) -> Option<Decision> {
    let wanted = dependencies(board, &job.task);
    if job.base.is_some() || wanted.is_empty() {
        return None;
    }
    let name = |branch: &str| Query::Branches { name: branch.to_owned() };
    let answer = |query: Query| {
        codifica.index.answers().find_map(|(asked, fact)| (*asked == query).then_some(fact))
    };
    let mut decision = codifica.builder();
    if wanted.iter().any(|(_, branch)| answer(name(branch)).is_none()) {
        for (_, branch) in &wanted {
            decision.effect(Effect::Ask { query: name(branch) });
        }
        return Some(decision.finish());
    }
    let mut left = Vec::new();
    for (task, branch) in wanted {
        match answer(name(&branch)) {
            Some(Fact::Branches(tips)) => left.extend(unmerged(&task, tips)),
            Some(Fact::GitHeld(said)) => {
                tell::hold_git(codifica, &mut decision, said);
                return Some(decision.finish());
            }
            _ => {}
        }
    }
    let base = codifica.index.head()?.clone();
    remember(&mut decision, &Job { stage: Stage::Base { base, left }, ..job.clone() });
    Some(decision.finish())
}

/// The branches of a task: the one in this repository, then those that a remote had when it was fetched last, where these hold
/// other work.
fn unmerged(task: &str, tips: &[BranchTip]) -> Vec<Unmerged> {
    let mut found: Vec<Unmerged> = Vec::new();
    for BranchTip { branch, tip } in tips {
        if found.iter().all(|known| known.tip != *tip) {
            let (task, branch, tip) = (task.to_owned(), branch.clone(), tip.clone());
            found.push(Unmerged { task, branch, tip });
        }
    }
    found
}

/// Brings in the next branch that is left, or begins.
pub(super) fn bring_next(
    codifica: &Codifica,
    job: &Job,
    base: &CommitId,
    left: &[Unmerged],
    now: Now,
) -> Option<Decision> {
    let mut decision = codifica.builder();
    let Some((work, rest)) = left.split_first() else {
        let begun = Job { stage: Stage::Tree, base: Some(base.clone()), ..job.clone() };
        remember(&mut decision, &begun);
        return Some(decision.finish());
    };
    let home = &codifica.index.memory.accepted.as_ref()?.branch;
    let is_merged = Query::Contains { branch: home.clone(), commit: work.tip.clone() };
    let go_on = |base: CommitId, merged: bool| {
        let Unmerged { task, branch, .. } = work.clone();
        let mut inherited = job.inherited.clone();
        inherited.push(Inherited { task, branch, merged });
        Job { stage: Stage::Base { base, left: rest.to_vec() }, inherited, ..job.clone() }
    };
    match codifica.index.answers().find(|(query, _)| asks_about(query, base, work)) {
        None => drop(decision.effect(Effect::Ask { query: is_merged })),
        Some((Query::Contains { .. }, Fact::Yes)) => {
            remember(&mut decision, &go_on(base.clone(), true));
        }
        Some((Query::Contains { .. }, Fact::No)) => {
            let query = Query::Merge {
                target: job.branch.clone(),
                onto: base.clone(),
                theirs: work.tip.clone(),
                style: MergeStyle::Merge,
                message: format!("{}: start from the work of {}", job.task, work.task),
                date: now.wall,
                keep: None,
            };
            decision.effect(Effect::Ask { query });
        }
        // A remote's branch may be behind the one that is in already.
        Some((_, Fact::Planned(planned))) if planned.changes.is_empty() && job.has(&work.task) => {
            let stage = Stage::Base { base: base.clone(), left: rest.to_vec() };
            remember(&mut decision, &Job { stage, ..job.clone() });
        }
        Some((_, Fact::Planned(planned))) => {
            remember(&mut decision, &go_on(planned.id.clone(), false));
        }
        Some((_, Fact::GitHeld(said))) => tell::hold_git(codifica, &mut decision, said),
        Some((_, Fact::Conflict(paths))) => {
            let paths: Vec<_> = paths.iter().map(RelPath::as_str).take(5).collect();
            let why = format!("conflicts with `{home}` in {}", paths.join(", "));
            wait(codifica, &mut decision, job, work, &why, now);
        }
        Some(_) => wait(codifica, &mut decision, job, work, "cannot be merged by git", now),
    }
    Some(decision.finish())
}

fn asks_about(query: &Query, base: &CommitId, work: &Unmerged) -> bool {
    if let Query::Merge { onto, theirs, .. } = query {
        return onto == base && *theirs == work.tip;
    }
    matches!(query, Query::Contains { commit, .. } if *commit == work.tip)
}

/// Only a person resolves a conflict; the task goes on when its dependency is merged.
fn wait(
    codifica: &Codifica,
    decision: &mut crate::model::Builder,
    job: &Job,
    work: &Unmerged,
    why: &str,
    now: Now,
) {
    let Unmerged { task, branch, .. } = work;
    let summary = format!("{} waits: the work of {task} on `{branch}` {why}", job.task);
    let mut word = Notice::new("CD-15", job.task.clone(), summary.clone());
    word.did = format!("{} stays claimed; its agent was not started.", job.task);
    word.resolve = format!("git merge {branch}");
    tell::tell(codifica, decision, Severity::Warning, word);
    let paused = format!("the work of {task} on `{branch}` {why}; merge it");
    let not_before = Some(Moment::after(now, CONFLICT_WAIT));
    let inherited = Vec::new();
    let waiting = Job { stage: Stage::Tree, not_before, paused, inherited, ..job.clone() };
    remember(decision, &waiting);
}
