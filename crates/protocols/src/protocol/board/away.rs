//! *Away*: another branch than the board's is checked out, an operation of git's is under way there, or a killed git left its lock.
//! Nothing is judged and nothing begins. What is in the way is the owner's.

use super::Board;
use super::table::Status;
use super::tell::{self, Reason};
use crate::model::{Deadline, Decision, Now, Severity};
use crate::protocol::away::{Away, Say, over};

/// Why the owner counts as away, in words.
pub(super) fn reason(board: &Board) -> Option<String> {
    let ours = board.index.memory.ours.as_ref()?;
    let checkout = board.index.checkout.as_ref()?;
    match &ours.branch {
        Some(branch) => checkout.away_from(branch, "the board"),
        None => checkout.busy.map(|busy| busy.words().to_owned()),
    }
}

fn away(board: &Board) -> Away<'_> {
    let (checkout, told) = (board.index.checkout.as_ref(), board.index.memory.away.as_ref());
    Away { why: reason(board), checkout, told }
}

/// One notice when it lasts, one resolution when it is over.
pub(super) fn look(board: &Board, now: Now) -> Option<Decision> {
    Some(match away(board).next(now, || has_work(board))? {
        Say::Tell { why, severity, resolve } => leave(board, &why, severity, resolve),
        Say::Over(cause) => over(board.builder(), cause),
    })
}

pub(super) fn deadline(board: &Board, now: Now) -> Option<Deadline> {
    let left = away(board).left(now).filter(|_| has_work(board))?;
    Some(Deadline { at: now.ticks.after(left), why: "away" })
}

/// Somebody waits for the board.
pub(super) fn has_work(board: &Board) -> bool {
    let index = &board.index;
    let open = [Status::New, Status::Assigned].iter().any(|status| index.count(*status) > 0);
    open || !index.memory.working.is_empty()
        || !index.due.is_empty()
        || !index.due_reports.is_empty()
}

fn leave(board: &Board, why: &str, severity: Severity, resolve: &str) -> Decision {
    let mut decision = board.builder();
    let mut notice = Reason::new("AG-14", why, format!("away: {why}"));
    notice.did = "The board waits; nothing is judged, merged or started meanwhile.".to_owned();
    notice.wont = "We touch nothing while you work there, and remove nothing of git's.".to_owned();
    notice.resolve = resolve.to_owned();
    let cause = tell::tell(board, &mut decision, severity, notice);
    decision.remember("away", cause);
    decision.finish()
}
