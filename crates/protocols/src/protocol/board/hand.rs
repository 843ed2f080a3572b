//! Work by hand (AG-13, AG-28): a person's task is judged by what changed in the owner's tree since it began, and audited there
//! where the owner chose an auditor. What we start ourselves is judged in `building.rs`.

use super::memory::{Hand, Known, Stage, Work};
use super::moves::Moves;
use super::names::{TaskId, seat};
use super::scope::{OURS, Verdict};
use super::table::Status;
use super::tell::{self, Reason};
use super::work::Step;
use super::{Board, shared};
use crate::model::{
    Builder, CommitId, Decision, Effect, Fact, Query, Rejection, RelPath, Severity, Snapshot,
    TreeId, TreeRef,
};
use std::collections::BTreeSet;

/// The owner's tree now, and what changed in it since.
fn look<'a>(
    board: &'a Board,
    id: &TaskId,
    word: &str,
    since: Option<TreeId>,
) -> Result<Result<&'a Snapshot, String>, Box<Decision>> {
    let label = format!("board/{id}-{word}");
    let fact = board.ask(Query::Snapshot { tree: TreeRef::Main, label, since })?;
    Ok(if let Fact::Snapshot(snapshot) = fact {
        Ok(snapshot)
    } else {
        Err(format!("git could not say what changed ({fact:?})"))
    })
}

/// A person begins now: the tree as it is. `None`: nobody can say.
pub(super) fn begins(board: &Board, id: &TaskId) -> Result<Option<Hand>, Box<Decision>> {
    if !board.place.git {
        return Ok(None);
    }
    let found = look(board, id, "start", None)?.ok();
    Ok(found.map(|now| Hand {
        base: now.checkout.head.clone(),
        tree: now.tree.clone(),
        others: BTreeSet::new(),
    }))
}

/// What a person's work changed, against the scope as it was when it began; `None`: nobody can say.
pub(super) fn scope(
    board: &Board,
    id: &TaskId,
) -> Result<Option<Result<Verdict, String>>, Box<Decision>> {
    let known = board.index.memory.tasks.get(id);
    let Some((known, hand)) = known.and_then(|known| Some((known, known.hand.as_ref()?))) else {
        return Ok(None);
    };
    Ok(Some(look(board, id, "left", Some(hand.tree.clone()))?.map(|now| {
        let changed = now.changed.iter().map(|change| &change.path);
        let own =
            changed.filter(|path| !hand.others.contains(*path) && !is_anothers(board, id, path));
        known.scope.clone().unwrap_or_default().judge(own)
    })))
}

/// People at work in the owner's tree, other than on this task.
fn at_work<'a>(board: &'a Board, id: &'a TaskId) -> impl Iterator<Item = (&'a TaskId, &'a Known)> {
    let open = [Status::InProgress, Status::ReadyForReview];
    let ids = open.into_iter().filter_map(|status| board.index.columns.get(&status)).flatten();
    ids.map(|(_, other)| other).filter(move |other| *other != id).filter_map(|other| {
        let known = board.index.memory.tasks.get(other)?;
        known.hand.as_ref().map(|_| (other, known))
    })
}

/// Another person's task is about this file.
fn is_anothers(board: &Board, id: &TaskId, path: &RelPath) -> bool {
    at_work(board, id).any(|(_, other)| {
        let scope = other.scope.as_ref();
        scope.is_some_and(|scope| scope.judge([path]).breaches.is_empty())
    })
}

/// These files are the work of this task, and not of whoever else works in the owner's tree.
pub(super) fn credit<'p>(
    board: &Board,
    moves: &mut Moves<'_>,
    id: &TaskId,
    paths: impl Iterator<Item = &'p RelPath> + Clone,
) {
    for (other, _) in at_work(board, id) {
        if let Some(hand) = &mut moves.of(other).hand {
            hand.others.extend(paths.clone().cloned());
        }
    }
}

/// AG-13: why a person's work may not go on, each file with its pattern.
pub(super) fn breaches(verdict: &Result<Verdict, String>, file: &RelPath) -> Vec<Rejection> {
    let wanted = "only changes of files in the task's scope";
    match verdict {
        Err(why) => vec![Rejection::new("AG-13", file, why.clone(), "a tree that git can read")],
        Ok(verdict) => {
            let one = |(path, why): &(RelPath, String)| {
                Rejection::new("AG-13", file, format!("`{path}` was changed: {why}"), wanted)
            };
            verdict.breaches.iter().map(one).collect()
        }
    }
}

/// A warning only: `must_touch` that nothing touched.
pub(super) fn tell_untouched(
    board: &Board,
    decision: &mut Builder,
    id: &TaskId,
    verdict: &Verdict,
) {
    if verdict.untouched.is_empty() {
        return;
    }
    let globs: Vec<String> = verdict.untouched.iter().map(|glob| format!("`{glob}`")).collect();
    let summary = format!("{id}: no changed file matches must_touch {}", globs.join(", "));
    let subject = format!("{id} untouched {}", board.index.memory.decisions);
    let mut reason = Reason::new("AG-13", subject, summary);
    reason.did = "Its report counts all the same.".to_owned();
    reason.wont = "It is not refused for this.".to_owned();
    tell::tell(board, decision, Severity::Notice, reason);
}

/// There is an agent that can audit people's work here.
pub(super) fn has_auditor(board: &Board) -> bool {
    !board.index.is_person(&board.limits.auditor)
}

/// The audit of a person's work, in the owner's tree as it is.
pub(super) fn audit(board: &Board, id: &TaskId) -> Result<Work, Box<Decision>> {
    let head = board.index.checkout.as_ref().and_then(|checkout| checkout.head.clone());
    let base = board.index.memory.tasks.get(id).and_then(|known| known.hand.as_ref()?.base.clone());
    let base = base.or(head).unwrap_or_else(|| CommitId::new(shared::NO_COMMIT));
    let now = if board.place.git { look(board, id, "audit", None)?.ok() } else { None };
    let judged = now.map(|now| now.tree.clone());
    let hand = board.index.memory.tasks.get(id).and_then(|known| known.hand.as_ref());
    let start = hand.map(|hand| hand.tree.clone());
    let work = Work::in_main(id, base);
    Ok(Work { by_hand: true, stage: Stage::Audit, judged, start, ..work })
}

/// The auditor let it pass: the owner verifies it and marks it DONE.
pub(super) fn passed(step: &Step<'_>) -> Decision {
    let mut decision = step.board.builder();
    let mut papers = step.known.papers.clone();
    papers.extend(step.work.papers.clone());
    let audited = step.work.judged.clone().or_else(|| Some(TreeId::new("")));
    let known = Known { work: None, audited, papers, ..step.known.clone() };
    decision.remember(&format!("task/{}", step.id), known);
    decision.effect(Effect::Release { tree: TreeRef::Main });
    decision.effect(step.event("audit-passed", None, ("agent", &seat(&step.board.limits.auditor))));
    decision.finish()
}

/// The auditor found something: back to the person, who is told what.
pub(super) fn send_back(
    step: &Step<'_>,
    rule: &'static str,
    why: &str,
    reasons: Vec<String>,
) -> Decision {
    let mut decision = step.board.builder();
    let mut moves = Moves::new(step.board, step.now);
    let subject = format!("{} sent back {}", step.id, step.board.index.memory.decisions);
    let known = moves.to(step.id, Status::InProgress, why);
    known.verified = None;
    known.audited = None;
    known.papers.extend(step.work.papers.clone());
    known.work = None;
    known.told = Some(tell::cause(step.board, rule, &subject));
    moves.into(&mut decision, Some("TB6"));
    decision.effect(Effect::Release { tree: TreeRef::Main });
    let mut reason = Reason::new(rule, subject, format!("{} came back: {why}", step.id));
    reason.did = "It is IN_PROGRESS again; nothing in your tree was changed.".to_owned();
    reason.wont = "It does not become DONE as it is.".to_owned();
    reason.resolve = "put it right and write the report anew".to_owned();
    reason.evidence = reasons;
    tell::tell(step.board, &mut decision, Severity::Warning, reason);
    decision.finish()
}

/// AG-34: what an auditor let pass is what lies there now. `Some`: the first file that differs, or why nobody can say.
pub(super) fn changed_since(
    board: &Board,
    id: &TaskId,
    audited: &TreeId,
) -> Result<Option<String>, Box<Decision>> {
    if !board.place.git {
        return Ok(None);
    }
    Ok(match look(board, id, "audited", Some(audited.clone()))? {
        Err(why) => Some(why),
        Ok(now) => {
            let ours = |path: &RelPath| path.as_str().starts_with(OURS);
            let other = now.changed.iter().find(|change| !ours(&change.path));
            other.map(|change| format!("`{}` changed after the audit", change.path))
        }
    })
}
