//! AG-29: a task of `playwright` is a command of ours in the task's worktree; its report is made from how that ended. What it
//! leaves in the tree is no part of any change.

use super::building::{self, answer_path, snapshot};
use super::memory::{Exit, Stage, Work};
use super::names::DocumentKind;
use super::report;
use super::work::{Job, Step};
use crate::model::yaml::quote;
use crate::model::{
    Bytes, CommandLine, Decision, Fact, Outcome, RelPath, RunEnd, Seat, TreeId, WrittenBy, clip,
};

const TAIL_MAX: usize = 1500;

fn line(step: &Step<'_>) -> String {
    format!("npx playwright test --grep {}", step.id)
}

pub(super) fn start(step: &Step<'_>) -> Decision {
    let mut decision = step.board.builder();
    let timeout_s = step.board.limits.verify_timeout.as_secs().max(1);
    let command = Job::Command(CommandLine {
        line: line(step),
        timeout_s,
        by: WrittenBy::Owner,
        clean: None,
    });
    let who = (step.seat(), "builder", step.id.as_str());
    let run = step.spawn(&mut decision, step.tree(), who, command);
    let exit = Some(Exit { passed: false, began: step.now.wall, tail: String::new() });
    step.keep(&mut decision, Work { run: Some(run), exit, ..step.work.clone() });
    decision.finish()
}

/// One whose end nobody saw is run again.
pub(super) fn note(step: &Step<'_>, work: &mut Work, end: &RunEnd) {
    if end.outcome == Outcome::Lost {
        return;
    }
    let from = end.tail.len().saturating_sub(TAIL_MAX);
    let from = (from..end.tail.len()).find(|at| end.tail.is_char_boundary(*at)).unwrap_or(0);
    let began = work.exit.as_ref().map_or(step.now.wall, |exit| exit.began);
    let tail = format!("{}\n{}", end.outcome.sentence(), &end.tail[from..]);
    work.exit = Some(Exit { passed: end.outcome == Outcome::Ok, began, tail });
    work.stage = Stage::Built;
}

/// The report is ours to write: READY_FOR_REVIEW where it passed, else BLOCKED with the end of its output.
pub(super) fn look(step: &Step<'_>) -> Option<Decision> {
    let since = Some(TreeId::new(step.work.base.as_str()));
    let fact = match step.ask(snapshot(step, "left", since)) {
        Ok(fact) => fact,
        Err(ask) => return Some(*ask),
    };
    let Fact::Snapshot(left) = fact else {
        return Some(step.again(Stage::Build, &format!("git: {fact:?}")));
    };
    let path = answer_path(step, step.id, DocumentKind::Report, step.seat().as_str())?;
    let path = RelPath::new(path).ok()?;
    let bytes = Bytes(text(step).into_bytes());
    match report::parse(&bytes.0, &path) {
        Ok(report) => Some(building::reported(step, left, (path, &bytes), &report)),
        Err(problems) => Some(step.give_up("AG-29", &building::lines(&problems))),
    }
}

fn text(step: &Step<'_>) -> String {
    let exit = step.work.exit.as_ref();
    let passed = exit.is_some_and(|exit| exit.passed);
    let tail = exit.map_or("", |exit| exit.tail.as_str());
    let zone = step.board.zone();
    let (began, ended) = (
        exit.map_or(step.now.wall, |exit| exit.began),
        step.now.wall.max(exit.map_or(step.now.wall, |exit| exit.began)),
    );
    let (status, reason) = if passed {
        ("READY_FOR_REVIEW", String::new())
    } else {
        let one_line: String = tail.split_whitespace().collect::<Vec<_>>().join(" ");
        ("BLOCKED", format!("reason: {}\n", quote(&clip(&one_line, TAIL_MAX))))
    };
    let shown: String = tail.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "---\ntask_id: {id}\nagent: {agent}\nstatus: {status}\nstarted_at: {began}\nfinished_at: {ended}\n\
         changes:\n  files_modified: []\ncommands_run:\n  - {line}\nverification:\n  dod_passed: {passed}\nrisks: []\n{reason}---\n\n\
         ## Summary\nMade by agency from how the command ended.\n\n## Evidence\n{shown}\n## Follow-ups\n",
        id = step.id,
        agent = Seat::new(super::names::PLAYWRIGHT),
        began = zone.stamp(began),
        ended = zone.stamp(ended),
        line = quote(&line(step)),
    )
}
