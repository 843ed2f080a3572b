//! AG-11, AG-15: only we write STATE.md's frontmatter and TASK_BOARD.md, only we mark a task DONE, and only we write verify artifacts.
//! A foreign change is kept, repaired and told; text below the frontmatter is everyone's.

use super::Board;
use super::forged_artifact::{self, Forged};
use super::state;
use super::table::Status;
use super::task;
use super::tell::{self, Reason};
use crate::model::{
    Bytes, Deadline, Decision, Effect, FileState, Now, Rejection, RelPath, Severity, clip,
};
use std::time::Duration;

/// Git changes files first and moves HEAD last: what looks like a forgery may be the first half of the owner's `switch`.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn repair(board: &Board, now: Now) -> Option<Decision> {
    let memory = &board.index.memory;
    let found = match found(board) {
        Ok(found) => found,
        Err(ask) => return Some(*ask),
    };
    match (found, memory.suspect) {
        (None, None) => None,
        (None, Some(_)) => {
            let mut decision = board.builder();
            decision.forget("suspect");
            Some(decision.finish())
        }
        (Some(_), None) => {
            let mut decision = board.builder();
            decision.remember("suspect", now.wall);
            Some(decision.finish())
        }
        (Some(_), Some(_)) if deadline(board, now).is_some() => Some(Decision::default()),
        (Some(Found::State(found)), Some(_)) => Some(put_right(board, found)),
        (Some(Found::Done(path)), Some(_)) => Some(put_back(board, path)),
        (Some(Found::Artifact(forged)), Some(_)) => {
            Some(forged_artifact::put_right(board, &forged))
        }
    }
}

/// A foreign write.
enum Found<'a> {
    /// What lies in the place of our frontmatter, in words.
    State(String),
    /// A task's file says DONE, and the task is not.
    Done(&'a RelPath),
    Artifact(Forged<'a>),
}

/// The first foreign write. `Err`: git is asked about it.
fn found(board: &Board) -> Result<Option<Found<'_>>, Box<Decision>> {
    if board.is_away() {
        return Ok(None);
    }
    if let Some(found) = foreign(board).or_else(|| forged(board)) {
        return Ok(Some(found));
    }
    Ok(forged_artifact::first(board)?.map(Found::Artifact))
}

fn forged(board: &Board) -> Option<Found<'_>> {
    board.index.forged.first().map(Found::Done)
}

/// The frontmatter of STATE.md is not the one that we wrote.
pub(super) fn is_foreign(board: &Board) -> bool {
    foreign(board).is_some()
}

fn foreign(board: &Board) -> Option<Found<'_>> {
    let ours = board.index.memory.state.as_ref()?;
    match board.index.file(state::PATH)? {
        FileState::Whole(file) if ours.is_in(&file.bytes) => None,
        FileState::Whole(file) => {
            Some(Found::State(clip(&String::from_utf8_lossy(&file.bytes), 400)))
        }
        FileState::Absent => Some(Found::State("the file is gone".to_owned())),
        FileState::Unreadable(odd) => Some(Found::State(odd.found.clone())),
    }
}

/// AG-11: the status goes back to where the task stands; what was written is kept.
fn put_back(board: &Board, path: &RelPath) -> Decision {
    let mut decision = board.builder();
    decision.forget("suspect");
    let sheet = board.index.sheet(path);
    let task = sheet.and_then(|sheet| Some((sheet, sheet.task.as_deref().ok()?)));
    let Some((sheet, task)) = task else { return decision.finish() };
    let status = board.index.status_of(&task.id).unwrap_or(Status::New);
    let Ok(bytes) = task::with_status(&sheet.file.bytes, path, status) else {
        return decision.finish();
    };
    let (id, word) = (&task.id, status.word());
    let wanted = format!("{word}; only `agency` marks a task DONE, after its own verify");
    let rejection = Rejection::new("AG-11", path, "status: DONE in the file", &wanted);
    decision.reject(rejection.with_digest(&sheet.file.digest));
    // Not the digest of what lies there: the foreign bytes are to be kept as evidence.
    decision.effect(Effect::Replace { path: path.clone(), bytes: Bytes(bytes), seen: None });
    let summary = format!("{id}'s file said DONE without a verify of ours; it says {word} again");
    let mut reason = Reason::new("AG-11", format!("{path} {}", sheet.file.digest.short()), summary);
    reason.did = "The foreign bytes are in quarantine; the status is put back.".to_owned();
    reason.wont = "No DONE is taken from a file; use `agency task done`.".to_owned();
    tell::tell(board, &mut decision, Severity::Warning, reason);
    decision.finish()
}

/// When what lies there will be believed.
pub(super) fn deadline(board: &Board, now: Now) -> Option<Deadline> {
    let since = board.index.memory.suspect?;
    // A clock that was set back ends the wait.
    let waited = (now.wall - since).to_std().unwrap_or(PATIENCE);
    let left = PATIENCE.checked_sub(waited).filter(|left| !left.is_zero())?;
    Some(Deadline { at: now.ticks.after(left), why: "foreign state" })
}

fn put_right(board: &Board, found: String) -> Decision {
    let mut decision = board.builder();
    decision.forget("suspect");
    let Some(ours) = &board.index.memory.state else { return Decision::default() };
    let now = board.index.whole(state::PATH);
    let bytes = ours.render(now.map(|(bytes, _)| bytes), &board.header());
    // Not the digest of what lies there: the foreign bytes are to be kept as evidence.
    decision.effect(Effect::Replace {
        path: RelPath::fixed(state::PATH),
        bytes: Bytes(bytes),
        seen: None,
    });
    let mut reason = Reason::new(
        "AG-15",
        format!("{} {}", state::PATH, board.index.memory.decisions),
        format!(
            "the frontmatter of `{}` was changed by something other than `agency`",
            state::PATH
        ),
    );
    reason.what = format!(
        "Only `agency` writes the frontmatter of `{}`; an agent or a human changed it.",
        state::PATH
    );
    reason.did =
        "The foreign bytes are in quarantine; our frontmatter is back, the text below it is kept."
            .to_owned();
    reason.wont =
        "We take no transition from an edited state file; use `agency task …`.".to_owned();
    reason.evidence = vec![found];
    tell::tell(board, &mut decision, Severity::Critical, reason);
    decision.finish()
}
