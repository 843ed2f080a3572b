//! LP-11: only we write the state file. A foreign change is kept, repaired and told.

use super::{
    ReviewLoop, STATE, away,
    hold::{self, Reason},
    memory::{StateFile, WayOut},
};
use crate::model::{Bytes, Deadline, Decision, Effect, FileState, Now, RelPath, Severity, clip};
use std::time::Duration;

/// Git changes files first and moves HEAD last: what looks like a forgery may be the first half of the owner's `reset`
/// or `switch`. Only what is still so after this is believed.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn repair(review_loop: &ReviewLoop, now: Now) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    let ours = memory.state_file.as_ref()?;
    let sure = |way_out| matches!(way_out, WayOut::Resume | WayOut::AcceptHistory);
    let unsure = memory.holds.iter().any(|hold| !sure(hold.way_out));
    let found = if unsure || away::is_away(review_loop) || away::is_unlooked(review_loop) {
        None
    } else {
        foreign(review_loop, ours)
    };
    match (found, memory.suspect) {
        (None, None) => None,
        (None, Some(_)) => Some(clear(review_loop)),
        (Some(_), None) => Some(suspect(review_loop, now)),
        // Quiet, and nothing else may happen meanwhile.
        (Some(_), Some(_)) if deadline(review_loop, now).is_some() => Some(Decision::default()),
        (Some(found), Some(_)) => Some(put_right(review_loop, ours, found)),
    }
}

/// What lies in the place of our state, in words.
fn foreign(review_loop: &ReviewLoop, ours: &StateFile) -> Option<String> {
    match review_loop.index.file(STATE)? {
        FileState::Whole(file) if file.digest == ours.digest => None,
        FileState::Whole(file) => Some(clip(&String::from_utf8_lossy(&file.bytes), 400)),
        FileState::Absent => Some("the file is gone".to_owned()),
        FileState::Unreadable(odd) => Some(odd.found.clone()),
    }
}

fn suspect(review_loop: &ReviewLoop, now: Now) -> Decision {
    let mut decision = review_loop.builder();
    decision.remember("suspect", now.wall);
    decision.finish()
}

fn clear(review_loop: &ReviewLoop) -> Decision {
    let mut decision = review_loop.builder();
    decision.forget("suspect");
    decision.finish()
}

/// When what lies there will be believed.
pub(super) fn deadline(review_loop: &ReviewLoop, now: Now) -> Option<Deadline> {
    let since = review_loop.index.memory.suspect?;
    // A clock that was set back ends the wait.
    let waited = (now.wall - since).to_std().unwrap_or(PATIENCE);
    let left = PATIENCE.checked_sub(waited).filter(|left| !left.is_zero())?;
    Some(Deadline { at: now.ticks.after(left), why: "foreign state" })
}

fn put_right(review_loop: &ReviewLoop, ours: &StateFile, found: String) -> Decision {
    let memory = &review_loop.index.memory;
    let mut decision = review_loop.builder();
    decision.forget("suspect");
    let (bytes, seen) = (Bytes(ours.bytes.clone()), Some(ours.digest.clone()));
    decision.effect(Effect::Replace { path: RelPath::fixed(STATE), bytes, seen });
    let writer = memory.turn.as_ref().and_then(|turn| turn.run.as_ref()).map_or_else(
        || "no run was alive: an agent or a human".to_owned(),
        |running| format!("the run `{}` was alive", running.run),
    );
    let mut reason = Reason::new("LP-11", STATE, format!("`{STATE}` was changed by somebody else"));
    reason.what = format!("Only the daemon writes `{STATE}`. Found other content; {writer}.");
    reason.did =
        "The foreign bytes are in quarantine; our state is restored; the loop goes on.".to_owned();
    reason.wont = "We take no transition from an edited state file.".to_owned();
    reason.evidence = vec![found];
    hold::tell(review_loop, &mut decision, Severity::Critical, reason);
    decision.finish()
}
