//! An operation of git's is under way in the tree, or a killed git left its lock there: nobody is started, and the owner hears of it
//! when it lasts. What is in the way is theirs, so it is not removed.

use super::Handoff;
use super::hold::{self, Reason};
use super::memory::Memo;
use crate::model::{Busy, Decision, Effect, Now, Severity};
use std::time::Duration;

/// A commit with an editor open takes its time; a lock that nobody holds stays for good.
const PATIENCE: Duration = Duration::from_secs(60);

const KILLED: &str =
    "A git that was killed leaves its lock, and every later git that writes here fails over it.";

/// What keeps the next agent from starting.
pub(super) fn in_the_way(handoff: &Handoff) -> Option<Busy> {
    handoff.index.checkout.as_ref().and_then(|checkout| checkout.busy)
}

/// How long until the owner is told.
pub(super) fn patience(handoff: &Handoff, now: Now) -> Option<Duration> {
    handoff.index.checkout.as_ref()?.busy_left(PATIENCE, now)
}

/// One message when it lasts, one resolution when it is over.
pub(super) fn look(handoff: &Handoff, now: Now) -> Option<Decision> {
    let memory = &handoff.index.memory;
    let waits = memory.turn.as_ref().is_some_and(|turn| turn.run.is_none());
    match (in_the_way(handoff).filter(|_| waits), &memory.away) {
        (Some(busy), None) if patience(handoff, now).is_none() => Some(tell(handoff, busy)),
        (None, Some(cause)) => {
            let mut decision = handoff.builder();
            decision.remember(Memo::Away(None));
            decision.remember(Memo::Epoch(Some(memory.epoch + 1)));
            let how = "nothing is in the way any more".to_owned();
            decision.effect(Effect::Resolve { cause: cause.clone(), how });
            Some(decision.finish())
        }
        (Some(_), _) | (None, None) => None,
    }
}

fn tell(handoff: &Handoff, busy: Busy) -> Decision {
    let why = busy.words();
    let mut reason = Reason::new("HO-11", why, format!("no agent can start: {why}"));
    let (what, resolve) = match busy {
        Busy::IndexLock => (KILLED, "rm .git/index.lock (if no git of yours is at work here)"),
        Busy::HeadLock => (KILLED, "rm .git/HEAD.lock (if no git of yours is at work here)"),
        Busy::BranchLock => (
            KILLED,
            "rm .git/refs/heads/BRANCH.lock, of the branch that is checked out (if no git of yours is at work here)",
        ),
        Busy::Merge | Busy::Rebase | Busy::CherryPick | Busy::Revert | Busy::Bisect => (
            "Somebody began this in the tree that the agents work in.",
            "git status (it says how to finish it or break it off)",
        ),
    };
    (reason.what, reason.resolve) = (what.to_owned(), resolve.to_owned());
    reason.did = "The workflow waits, and goes on by itself when nothing is in the way.".to_owned();
    reason.wont = "We remove nothing of git's that may be yours.".to_owned();
    let mut decision = handoff.builder();
    decision.remember(Memo::Away(Some(hold::cause(handoff, reason.rule, &reason.subject))));
    hold::tell(handoff, &mut decision, Severity::Warning, reason);
    decision.finish()
}
