//! Who works in which tree. One holder at a time, first come first served, so that no protocol starves (DM-14).

use crate::model::{Key, TreeRef};
use std::collections::{BTreeMap, VecDeque};

/// A protocol's claim to a tree, by the effect that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub protocol: String,
    pub key: Key,
    /// Who is to be started.
    pub agent: String,
}

#[derive(Debug, Default)]
pub struct Leases {
    held: BTreeMap<TreeRef, String>,
    waiting: BTreeMap<TreeRef, VecDeque<Claim>>,
}

impl Leases {
    /// True: granted. False: it waits in line.
    pub fn ask(&mut self, tree: &TreeRef, claim: Claim) -> bool {
        match self.held.get(tree) {
            Some(holder) if *holder != claim.protocol => {
                self.waiting.entry(tree.clone()).or_default().push_back(claim);
                false
            }
            Some(_) => true,
            None => {
                self.held.insert(tree.clone(), claim.protocol);
                true
            }
        }
    }

    /// Gives the tree back; the next in line has it then.
    pub fn release(&mut self, tree: &TreeRef, protocol: &str) -> Option<Claim> {
        if self.held.get(tree).is_none_or(|holder| holder != protocol) {
            return None;
        }
        self.held.remove(tree);
        let next = self.waiting.get_mut(tree)?.pop_front()?;
        self.held.insert(tree.clone(), next.protocol.clone());
        Some(next)
    }

    /// As the journal knows it, after a restart.
    pub fn restore(&mut self, tree: TreeRef, protocol: String) {
        self.held.insert(tree, protocol);
    }

    pub fn held(&self) -> impl Iterator<Item = (&TreeRef, &str)> {
        self.held.iter().map(|(tree, protocol)| (tree, protocol.as_str()))
    }
}
