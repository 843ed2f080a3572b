//! *Away*: the owner is on another branch or in the middle of something. We neither judge nor write until they are back.

use super::{
    ReviewLoop,
    hold::{self, Reason},
    memory::WayOut,
};
use crate::model::{Decision, Effect, Fact, Now, Query, Severity};
use std::time::Duration;

pub(super) fn is_away(it: &ReviewLoop) -> bool {
    reason(it).is_some()
}

/// Why the owner counts as away, in words.
pub(super) fn reason(it: &ReviewLoop) -> Option<String> {
    let anchor = it.index.memory.anchor.as_ref()?;
    it.index.checkout.as_ref()?.away_from(&anchor.branch, "the loop")
}

/// Every `git status` of an editor makes an `index.lock` for a moment, and every commit three locks; only one that stays is worth a
/// word.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);

/// How long until the owner counts as away for long enough to be told.
pub(super) fn patience(it: &ReviewLoop, now: Now) -> Option<Duration> {
    let checkout = it.index.checkout.as_ref().filter(|checkout| checkout.is_locked())?;
    checkout.busy_left(LOCK_PATIENCE, now)
}

/// One notice when the owner leaves, one resolution when they are back, and a look at what the branch became.
pub(super) fn look(it: &ReviewLoop, now: Now) -> Option<Decision> {
    match (reason(it), &it.index.memory.away) {
        (Some(_), None) if patience(it, now).is_some() => None,
        (Some(why), None) => Some(leave(it, &why)),
        (None, Some(_)) => Some(come_back(it)),
        (Some(_), Some(_)) => None,
        (None, None) => check_history(it),
    }
}

fn leave(it: &ReviewLoop, why: &str) -> Decision {
    let mut decision = it.builder();
    let mut notice = Reason::new("LP-20", why, format!("away: {why}"));
    notice.did = "The loop waits; nothing is judged, written or started meanwhile.".to_owned();
    notice.wont = "We touch nothing while you work there.".to_owned();
    decision.remember("away", hold::cause(it, notice.rule, &notice.subject));
    hold::tell(it, &mut decision, Severity::Notice, notice);
    decision.finish()
}

fn come_back(it: &ReviewLoop) -> Decision {
    let mut decision = it.builder();
    decision.forget("away");
    decision.remember("epoch", it.index.memory.epoch + 1);
    if let Some(cause) = it.index.memory.away.clone() {
        decision.effect(Effect::Resolve { cause, how: "the branch is back".to_owned() });
    }
    decision.finish()
}

/// A branch that no longer contains our last commit was reset or rewritten: nobody but the owner knows what is right.
fn check_history(it: &ReviewLoop) -> Option<Decision> {
    let memory = &it.index.memory;
    let anchor = memory.anchor.as_ref()?;
    let commit = anchor.commit.as_ref()?;
    let head = it.index.head()?;
    if memory.is_held()
        || memory.turn.as_ref().is_some_and(|turn| turn.run.is_some())
        || head == commit
    {
        return None;
    }
    if let Some((_, Query::Contains { .. }, fact)) = it.index.answer.as_deref()
        && !matches!(fact, Fact::Yes | Fact::No)
    {
        let mut decision = it.builder();
        hold::hold(it, &mut decision, hold::unanswered(fact, "history", "look at the history"));
        return Some(decision.finish());
    }
    match &it.index.contained {
        Some((asked, true)) if asked == head => None,
        Some((asked, false)) if asked == head => {
            let mut decision = it.builder();
            let summary = format!("branch `{}` no longer contains our last commit", anchor.branch);
            let mut reason = Reason::new("LP-20", head.as_str(), summary);
            reason.evidence = vec![format!("our last commit: {commit}"), format!("HEAD: {head}")];
            reason.way_out = WayOut::AdoptOrRestore;
            hold::hold(it, &mut decision, reason);
            Some(decision.finish())
        }
        Some(_) | None => {
            let (branch, commit) = (anchor.branch.clone(), commit.clone());
            let mut decision = it.builder();
            decision.effect(Effect::Ask { query: Query::Contains { branch, commit } });
            Some(decision.finish())
        }
    }
}
