//! Did a run keep its hands off the history (LP-20)? Judged when it has ended, before anything counts as the owner's doing.

use super::{
    ReviewLoop, away,
    hold::Reason,
    memory::{Ended, Start, WayOut},
};
use crate::model::{CommitId, Snapshot};

/// HEAD, the branch, a ref or the stash is not as it was when the run began.
pub(super) fn moved(
    review_loop: &ReviewLoop,
    start: &Start,
    ended: &Ended,
    snapshot: &Snapshot,
) -> Option<Reason> {
    let branch = review_loop.index.memory.anchor.as_ref().map(|anchor| anchor.branch.as_str());
    let checkout = &snapshot.checkout;
    let run = ended.run.as_str();
    let busy = checkout.busy.filter(|busy| !busy.is_lock());
    let did = if let Some(busy) = busy {
        format!("{} that was not when `{run}` began", busy.words())
    } else if let Some(branch) = branch.filter(|_| checkout.branch.as_deref() != branch) {
        match &checkout.branch {
            Some(here) => {
                format!("HEAD went from `{branch}` to `{here}` while `{run}` was running")
            }
            None => format!("HEAD was detached from `{branch}` while `{run}` was running"),
        }
    } else if start.head != checkout.head {
        format!("HEAD moved while `{run}` was running: a commit was made, amended or taken back")
    } else if start.refs != snapshot.refs {
        format!("a branch, a tag or the stash was made or changed while `{run}` was running")
    } else {
        return None;
    };
    let mut reason = Reason::new("LP-20", run, did);
    let show = |head: Option<&CommitId>| head.map_or("none".to_owned(), ToString::to_string);
    reason.evidence = vec![
        format!("HEAD before: {}", show(start.head.as_ref())),
        format!("HEAD after: {}", show(checkout.head.as_ref())),
    ];
    reason.did = "The loop is held; the history and the files stay as they are.".to_owned();
    reason.wont = match away::way_back(review_loop) {
        Some(git) => format!(
            "Agents must not run git. Nothing is judged or committed until you have run `{git}` and resumed; \
             resume accepts the history as it is then."
        ),
        None => "Agents must not run git. Nothing is judged or committed until you resume; resume accepts \
                 the history as it is then."
            .to_owned(),
    };
    reason.way_out = WayOut::AcceptHistory;
    Some(reason)
}
