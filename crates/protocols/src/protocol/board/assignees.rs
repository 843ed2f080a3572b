//! AG-37: an assignee whom nobody here knows is told to the owner, because such a task waits for ever. It starts nobody.

use super::Board;
use super::names::seat;
use super::tell;
use crate::model::{Decision, Now};

const ABOUT: &str = "assignee ";

/// ReportStatus once for each name that it is unknown, and stops showing what is so no more.
pub(super) fn unknown(board: &Board, _: Now) -> Option<Decision> {
    if board.is_away() {
        return None;
    }
    let about = |name: &str| format!("{ABOUT}{name}");
    let told = &board.index.memory.told;
    let mut decision = board.builder();
    let known = |name: &str| is_known(board, name) || !board.index.people.contains_key(name);
    if told.keys().any(|key| key.strip_prefix(ABOUT).is_some_and(known)) {
        tell::over(board, &mut decision, "AG-37", |key| key.strip_prefix(ABOUT).is_some_and(known));
        return Some(decision.finish());
    }
    let mut people = board.index.people.iter();
    let (name, ids) =
        people.find(|(name, _)| !is_known(board, name) && !told.contains_key(&about(name)))?;
    let id = ids.first()?;
    let agents: Vec<&str> = board.limits.agents.iter().map(String::as_str).collect();
    let text = format!(
        "{id} is for `{name}`, who is neither an agent (known: {}) nor a person of this board; nobody starts it. A person belongs into `builders` of agency.json, or their task says `person: true`",
        agents.join(", ")
    );
    tell::once(board, &mut decision, "AG-37", &about(name), &text);
    Some(decision.finish())
}

/// Agents are not asked about here; people are known by the manifest.
fn is_known(board: &Board, name: &str) -> bool {
    match &board.index.manifest {
        Some(Ok(manifest)) => {
            let mut names = manifest.builders.iter().chain([&manifest.orchestrator]);
            names.any(|known| seat(known) == name)
        }
        // A manifest that cannot be read freezes the board anyway.
        Some(Err(_)) | None => true,
    }
}
