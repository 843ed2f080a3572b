//! What the board wrote about tasks that ended, in one commit of ours on the target branch (AG-14): only bytes that we wrote or
//! judged, only while nothing is being merged. An agent's or the owner's edits of the same files are never swept in.

use super::memory::{AcceptedReport, Known, Stage};
use super::scope::OURS;
use super::table::Status;
use super::tell::{self, Reason};
use super::{Board, names::TaskId};
use crate::model::{
    Builder, Bytes, Deadline, Decision, Digest, Effect, Fact, FailureKind, Moment, Now,
    PlannedCommit, Query, RelPath, Severity, TreeRef, clip,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const TRIES_MAX: u32 = 5;
const WAIT: Duration = Duration::from_secs(20);

/// Files that the target branch is to have, each as we wrote or judged it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) files: BTreeMap<RelPath, Digest>,
    /// What ended, in the commit's words. While it is empty the files wait for the next end.
    pub(super) ends: Vec<String>,
    /// What the last commit was about, in case it cannot be published.
    pub(super) sent: Option<Box<Record>>,
    pub(super) tries: u32,
    pub(super) not_before: Option<Moment>,
}

impl Record {
    /// Everything that belongs to the end of a task.
    pub(super) fn add(&mut self, board: &Board, id: &TaskId, known: &Known) {
        self.add_sheet(board, id);
        let papers = known.report.iter().chain(known.verified.iter().map(|by| &by.artifact));
        for AcceptedReport { path, digest } in papers {
            self.files.insert(path.clone(), digest.clone());
        }
        for (path, digest) in &known.papers {
            self.files.entry(path.clone()).or_insert_with(|| digest.clone());
        }
        for work in known.work.iter() {
            self.files.extend(work.papers.clone());
            work.remedies.iter().for_each(|remedy| self.add_sheet(board, remedy));
        }
        self.ends.push(format!("{id} {}", known.status.word()));
    }

    /// A task's file as it is, unless this decision writes it anew.
    fn add_sheet(&mut self, board: &Board, id: &TaskId) {
        if let Some((path, sheet)) = board.index.find(id)
            && !board.index.memory.refused.contains_key(path)
        {
            self.files.entry(path.clone()).or_insert_with(|| sheet.file.digest.clone());
        }
    }

    fn message(&self) -> String {
        format!("Board: {}\n", clip(&self.ends.join(", "), 200))
    }
}

/// A task comes to its end for now.
pub(super) fn is_end(status: Status) -> bool {
    match status {
        Status::Done | Status::Blocked | Status::Canceled => true,
        Status::New | Status::Assigned | Status::InProgress | Status::ReadyForReview => false,
    }
}

/// The next step towards the commit that is due, if one is.
pub(super) fn commit(board: &Board, now: Now) -> Option<Decision> {
    let record = &board.index.memory.record;
    let waits = record.not_before.is_some_and(|at| at.left(now).is_some());
    let idle = !board.place.git || board.is_away() || board.index.memory.is_held();
    if record.ends.is_empty() || waits || idle || is_merging(board, now) {
        return None;
    }
    let target = board.index.memory.ours.as_ref()?.branch.clone()?;
    Some(match plan(board, record, &target, now) {
        Err(ask) => *ask,
        Ok(Fact::Planned(planned)) => publish(board, record, planned),
        Ok(fact) => later(board, record.clone(), &format!("{fact:?}"), now),
    })
}

/// Between the plan of a merge and its end the target branch stays where it is, as far as it is up to us.
pub(super) fn is_merging(board: &Board, now: Now) -> bool {
    let mut tasks =
        board.index.memory.working.iter().filter_map(|id| board.index.memory.tasks.get(id));
    tasks.any(|known| {
        let merging = known.work.as_ref().is_some_and(|work| {
            matches!(work.stage, Stage::Verify | Stage::Verified | Stage::Merged)
                && work.not_before.is_none_or(|at| at.left(now).is_none())
        });
        merging && !known.status.is_over()
    })
}

/// Every question comes back as `Err`: it must be asked first.
fn plan<'a>(
    board: &'a Board,
    record: &Record,
    target: &str,
    now: Now,
) -> Result<&'a Fact, Box<Decision>> {
    let paths: Vec<RelPath> = record.files.keys().cloned().collect();
    let read = |path: &RelPath| Query::Read { tree: TreeRef::Main, path: path.clone() };
    let tip = Query::Tip { name: format!("refs/heads/{target}") };
    let ignored = Query::Ignored { paths: paths.clone() };
    ask(board, paths.iter().map(read).chain([tip.clone(), ignored.clone()]))?;
    let out = if let Some(Fact::Paths(paths)) = answer(board, &ignored) { &paths[..] } else { &[] };
    let ours = |path: &RelPath| {
        let Some(Fact::File(Some(bytes))) = answer(board, &read(path)) else { return None };
        let same = record.files.get(path) == Some(&Digest::of(&bytes.0));
        (same && !out.contains(path)).then(|| (path.clone(), bytes.clone()))
    };
    let write: Vec<(RelPath, Bytes)> = paths.iter().filter_map(ours).collect();
    let Some(Fact::Tip(parent)) = answer(board, &tip) else {
        return Ok(answer(board, &tip).unwrap_or(&Fact::NoGit));
    };
    let message = record.message();
    // The date is part of the plan: an answer to the same plan of a moment ago counts.
    let same = |asked: &Query| {
        matches!(asked, Query::Plan { branch, parent: on, message: said, .. }
            if branch == target && on == parent && *said == message)
    };
    let known =
        board.index.answers.iter().find(|(_, asked, _)| same(asked)).map(|(_, _, fact)| fact);
    let (branch, parent, date) = (target.to_owned(), parent.clone(), now.wall);
    let query = Query::Plan { branch, parent, take: Vec::new(), write, message, date };
    known.ok_or_else(|| Box::new(asking(board, [query])))
}

fn answer<'a>(board: &'a Board, query: &Query) -> Option<&'a Fact> {
    board.index.answers.iter().find(|(_, asked, _)| asked == query).map(|(_, _, fact)| fact)
}

/// All that is not known yet, at once.
fn ask(board: &Board, queries: impl Iterator<Item = Query>) -> Result<(), Box<Decision>> {
    let open: Vec<Query> = queries.filter(|query| answer(board, query).is_none()).collect();
    if open.is_empty() { Ok(()) } else { Err(Box::new(asking(board, open))) }
}

fn asking(board: &Board, queries: impl IntoIterator<Item = Query>) -> Decision {
    let mut decision = board.builder();
    for query in queries {
        decision.effect(Effect::Ask { query });
    }
    decision.finish()
}

/// Nothing of ours changed, or the owner keeps it out of git: then there is nothing to commit, and it is settled all the same.
fn publish(board: &Board, record: &Record, planned: &PlannedCommit) -> Decision {
    let mut decision = board.builder();
    let mut next = Record::default();
    if !planned.changes.is_empty() {
        decision.effect(Effect::Commit(planned.clone()));
        next.tries = record.tries;
        next.sent = Some(Box::new(Record { sent: None, ..record.clone() }));
    }
    decision.remember("record", next);
    decision.finish()
}

/// Is this effect such a commit of ours?
pub(super) fn is_ours(board: &Board, effect: &Effect) -> bool {
    let branch = board.index.memory.ours.as_ref().and_then(|ours| ours.branch.as_ref());
    let ours = |path: &RelPath| path.as_str().starts_with(OURS);
    matches!(effect, Effect::Commit(planned) if Some(&planned.branch) == branch
        && planned.changes.iter().all(|change| ours(&change.path)))
}

/// The branch moved meanwhile, or git could not: what was to be committed is due again.
pub(super) fn failed(board: &Board, kind: FailureKind, said: &str, now: Now) -> Decision {
    let mut record = board.index.memory.record.clone();
    if let Some(sent) = record.sent.take() {
        for (path, digest) in sent.files {
            record.files.entry(path).or_insert(digest);
        }
        record.ends = sent.ends.into_iter().chain(record.ends).collect();
    }
    match kind {
        FailureKind::Moved => {
            let mut decision = board.builder();
            decision.remember("record", record);
            decision.finish()
        }
        FailureKind::NotFastForward
        | FailureKind::Busy
        | FailureKind::GitHeld
        | FailureKind::Broken => later(board, record, said, now),
    }
}

fn later(board: &Board, mut record: Record, why: &str, now: Now) -> Decision {
    let mut decision = board.builder();
    record.tries += 1;
    record.not_before = Some(Moment::after(now, WAIT));
    if record.tries > TRIES_MAX {
        give_up(board, &mut decision, &mut record, why);
    }
    decision.remember("record", record);
    decision.finish()
}

/// The files stay noted: the next end of a task takes them along.
fn give_up(board: &Board, decision: &mut Builder, record: &mut Record, why: &str) {
    let summary = format!("`{OURS}` could not be committed: {}", clip(why, 120));
    let mut reason = Reason::new("AG-14", format!("records {}", record.ends.join(" ")), summary);
    reason.did = "The files are as they should be; only the commit is missing.".to_owned();
    reason.resolve =
        "commit `.kodingx` yourself, or put git right: the next task's end tries again".to_owned();
    reason.evidence = vec![clip(why, 2000)];
    tell::tell(board, decision, Severity::Warning, reason);
    *record = Record { files: std::mem::take(&mut record.files), ..Record::default() };
}

impl Record {
    /// When the commit of our own files is tried again, if one is due.
    pub(super) fn retry_at(&self) -> Option<Moment> {
        self.not_before.filter(|_| !self.ends.is_empty())
    }
}

pub(super) fn deadline(board: &Board, now: Now) -> Option<Deadline> {
    let left = board.index.memory.record.retry_at()?.left(now)?;
    Some(Deadline { at: now.ticks.after(left), why: "commit the records" })
}
