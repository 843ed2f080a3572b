//! Pushing what was committed, when the owner wants it: later than everything else, tried again, never forced (LP-19).

use super::{
    ReviewLoop,
    hold::{self, Reason},
    memory::PushDue,
};
use crate::model::{Decision, Effect, Failure, FailureKind, Moment, Now};
use std::time::Duration;

const TRIES: u32 = 5;
const WAIT: Duration = Duration::from_secs(60);

/// A push is due, or has arrived.
pub(super) fn due(review_loop: &ReviewLoop, now: Now) -> Option<Decision> {
    let due = review_loop.index.memory.push.as_ref()?;
    let mut decision = review_loop.builder();
    if review_loop.index.pushed.as_ref() == Some(&due.commit) {
        decision.forget("push");
        return Some(decision.finish());
    }
    if review_loop.index.memory.is_git_held() {
        return None;
    }
    if review_loop.index.is_pushing() || due.not_before.is_some_and(|at| at.left(now).is_some()) {
        return None;
    }
    let (branch, commit) = (due.branch.clone(), due.commit.clone());
    decision.effect(Effect::Push { branch, commit });
    Some(decision.finish())
}

/// LP-19: a failed push never loses the transition; it is tried again, then told. Never forced.
pub(super) fn failed(review_loop: &ReviewLoop, failure: &Failure, now: Now) -> Option<Decision> {
    let due = review_loop.index.memory.push.clone()?;
    if failure.kind == FailureKind::GitHeld {
        let mut decision = review_loop.builder();
        hold::hold(review_loop, &mut decision, hold::git_held(&failure.said));
        return Some(decision.finish());
    }
    let failures = due.failures + 1;
    let mut decision = review_loop.builder();
    let summary = format!("pushing `{}` failed: {}", due.branch, failure.said);
    let mut reason = Reason::new("LP-19", due.commit.as_str(), summary);
    reason.wont = "We never force a push.".to_owned();
    if failure.kind == FailureKind::NotFastForward || failures >= TRIES {
        decision.forget("push");
        hold::hold(review_loop, &mut decision, reason);
    } else {
        let wait = WAIT * 2_u32.pow(failures - 1);
        decision.remember(
            "push",
            PushDue { failures, not_before: Some(Moment::after(now, wait)), ..due },
        );
    }
    Some(decision.finish())
}
