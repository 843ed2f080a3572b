//! The open tasks of a board, one line each, for `agency status`: which, who works, what waits, what is refused. It looks at few
//! tasks: a board may have 100,000.

use super::condition::{who, why};
use super::memory::{Known, Stage, Work};
use super::names::TaskId;
use super::table::Status;
use super::{Board, judge};
use crate::model::{clip, clock_time};

/// How many lines are shown.
const LINES: usize = 12;

pub(super) fn lines(board: &Board) -> Vec<String> {
    let memory = &board.index.memory;
    let at_work = memory.working.iter().filter_map(|id| {
        let known = memory.tasks.get(id)?;
        Some(working(board, id, known, known.work.as_ref()?))
    });
    let open = [
        Status::Blocked,
        Status::ReadyForReview,
        Status::InProgress,
        Status::Assigned,
        Status::New,
    ];
    let column = |status: Status| board.index.columns.get(&status).into_iter().flatten();
    let others =
        open.into_iter().flat_map(|status| column(status).map(move |(_, id)| (status, id)));
    let others = others.filter(|(_, id)| !memory.working.contains(*id));
    let others = others.map(|(status, id)| waiting(board, status, id));
    let mut lines: Vec<String> = at_work.chain(others).take(LINES).collect();
    let open: usize = open.iter().map(|status| board.index.count(*status)).sum();
    if open > LINES {
        lines.push(format!("… and {} more; `agency task list`", open - LINES));
    }
    lines.extend(refused(board));
    lines
}

/// A task that we work on: who, since when.
fn working(board: &Board, id: &TaskId, known: &Known, work: &Work) -> String {
    let (status, since) = (known.status.word(), clock_time(known.since));
    let who = who(board, id, work.stage);
    match work.stage {
        Stage::Owner => format!("{id} {status}: waits for you: {}", clip(&known.reason, 160)),
        Stage::Base => {
            format!("{id} {status}: the DoD is checked before its builder, since {since}")
        }
        Stage::Prepare | Stage::Setup | Stage::Build | Stage::Built | Stage::Remedy => {
            format!("{id} {status}: {who} builds it, since {since}")
        }
        Stage::Audit | Stage::Audited => format!("{id} {status}: {who} audits it, since {since}"),
        Stage::Plan | Stage::Verify | Stage::Verified | Stage::Merged => {
            format!("{id} {status}: it is verified and merged, since {since}")
        }
    }
}

/// A task that nobody of ours works on: a person's, a blocked one, or one that waits.
fn waiting(board: &Board, status: Status, id: &TaskId) -> String {
    let reason = board.index.memory.tasks.get(id).map_or("", |known| known.reason.as_str());
    if status == Status::Blocked && !reason.is_empty() {
        return format!("{id} BLOCKED: {}", clip(reason, 160));
    }
    why(board, status, id)
}

/// Files that were refused, each with its first problem.
fn refused(board: &Board) -> impl Iterator<Item = String> {
    let paths = board.index.memory.refused.keys().take(LINES);
    paths.map(|path| {
        let why = match board.index.report_file(path) {
            Some((id, file)) => judge::why_refused(board, &id, path, file),
            None => {
                let problems = board.index.refusal_of(path).unwrap_or_default();
                problems.first().map(|problem| problem.gist())
            }
        };
        match why {
            Some(why) => format!("refused {path}: {why}"),
            None => format!("refused {path}"),
        }
    })
}
