//! What each protocol does right now, completed by what only the shell knows (DM-16). Files that a protocol cannot read are told to
//! the owner from here (DM-18), because such a protocol decides nothing.

use super::slot::Slot;
use super::{ConditionStatus, Kind, ProtocolStatus, Workspace};
use crate::capacity::Obstacle;
use crate::clock;
use crate::escalate::{DeliveryState, Outbox, Record, State};
use crate::live::Happening;
use crate::model::{
    Cause, Condition, Effect, Escalation, Key, Now, RuleId, Severity, Timestamp, Wait, clip,
};
use std::collections::BTreeMap;

const RULE: &str = "DM-18";

/// Which frozen protocols the owner was told of, by name; the cause. `None` until the outbox was asked.
#[derive(Default)]
pub(super) struct Told(Option<BTreeMap<String, String>>);

impl Workspace {
    pub(super) fn conditions(&self, now: Now) -> Vec<(&'static str, Condition)> {
        let of = |slot: &Slot| {
            let condition = match &self.closed {
                Some(why) => Condition::held(why, "agency adopt"),
                None => {
                    let stuck = self.stuck.condition(slot.name());
                    stuck.unwrap_or_else(|| slot.protocol.condition(now))
                }
            };
            (slot.name(), self.complete(slot, condition, now))
        };
        self.slots.iter().map(of).collect()
    }

    /// A protocol that waits for its start does not know what is in the way.
    fn complete(&self, slot: &Slot, condition: Condition, now: Now) -> Condition {
        let Condition::Waiting(Wait::Start { agent, task }) = &condition else { return condition };
        let wanted = slot.open().find_map(|keyed| match &keyed.effect {
            Effect::Lease { tree, seat, role } => Some((tree, self.agent_of(seat, role))),
            _ => None,
        });
        let Some((tree, name)) = wanted else { return condition };
        let waits = |why: String| format!("{agent} is to start on {task}: {why}");
        if self.draining {
            return Condition::waits_for(waits("the daemon stops and starts no run".to_owned()));
        }
        if let Some(holder) = self.leases.holder(tree).filter(|holder| *holder != slot.name()) {
            let why = format!("{holder} works in the same tree");
            return Condition::waits_for(waits(why));
        }
        match self.settings.capacity.obstacle(&self.asker(&name), now.ticks) {
            Some(obstacle) => {
                let reason = waits(obstacle.words(&name));
                match ends(obstacle, now) {
                    Some(until) => Condition::Waiting(Wait::Until { reason, until }),
                    None => Condition::waits_for(reason),
                }
            }
            None => condition,
        }
    }

    /// Tells the owner of each protocol that cannot work, once, and of its end.
    pub(super) fn tell_frozen(&mut self, protocols: &[ProtocolStatus]) {
        if self.closed.is_some() {
            return;
        }
        let mut told = match self.told_frozen.0.take() {
            Some(told) => told,
            None => self.remembered_notices(),
        };
        let now = clock::now();
        for ProtocolStatus { name, condition, .. } in protocols {
            self.tell_condition(name, condition, &mut told, now);
        }
        // One that is no longer at work cannot be frozen.
        let at_work = |name: &String| protocols.iter().any(|one| one.name == *name);
        let gone: Vec<String> = told.keys().filter(|name| !at_work(name)).cloned().collect();
        for name in gone {
            self.tell_condition(&name, &ConditionStatus::default(), &mut told, now);
        }
        self.told_frozen.0 = Some(told);
    }

    fn tell_condition(
        &self,
        name: &str,
        condition: &ConditionStatus,
        told: &mut BTreeMap<String, String>,
        now: Now,
    ) {
        let frozen = (condition.kind == Kind::Frozen).then_some(&condition.reason);
        if told.get(name) == frozen {
            return;
        }
        if let Some(before) = told.remove(name) {
            let key = Key::new(format!("thawed-{name}-{}", now.ticks.0));
            if let Err(error) = self.runner.outbox.resolve(&cause_of(name, &before), &key, now.wall)
            {
                tracing::warn!(%error, "a notice stays open");
            }
            self.runner.notifier.nudge();
        }
        let Some(cause) = frozen else { return };
        let resolve = condition.resolve.as_deref().unwrap_or_default();
        if !self.is_told_by_itself(name, cause) {
            let key = Key::new(format!("frozen-{name}-{}", now.ticks.0));
            let escalation = escalation(name, cause, resolve);
            if let Err(error) = self.runner.outbox.raise(&escalation, &key, now.wall) {
                tracing::error!(%error, protocol = name, "the owner cannot be told yet that it is frozen");
                return;
            }
            self.runner.notifier.nudge();
            let (live, root) = (&self.settings.notifier.live, &self.runner.places.root);
            live.send(root, || Happening::Told(Box::new(escalation)));
        }
        told.insert(name.to_owned(), cause.clone());
    }

    /// Some protocols tell it in words of their own.
    fn is_told_by_itself(&self, name: &str, cause: &str) -> bool {
        let start = clip(cause, 120);
        let start = start.trim_end_matches('…');
        let same = |record: &Record| {
            record.protocol == name
                && record.state != State::Resolved
                && record.rule != RULE
                && record.summary.contains(start)
        };
        Outbox::list(&self.runner.places.outbox()).iter().any(same)
    }

    /// What an earlier daemon told and did not resolve.
    fn remembered_notices(&self) -> BTreeMap<String, String> {
        let open = |record: &Record| record.rule == RULE && record.state != State::Resolved;
        let records = Outbox::list(&self.runner.places.outbox()).into_iter().filter(open);
        records.map(|record| (record.protocol, record.what)).collect()
    }

    /// DM-18: while the owner has not heard that a protocol cannot work, the heartbeat is silent.
    pub(super) fn may_beat(&self) -> bool {
        let told = self.told_frozen.0.as_ref().filter(|told| !told.is_empty());
        let Some(told) = told else { return true };
        let records = Outbox::list(&self.runner.places.outbox());
        told.iter().all(|(name, cause)| {
            let about = |record: &&Record| {
                record.protocol == *name
                    && record.state != State::Resolved
                    && (record.what == *cause || record.rule != RULE)
            };
            let delivered = |record: &Record| {
                record.deliveries.iter().any(|one| one.state == DeliveryState::Delivered)
            };
            records.iter().filter(about).any(delivered)
        })
    }
}

/// When time alone removes an obstacle.
fn ends(obstacle: Obstacle, now: Now) -> Option<Timestamp> {
    match obstacle {
        Obstacle::Cost { .. } | Obstacle::Tokens { .. } => {
            let midnight = now.wall.date_naive().succ_opt()?.and_hms_opt(0, 0, 0)?;
            Some(midnight.and_utc())
        }
        Obstacle::Failing { left } => Some(now.wall + left),
        Obstacle::All { .. } | Obstacle::Repo { .. } | Obstacle::Agent { .. } => None,
    }
}

fn cause_of(protocol: &str, cause: &str) -> Cause {
    let (protocol, rule) = (protocol.to_owned(), RuleId::new(RULE));
    Cause { protocol, rule, subject: cause.to_owned(), epoch: 0 }
}

fn escalation(protocol: &str, cause: &str, resolve: &str) -> Escalation {
    Escalation {
        cause: cause_of(protocol, cause),
        severity: Severity::Critical,
        holds: true,
        summary: format!("{protocol} cannot work here: {cause}"),
        what: cause.to_owned(),
        did: format!("{protocol} starts and judges nothing here. The file is left as it is."),
        wont: "agency overwrites no file that it cannot read.".to_owned(),
        resolve: resolve.to_owned(),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: false,
    }
}
