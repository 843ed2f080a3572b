//! *Away*: the owner is on another branch or in the middle of something. We neither judge nor write until they are back.

use super::{
    ReviewLoop,
    hold::{self, Reason},
    memory::WayOut,
};
use crate::model::{Busy, Checkout, Decision, Effect, Fact, Now, Query, Severity};
use std::time::Duration;

pub(super) fn is_away(review_loop: &ReviewLoop) -> bool {
    reason(review_loop).is_some()
}

/// A run is alive, or nobody has looked yet at what it left: what it did to the history is judged before anything counts as the
/// owner's (LP-20).
fn is_run_open(review_loop: &ReviewLoop) -> bool {
    let turn = review_loop.index.memory.turn.as_ref();
    turn.is_some_and(|turn| turn.run.is_some()) || is_unlooked(review_loop)
}

/// A run has ended, and what it left is still to be looked at.
pub(super) fn is_unlooked(review_loop: &ReviewLoop) -> bool {
    let ended = review_loop.index.memory.turn.as_ref().and_then(|turn| turn.ended.as_ref());
    review_loop.place.git && ended.is_some_and(|ended| !ended.looked)
}

/// The git command that brings the owner's checkout back to the loop's branch; `None`: it is there.
pub(super) fn way_back(review_loop: &ReviewLoop) -> Option<String> {
    let (anchor, checkout) =
        (review_loop.index.memory.anchor.as_ref()?, review_loop.index.checkout.as_ref()?);
    match checkout.busy {
        Some(Busy::Merge) => Some("git merge --abort".to_owned()),
        Some(Busy::Rebase) => Some("git rebase --abort".to_owned()),
        Some(Busy::CherryPick) => Some("git cherry-pick --abort".to_owned()),
        Some(Busy::Revert) => Some("git revert --abort".to_owned()),
        Some(Busy::Bisect) => Some("git bisect reset".to_owned()),
        Some(Busy::IndexLock | Busy::HeadLock | Busy::BranchLock) | None => {
            let elsewhere = checkout.branch.as_ref() != Some(&anchor.branch);
            elsewhere.then(|| format!("git switch {}", anchor.branch))
        }
    }
}

/// Why the owner counts as away, in words.
pub(super) fn reason(review_loop: &ReviewLoop) -> Option<String> {
    let anchor = review_loop.index.memory.anchor.as_ref()?;
    review_loop.index.checkout.as_ref()?.away_from(&anchor.branch, "the loop")
}

/// Every `git status` of an editor makes an `index.lock` for a moment, and every commit three locks; only one that stays is worth a
/// word.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

fn is_locked(review_loop: &ReviewLoop) -> bool {
    review_loop.index.checkout.as_ref().is_some_and(Checkout::is_locked)
}

/// The run's doing, or still to be judged as such: then there is no word of the owner being away.
fn is_the_runs(review_loop: &ReviewLoop) -> bool {
    is_run_open(review_loop) || review_loop.index.memory.is_history_held()
}

/// How long until the owner counts as away for long enough to be told.
pub(super) fn patience(review_loop: &ReviewLoop, now: Now) -> Option<Duration> {
    let checkout = review_loop.index.checkout.as_ref().filter(|checkout| checkout.is_locked())?;
    checkout.busy_left(LOCK_PATIENCE, now)
}

/// One notice when the owner leaves, one resolution when they are back, and a look at what the branch became.
pub(super) fn look(review_loop: &ReviewLoop, now: Now) -> Option<Decision> {
    match (reason(review_loop), &review_loop.index.memory.away) {
        (Some(_), None) if patience(review_loop, now).is_some() => None,
        // A lock that stays is told in any case: nothing else would end the wait for it.
        (Some(_), None) if !is_locked(review_loop) && is_the_runs(review_loop) => None,
        (Some(why), None) => Some(leave(review_loop, &why)),
        (None, Some(_)) => Some(come_back(review_loop)),
        (Some(_), Some(_)) => None,
        (None, None) => check_history(review_loop),
    }
}

fn leave(review_loop: &ReviewLoop, why: &str) -> Decision {
    let mut decision = review_loop.builder();
    let mut notice = Reason::new("LP-20", why, format!("away: {why}"));
    notice.did = "The loop waits; nothing is judged, written or started meanwhile.".to_owned();
    notice.wont = "We touch nothing while you work there.".to_owned();
    decision.remember("away", hold::cause(review_loop, notice.rule, &notice.subject));
    hold::tell(review_loop, &mut decision, Severity::Notice, notice);
    decision.finish()
}

fn come_back(review_loop: &ReviewLoop) -> Decision {
    let mut decision = review_loop.builder();
    decision.forget("away");
    decision.remember("epoch", review_loop.index.memory.epoch + 1);
    if let Some(cause) = review_loop.index.memory.away.clone() {
        decision.effect(Effect::Resolve { cause, how: "the branch is back".to_owned() });
    }
    decision.finish()
}

/// A branch that no longer contains our last commit was reset or rewritten: nobody but the owner knows what is right.
fn check_history(review_loop: &ReviewLoop) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    let anchor = memory.anchor.as_ref()?;
    let commit = anchor.commit.as_ref()?;
    let head = review_loop.index.head()?;
    if memory.is_held() || is_run_open(review_loop) || head == commit {
        return None;
    }
    if let Some((_, Query::Contains { .. }, fact)) = review_loop.index.answer.as_deref()
        && !matches!(fact, Fact::Yes | Fact::No)
    {
        let mut decision = review_loop.builder();
        hold::hold(
            review_loop,
            &mut decision,
            hold::unanswered(fact, "history", "look at the history"),
        );
        return Some(decision.finish());
    }
    match &review_loop.index.contained {
        Some((asked, true)) if asked == head => None,
        Some((asked, false)) if asked == head => {
            let mut decision = review_loop.builder();
            let summary = format!("branch `{}` no longer contains our last commit", anchor.branch);
            let mut reason = Reason::new("LP-20", head.as_str(), summary);
            reason.evidence = vec![format!("our last commit: {commit}"), format!("HEAD: {head}")];
            reason.way_out = WayOut::AdoptOrRestore;
            hold::hold(review_loop, &mut decision, reason);
            Some(decision.finish())
        }
        Some(_) | None => {
            let (branch, commit) = (anchor.branch.clone(), commit.clone());
            let mut decision = review_loop.builder();
            decision.effect(Effect::Ask { query: Query::Contains { branch, commit } });
            Some(decision.finish())
        }
    }
}
