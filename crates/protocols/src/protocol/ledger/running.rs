//! One run of a session: a worktree, a lease, the agent, its end, and its work into commits. It judges nothing.

use super::docs::is_ledger;
use super::memory::{Ended, Stage, Turn};
use super::opening::{ask_docs, files_at};
use super::table::{Action, may};
use super::words::AgentType;
use super::{Ledger, PROGRESS, changes::forbidden, docs::Docs, hold, hold::Reason, prompt};
use crate::model::{
    Access, Change, CommitId, Decision, Effect, Event, Fact, NewWorktree, Now, Outage, Outcome,
    Query, RunId, Seat, Severity, Snapshot, Spawn, Timestamp, TreeRef,
};

/// Bytes that must stay free when a worktree is made.
const DISK_FLOOR: u64 = 256 << 20;

/// Worktree and lease, then a look at it, then the agent.
pub(super) fn begin(it: &Ledger, turn: &Turn, base: &CommitId, now: Now) -> Option<Decision> {
    let tree = TreeRef::Worktree(turn.tree());
    if !it.index.granted {
        return (!it.index.is_waiting_for_lease()).then(|| make_room(it, turn, base, tree));
    }
    let asked = |query: &Query| matches!(query, Query::Snapshot { .. });
    match (it.index.fact(asked), files_at(it, &turn.main_at)) {
        (Some(Fact::Snapshot(start)), Some(files)) => {
            Some(spawn(it, turn, base, start, &Docs::read(files).0, now))
        }
        _ => {
            let mut decision = it.builder();
            let label = "ledger-start".to_owned();
            decision.effect(Effect::Ask { query: Query::Snapshot { tree, label, since: None } });
            ask_docs(&mut decision, &turn.main_at);
            Some(decision.finish())
        }
    }
}

fn make_room(it: &Ledger, turn: &Turn, base: &CommitId, tree: TreeRef) -> Decision {
    let mut decision = it.builder();
    decision.effect(Effect::Worktree(Box::new(NewWorktree {
        name: turn.tree(),
        branch: turn.branch.clone(),
        base: base.clone(),
        copy: Vec::new(),
        disk_floor: DISK_FLOOR,
    })));
    let role = turn.agent.role();
    decision.effect(Effect::Lease { tree, seat: Seat::new(role), role: role.to_owned() });
    decision.finish()
}

fn spawn(
    it: &Ledger,
    turn: &Turn,
    base: &CommitId,
    start: &Snapshot,
    docs: &Docs,
    now: Now,
) -> Decision {
    let mut decision = it.builder();
    let run = RunId::new(format!("{}-{}", it.place.repo, decision.key()));
    let role = turn.agent.role();
    let task = turn.feature.clone().unwrap_or_else(|| turn.branch.clone());
    let context = [("run", run.as_str()), ("step", task.as_str()), ("phase", turn.agent.word())];
    decision.effect(Effect::Log(Event {
        event: "run.start".to_owned(),
        agent: Some(Seat::new(role)),
        context: context.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }));
    let why = match turn.failures {
        0 => format!("`current_phase` is {}", turn.agent.word()),
        failures => format!("`current_phase` is {}; try {}", turn.agent.word(), failures + 1),
    };
    decision.effect(Effect::Spawn(Box::new(Spawn {
        run: run.clone(),
        seat: Seat::new(role),
        role: role.to_owned(),
        tree: TreeRef::Worktree(turn.tree()),
        task,
        phase: turn.agent.word().to_owned(),
        prompt: prompt::prompt(it, turn, docs, &run),
        why,
        resume: None,
        command: None,
        access: match turn.agent {
            AgentType::Initializer | AgentType::Implement | AgentType::Fix => Access::Commit,
            AgentType::Review | AgentType::Architecture => Access::Write,
        },
    })));
    let (base, start) = (base.clone(), start.tree.clone());
    let stage = Stage::Running { base, start, run, since: now.wall };
    decision.remember("turn", Turn { not_before: None, ..turn.at(stage) });
    decision.finish()
}

/// A run of ours has ended: remember that before anything else.
pub(super) fn note_end(it: &Ledger, _: Now) -> Option<Decision> {
    let seen = it.index.ended.as_ref()?;
    let turn = it.index.memory.turn.as_ref()?;
    end(it, turn, &seen.run, seen.outcome.clone(), seen.ended_at, seen.tail.clone())
}

pub(super) fn end(
    it: &Ledger,
    turn: &Turn,
    ended: &RunId,
    outcome: Outcome,
    at: Timestamp,
    tail: String,
) -> Option<Decision> {
    let Stage::Running { base, start, run, since } = &turn.stage else { return None };
    if run != ended {
        return None;
    }
    let (base, start, run, since) = (base.clone(), start.clone(), run.clone(), *since);
    let mut decision = it.builder();
    let mut next = turn.clone();
    decision.effects(Outage::after(&mut next.outage, &outcome));
    next.stage = Stage::Ended(Ended { base, start, run, since, at, outcome, tail });
    decision.remember("turn", next);
    Some(decision.finish())
}

/// What is left uncommitted is committed, where the agent may write code; else it is only looked at.
pub(super) fn gather(it: &Ledger, turn: &Turn, ended: &Ended) -> Option<Decision> {
    if let Some(Fact::Planned(planned)) = it.index.fact(|query| matches!(query, Query::Plan { .. }))
    {
        let mut decision = it.builder();
        decision.effect(Effect::Commit(planned.clone()));
        let stage = Stage::Left { ended: ended.clone(), tip: planned.id.clone(), strayed: false };
        decision.remember("turn", turn.at(stage));
        return Some(decision.finish());
    }
    let asked = |query: &Query| matches!(query, Query::Snapshot { .. });
    let Some(Fact::Snapshot(end)) = it.index.fact(asked) else {
        let mut decision = it.builder();
        let tree = TreeRef::Worktree(turn.tree());
        let (label, since) = ("ledger-end".to_owned(), Some(ended.start.clone()));
        decision.effect(Effect::Ask { query: Query::Snapshot { tree, label, since } });
        return Some(decision.finish());
    };
    let Some(head) = end.checkout.head.clone() else { return Some(bring_back(it, turn, ended)) };
    let at_home = end.checkout.branch.as_ref() == Some(&turn.branch);
    let code: Vec<&Change> = end.changed.iter().filter(|change| !is_ledger(&change.path)).collect();
    let loose: Vec<Change> = code
        .iter()
        .filter(|change| end.dirty.contains(&change.path))
        .map(|change| (*change).clone())
        .collect();
    // Files that are new and in no commit are what tests leave behind; they go with the worktree. Commits that touch only the
    // ledger's files are the agent's record, not code (LG-14).
    let left_behind = |change: &Change| change.new && end.dirty.contains(&change.path);
    let touched = code.iter().any(|change| !left_behind(change));
    let strayed = !may(turn.agent, Action::WriteCode) && touched;
    if !may(turn.agent, Action::WriteCode) || loose.is_empty() || !at_home {
        let stage = Stage::Left { ended: ended.clone(), tip: head, strayed: strayed || !at_home };
        return Some(it.stage(turn, stage));
    }
    let mut decision = it.builder();
    let what = turn.feature.as_deref().unwrap_or(&turn.branch);
    let query = Query::Plan {
        branch: turn.branch.clone(),
        parent: Some(head),
        take: loose,
        write: Vec::new(),
        message: format!("{what}: what {} left uncommitted\n", turn.agent.word()),
        date: ended.at,
    };
    decision.effect(Effect::Ask { query });
    Some(decision.finish())
}

/// The branch was deleted under its own worktree: it begins again where the session began. What was in commits only is still in
/// the worktree's files, and is committed from there.
fn bring_back(it: &Ledger, turn: &Turn, ended: &Ended) -> Decision {
    let mut decision = it.builder();
    let (name, was) = (format!("refs/heads/{}", turn.branch), None);
    decision.effect(Effect::Ref { name, was, to: Some(ended.base.clone()) });
    if !may(turn.agent, Action::DeleteBranch) {
        let rejection = forbidden(turn.agent, Action::DeleteBranch, PROGRESS, &turn.branch);
        let summary = format!("{} deleted its branch `{}`", turn.agent.word(), turn.branch);
        let mut reason = Reason::new("LG-06", ended.run.as_str(), summary);
        reason.did = "The branch is back; its work is committed from the worktree.".to_owned();
        reason.evidence = vec![rejection.to_string()];
        decision.reject(rejection);
        hold::tell(it, &mut decision, Severity::Warning, reason);
    }
    decision.finish()
}
