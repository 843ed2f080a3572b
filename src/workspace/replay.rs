//! After a start: the journal is read once, the protocols remember, unfinished effects are found. Nothing is done yet.

use super::Workspace;
use super::asked_once::AskedOnce;
use super::record::{Entry, Snapshot};
use super::settle::Unsettled;
use crate::model::{Decision, Effect, RunId, Wake};
use crate::store::Record;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
#[error("line {n} of the journal is of a kind that this version cannot read")]
pub struct ReplayError {
    n: u64,
    source: serde_json::Error,
}

impl Workspace {
    /// What is returned was done, but may not have survived.
    pub(super) fn replay(&mut self, records: Vec<Record>) -> Result<Unsettled, ReplayError> {
        let mut unsettled = Unsettled::default();
        for record in records {
            let entry = Entry::join(&record.kind, &record.body)
                .map_err(|source| ReplayError { n: record.n, source })?;
            unsettled.note(&entry);
            if let Entry::Done { key } = &entry
                && let Some((protocol, effect)) = self.find_open(key)
            {
                unsettled.note_done(record.n, &protocol, key, &effect);
            }
            self.replay_one(entry);
        }
        let open = |slot: &super::Slot| {
            slot.open().map(|keyed| (slot.name().to_owned(), keyed.clone())).collect::<Vec<_>>()
        };
        let mut pending: Vec<_> = self.slots.iter().flat_map(open).collect();
        pending.sort_by_key(|(_, keyed)| order(keyed.key.as_str()));
        self.pending = pending.into();
        Ok(unsettled)
    }

    fn replay_one(&mut self, entry: Entry) {
        match entry {
            Entry::Decided { protocol, decision } => {
                self.activate(&protocol);
                self.unaccounted.extend(spawned(&decision));
                self.absorb_in(&protocol, &Wake::Decided(decision));
            }
            Entry::Done { key } => {
                if let Some((protocol, effect)) = self.find_open(&key) {
                    if let Effect::Release { tree } = &effect {
                        self.leases.release(tree, &protocol);
                    }
                    self.absorb_in(&protocol, &Wake::Done { key });
                }
            }
            Entry::Failed { key, failure } => {
                if let Some((protocol, effect)) = self.find_open(&key) {
                    self.absorb_in(&protocol, &Wake::Failed { key, effect, failure });
                }
            }
            Entry::Leased { protocol, tree, key } => {
                self.leases.restore(tree, protocol.clone());
                self.absorb_in(&protocol, &Wake::Done { key });
            }
            Entry::Snapshot(Snapshot { protocols, leases, running, pin, pause, requests }) => {
                self.asked = AskedOnce::of(requests);
                self.pin = pin.map(Arc::new);
                self.pause = pause;
                self.unaccounted.extend(running);
                for (protocol, remembered) in protocols {
                    self.activate(&protocol);
                    if let Some(slot) = self.slots.iter_mut().find(|slot| slot.name() == protocol) {
                        slot.restore(remembered);
                    }
                }
                leases.into_iter().for_each(|(tree, protocol)| self.leases.restore(tree, protocol));
            }
            Entry::Ran { run, .. } => {
                self.unaccounted.remove(&run);
            }
            Entry::Pinned { pin, .. } => self.pin = Some(Arc::new(pin)),
            Entry::Paused(pause) => self.pause = Some(pause),
            Entry::Unpaused { .. } => self.pause = None,
            Entry::Asked { command } => self.asked.note(&command.id),
            Entry::Opened { .. }
            | Entry::Proved {}
            | Entry::Settled { .. }
            | Entry::Trusted { .. } => {}
        }
    }

    fn find_open(&self, key: &crate::model::Key) -> Option<(String, Effect)> {
        self.slots.iter().find_map(|slot| {
            slot.is_open(key).map(|keyed| (slot.name().to_owned(), keyed.effect.clone()))
        })
    }
}

fn spawned(decision: &Decision) -> impl Iterator<Item = RunId> {
    decision.effects.iter().filter_map(|keyed| match &keyed.effect {
        Effect::Spawn(spawn) => Some(spawn.run.clone()),
        _ => None,
    })
}

/// `loop-12.3` sorts by its numbers, not by its letters.
fn order(key: &str) -> (u64, u64) {
    let numbers = key.rsplit('-').next().unwrap_or_default();
    let (decision, effect) = numbers.split_once('.').unwrap_or((numbers, ""));
    (decision.parse().unwrap_or(u64::MAX), effect.parse().unwrap_or(u64::MAX))
}
