//! *Away*: another branch than the state files' is checked out, an operation of git's is under way there, or a killed git left its
//! lock. No task is handed out; the owner hears of it once while work waits (DESIGN §3). What is in the way is theirs.

use super::dispatch;
use super::keeper::Codifica;
use super::tell::{self, Word};
use crate::model::{Checkout, Decision, Effect, Moment, Now, Severity};
use std::time::Duration;

/// Every git that writes has a lock for a moment, and a merge with an editor open takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the owner counts as away, in words.
pub(super) fn reason(it: &Codifica) -> Option<String> {
    let accepted = it.index.memory.accepted.as_ref()?;
    it.index.checkout.as_ref()?.away_from(&accepted.branch, "the work")
}

/// One notice when it lasts, one resolution when it is over.
pub(super) fn look(it: &Codifica, now: Now) -> Option<Decision> {
    match (reason(it), &it.index.memory.away) {
        (Some(why), None) if patience(it, now).is_none() && has_work(it) => Some(leave(it, &why)),
        (None, Some(cause)) => {
            let mut decision = it.builder();
            let how = "nothing is in the way any more".to_owned();
            decision.effect(Effect::Resolve { cause: cause.clone(), how });
            decision.forget("away");
            Some(decision.finish())
        }
        (Some(_), _) | (None, None) => None,
    }
}

/// When the owner is to be told.
pub(super) fn deadline(it: &Codifica, now: Now) -> Option<Moment> {
    let left = patience(it, now).filter(|_| it.index.memory.away.is_none())?;
    Some(Moment::after(now, left))
}

fn patience(it: &Codifica, now: Now) -> Option<Duration> {
    it.index.checkout.as_ref()?.busy_left(PATIENCE, now)
}

fn has_work(it: &Codifica) -> bool {
    let waits = |board| dispatch::is_wanted(it, board);
    !it.index.memory.jobs.is_empty() || it.index.ruling_board().is_some_and(waits)
}

fn leave(it: &Codifica, why: &str) -> Decision {
    let mut decision = it.builder();
    let mut word = Word::new("CD-08", why, format!("away: {why}"));
    word.did = "No task is handed out meanwhile.".to_owned();
    let (severity, resolve) = if it.index.checkout.as_ref().is_some_and(Checkout::is_locked) {
        (Severity::Warning, "remove the lock, if no git of yours is at work here")
    } else {
        (Severity::Notice, "git status (work goes on by itself when nothing is in the way)")
    };
    word.resolve = resolve.to_owned();
    let cause = tell::tell(it, &mut decision, severity, word);
    decision.remember("away", cause);
    decision.finish()
}
