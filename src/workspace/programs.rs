//! SU-11: an agent's program that is not there is shown and told before the first start that would need it. It starts nothing.

use super::Workspace;
use crate::clock;
use crate::escalate::{Outbox, Record, State};
use crate::live::Happening;
use crate::model::{Cause, Condition, Digest, Escalation, Key, Now, RuleId, Severity, Ticks};
use std::collections::BTreeSet;
use std::time::Duration;

const RULE: &str = "SU-11";
const PROTOCOL: &str = "agency";

/// A board may have thousands of tasks, each with its builder, so not every change of the status looks anew.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What was found at the last look.
#[derive(Default)]
pub(super) struct Programs {
    /// One sentence for each agent whose program is not there.
    pub(super) missing: Vec<String>,
    looked: Option<Ticks>,
    /// The sentences that the owner was told. `None` until the outbox was asked.
    told: Option<BTreeSet<String>>,
}

impl Workspace {
    pub(super) fn look_for_programs(&mut self) {
        let now = clock::now();
        let is_fresh = self.programs.looked.is_some_and(|at| now.ticks.since(at) < LOOK_EVERY);
        if self.closed.is_some() || (is_fresh && self.programs.missing.is_empty()) {
            return;
        }
        let missing = self.missing_programs(now);
        self.tell_missing(&missing, now);
        (self.programs.missing, self.programs.looked) = (missing, Some(now.ticks));
    }

    /// Of the protocols that have work to do.
    fn missing_programs(&self, now: Now) -> Vec<String> {
        let rests = |condition: &Condition| {
            matches!(condition, Condition::Idle { .. } | Condition::Done { .. })
        };
        let at_work = self.slots.iter().filter(|slot| !rests(&slot.protocol.condition(now)));
        let seats = at_work.flat_map(|slot| slot.protocol.seats());
        let missing = seats.filter_map(|(seat, role)| self.runner.launcher.missing(&seat, role));
        missing.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Tells the owner of each once, and of its end.
    fn tell_missing(&mut self, missing: &[String], now: Now) {
        let mut told = match self.programs.told.take() {
            Some(told) => told,
            None => self.remembered_missing(),
        };
        for sentence in told.clone().iter().filter(|sentence| !missing.contains(sentence)) {
            let key = Key::new(format!("found-{}", now.ticks.0));
            match self.runner.outbox.resolve(&cause(sentence), &key, now.wall) {
                Ok(()) => told.retain(|one| one != sentence),
                Err(error) => tracing::warn!(%error, "a notice stays open"),
            }
            self.runner.notifier.nudge();
        }
        for sentence in missing {
            if !told.contains(sentence) && self.raise_missing(sentence, now) {
                told.insert(sentence.clone());
            }
        }
        self.programs.told = Some(told);
    }

    /// `false`: it cannot be told yet.
    fn raise_missing(&self, sentence: &str, now: Now) -> bool {
        let key = Key::new(format!(
            "missing-{}-{}",
            Digest::of(sentence.as_bytes()).short(),
            now.ticks.0
        ));
        let escalation = escalation(sentence);
        if let Err(error) = self.runner.outbox.raise(&escalation, &key, now.wall) {
            tracing::error!(%error, sentence, "the owner cannot be told yet");
            return false;
        }
        tracing::warn!("{sentence}");
        self.runner.notifier.nudge();
        let (live, root) = (&self.settings.notifier.live, &self.runner.places.root);
        live.send(root, || Happening::Told(Box::new(escalation)));
        true
    }

    /// What an earlier daemon told and did not resolve.
    fn remembered_missing(&self) -> BTreeSet<String> {
        let open = |record: &Record| {
            record.rule == RULE && record.protocol == PROTOCOL && record.state != State::Resolved
        };
        let records = Outbox::list(&self.runner.places.outbox()).into_iter().filter(open);
        records.map(|record| record.what).collect()
    }
}

fn cause(sentence: &str) -> Cause {
    let (protocol, rule) = (PROTOCOL.to_owned(), RuleId::new(RULE));
    Cause { protocol, rule, subject: sentence.to_owned(), epoch: 0 }
}

fn escalation(sentence: &str) -> Escalation {
    Escalation {
        cause: cause(sentence),
        severity: Severity::Warning,
        holds: false,
        summary: sentence.to_owned(),
        what: sentence.to_owned(),
        did: "No run of it was started yet; the other agents go on.".to_owned(),
        wont: "agency installs no agent and gives no seat to another one by itself.".to_owned(),
        resolve: "install it where the daemon's PATH leads, or give its seat to another agent in `roles`; \"agency doctor\" checks it"
            .to_owned(),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: false,
    }
}
