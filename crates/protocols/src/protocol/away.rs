//! *Away* (DESIGN §3), for protocols that only wait: something of git's is in the way, and the owner hears of it once while work
//! waits. Why it is in the way, and what waits, each protocol knows itself.

use crate::model::{Builder, Cause, Checkout, Decision, Effect, Now, Severity};
use std::time::Duration;

/// Every git that writes has a lock for a moment, and a merge with an editor open takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// How it stands now.
pub(super) struct Away<'a> {
    /// In words; `None`: nothing is in the way.
    pub(super) why: Option<String>,
    pub(super) checkout: Option<&'a Checkout>,
    /// What the owner was told of it.
    pub(super) told: Option<&'a Cause>,
}

/// What there is to say.
pub(super) enum Say<'a> {
    Tell { why: String, severity: Severity, resolve: &'static str },
    Over(&'a Cause),
}

impl<'a> Away<'a> {
    pub(super) fn next(self, now: Now, has_work: impl FnOnce() -> bool) -> Option<Say<'a>> {
        let waits = self.left(now).is_some();
        match (self.why, self.told) {
            (Some(why), None) if !waits && has_work() => {
                let (severity, resolve) = tone(self.checkout);
                Some(Say::Tell { why, severity, resolve })
            }
            (None, Some(cause)) => Some(Say::Over(cause)),
            (Some(_), _) | (None, None) => None,
        }
    }

    /// How long until the owner is to be told. Another branch is told at once: nobody checks it out for a moment.
    pub(super) fn left(&self, now: Now) -> Option<Duration> {
        self.checkout.filter(|_| self.told.is_none())?.busy_left(PATIENCE, now)
    }
}

/// A lock that stays is in the way until somebody removes it; the rest is the owner's own work.
fn tone(checkout: Option<&Checkout>) -> (Severity, &'static str) {
    if checkout.is_some_and(Checkout::is_locked) {
        (Severity::Warning, "remove the lock, if no git of yours is at work here")
    } else {
        (Severity::Notice, "git status (it goes on by itself when nothing is in the way)")
    }
}

/// Nothing is in the way any more.
pub(super) fn over(mut decision: Builder, cause: &Cause) -> Decision {
    let how = "nothing is in the way any more".to_owned();
    decision.effect(Effect::Resolve { cause: cause.clone(), how });
    decision.forget("away");
    decision.finish()
}
