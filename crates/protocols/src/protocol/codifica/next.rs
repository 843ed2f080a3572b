//! Which task an agent takes next (spec 3 §5.1), step by step. Whether it may is for `act` to say.

use super::act::{Acted, Action, Stamp, act};
use super::board::Board;
use super::task::Glance;
use super::words::{Actor, Owner, State};
use crate::model::counted;

/// Why there is nothing to take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Nothing {
    #[error("agent:{0} is not in `allowed_agents` (CD-12); ask a human")]
    NotAllowed(String),
    #[error("agent:{agent} has {} in progress, at most {limit} are allowed (CD-12)", counted(*held, "task"))]
    Full { agent: String, held: u64, limit: u64 },
    #[error("no task is todo, free for agent:{0} and has all its dependencies done (CD-05)")]
    NoTask(String),
}

/// The tasks that an agent could take, best first; equals in file order.
pub fn candidates<'a>(board: &'a Board, agent: &str) -> Result<Vec<&'a Glance>, Nothing> {
    if !board.config.allows(agent) {
        return Err(Nothing::NotAllowed(agent.to_owned()));
    }
    // Step 6 comes first: somebody at the limit need not look further.
    let held = board.held_by(agent);
    if let Some(limit) = board.config.rules.max_concurrent.filter(|limit| held >= *limit) {
        return Err(Nothing::Full { agent: agent.to_owned(), held, limit });
    }
    let mine = |owner: &Owner| {
        matches!(owner, Owner::Unassigned) || *owner == Owner::Agent(agent.to_owned())
    };
    let done = |id: &String| board.glance(id).is_some_and(|task| task.state == State::Done);
    let mut found: Vec<&Glance> = board
        .glances()
        .filter(|task| {
            task.state == State::Todo && mine(&task.owner) && task.depends_on.iter().all(done)
        })
        .collect();
    found.sort_by_key(|task| (task.priority, !task.depends_on.is_empty()));
    Ok(found)
}

/// Claims the first one that the rules let this agent have.
///
/// SPEC GAP: §5.1 would hand out a `build` without acceptance or a `review`, which §7.2 and §6 then refuse; these are passed over.
pub fn claim_next(board: &Board, agent: &str, stamp: &Stamp) -> Result<(String, Acted), Nothing> {
    let actor = Actor::Agent(agent.to_owned());
    let found = candidates(board, agent)?;
    let mut tries = found.iter().filter(|task| may_be_claimed(board, &task.id));
    let claimed =
        tries.find_map(|task| match act(board, &task.id, &actor, &Action::Claim, stamp) {
            Ok(acted) => Some((task.id.clone(), acted)),
            Err(_) => None,
        });
    claimed.ok_or_else(|| Nothing::NoTask(agent.to_owned()))
}

/// The same without claiming.
pub fn next<'a>(board: &'a Board, agent: &str) -> Result<&'a Glance, Nothing> {
    let found = candidates(board, agent)?;
    found
        .into_iter()
        .find(|task| may_be_claimed(board, &task.id))
        .ok_or_else(|| Nothing::NoTask(agent.to_owned()))
}

/// Cheap to know beforehand: an agent may not take it whoever it is.
fn may_be_claimed(board: &Board, id: &str) -> bool {
    if board.ambiguous(id).is_some() {
        return false;
    }
    let Some(Ok(task)) = board.task(id) else { return false };
    let accepted = !task.kind.follows_build() || !task.acceptance.is_empty();
    accepted && task.kind != super::words::Kind::Review
}

/// CD-06: the tasks in progress whose dependency was done before and is not now, each with the warning for it. One that
/// carries the warning already is not warned twice.
pub(super) fn fallen_back(old: &Board, new: &Board) -> Vec<(String, String)> {
    let fallen = new.glances().filter(|task| {
        matches!(task.state, State::Todo | State::Blocked)
            && old.glance(&task.id).is_some_and(|old| old.state == State::Done)
    });
    let mut warnings = Vec::new();
    for task in fallen {
        let text = format!(
            "Warning: {}, which this task depends on, is {} again. A human decides whether to go on.",
            task.id, task.state
        );
        let at_work = new.glances().filter(|other| {
            other.state == State::InProgress && other.depends_on.contains(&task.id)
        });
        let unwarned = at_work.filter(|other| !is_noted(old, new, &other.id, &text));
        warnings.extend(unwarned.map(|other| (other.id.clone(), text.clone())));
    }
    warnings
}

/// The newer version has this note of ours and the older has not.
fn is_noted(old: &Board, new: &Board, id: &str, text: &str) -> bool {
    let notes = |board: &Board| match board.task(id) {
        Some(Ok(task)) => task.execution_notes,
        Some(Err(_)) | None => Vec::new(),
    };
    let ours = Actor::Agent(super::words::OURSELVES.to_owned());
    let known = notes(old).len();
    notes(new).iter().skip(known).any(|note| note.by == ours && note.note == text)
}
