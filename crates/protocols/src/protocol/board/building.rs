//! A task's builder: started with all that it needs, judged by what it left in the task's own tree; sent back with what was found.

use super::memory::{AcceptedReport, Stage, Work};
use super::moves::Moves;
use super::names::{DocumentKind, DocumentPath, TaskId, same_agent};
use super::report::{self, ReportStatus};
use super::scope::{self, OURS};
use super::table::{Status, between};
use super::tell::{self, Reason};
use super::work::{Job, Step};
use super::{hand, judge, prompt, remedy, shared, verifying};
use crate::model::{
    Access, Builder, Bytes, Change, Decision, Digest, Effect, Fact, Query, Rejection, RelPath,
    Severity, Snapshot, TreeId,
};

/// How often a task may come back from auditor, verify or scope before the owner is asked (AG-09).
const ROUNDS_MAX: u32 = 3;

pub(super) fn snapshot(step: &Step<'_>, label: &str, since: Option<TreeId>) -> Query {
    let label = format!("board-{}-{label}-{}", step.id, step.work.round);
    Query::Snapshot { tree: step.tree(), label, since }
}

/// The builder begins, once the tree is ours and we know how it looks.
pub(super) fn start(step: &Step<'_>) -> Option<Decision> {
    let who = step.seat();
    if let Some(wait) = step.lease(&who, "builder") {
        return Some(wait).filter(|decision| !decision.is_quiet());
    }
    let fact = match step.ask(snapshot(step, "start", None)) {
        Ok(fact) => fact,
        Err(ask) => return Some(*ask),
    };
    let (tree, dirty) = match step.looked(fact) {
        Ok(Some(now)) => (Some(now.tree.clone()), shared::dirty(step, now)),
        Ok(None) => (None, Vec::new()),
        Err(why) => return Some(step.again(Stage::Build, &why)),
    };
    let task = step.board.index.task(step.id)?;
    let target = step.target();
    let Some(path) = answer_path(step, target, DocumentKind::Report, &task.assignee) else {
        let gone = target != step.id;
        return gone.then(|| step.again(Stage::Remedy, &format!("the file of {target} is gone")));
    };
    let tip = Some(&step.work.base).filter(|base| base.as_str() != shared::NO_COMMIT);
    let dod = match verifying::profile(step, tip) {
        Ok(dod) => dod.ok(),
        Err(ask) => return Some(*ask),
    };
    let mut decision = step.board.builder();
    let prompt = prompt::builder(step, task, &path, dod.as_ref());
    let job = Job::Agent(prompt, Access::Write);
    let run = step.spawn(&mut decision, step.tree(), (who, "builder", target.as_str()), job);
    let start = step.work.start.clone().or(tree);
    let answer = RelPath::new(path).ok();
    let work = Work { run: Some(run), start, dirty, answer, ..step.work.clone() };
    match step.board.index.status_of(target) {
        Some(status) if target != step.id && status != Status::InProgress => {
            let mut moves = Moves::new(step.board, step.now);
            moves.of(step.id).work = Some(work);
            let known = moves.to(target, Status::InProgress, "its builder begins");
            known.remediates = Some(step.id.clone());
            let row = between(status, Status::InProgress).map(|row| row.id);
            moves.into(&mut decision, row);
        }
        _ => step.keep(&mut decision, work),
    }
    Some(decision.finish())
}

/// Where a report or audit of this task goes.
pub(super) fn answer_path(
    step: &Step<'_>,
    id: &TaskId,
    kind: DocumentKind,
    agent: &str,
) -> Option<String> {
    let (path, _) = step.board.index.find(id)?;
    let place = DocumentPath::parse(path.as_str())?;
    Some(place.answer(kind, agent, &step.board.zone().date(step.now.wall)))
}

/// A document of this kind and task among what changed.
pub(super) fn written(
    changed: &[Change],
    id: &TaskId,
    kind: DocumentKind,
    agent: &str,
) -> Option<RelPath> {
    let mut found = changed.iter().filter(|change| change.to.is_some()).map(|change| &change.path);
    found
        .rfind(|path| {
            DocumentPath::parse(path.as_str()).is_some_and(|place| {
                place.kind == kind && place.id == *id && same_agent(&place.agent, agent)
            })
        })
        .cloned()
}

/// The builder has ended: report, scope, commit, all from its own tree.
pub(super) fn look(step: &Step<'_>) -> Option<Decision> {
    let fact = match step.ask(snapshot(step, "left", step.work.start.clone())) {
        Ok(fact) => fact,
        Err(ask) => return Some(*ask),
    };
    let left = match step.looked(fact) {
        Ok(left) => left,
        Err(why) => return Some(step.again(Stage::Build, &why)),
    };
    let task = step.board.index.task(step.id)?;
    let changed = left.map_or(&[][..], |left| &left.changed);
    // Where the owner keeps our folder out of git, no snapshot shows it: then it is where it was asked for.
    let found = written(changed, step.target(), DocumentKind::Report, &task.assignee);
    let found = found.or_else(|| step.work.answer.clone());
    let nothing = no_report(step, changed);
    let Some(path) = found else { return Some(step.again(Stage::Build, &nothing)) };
    let fact = match step.ask(Query::Read { tree: step.tree(), path: path.clone() }) {
        Ok(fact) => fact,
        Err(ask) => return Some(*ask),
    };
    let Fact::File(Some(bytes)) = fact else { return Some(step.again(Stage::Build, &nothing)) };
    // The report of an earlier round says nothing about this one.
    if step.reported().is_some_and(|old| old.digest == Digest::of(&bytes.0)) {
        return Some(step.again(Stage::Build, "the report is still the one of the round before"));
    }
    match report::parse_in(&bytes.0, &path, step.board.zone()) {
        Err(problems) => Some(step.again(Stage::Build, &lines(&problems))),
        Ok(report) if step.work.shared => {
            Some(shared::reported(step, left, (path, bytes), &report))
        }
        Ok(report) => Some(reported(step, left?, (path, bytes), &report)),
    }
}

/// Where the report was asked for, and what lies elsewhere instead.
fn no_report(step: &Step<'_>, changed: &[Change]) -> String {
    let asked = step.work.answer.as_ref().map(|path| format!(" at `{path}`")).unwrap_or_default();
    let id = step.target().as_str();
    let other = changed.iter().filter(|change| change.to.is_some()).find(|change| {
        let name = change.path.file_name();
        name.ends_with(".md") && name.contains("report") && name.contains(id)
    });
    match other {
        Some(other) => format!("no report{asked}; found `{}` instead", other.path),
        None => {
            format!("no report{asked}; the run {}", step.work.last.trim_end_matches([':', ' ']))
        }
    }
}

/// Our own folder is outside every task's change.
pub(super) fn outside_ours(changes: &[Change]) -> Vec<Change> {
    changes.iter().filter(|change| !change.path.as_str().starts_with(OURS)).cloned().collect()
}

pub(super) fn lines(problems: &[Rejection]) -> String {
    problems.iter().map(Rejection::fix_first).collect::<Vec<_>>().join("\n")
}

pub(super) fn reported(
    step: &Step<'_>,
    left: &Snapshot,
    paper: (RelPath, &Bytes),
    report: &report::Report,
) -> Decision {
    if report.says == ReportStatus::Blocked {
        return blocked(step, paper, report);
    }
    let code = if step.is_command() { Vec::new() } else { outside_ours(&left.changed) };
    // One that made commits may have merged the target: what is its own change then, only the planned merge can say.
    let own = step.work.head.as_ref().unwrap_or(&step.work.base);
    if left.checkout.head.as_ref() == Some(own)
        && let Some(back) = out_of_scope(step, &scope_of(step, &code))
    {
        return back;
    }
    commit(step, left, code, paper, report)
}

/// BLOCKED: the owner is told why, and everything stays where it is.
pub(super) fn blocked(
    step: &Step<'_>,
    paper: (RelPath, &Bytes),
    report: &report::Report,
) -> Decision {
    let (path, bytes) = paper;
    let mut decision = step.board.builder();
    let why = report.reason.clone().unwrap_or_default();
    let mut moves = Moves::new(step.board, step.now);
    let work = Work { stage: Stage::Build, ..step.work.clone() };
    let work = take_paper(step, &mut decision, &path, bytes, work);
    let known = moves.to(step.id, Status::Blocked, &why);
    known.work = Some(work);
    known.told = Some(judge::blocked_cause(step.board, step.id));
    remedy::along(&mut moves, step.board, step.work, Status::Blocked, &why);
    moves.of(step.target()).report = Some(AcceptedReport { path, digest: Digest::of(&bytes.0) });
    moves.into(&mut decision, Some("TB4"));
    decision.effect(Effect::Release { tree: step.tree() });
    judge::propose(step.board, &mut decision, step.id, &report.follow_ups);
    judge::tell_blocked(step.board, &mut decision, step.id, &why);
    decision.finish()
}

/// AG-13: what really changed, against the scope as it was when the work began.
pub(super) fn scope_of(step: &Step<'_>, code: &[Change]) -> scope::Verdict {
    let scope = step.known.scope.clone().unwrap_or_default();
    scope.judge(code.iter().map(|change| &change.path))
}

pub(super) fn out_of_scope(step: &Step<'_>, verdict: &scope::Verdict) -> Option<Decision> {
    let (file, why) = verdict.breaches.first()?;
    let reason = |(file, why): &(RelPath, String)| format!("`{file}` is outside the scope: {why}");
    let reasons: Vec<String> = verdict.breaches.iter().take(50).map(reason).collect();
    Some(send_back(step, "AG-13", &format!("`{file}`: {why}"), reasons))
}

/// AG-13: what the task is about and was not touched may be right; the owner hears of it.
fn tell_untouched(step: &Step<'_>, decision: &mut Builder, scope: &scope::Verdict) {
    if scope.untouched.is_empty() {
        return;
    }
    let globs =
        scope.untouched.iter().map(|glob| format!("`{glob}`")).collect::<Vec<_>>().join(", ");
    let summary = format!("{}: nothing that it changed matches must_touch {globs}", step.id);
    let subject = format!("{} untouched {}", step.id, step.board.index.memory.decisions);
    let mut reason = Reason::new("AG-13", subject, summary);
    reason.did = "It is audited and verified like any other work.".to_owned();
    reason.wont = "We do not refuse it for this.".to_owned();
    tell::tell(step.board, decision, Severity::Notice, reason);
}

/// What the builder left, in one commit of ours on its branch; then it is ready for review.
fn commit(
    step: &Step<'_>,
    left: &Snapshot,
    code: Vec<Change>,
    paper: (RelPath, &Bytes),
    report: &report::Report,
) -> Decision {
    let (path, bytes) = paper;
    // What an earlier round committed and this one took away again differs from that commit, not from the start.
    let code = match step.work.judged.clone() {
        None => code,
        Some(_) if step.is_command() => code,
        Some(judged) => match step.ask(snapshot(step, "since", Some(judged))) {
            Ok(Fact::Snapshot(since)) => outside_ours(&since.changed),
            Ok(fact) => return step.again(Stage::Build, &format!("git: {fact:?}")),
            Err(ask) => return *ask,
        },
    };
    let title = step.board.index.task(step.id).map(|task| task.title.clone()).unwrap_or_default();
    let query = Query::Plan {
        branch: step.work.branch.clone(),
        parent: left.checkout.head.clone(),
        take: code,
        write: Vec::new(),
        message: format!("{}: {title}\n", step.id),
        date: step.now.wall,
    };
    // The date is part of the plan: an answer to the same plan of a moment ago counts.
    let known = step.board.index.answers.iter().find_map(|(_, asked, fact)| match (asked, fact) {
        (Query::Plan { branch, parent, .. }, Fact::Planned(planned))
            if *branch == step.work.branch && *parent == left.checkout.head =>
        {
            Some(planned)
        }
        _ => None,
    });
    let Some(planned) = known else {
        let mut decision = step.board.builder();
        decision.effect(Effect::Ask { query });
        return decision.finish();
    };
    let mut decision = step.board.builder();
    let mut work = Work {
        stage: Stage::Audit,
        tries: 0,
        not_before: None,
        refused: None,
        verdict: None,
        judged: Some(left.tree.clone()),
        ..step.work.clone()
    };
    if planned.changes.is_empty() {
        work.head.clone_from(&left.checkout.head);
    } else {
        decision.effect(Effect::Commit(planned.clone()));
        work.head = Some(planned.id.clone());
    }
    let scope = (!step.is_command()).then(|| scope_of(step, &outside_ours(&left.changed)));
    ready(step, decision, work, (path, bytes), report, scope.as_ref())
}

/// READY_FOR_REVIEW. Our own folder is no part of the task's commit: the report lives on in the owner's tree.
pub(super) fn ready(
    step: &Step<'_>,
    mut decision: Builder,
    work: Work,
    paper: (RelPath, &Bytes),
    report: &report::Report,
    scope: Option<&scope::Verdict>,
) -> Decision {
    let (path, bytes) = paper;
    let work = take_paper(step, &mut decision, &path, bytes, work);
    let paper = AcceptedReport { path, digest: Digest::of(&bytes.0) };
    let mut moves = Moves::new(step.board, step.now);
    let known = moves.to(step.id, Status::ReadyForReview, "its report is there");
    known.verified = None;
    known.work = Some(work);
    if step.target() == step.id || known.report.is_none() {
        known.report = Some(paper.clone());
    }
    if step.target() != step.id {
        let why = format!("its report is there; {} is looked at again", step.id);
        moves.to(step.target(), Status::ReadyForReview, &why).report = Some(paper);
    }
    moves.into(&mut decision, Some("TB3"));
    judge::propose(step.board, &mut decision, step.id, &report.follow_ups);
    if let Some(scope) = scope {
        tell_untouched(step, &mut decision, scope);
    }
    decision.finish()
}

/// A document that was judged goes into the owner's tree, with everything else about the task.
pub(super) fn take_paper(
    step: &Step<'_>,
    decision: &mut Builder,
    path: &RelPath,
    bytes: &Bytes,
    mut work: Work,
) -> Work {
    let digest = Digest::of(&bytes.0);
    let seen = step.work.papers.get(path).cloned();
    decision.effect(Effect::Replace { path: path.clone(), bytes: bytes.clone(), seen });
    work.papers.insert(path.clone(), digest);
    work
}

/// Back to the builder with the reasons as a subtask, at most three times; then the owner.
pub(super) fn send_back(
    step: &Step<'_>,
    rule: &'static str,
    why: &str,
    reasons: Vec<String>,
) -> Decision {
    if step.work.by_hand {
        return hand::send_back(step, rule, why, reasons);
    }
    // A command puts nothing right by being run again.
    if step.work.round >= ROUNDS_MAX || step.is_command() {
        let why = match step.work.round {
            0 => why.to_owned(),
            round => format!("{round} subtasks did not put it right; last: {why}"),
        };
        return if step.known.status == Status::InProgress {
            step.give_up(rule, &why)
        } else {
            give_back(step, rule, &why)
        };
    }
    let mut decision = step.board.builder();
    let mut moves = Moves::new(step.board, step.now);
    let row = if step.known.status == Status::ReadyForReview { Some("TB6") } else { None };
    let known = moves.to(step.id, Status::InProgress, why);
    known.verified = None;
    let mut work =
        Work { stage: Stage::Remedy, tries: 0, not_before: None, check: None, ..step.work.clone() };
    work.round += 1;
    work.reasons = reasons;
    work.refused = None;
    known.work = Some(work);
    remedy::superseded(&mut moves, step, why);
    moves.into(&mut decision, row);
    if row.is_none() {
        decision.effect(step.event("sent-back", Some(step.seat()), ("why", why)));
    }
    if let Some(check) = step.work.check.as_ref().filter(|_| !step.work.shared) {
        decision.effect(check.drop_tree());
    }
    let path = step
        .board
        .index
        .find(step.id)
        .map_or_else(|| RelPath::fixed(super::state::PATH), |(path, _)| path.clone());
    decision.reject(Rejection::new(rule, &path, why, "work that passes scope, audit and verify"));
    decision.finish()
}

/// READY_FOR_REVIEW has no way to BLOCKED: it goes back first, then it is blocked.
fn give_back(step: &Step<'_>, rule: &'static str, why: &str) -> Decision {
    step.ask_owner(
        rule,
        why,
        format!("agency task request-changes {0} --reason …, or agency task cancel {0}", step.id),
    )
}
