//! A task's auditor (AG-10): another agent than its builder, in the same tree, on the tree that was judged. Its verdict counts for
//! that tree only (AG-34).

use super::building::{answer_path, lines, send_back, snapshot, take_paper, written};
use super::memory::{Stage, Work};
use super::names::{PlaceKind, seat};
use super::report::{self, Verdict};
use super::scope::OURS;
use super::work::Step;
use super::{prompt, tell};
use crate::model::{Bytes, Decision, Digest, Fact, Query, RelPath, Seat, TreeId};

/// The auditor begins: another agent than the builder, in the same tree, on the tree that was judged.
pub(super) fn start(step: &Step<'_>) -> Option<Decision> {
    let auditor = Seat::new(seat(&step.it.limits.auditor));
    let task = step.it.index.task(step.id)?;
    if step.it.limits.same_agent(&auditor, &step.seat()) {
        let why =
            format!("the auditor `{auditor}` is the builder; another agent must look (AG-10)");
        return Some(step.ask_owner("AG-10", &why, "set board.auditor to another agent than the builder, then agency task request-changes".to_owned()));
    }
    if let Some(wait) = step.lease(&auditor, "auditor") {
        return Some(wait).filter(|decision| !decision.is_quiet());
    }
    let path = answer_path(step, step.id, PlaceKind::Audit, auditor.as_str())?;
    let report = step.reported().map(|paper| paper.path.to_string()).unwrap_or_default();
    let mut decision = step.it.builder();
    let prompt = prompt::auditor(step, task, &report, &path);
    if let Some(maker) = step.it.limits.same_maker(&auditor, &step.seat()) {
        let builder = step.seat();
        let text = format!(
            "auditor `{auditor}` and builder `{builder}` are both {maker}: the audit is worth less than one by another maker's agent"
        );
        tell::once(step.it, &mut decision, "AG-10", &format!("{auditor} audits {builder}"), &text);
    }
    let run = step.spawn(
        &mut decision,
        step.tree(),
        (auditor, "auditor", step.id.as_str()),
        prompt,
        None,
    );
    let answer = RelPath::new(path).ok();
    step.keep(&mut decision, Work { run: Some(run), answer, ..step.work.clone() });
    Some(decision.finish())
}

/// AG-34: a verdict counts for the tree it saw, and only while that is the tree.
pub(super) fn hear(step: &Step<'_>) -> Option<Decision> {
    if let Some(heard) = &step.work.verdict {
        return Some(match heard.as_slice() {
            [] => step.to(Stage::Plan),
            findings => send_back(
                step,
                "AG-10",
                &format!("the auditor found: {}", findings.join("; ")),
                findings.to_vec(),
            ),
        });
    }
    let fact = match step.ask(snapshot(step, "audited", step.work.judged.clone())) {
        Ok(fact) => fact,
        Err(ask) => return Some(*ask),
    };
    let changed = match step.looked(fact) {
        Ok(after) => after.map_or(&[][..], |after| &after.changed),
        Err(why) => return Some(step.again(Stage::Audit, &why)),
    };
    if let Some(change) = changed.iter().find(|change| !change.path.as_str().starts_with(OURS)) {
        let why = format!(
            "`{}` changed while the auditor looked: its verdict is void (AG-34)",
            change.path
        );
        return Some(step.ask_owner(
            "AG-34",
            &why,
            format!("agency task request-changes {} --reason …", step.id),
        ));
    }
    let auditor = seat(&step.it.limits.auditor);
    let nothing = format!("no verdict was written; the run {}", step.work.last);
    let found = written(changed, step.id, PlaceKind::Audit, &auditor);
    let Some(path) = found.or_else(|| step.work.answer.clone()) else {
        return Some(step.again(Stage::Audit, &nothing));
    };
    let fact = match step.ask(Query::Read { tree: step.tree(), path: path.clone() }) {
        Ok(fact) => fact,
        Err(ask) => return Some(*ask),
    };
    let Fact::File(Some(bytes)) = fact else { return Some(step.again(Stage::Audit, &nothing)) };
    // The verdict of an earlier round says nothing about this one.
    if step.work.papers.get(&path) == Some(&Digest::of(&bytes.0)) {
        return Some(step.again(Stage::Audit, &nothing));
    }
    match report::parse_audit(&bytes.0, &path) {
        Ok(audit) if audit.is_of(step.work.judged.as_ref().map(TreeId::as_str)) => {
            Some(heard(step, &audit, path, bytes))
        }
        Ok(_) => Some(step.again(Stage::Audit, "the verdict names another tree (AG-34)")),
        Err(problems) => Some(step.again(Stage::Audit, &lines(&problems))),
    }
}

/// The verdict is remembered, and its document kept in the owner's tree with everything else about the task.
fn heard(step: &Step<'_>, audit: &report::Audit, path: RelPath, bytes: &Bytes) -> Decision {
    let mut decision = step.it.builder();
    let work = take_paper(step, &mut decision, &path, bytes, step.work.clone());
    let verdict = match audit.verdict {
        Verdict::Pass => Vec::new(),
        Verdict::Fail => audit.findings.clone(),
    };
    step.keep(&mut decision, Work { verdict: Some(verdict), ..work });
    decision.finish()
}
