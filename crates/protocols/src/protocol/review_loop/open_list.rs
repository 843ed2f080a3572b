//! `escalations` in the state file: the ids that the loop waits for (DESIGN §10). It tells nobody.

use super::{ReviewLoop, STATE, away, memory::WayOut};
use crate::model::{Bytes, Decision, Effect, Now, RelPath};

/// The ids of the open escalations that hold the loop.
pub(super) fn open(review_loop: &ReviewLoop) -> Vec<String> {
    let holds = review_loop.index.memory.holds.iter();
    holds.map(|hold| hold.cause.id(&review_loop.place.repo)).collect()
}

/// Writes the list when it has changed. The file is left alone while it is not certain that it is ours.
pub(super) fn write(review_loop: &ReviewLoop, _: Now) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    let (state, ours) = (memory.state.as_ref()?, memory.state_file.as_ref()?);
    let open = open(review_loop);
    if state.escalations == open || memory.transition.is_some() || away::is_away(review_loop) {
        return None;
    }
    let is_unsure = memory.holds.iter().any(|hold| {
        // A disk that does not take our bytes is not asked again.
        let is_broken = hold.cause.rule.as_str() == "DM-10";
        is_broken || matches!(hold.way_out, WayOut::Adopt | WayOut::AdoptOrRestore)
    });
    if is_unsure || review_loop.index.whole(STATE)?.digest != ours.digest {
        return None;
    }
    let mut next = state.clone();
    next.escalations = open;
    let mut decision = review_loop.builder();
    decision.effect(Effect::Replace {
        path: RelPath::fixed(STATE),
        bytes: Bytes(next.to_bytes()),
        seen: Some(ours.digest.clone()),
    });
    decision.remember("state", next);
    Some(decision.finish())
}
