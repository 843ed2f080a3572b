//! LP-11: only we write the state file. A foreign change is kept, repaired and told.

use super::{
    ReviewLoop, STATE, away,
    hold::{self, Reason},
    memory::WayOut,
};
use crate::model::{Bytes, Decision, Digest, Effect, FileState, Now, RelPath, Severity, clip};

pub(super) fn repair(it: &ReviewLoop, _: Now) -> Option<Decision> {
    let memory = &it.index.memory;
    let state = memory.state.as_ref()?;
    let unsure = memory.holds.iter().any(|hold| hold.way_out != WayOut::Resume);
    if unsure || away::is_away(it) {
        return None;
    }
    let ours = state.to_bytes();
    let digest = Digest::of(&ours);
    let found = match it.index.file(STATE)? {
        FileState::Whole(file) if file.digest == digest => return None,
        FileState::Whole(file) => clip(&String::from_utf8_lossy(&file.bytes), 400),
        FileState::Absent => "the file is gone".to_owned(),
        FileState::Unreadable(odd) => odd.found.clone(),
    };
    let mut decision = it.builder();
    decision.effect(Effect::Replace {
        path: RelPath::fixed(STATE),
        bytes: Bytes(ours),
        seen: Some(digest.clone()),
    });
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
    hold::tell(it, &mut decision, Severity::Critical, reason);
    Some(decision.finish())
}
