//! Task files and reports in the owner's tree: refused with every reason, or taken as the move that they are.

use super::Board;
use super::hand;
use super::index::{Bytes, Claim};
use super::memory::{AcceptedReport, Proposal, Work};
use super::moves::Moves;
use super::names::{DocumentKind, DocumentPath, TaskId, same_agent};
use super::report::{self, Report, ReportStatus};
use super::table::{Status, between};
use super::tell::{self, Reason};
use crate::model::{Cause, Decision, Effect, Now, Rejection, RelPath, Severity, clip};

/// The first task file whose judgement is not in memory.
pub(super) fn task_file(board: &Board, now: Now) -> Option<Decision> {
    if board.is_away() {
        return None;
    }
    let path = board.index.due.first()?;
    let mut decision = board.builder();
    match board.index.refusal_of(path) {
        Some(problems) => refuse(board, &mut decision, path, problems),
        None if board.index.memory.refused.contains_key(path) => {
            forgive(board, &mut decision, path)
        }
        None => return claimed(board, path, now),
    }
    Some(decision.finish())
}

/// A move that the writer of the file may make: a person picked the task up, or takes it back.
fn claimed(board: &Board, path: &RelPath, now: Now) -> Option<Decision> {
    let Claim::Move(to) = board.index.claim(path) else { return None };
    let task = board.index.sheet(path)?.task.as_deref().ok()?;
    let from = board.index.status_of(&task.id)?;
    let row = between(from, to)?;
    let begins = if row.id == "TB2" { hand::begins(board, &task.id) } else { Ok(None) };
    let begins = match begins {
        Ok(begins) => begins,
        Err(ask) => return Some(*ask),
    };
    let mut decision = board.builder();
    let mut moves = Moves::new(board, now);
    let known = moves.to(&task.id, to, "its file says so");
    known.scope = Some(task.scope.clone());
    known.hand = begins.or_else(|| known.hand.take());
    known.verified = None;
    known.audited = None;
    moves.into(&mut decision, Some(row.id));
    Some(decision.finish())
}

pub(super) fn refuse(
    board: &Board,
    decision: &mut crate::model::Builder,
    path: &RelPath,
    problems: Vec<Rejection>,
) {
    let digest = board.index.sheet(path).map(|sheet| &sheet.file.digest);
    let digest = digest.or_else(|| board.index.report_file(path).map(|(_, file)| &file.digest));
    let Some(digest) = digest.cloned() else { return };
    let first = problems.first().map(Rejection::gist).unwrap_or_default();
    let what = match DocumentPath::parse(path.as_str()) {
        Some(place) if place.kind == DocumentKind::Task => format!("{}'s file", place.id),
        Some(place) => format!("{}'s report", place.id),
        None => "a file".to_owned(),
    };
    let scope = problems.first().is_some_and(|problem| problem.rule.as_str() == "AG-13");
    let rule = match (scope, path.as_str().contains("/outbox/")) {
        (true, _) => "AG-13",
        (false, true) => "AG-07",
        (false, false) => "AG-06",
    };
    let mut reason = Reason::new(
        rule,
        format!("{path} {}", digest.short()),
        format!("{what} is refused: {first}; {path}"),
    );
    reason.did = "The file stays as it is; nothing moves because of it.".to_owned();
    reason.resolve = match DocumentPath::parse(path.as_str()).filter(|_| scope) {
        Some(DocumentPath { id, .. }) => format!(
            "undo that change, then agency verify --task {id}; or, if it is not this task's, agency task start {id} --reason … counts from now on"
        ),
        None => "put the file right; it is judged again when it changes".to_owned(),
    };
    reason.evidence = problems.iter().map(ToString::to_string).collect();
    for problem in problems {
        decision.reject(problem.with_digest(&digest));
    }
    decision.remember(&format!("refused/{path}"), &digest);
    end_notice(board, decision, path, "the file changed");
    let cause = tell::tell(board, decision, Severity::Warning, reason);
    decision.remember(&format!("told-of/{path}"), cause);
}

/// The document is right again, or gone.
fn forgive(board: &Board, decision: &mut crate::model::Builder, path: &RelPath) {
    decision.forget(&format!("refused/{path}"));
    if board.index.memory.told_of.contains_key(path) {
        decision.forget(&format!("told-of/{path}"));
        end_notice(board, decision, path, "the file was put right");
    }
}

fn end_notice(board: &Board, decision: &mut crate::model::Builder, path: &RelPath, how: &str) {
    if let Some(cause) = board.index.memory.told_of.get(path).cloned() {
        decision.effect(Effect::Resolve { cause, how: how.to_owned() });
    }
}

/// The first report whose judgement is not in memory.
pub(super) fn report(board: &Board, now: Now) -> Option<Decision> {
    if board.is_away() {
        return None;
    }
    judge_report(board, board.index.due_reports.first()?, now)
}

/// Reports of one task come before a command about it.
pub(super) fn report_of(board: &Board, id: &TaskId, now: Now) -> Option<Decision> {
    let due = board
        .index
        .due_reports
        .iter()
        .find(|path| board.index.report_file(path).is_some_and(|(task, _)| task == *id))?;
    judge_report(board, due, now)
}

pub(super) fn judge_report(board: &Board, path: &RelPath, now: Now) -> Option<Decision> {
    let mut decision = board.builder();
    let Some((id, file)) = board.index.report_file(path) else {
        forgive(board, &mut decision, path);
        return Some(decision.finish());
    };
    match judged(board, &id, path, file) {
        Err(problems) => refuse(board, &mut decision, path, problems),
        Ok(report) => {
            return Some(by_scope(board, &id, path, &report, now).unwrap_or_else(|ask| *ask));
        }
    }
    Some(decision.finish())
}

/// AG-13: a person's report counts once everything that changed lies in the task's scope.
fn by_scope(
    board: &Board,
    id: &TaskId,
    path: &RelPath,
    report: &Report,
    now: Now,
) -> Result<Decision, Box<Decision>> {
    let ready = report.says == ReportStatus::ReadyForReview;
    let scope = if ready { hand::scope(board, id)? } else { None };
    let audits = ready && board.limits.audits_people && hand::has_auditor(board);
    let audit = if audits { Some(hand::audit(board, id)?) } else { None };
    let mut decision = board.builder();
    let breaches = scope.as_ref().map(|scope| hand::breaches(scope, path)).unwrap_or_default();
    if breaches.is_empty() {
        accept(board, &mut decision, path, report, audit, now);
        if let Some(Ok(verdict)) = &scope {
            hand::tell_untouched(board, &mut decision, id, verdict);
        }
    } else {
        refuse(board, &mut decision, path, breaches);
    }
    Ok(decision.finish())
}

/// The report of a task that was refused for its scope alone: it is judged again when the owner asks for more.
pub(super) fn out_of_scope_report<'a>(board: &'a Board, id: &TaskId) -> Option<&'a RelPath> {
    let (path, file) = board.index.newest_report(id)?;
    let memory = &board.index.memory;
    let refused = memory.refused.get(path) == Some(&file.digest);
    let told = memory.told_of.get(path).is_some_and(|cause| cause.rule.as_str() == "AG-13");
    (refused && told).then_some(path)
}

fn judged(
    board: &Board,
    id: &TaskId,
    path: &RelPath,
    file: &Bytes,
) -> Result<Report, Vec<Rejection>> {
    let zone = board.zone();
    let report = file.read(|bytes| report::parse_in(bytes, path, zone))?;
    objections(board, id, path, &report).map(|()| report)
}

/// Everything that is wrong with a report, as it is now.
pub(super) fn problems_of(
    board: &Board,
    id: &TaskId,
    path: &RelPath,
    file: &Bytes,
) -> Vec<Rejection> {
    judged(board, id, path, file).err().unwrap_or_default()
}

/// Why a report is refused, in one line. The scope was judged when the report came, and the notice of then names the files.
pub(super) fn why_refused(
    board: &Board,
    id: &TaskId,
    path: &RelPath,
    file: &Bytes,
) -> Option<String> {
    if let Some(problem) = problems_of(board, id, path, file).first() {
        return Some(problem.gist());
    }
    let told = board.index.memory.told_of.get(path);
    told.filter(|cause| cause.rule.as_str() == "AG-13").map(|_| {
        "a file outside the task's scope was changed; `agency escalations` names it (AG-13)"
            .to_owned()
    })
}

/// AG-07: the task exists, the writer is its assignee, it is IN_PROGRESS.
fn objections(
    board: &Board,
    id: &TaskId,
    path: &RelPath,
    report: &Report,
) -> Result<(), Vec<Rejection>> {
    let refuse =
        |found: String, wanted: &str| Err(vec![Rejection::new("AG-07", path, found, wanted)]);
    let Some(task) = board.index.task(id) else {
        return refuse(
            format!("a report for {id}"),
            "a report for a task that exists and is valid",
        );
    };
    if board.index.is_run_by_us(id) {
        let wanted =
            "the report of a task that we run, which is taken from its own worktree (AG-14)";
        return refuse(format!("a report for {id} in the owner's tree"), wanted);
    }
    if !same_agent(&report.agent, &task.assignee) {
        let wanted = format!("a report by {}, whose task it is", task.assignee);
        return refuse(format!("a report by {}", clip(&report.agent, 60)), &wanted);
    }
    let status = board.index.status_of(id).unwrap_or(Status::New);
    if status != Status::InProgress {
        let found = format!("a report while {id} is {}", status.word());
        return refuse(found, "a report of a task that is IN_PROGRESS (`agency task start`)");
    }
    Ok(())
}

fn accept(
    board: &Board,
    decision: &mut crate::model::Builder,
    path: &RelPath,
    report: &Report,
    audit: Option<Work>,
    now: Now,
) {
    let Some((id, file)) = board.index.report_file(path) else { return };
    let (to, row, why) = match report.says {
        ReportStatus::ReadyForReview => {
            (Status::ReadyForReview, "TB3", "its report is there".to_owned())
        }
        ReportStatus::Blocked => {
            (Status::Blocked, "TB4", report.reason.clone().unwrap_or_default())
        }
    };
    let mut moves = Moves::new(board, now);
    let known = moves.to(&id, to, &why);
    known.report = Some(AcceptedReport { path: path.clone(), digest: file.digest.clone() });
    known.verified = None;
    known.audited = None;
    known.work = audit.or_else(|| known.work.take());
    known.told = (to == Status::Blocked).then(|| blocked_cause(board, &id));
    let own = report.files_modified.iter().filter_map(|path| RelPath::new(path).ok());
    let own: Vec<RelPath> = own.filter(|path| in_scope(board, &id, path)).collect();
    hand::credit(board, &mut moves, &id, own.iter());
    moves.into(decision, Some(row));
    if board.index.memory.refused.contains_key(path) {
        forgive(board, decision, path);
    }
    propose(board, decision, &id, &report.follow_ups);
    if to == Status::Blocked {
        tell_blocked(board, decision, &id, &why);
    }
}

fn in_scope(board: &Board, id: &TaskId, path: &RelPath) -> bool {
    let scope = board.index.memory.tasks.get(id).and_then(|known| known.scope.as_ref());
    scope.is_some_and(|scope| scope.judge([path]).breaches.is_empty())
}

/// AG-30: what a builder asks for beyond its task is the owner's to decide.
pub(super) fn propose(
    board: &Board,
    decision: &mut crate::model::Builder,
    id: &TaskId,
    texts: &[String],
) {
    if texts.is_empty() {
        return;
    }
    let mut proposals = board.index.memory.proposals.clone();
    for text in texts {
        let proposal = Proposal { task: id.clone(), text: clip(text, 300) };
        if !proposals.contains(&proposal) && proposals.len() < 1000 {
            proposals.push(proposal);
        }
    }
    decision.remember("proposals", proposals);
    let summary = format!("{id} asks for {} more: {}", texts.len(), clip(&texts[0], 100));
    let mut reason = Reason::new("AG-30", format!("follow-ups of {id}"), summary);
    reason.did = "They are proposals; no task was made of them.".to_owned();
    reason.resolve = "agency task new --title … (for those that you want)".to_owned();
    reason.evidence = texts.iter().map(|text| clip(text, 300)).collect();
    tell::tell(board, decision, Severity::Notice, reason);
}

/// What the owner hears when this decision blocks a task.
pub(super) fn blocked_cause(board: &Board, id: &TaskId) -> Cause {
    tell::cause(board, "AG-12", &format!("{id} blocked {}", board.index.memory.decisions))
}

/// AG-12: a blocked task waits for the owner.
pub(super) fn tell_blocked(
    board: &Board,
    decision: &mut crate::model::Builder,
    id: &TaskId,
    why: &str,
) {
    let subject = blocked_cause(board, id).subject;
    let mut reason = Reason::new("AG-12", subject, format!("{id} is blocked: {}", clip(why, 140)));
    reason.did = "It is listed in STATE.md under blocked_tasks; other tasks go on.".to_owned();
    reason.wont = "Nobody works on it until you say so.".to_owned();
    reason.resolve = format!("agency task unblock {id} --reason …");
    reason.evidence = vec![clip(why, 2000)];
    tell::tell(board, decision, Severity::Warning, reason);
}
