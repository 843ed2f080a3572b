//! `isolation: shared`: one builder at a time in the owner's own tree. With git exactly what its runs changed is committed; without
//! git nobody can say what changed, and that is said and never counted as checked.

use super::building::{self, outside_ours};
use super::memory::{Stage, Work};
use super::report::{self, ReportStatus};
use super::verifying::{self, Findings, artifact_of, check_of};
use super::work::Step;
use super::{Board, building::scope_of, tell};
use crate::model::{
    Bytes, Change, Decision, Digest, Effect, Fact, PlannedCommit, Query, RelPath, Snapshot, TreeId,
    TreeRef,
};

/// In the place of a commit, where there is no git.
pub(super) const NO_COMMIT: &str = "0";
const NO_GIT: &str = "without git the change was not compared with the scope, nor looked at for loosened gates (AG-13, AG-18)";
const OWN_TREE: &str =
    "verified in the owner's own tree, with whatever else lay there (isolation: shared)";

/// A board without git needs the owner's word that builders may work in the one tree there is.
pub(super) fn no_git(board: &Board) -> Option<Decision> {
    board.index.ready.first()?;
    let text = "there is no git here, so no task has a tree of its own; nothing is started until `board.isolation: shared` allows the one tree there is";
    let mut decision = board.builder();
    tell::once(board, &mut decision, "AG-14", "isolation", text);
    Some(decision.finish()).filter(|decision| !decision.is_quiet())
}

/// What somebody had not committed before this task began; its own earlier work is not.
pub(super) fn dirty(step: &Step<'_>, now: &Snapshot) -> Vec<RelPath> {
    if !step.work.shared {
        return Vec::new();
    }
    if step.work.start.is_some() {
        return step.work.dirty.clone();
    }
    now.dirty.iter().filter(|path| !step.work.mine.contains(path)).cloned().collect()
}

/// All that is not committed and was not there before.
fn own_changes<'a>(step: &Step<'a>, tree: &TreeId) -> Result<Vec<Change>, Box<Decision>> {
    let Some(head) = step.board.index.checkout.as_ref().and_then(|checkout| checkout.head.clone())
    else {
        return Ok(Vec::new());
    };
    let query = Query::Diff { from: TreeId::new(head.as_str()), to: tree.clone() };
    let Fact::Changes(changes) = step.ask(query)? else { return Ok(Vec::new()) };
    let changes = outside_ours(changes);
    Ok(changes.into_iter().filter(|change| !step.work.dirty.contains(&change.path)).collect())
}

/// The builder has reported. Nothing is committed yet: that comes when the verify has passed.
pub(super) fn reported(
    step: &Step<'_>,
    left: Option<&Snapshot>,
    paper: (RelPath, &Bytes),
    report: &report::Report,
) -> Decision {
    let mut work = Work {
        stage: Stage::Audit,
        tries: 0,
        not_before: None,
        refused: None,
        verdict: None,
        ..step.work.clone()
    };
    let mut theirs = None;
    let mut verdict = None;
    if let Some(left) = left {
        let code = match own_changes(step, &left.tree) {
            Ok(code) => code,
            Err(ask) => return *ask,
        };
        let dirty = |change: &Change| step.work.dirty.contains(&change.path);
        theirs = outside_ours(&left.changed).into_iter().find(dirty);
        verdict = Some(scope_of(step, &code));
        work.judged = Some(left.tree.clone());
        work.mine = code.into_iter().map(|change| change.path).collect();
    }
    // Whatever becomes of it: what it has changed so far is known as its own.
    let mut kept = Work { mine: work.mine.clone(), ..step.work.clone() };
    kept.papers.insert(paper.0.clone(), Digest::of(&paper.1.0));
    let step = &Step { work: &kept, ..*step };
    if report.says == ReportStatus::Blocked {
        return building::blocked(step, paper, report);
    }
    if let Some(change) = theirs {
        let why = format!(
            "`{}` had changes of yours that are not committed, and the builder changed it too: commit or undo yours",
            change.path
        );
        return step.give_up("AG-14", &why);
    }
    if let Some(back) = verdict.as_ref().and_then(|verdict| building::out_of_scope(step, verdict)) {
        return back;
    }
    let mut decision = step.board.builder();
    if left.is_none() {
        tell::once(step.board, &mut decision, "AG-13", "no git", NO_GIT);
    }
    building::ready(step, decision, work, paper, report, verdict.as_ref())
}

/// What is to be committed, and by what it is checked; the commands run where the work lies.
pub(super) fn plan(step: &Step<'_>) -> Decision {
    planned(step).unwrap_or_else(|ask| *ask)
}

fn planned(step: &Step<'_>) -> Result<Decision, Box<Decision>> {
    let commit = match &step.work.judged {
        None => None,
        Some(tree) => match commit(step, tree)? {
            Ok(planned) => Some(planned),
            Err(why) => return Ok(step.again(Stage::Plan, &why)),
        },
    };
    let tip = commit.as_ref().and_then(|planned| planned.parent.clone());
    let profile = match verifying::profile(step, tip.as_ref())? {
        Ok(profile) => profile,
        Err(why) => return Ok(building::send_back(step, "AG-16", &why, vec![why.clone()])),
    };
    let risks = verifying::risk_check(step, tip.as_ref())?;
    let loosened = match (&commit, &tip) {
        (Some(planned), Some(tip)) => verifying::loosened(step, planned, tip, &profile)?,
        (Some(_) | None, _) => Vec::new(),
    };
    let note = if commit.is_some() { OWN_TREE } else { NO_GIT };
    let unchecked = verifying::unchecked(step, tip.as_ref(), &profile)?;
    let notes = [note.to_owned()].into_iter().chain(unchecked).collect();
    let findings = Findings { risks, loosened, notes };
    let check = check_of(step, (String::new(), 0), commit, profile, findings);
    let mut decision = step.board.builder();
    let work = Work { stage: Stage::Verify, check: Some(check), ..step.work.clone() };
    step.keep(&mut decision, work);
    Ok(decision.finish())
}

fn commit(step: &Step<'_>, tree: &TreeId) -> Result<Result<PlannedCommit, String>, Box<Decision>> {
    let take: Vec<Change> = own_changes(step, tree)?
        .into_iter()
        .filter(|change| step.work.mine.contains(&change.path))
        .collect();
    let checkout = step.board.index.checkout.as_ref();
    let Some(branch) = checkout.and_then(|checkout| checkout.branch.clone()) else {
        return Ok(Err("no branch is checked out".to_owned()));
    };
    let title = step.board.index.task(step.id).map(|task| task.title.clone()).unwrap_or_default();
    let query = Query::Plan {
        branch,
        parent: checkout.and_then(|checkout| checkout.head.clone()),
        take,
        write: Vec::new(),
        message: format!("{}: {title}\n\nAgency-Task: {}\n", step.id, step.id),
        // The date of the move, not of the asking: the same question must stay the same.
        date: step.known.since,
    };
    let fact = step.ask(query)?;
    Ok(if let Fact::Planned(planned) = fact {
        Ok(planned.clone())
    } else {
        Err(format!("the commit cannot be planned: {fact:?}"))
    })
}

/// All commands have run: what was judged must still lie there, then exactly that is committed.
pub(super) fn finish(step: &Step<'_>) -> Option<Decision> {
    let check = step.work.check.as_ref()?;
    let overridden = step.known.verified.as_ref().is_some_and(|verified| verified.overridden);
    let artifact = artifact_of(step, check);
    let blocked = artifact.blocking_risk().is_some();
    if let Some(objection) = artifact.objection().filter(|_| !overridden || blocked) {
        return Some(verifying::refused(step, check, &artifact, &objection));
    }
    if let Some(judged) = &step.work.judged {
        let label = format!("board-{}-verified", step.id);
        let query = Query::Snapshot { tree: TreeRef::Main, label, since: Some(judged.clone()) };
        let fact = match step.ask(query) {
            Ok(fact) => fact,
            Err(ask) => return Some(*ask),
        };
        let Fact::Snapshot(now) = fact else {
            return Some(step.again(Stage::Verified, &format!("git: {fact:?}")));
        };
        if let Some(change) =
            now.changed.iter().find(|change| step.work.mine.contains(&change.path))
        {
            let why = format!("`{}` changed after it was judged (AG-34)", change.path);
            let way = format!("agency task request-changes {} --reason …", step.id);
            return Some(step.ask_owner("AG-34", &why, way));
        }
    }
    let mut decision = step.board.builder();
    if let Some(planned) = check.merge.as_ref().filter(|planned| !planned.changes.is_empty()) {
        decision.effect(Effect::Commit(planned.clone()));
    }
    let work = Work { stage: Stage::Merged, not_before: None, ..step.work.clone() };
    verifying::record(step, &mut decision, &artifact, work, overridden);
    Some(decision.finish())
}
