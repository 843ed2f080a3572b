//! What time alone shows: claims without a sign of life (CD-11). They are told to a human once; nothing is taken.

use super::keeper::Codifica;
use super::tell::{self, Notice};
use super::words::State;
use crate::model::{Decision, Now, Severity, counted};

pub(super) fn look(codifica: &Codifica, now: Now) -> Option<Decision> {
    let memory = &codifica.index.memory;
    memory.accepted.as_ref()?;
    let board = codifica.index.ruling_board()?;
    let limit = board.config.rules.stale_claim;
    for task in board.glances().filter(|task| task.state == State::InProgress) {
        let whole = board.task(&task.id).and_then(Result::ok);
        let Some(last) = whole.and_then(|task| task.last_activity()) else { continue };
        let idle = (now.wall - last).to_std().unwrap_or_default();
        let at_work = memory.jobs.contains_key(&task.id);
        if idle < limit || at_work || memory.stale.get(&task.id) == Some(&last) {
            continue;
        }
        let hours = idle.as_secs() / 3600;
        let summary = format!(
            "{} has been {}'s for {} without a note or transition",
            task.id,
            task.owner,
            counted(hours, "hour")
        );
        let mut word = Notice::new("CD-11", format!("{} {last}", task.id), summary);
        word.did = "Nothing: only a human may reclaim a task.".to_owned();
        word.resolve = format!("agency work reclaim {} --as-human --reason \"…\"", task.id);
        let mut decision = codifica.builder();
        decision.remember(&format!("stale/{}", task.id), last);
        tell::tell(codifica, &mut decision, Severity::Warning, word);
        return Some(decision.finish());
    }
    // A task that cannot be seen right now is not forgotten: its file may not have been read yet.
    let moved = |id: &&String| board.glance(id).is_some_and(|task| task.state != State::InProgress);
    let gone = memory.stale.keys().find(moved)?;
    let mut decision = codifica.builder();
    decision.forget(&format!("stale/{gone}"));
    Some(decision.finish())
}
