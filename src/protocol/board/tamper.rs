//! AG-15: only we write STATE.md's frontmatter and TASK_BOARD.md. A foreign change is kept, repaired and told; text below the
//! frontmatter is everyone's.

use super::Board;
use super::state;
use super::tell::{self, Reason};
use crate::model::{Bytes, Deadline, Decision, Effect, FileState, Now, RelPath, Severity, clip};
use std::time::Duration;

/// Git changes files first and moves HEAD last: what looks like a forgery may be the first half of the owner's `switch`.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn repair(it: &Board, now: Now) -> Option<Decision> {
    let memory = &it.index.memory;
    let found = if it.is_away() { None } else { foreign(it) };
    match (found, memory.suspect) {
        (None, None) => None,
        (None, Some(_)) => {
            let mut decision = it.builder();
            decision.forget("suspect");
            Some(decision.finish())
        }
        (Some(_), None) => {
            let mut decision = it.builder();
            decision.remember("suspect", now.wall);
            Some(decision.finish())
        }
        (Some(_), Some(_)) if deadline(it, now).is_some() => Some(Decision::default()),
        (Some(found), Some(_)) => Some(put_right(it, found)),
    }
}

/// What lies in the place of our frontmatter, in words.
fn foreign(it: &Board) -> Option<String> {
    let ours = it.index.memory.state.as_ref()?;
    match it.index.file(state::PATH)? {
        FileState::Whole(file) if ours.is_in(&file.bytes) => None,
        FileState::Whole(file) => Some(clip(&String::from_utf8_lossy(&file.bytes), 400)),
        FileState::Absent => Some("the file is gone".to_owned()),
        FileState::Unreadable(odd) => Some(odd.found.clone()),
    }
}

/// When what lies there will be believed.
pub(super) fn deadline(it: &Board, now: Now) -> Option<Deadline> {
    let since = it.index.memory.suspect?;
    // A clock that was set back ends the wait.
    let waited = (now.wall - since).to_std().unwrap_or(PATIENCE);
    let left = PATIENCE.checked_sub(waited).filter(|left| !left.is_zero())?;
    Some(Deadline { at: now.ticks.after(left), why: "foreign state" })
}

fn put_right(it: &Board, found: String) -> Decision {
    let mut decision = it.builder();
    decision.forget("suspect");
    let Some(ours) = &it.index.memory.state else { return Decision::default() };
    let now = it.index.whole(state::PATH);
    let bytes = ours.render(now.map(|(bytes, _)| bytes), &it.header());
    // Not the digest of what lies there: the foreign bytes are to be kept as evidence.
    decision.effect(Effect::Replace {
        path: RelPath::fixed(state::PATH),
        bytes: Bytes(bytes),
        seen: None,
    });
    let mut reason = Reason::new(
        "AG-15",
        format!("{} {}", state::PATH, it.index.memory.decisions),
        format!("the frontmatter of `{}` was changed by somebody else", state::PATH),
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
    tell::tell(it, &mut decision, Severity::Critical, reason);
    decision.finish()
}
