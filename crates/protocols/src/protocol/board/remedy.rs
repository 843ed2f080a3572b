//! Remediation subtasks (spec 2 §3.5, AG-09): what a check found becomes a task file of its own in the builder's inbox. It works
//! in its parent's tree and branch, and ends as its parent does. What was found is not judged here.

use super::Board;
use super::index::INBOX;
use super::manifest::IdStrategy;
use super::memory::{Stage, Work};
use super::moves::Moves;
use super::names::{TaskId, task_path};
use super::table::Status;
use super::task::{self, NewTask, Task};
use super::work::Step;
use crate::model::{
    Bytes, Decision, Digest, Effect, Fact, FailureKind, Moment, Query, RelPath, TreeRef, clip,
};
use std::time::Duration;

pub(super) const LABEL: &str = "remediation";
/// Where the highest id of the archive is written down.
const LAST_ID: &str = ".kodingx/archive/last-id";
const REASONS_MAX: usize = 24 * 1024;
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// The next subtask: its id is a guess that the shell makes sure of, together with the file.
pub(super) fn make(step: &Step<'_>) -> Decision {
    let Some(parent) = step.board.index.task(step.id) else {
        return step.give_up("AG-09", "its file cannot be read any more");
    };
    let id = match next_id(step) {
        Ok(id) => id,
        Err(ask) => return *ask,
    };
    let zone = step.board.zone();
    let subtask = subtask(step, parent);
    let path = task_path(&subtask.assignee, &id, &subtask.title, zone, step.now.wall);
    let text = subtask.render(&id, &zone.stamp(step.now.wall));
    if let Err(problems) = task::parse(text.as_bytes(), &path) {
        let first = problems.first().map(ToString::to_string).unwrap_or_default();
        return step.give_up("AG-09", &format!("no subtask can be made of it: {first}"));
    }
    let mut decision = step.board.builder();
    decision.effect(Effect::Create {
        path: path.clone(),
        bytes: Bytes(text.into_bytes()),
        under: RelPath::fixed(INBOX.trim_end_matches('/')),
        start: format!("{id}-"),
    });
    let work = step.work;
    if !work.shared {
        // The tree is there; only the new file is brought into it.
        let tree = step.worktree(&work.tree, &work.branch, &work.base, Some(path));
        decision.effect(Effect::Worktree(Box::new(tree)));
    }
    let mut work = Work { stage: Stage::Build, not_before: None, ..work.clone() };
    work.remedies.push(id);
    step.keep(&mut decision, work);
    decision.finish()
}

/// One more than any that we know of; a ULID is made of the decision, which nobody else makes.
fn next_id(step: &Step<'_>) -> Result<TaskId, Box<Decision>> {
    let ids = match &step.board.index.manifest {
        Some(Ok(manifest)) => manifest.ids,
        Some(Err(_)) | None => IdStrategy::Sequential,
    };
    match ids {
        IdStrategy::Ulid => {
            let index = &step.board.index.memory;
            let seed = format!("{} {} {}", step.board.place.repo, index.decisions, step.id);
            let chance = u128::from_str_radix(&Digest::of(seed.as_bytes()).as_str()[..32], 16);
            Ok(TaskId::ulid(step.now.wall, chance.unwrap_or(0)))
        }
        IdStrategy::Sequential => {
            let path = RelPath::fixed(LAST_ID);
            let fact = step.ask(Query::Read { tree: TreeRef::Main, path })?;
            let bytes = if let Fact::File(Some(bytes)) = fact { &bytes.0[..] } else { &[] };
            let archived = String::from_utf8_lossy(bytes).trim().parse().unwrap_or(0);
            let last = step.board.index.last_number().max(step.work.floor).max(archived);
            Ok(TaskId::sequential(last + 1))
        }
    }
}

/// Scope and profile are its parent's: what was found widens nothing.
fn subtask(step: &Step<'_>, parent: &Task) -> NewTask {
    let reasons = clip(&step.work.reasons.join("\n\n"), REASONS_MAX);
    NewTask {
        title: clip(&format!("Remediate {}: {}", step.id, parent.title), 160),
        priority: parent.priority,
        assignee: parent.assignee.clone(),
        person: parent.person,
        status: Status::Assigned,
        dod_profile: parent.dod_profile.clone(),
        scope: step.known.scope.clone().unwrap_or_else(|| parent.scope.clone()),
        labels: vec![LABEL.to_owned()],
        depends_on: Vec::new(),
        context_files: parent.context_files.clone(),
        acceptance: parent.acceptance.clone(),
        constraints: parent.constraints.clone(),
        risks: Vec::new(),
        refs: Vec::new(),
        parent: Some(step.id.clone()),
        problem: reasons,
        notes: format!(
            "The work of {} came back (round {}). Go on in its tree, on the branch `{}`.",
            step.id, step.work.round, step.work.branch
        ),
    }
}

/// Somebody was faster with that id, or holds the inbox.
pub(super) fn failed(step: &Step<'_>, kind: FailureKind, said: &str) -> Decision {
    let mut work = Work { stage: Stage::Remedy, ..step.work.clone() };
    let lost = work.remedies.pop();
    match kind {
        FailureKind::Moved => work.floor = lost.and_then(|id| id.number()).unwrap_or(work.floor),
        FailureKind::Busy => work.not_before = Some(Moment::after(step.now, BUSY_WAIT)),
        FailureKind::NotFastForward | FailureKind::GitHeld | FailureKind::Broken => {
            let same = Step { work: &work, ..*step };
            return same.again(Stage::Remedy, &format!("making a subtask failed: {said}"));
        }
    }
    let mut decision = step.board.builder();
    step.keep(&mut decision, work);
    decision.finish()
}

/// A subtask whose report never counted makes room for the next one.
pub(super) fn superseded(moves: &mut Moves<'_>, step: &Step<'_>, why: &str) {
    let target = step.target();
    if target != step.id && step.board.index.status_of(target) == Some(Status::InProgress) {
        let why = format!("another subtask takes its place: {why}");
        moves.to(target, Status::Canceled, &why);
    }
}

/// The subtasks go where their parent goes.
pub(super) fn along(moves: &mut Moves<'_>, board: &Board, work: &Work, to: Status, why: &str) {
    for id in &work.remedies {
        let Some(now) = board.index.status_of(id).filter(|status| !status.is_over()) else {
            continue;
        };
        let last = work.remedies.last() == Some(id);
        let goes = match to {
            Status::Done | Status::Canceled => true,
            Status::Blocked => last && now == Status::InProgress,
            Status::Assigned => last && now == Status::Blocked,
            Status::New | Status::InProgress | Status::ReadyForReview => false,
        };
        if goes {
            moves.to(id, to, why);
        }
    }
}
