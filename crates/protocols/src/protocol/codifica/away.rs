//! *Away*: another branch than the state files' is checked out, an operation of git's is under way there, or a killed git left its
//! lock. No task is handed out. What is in the way is the owner's.

use super::dispatch;
use super::keeper::Codifica;
use super::tell::{self, Notice};
use crate::model::{Decision, Moment, Now, Severity};
use crate::protocol::away::{Away, Say, over};

/// Why the owner counts as away, in words.
pub(super) fn reason(codifica: &Codifica) -> Option<String> {
    let accepted = codifica.index.memory.accepted.as_ref()?;
    codifica.index.checkout.as_ref()?.away_from(&accepted.branch, "the work")
}

fn away(codifica: &Codifica) -> Away<'_> {
    let (checkout, told) = (codifica.index.checkout.as_ref(), codifica.index.memory.away.as_ref());
    Away { why: reason(codifica), checkout, told }
}

/// One notice when it lasts, one resolution when it is over.
pub(super) fn look(codifica: &Codifica, now: Now) -> Option<Decision> {
    Some(match away(codifica).next(now, || has_work(codifica))? {
        Say::Tell { why, severity, resolve } => leave(codifica, &why, severity, resolve),
        Say::Over(cause) => over(codifica.builder(), cause),
    })
}

/// When the owner is to be told.
pub(super) fn deadline(codifica: &Codifica, now: Now) -> Option<Moment> {
    let left = away(codifica).left(now).filter(|_| has_work(codifica))?;
    Some(Moment::after(now, left))
}

pub(super) fn has_work(codifica: &Codifica) -> bool {
    let waits = |board| dispatch::is_wanted(codifica, board);
    !codifica.index.memory.jobs.is_empty() || codifica.index.ruling_board().is_some_and(waits)
}

fn leave(codifica: &Codifica, why: &str, severity: Severity, resolve: &str) -> Decision {
    let mut decision = codifica.builder();
    let mut word = Notice::new("CD-08", why, format!("away: {why}"));
    word.did = "No task is handed out meanwhile.".to_owned();
    word.resolve = resolve.to_owned();
    let cause = tell::tell(codifica, &mut decision, severity, word);
    decision.remember("away", cause);
    decision.finish()
}
