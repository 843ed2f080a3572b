//! A task's auditor (AG-10): another agent than its builder, in the same tree, on the tree that was judged, started read-only
//! where its CLI can be. Its verdict counts for that tree only (AG-34).

use super::building::{answer_path, lines, outside_ours, send_back, snapshot, take_paper, written};
use super::memory::{Stage, Work};
use super::names::{DocumentKind, seat};
use super::report::{self, Verdict};
use super::scope::OURS;
use super::work::{Job, Step};
use super::{prompt, spoken, tell};
use crate::model::{
    Access, Builder, Bytes, Change, Decision, Digest, Fact, Outcome, Query, Rejection, RelPath,
    RunEnd, SAID_MAX, Seat, TreeId,
};

/// The auditor begins: another agent than the builder, in the same tree, on the tree that was judged.
pub(super) fn start(step: &Step<'_>) -> Option<Decision> {
    let auditor = Seat::new(seat(&step.board.limits.auditor));
    let task = step.board.index.task(step.id)?;
    if step.board.limits.same_agent(&auditor, &step.seat()) {
        let why =
            format!("the auditor `{auditor}` is the builder; another agent must look (AG-10)");
        return Some(step.ask_owner("AG-10", &why, "set board.auditor to another agent than the builder, then agency task request-changes".to_owned()));
    }
    if let Some(wait) = step.lease(&auditor, "auditor") {
        return Some(wait).filter(|decision| !decision.is_quiet());
    }
    let path = answer_path(step, step.id, DocumentKind::Audit, auditor.as_str())?;
    let answer = RelPath::new(&path).ok()?;
    let (lay, stamp, changed) = match seen_before(step, &answer) {
        Ok(seen) => seen,
        Err(ask) => return Some(*ask),
    };
    let report = step.reported().map(|paper| paper.path.to_string()).unwrap_or_default();
    let mut decision = step.board.builder();
    let prompt = prompt::auditor(step, task, &report, &path, &changed);
    tell_maker(step, &mut decision, &auditor);
    // It looks; what it has to say it can say. Where its CLI cannot be told so, the tree is all that tells (AG-34).
    let job = Job::Agent(prompt, Access::ReadOnly);
    let who = (auditor, "auditor", step.id.as_str());
    let run = step.spawn(&mut decision, step.tree(), who, job);
    let answer = Some(answer);
    let asked = Some(prompt::audit_number(step));
    step.keep(
        &mut decision,
        Work { run: Some(run), answer, lay, stamp, said: None, asked, ..step.work.clone() },
    );
    Some(decision.finish())
}

/// Two of one maker share their blind spots; that is said once for each pair, and shown for as long as it is so.
fn tell_maker(step: &Step<'_>, decision: &mut Builder, auditor: &Seat) {
    let builder = step.seat();
    let Some(maker) = step.board.limits.same_maker(auditor, &builder) else {
        let pair = format!(" audits {builder}");
        return tell::over(step.board, decision, "AG-10", |about| about.ends_with(&pair));
    };
    let text = format!(
        "auditor `{auditor}` and builder `{builder}` are both {maker}: the audit is worth less than one by another maker's agent"
    );
    tell::once(step.board, decision, "AG-10", &format!("{auditor} audits {builder}"), &text);
}

/// What lies where the verdict will be asked for, its stamp, and what there is to look at, as far as git tells.
type SeenBefore = (Option<Digest>, Option<Digest>, Vec<RelPath>);

fn seen_before(step: &Step<'_>, answer: &RelPath) -> Result<SeenBefore, Box<Decision>> {
    let fact = step.ask(Query::Read { tree: step.tree(), path: answer.clone() })?;
    let lay = if let Fact::File(Some(bytes)) = fact { Some(Digest::of(&bytes.0)) } else { None };
    let stamp = if lay.is_some() { stamp(step, answer)? } else { None };
    let trees = step.work.start.clone().zip(step.work.judged.clone());
    let Some((from, to)) = trees.filter(|_| !step.work.shared) else {
        return Ok((lay, stamp, step.work.mine.clone()));
    };
    let fact = step.ask(Query::Diff { from, to })?;
    let changes =
        if let Fact::Changes(changes) = fact { outside_ours(changes) } else { Vec::new() };
    let changed = changes.into_iter().map(|change| change.path).collect();
    Ok((lay, stamp, changed))
}

/// What the file system notes about a file; it differs after every write.
fn stamp(step: &Step<'_>, path: &RelPath) -> Result<Option<Digest>, Box<Decision>> {
    let fact = step.ask(Query::Stamp { tree: step.tree(), path: path.clone() })?;
    Ok(if let Fact::Digest(stamp) = fact { stamp.clone() } else { None })
}

/// The auditor has ended. What it said last is its answer if it came to its end; half an answer is none.
pub(super) fn note(work: &mut Work, end: &RunEnd) {
    let whole = matches!(end.outcome, Outcome::Ok | Outcome::Denied { .. });
    let said = end.said.as_ref().filter(|said| whole && said.len() <= SAID_MAX);
    work.said = said.cloned();
    work.stage = Stage::Audited;
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
    let (path, bytes) = match brought(step, changed) {
        Ok(Ok(paper)) => paper,
        Ok(Err(why)) => return Some(step.again(Stage::Audit, &why)),
        Err(ask) => return Some(*ask),
    };
    match report::parse_audit(&bytes.0, &path) {
        Ok(audit) if audit.is_of(step.work.judged.as_ref().map(TreeId::as_str)) => {
            Some(heard(step, &audit, path, &bytes))
        }
        Ok(_) => Some(step.again(Stage::Audit, "the verdict names another tree (AG-34)")),
        Err(problems) => Some(step.again(Stage::Audit, &lines(&problems))),
    }
}

/// The auditor's document: the file that it wrote, else what it said last, which then lies where the file would have; or why
/// there is none.
fn brought(
    step: &Step<'_>,
    changed: &[Change],
) -> Result<Result<(RelPath, Bytes), String>, Box<Decision>> {
    let auditor = seat(&step.board.limits.auditor);
    let found = written(changed, step.id, DocumentKind::Audit, &auditor);
    let asked = step.work.answer.as_ref();
    if let Some(path) = found.as_ref().or(asked)
        && let Fact::File(Some(bytes)) =
            step.ask(Query::Read { tree: step.tree(), path: path.clone() })?
    {
        let digest = Some(Digest::of(&bytes.0));
        // The verdict of an earlier round says nothing about this one, and what the builder put there is nobody's.
        let lay = asked == Some(path) && step.work.lay == digest;
        let fresh = !lay && step.work.papers.get(path) != digest.as_ref();
        // AG-43: one that names this audit was written for it, whatever lay there before.
        let named = report::parse_audit(&bytes.0, path)
            .is_ok_and(|audit| audit.asked.is_some() && audit.asked == step.work.asked);
        // So was one that was written while the auditor ran, whatever its bytes say.
        let again = || -> Result<bool, Box<Decision>> {
            let known = step.work.stamp.is_some() && asked == Some(path);
            Ok(known && stamp(step, path)? != step.work.stamp)
        };
        if fresh || named || again()? {
            return Ok(Ok((path.clone(), bytes.clone())));
        }
    }
    let Some((said, path)) = step.work.said.as_deref().zip(asked) else {
        return Ok(Err(format!("no verdict was written; the run {}", step.work.last)));
    };
    Ok(match spoken::document(said) {
        Ok(document) => Ok((path.clone(), Bytes(document.as_bytes().to_vec()))),
        Err(count) => {
            let found = format!("{count} documents in the last message");
            let wanted = "one audit document, and no other quoted beside it";
            Err(Rejection::new("AG-10", path, found, wanted).to_string())
        }
    })
}

/// The verdict is remembered, and its document kept in the owner's tree with everything else about the task.
fn heard(step: &Step<'_>, audit: &report::Audit, path: RelPath, bytes: &Bytes) -> Decision {
    let mut decision = step.board.builder();
    let work = take_paper(step, &mut decision, &path, bytes, step.work.clone());
    let verdict = match audit.verdict {
        Verdict::Pass => Vec::new(),
        Verdict::Fail => audit.findings.clone(),
    };
    step.keep(&mut decision, Work { verdict: Some(verdict), said: None, ..work });
    decision.finish()
}
