//! *Away*: another branch than the state files' is checked out, an operation of git's is under way there, or a killed git left its
//! lock. No task is handed out. What is in the way is the owner's.

use super::dispatch;
use super::keeper::Codifica;
use super::tell::{self, Word};
use crate::model::{Decision, Moment, Now, Severity};
use crate::protocol::away::{Away, Say, over};

/// Why the owner counts as away, in words.
pub(super) fn reason(it: &Codifica) -> Option<String> {
    let accepted = it.index.memory.accepted.as_ref()?;
    it.index.checkout.as_ref()?.away_from(&accepted.branch, "the work")
}

fn away(it: &Codifica) -> Away<'_> {
    let (checkout, told) = (it.index.checkout.as_ref(), it.index.memory.away.as_ref());
    Away { why: reason(it), checkout, told }
}

/// One notice when it lasts, one resolution when it is over.
pub(super) fn look(it: &Codifica, now: Now) -> Option<Decision> {
    Some(match away(it).next(now, || has_work(it))? {
        Say::Tell { why, severity, resolve } => leave(it, &why, severity, resolve),
        Say::Over(cause) => over(it.builder(), cause),
    })
}

/// When the owner is to be told.
pub(super) fn deadline(it: &Codifica, now: Now) -> Option<Moment> {
    let left = away(it).left(now).filter(|_| has_work(it))?;
    Some(Moment::after(now, left))
}

pub(super) fn has_work(it: &Codifica) -> bool {
    let waits = |board| dispatch::is_wanted(it, board);
    !it.index.memory.jobs.is_empty() || it.index.ruling_board().is_some_and(waits)
}

fn leave(it: &Codifica, why: &str, severity: Severity, resolve: &str) -> Decision {
    let mut decision = it.builder();
    let mut word = Word::new("CD-08", why, format!("away: {why}"));
    word.did = "No task is handed out meanwhile.".to_owned();
    word.resolve = resolve.to_owned();
    let cause = tell::tell(it, &mut decision, severity, word);
    decision.remember("away", cause);
    decision.finish()
}
