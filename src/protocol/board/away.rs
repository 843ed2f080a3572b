//! *Away*: another branch than the board's is checked out, an operation of git's is under way there, or a killed git left its lock.
//! Nothing is judged and nothing begins; the owner hears of it once while work waits (DESIGN §3). What is in the way is theirs.

use super::Board;
use super::table::Status;
use super::tell::{self, Reason};
use crate::model::{Checkout, Deadline, Decision, Effect, Now, Severity};
use std::time::Duration;

/// Every git that writes has a lock for a moment, and a merge with an editor open takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why the owner counts as away, in words.
pub(super) fn reason(it: &Board) -> Option<String> {
    let ours = it.index.memory.ours.as_ref()?;
    let checkout = it.index.checkout.as_ref()?;
    match &ours.branch {
        Some(branch) => checkout.away_from(branch, "the board"),
        None => checkout.busy.map(|busy| busy.words().to_owned()),
    }
}

/// One notice when it lasts, one resolution when it is over.
pub(super) fn look(it: &Board, now: Now) -> Option<Decision> {
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

pub(super) fn deadline(it: &Board, now: Now) -> Option<Deadline> {
    let left = patience(it, now).filter(|_| it.index.memory.away.is_none() && has_work(it))?;
    Some(Deadline { at: now.ticks.after(left), why: "away" })
}

/// How long until the owner is told. Another branch is told at once: nobody checks it out for a moment.
fn patience(it: &Board, now: Now) -> Option<Duration> {
    it.index.checkout.as_ref()?.busy_left(PATIENCE, now)
}

/// Somebody waits for the board.
fn has_work(it: &Board) -> bool {
    let index = &it.index;
    let open = [Status::New, Status::Assigned].iter().any(|status| index.count(*status) > 0);
    open || !index.memory.working.is_empty()
        || !index.due.is_empty()
        || !index.due_reports.is_empty()
}

fn leave(it: &Board, why: &str) -> Decision {
    let mut decision = it.builder();
    let mut notice = Reason::new("AG-14", why, format!("away: {why}"));
    notice.did = "The board waits; nothing is judged, merged or started meanwhile.".to_owned();
    notice.wont = "We touch nothing while you work there, and remove nothing of git's.".to_owned();
    let (severity, resolve) = if it.index.checkout.as_ref().is_some_and(Checkout::is_locked) {
        (Severity::Warning, "remove the lock, if no git of yours is at work here")
    } else {
        (Severity::Notice, "git status (the board goes on by itself when nothing is in the way)")
    };
    notice.resolve = resolve.to_owned();
    let cause = tell::tell(it, &mut decision, severity, notice);
    decision.remember("away", cause);
    decision.finish()
}
