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
    /// In order. Not a tree: mostly one is held, and a tree has room for eleven.
    held: Vec<(TreeRef, String)>,
    waiting: BTreeMap<TreeRef, VecDeque<Claim>>,
}

impl Leases {
    /// True: granted. False: it waits in line.
    pub fn ask(&mut self, tree: &TreeRef, claim: Claim) -> bool {
        match self.holder(tree) {
            Some(holder) if holder != claim.protocol => {
                self.waiting.entry(tree.clone()).or_default().push_back(claim);
                false
            }
            Some(_) => true,
            None => {
                self.restore(tree.clone(), claim.protocol);
                true
            }
        }
    }

    /// Gives the tree back; the next in line has it then.
    pub fn release(&mut self, tree: &TreeRef, protocol: &str) -> Option<Claim> {
        if self.holder(tree).is_none_or(|holder| holder != protocol) {
            return None;
        }
        self.held.retain(|(held, _)| held != tree);
        let next = self.waiting.get_mut(tree)?.pop_front()?;
        self.restore(tree.clone(), next.protocol.clone());
        Some(next)
    }

    /// As the journal knows it, after a restart.
    pub fn restore(&mut self, tree: TreeRef, protocol: String) {
        match self.held.binary_search_by(|(held, _)| held.cmp(&tree)) {
            Ok(at) => self.held[at].1 = protocol,
            Err(at) => {
                self.held.reserve_exact(1);
                self.held.insert(at, (tree, protocol));
            }
        }
    }

    pub fn holder(&self, tree: &TreeRef) -> Option<&str> {
        self.held().find(|(held, _)| *held == tree).map(|(_, holder)| holder)
    }

    pub fn held(&self) -> impl Iterator<Item = (&TreeRef, &str)> {
        self.held.iter().map(|(tree, protocol)| (tree, protocol.as_str()))
    }
}
