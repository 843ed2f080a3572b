//! Watches that no protocol stands still in silence (DM-17). One that does for 60 s is told, and its repository is opened again
//! from files and journal.

use super::{Workspace, stuck};
use crate::escalate::{Record, State};
use crate::model::{
    Activity, Cause, Deadline, Escalation, Now, RuleId, Severity, Stall, Ticks, stalled,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) const RULE: &str = "DM-17";
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Watchdog {
    /// Since when each protocol that stands still does so.
    since: BTreeMap<String, Ticks>,
    /// What an earlier opening told under our own rules and what is not over yet: rule and protocol.
    told: BTreeSet<(String, String)>,
}

impl Watchdog {
    /// Takes note of one look. True when the protocol has stood still for too long.
    fn look(&mut self, protocol: &str, stall: Option<&Stall>, now: Ticks) -> bool {
        if stall.is_none() {
            self.since.remove(protocol);
            return false;
        }
        let since = *self.since.entry(protocol.to_owned()).or_insert(now);
        now.since(since) >= PATIENCE
    }

    /// Remembers that this is told. False when it was told before.
    pub(super) fn is_news(&mut self, rule: &str, protocol: &str) -> bool {
        self.told.insert((rule.to_owned(), protocol.to_owned()))
    }

    /// When the first of those that stand still has done so for too long.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let since = self.since.values().min()?;
        Some(Deadline { at: since.after(PATIENCE), why: "stalled" })
    }
}

impl Workspace {
    /// What an earlier opening told is resolved once it is over.
    pub(super) fn recall_told(&mut self) {
        let ours = |record: &Record| {
            [RULE, stuck::RULE, "SE-08", "LP-34"].contains(&record.rule.as_str())
                && record.state != State::Resolved
        };
        let open = self.runner.outbox.all().into_iter().filter(ours);
        self.watchdog.told = open.map(|record| (record.rule, record.protocol)).collect();
    }

    /// After each round of work. True when something has stood still for too long: the repository must be opened again.
    pub(super) fn has_stalled(&mut self, now: Now) -> bool {
        if self.closed.is_some() || self.draining {
            return false;
        }
        let mut too_long = false;
        for (protocol, stall) in self.stalls(now) {
            let is_over = stall.is_none() && self.stuck.condition(&protocol).is_none();
            if is_over {
                self.forget_told(&protocol);
            }
            if self.watchdog.look(&protocol, stall.as_ref(), now.ticks)
                && let Some(stall) = &stall
            {
                self.tell_stalled(&protocol, stall, "For 60 s");
                too_long = true;
            }
        }
        too_long
    }

    /// Before a daemon leaves because nothing moves any more: that may be the stall itself, and nobody would wait 60 s for it.
    pub(super) fn tell_stalls_at_the_end(&self, now: Now) {
        if self.closed.is_some() {
            return;
        }
        for (protocol, stall) in self.stalls(now) {
            if let Some(stall) = stall {
                self.tell_stalled(&protocol, &stall, "When everything else was done,");
            }
        }
    }

    fn stalls(&self, now: Now) -> Vec<(String, Option<Stall>)> {
        let stall = |slot: &super::Slot| (slot.name().to_owned(), self.stall_of(slot, now));
        self.slots.iter().map(stall).collect()
    }

    fn tell_stalled(&self, protocol: &str, stall: &Stall, when: &str) {
        tracing::error!(%protocol, claims = stall.claims, "stalled");
        self.tell(told(protocol, stall, when));
    }

    fn stall_of(&self, slot: &super::Slot, now: Now) -> Option<Stall> {
        let condition = slot.protocol.condition(now);
        let activity = Activity {
            has_live_run: match condition.run() {
                Some(live) => self.running.contains_key(&live.run),
                None => !self.running.is_empty(),
            },
            has_deadline: slot.deadline.is_some(),
            effects_in_flight: slot.open().count(),
        };
        stalled(&condition, activity)
    }

    pub(super) fn forget_told(&mut self, protocol: &str) {
        let over: Vec<_> =
            self.watchdog.told.iter().filter(|(_, name)| name == protocol).cloned().collect();
        for told in over {
            self.resolve_own(&told.0, protocol);
            self.watchdog.told.remove(&told);
        }
    }
}

/// `when` begins a sentence.
fn told(protocol: &str, stall: &Stall, when: &str) -> Escalation {
    Escalation {
        cause: Cause {
            protocol: protocol.to_owned(),
            rule: RuleId::new(RULE),
            subject: "stalled".to_owned(),
            epoch: 0,
        },
        severity: Severity::Critical,
        holds: false,
        summary: format!("stalled: `{protocol}` claims to be {}", stall.claims),
        what: format!(
            "`{protocol}` claims to be {}. {when} it had no live run, no deadline and no step in flight, so nothing would have moved it. This is a defect of agency.",
            stall.claims
        ),
        did: "The daemon decides again from the files and the journal when it opens the repository the next time, which it does at once unless it ends now.".to_owned(),
        wont: "The daemon changes no protocol file to get out of it.".to_owned(),
        resolve: "agency status (if it stays stalled: agency journal shows the last decisions)"
            .to_owned(),
        options: Vec::new(),
        evidence: vec![stall.claims.clone()],
        everywhere: false,
    }
}

#[cfg(test)]
mod tests;
