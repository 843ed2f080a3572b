//! One protocol of a repository with what the shell keeps for it: its durable memory, its unfinished effects, its deadline.

use super::record::Remembered;
use crate::model::{Deadline, Decision, Key, Keyed, Memo, Now, RelPath, Wake};
use crate::protocol::Protocol;
use serde_json::Value;
use std::collections::BTreeMap;

pub(super) struct Slot {
    pub(super) protocol: Box<dyn Protocol>,
    pub(super) deadline: Option<Deadline>,
    /// As JSON text: it is only kept for the journal's next beginning, and a tree of values takes many times the room.
    memory: BTreeMap<String, Box<str>>,
    /// Boxed: a tree has room for eleven in each node, and mostly one is open.
    open: BTreeMap<Key, Box<Keyed>>,
    decisions: u64,
}

impl Slot {
    pub(super) fn new(protocol: Box<dyn Protocol>) -> Self {
        let (memory, open) = (BTreeMap::new(), BTreeMap::new());
        Self { protocol, deadline: None, memory, open, decisions: 0 }
    }

    pub(super) fn name(&self) -> &'static str {
        self.protocol.name()
    }

    pub(super) fn hears_worktrees(&self) -> bool {
        self.protocol.hears_worktrees()
    }

    pub(super) fn assumed(&self) -> Vec<RelPath> {
        self.protocol.assumed()
    }

    pub(super) fn absorb(&mut self, wake: &Wake) {
        match wake {
            Wake::Decided(decision) => self.remember(decision),
            Wake::Done { key } | Wake::Failed { key, .. } | Wake::Fact { key, .. } => {
                self.open.remove(key);
            }
            _ => {}
        }
        self.protocol.absorb(wake);
    }

    fn remember(&mut self, decision: &Decision) {
        self.decisions += 1;
        for Memo { name, value } in &decision.memo {
            match value {
                Some(value) => self.memory.insert(name.clone(), value.to_string().into()),
                None => self.memory.remove(name),
            };
        }
        for keyed in &decision.effects {
            self.open.insert(keyed.key.clone(), Box::new(keyed.clone()));
        }
    }

    /// The decision of now; quiet ones only move the deadline.
    pub(super) fn decide(&mut self, now: Now) -> Option<Decision> {
        let decision = self.protocol.decide(now);
        self.deadline.clone_from(&decision.next_deadline);
        (!decision.is_quiet()).then_some(decision)
    }

    pub(super) fn open(&self) -> impl Iterator<Item = &Keyed> {
        self.open.values().map(Box::as_ref)
    }

    pub(super) fn is_open(&self, key: &Key) -> Option<&Keyed> {
        self.open.get(key).map(Box::as_ref)
    }

    /// For a journal that begins anew. `count` tells the protocol how many decisions came before (see `Protocol`).
    pub(super) fn to_remembered(&self) -> Remembered {
        let value = |text| serde_json::from_str(text).expect("BUG: we wrote it from a value");
        let memory = self.memory.iter().map(|(name, text)| (name.clone(), value(text)));
        let mut memory: BTreeMap<String, Value> = memory.collect();
        memory.insert("count".to_owned(), self.decisions.into());
        Remembered { memory, open: self.open().cloned().collect() }
    }

    pub(super) fn restore(&mut self, remembered: Remembered) {
        let memo = remembered.memory.into_iter();
        let memo = memo.map(|(name, value)| Memo { name, value: Some(value) }).collect();
        let count = |memo: &Vec<Memo>| {
            let count = memo.iter().find(|memo| memo.name == "count")?;
            count.value.as_ref()?.as_u64()
        };
        let decisions = count(&memo);
        let decision = Decision { memo, effects: remembered.open, ..Decision::default() };
        self.absorb(&Wake::Decided(decision));
        self.memory.remove("count");
        self.decisions = decisions.unwrap_or(self.decisions);
    }
}
