//! Who works in which tree. One holder at a time, first come first served, so that no protocol starves (DM-14).

use crate::model::{Key, TreeRef};
use std::collections::{BTreeMap, VecDeque};

/// A protocol's claim to a tree, by the effect that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) protocol: String,
    pub(super) key: Key,
    /// Who is to be started.
    pub(super) agent: String,
}

#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<TreeRef, String>,
    waiting: BTreeMap<TreeRef, VecDeque<Claim>>,
}

impl Leases {
    /// True: granted. False: it waits in line.
    pub(super) fn ask(&mut self, tree: &TreeRef, claim: Claim) -> bool {
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
    pub(super) fn release(&mut self, tree: &TreeRef, protocol: &str) -> Option<Claim> {
        if self.held.get(tree).is_none_or(|holder| holder != protocol) {
            return None;
        }
        self.held.remove(tree);
        let next = self.waiting.get_mut(tree)?.pop_front()?;
        self.held.insert(tree.clone(), next.protocol.clone());
        Some(next)
    }

    /// As the journal knows it, after a restart.
    pub(super) fn restore(&mut self, tree: TreeRef, protocol: String) {
        self.held.insert(tree, protocol);
    }

    pub(super) fn held(&self) -> impl Iterator<Item = (&TreeRef, &str)> {
        self.held.iter().map(|(tree, protocol)| (tree, protocol.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(protocol: &str, n: u32) -> Claim {
        let (key, agent) = (Key::new(format!("{protocol}-{n}.0")), "codex".to_owned());
        Claim { protocol: protocol.to_owned(), key, agent }
    }

    // covers: DM-14
    #[test]
    fn one_holder_at_a_time_and_nobody_starves() {
        let (mut leases, tree) = (Leases::default(), TreeRef::Main);
        assert!(leases.ask(&tree, claim("loop", 1)));
        assert!(!leases.ask(&tree, claim("handoff", 1)));
        assert!(!leases.ask(&tree, claim("ledger", 1)));
        assert!(leases.ask(&TreeRef::Worktree("t1".to_owned()), claim("board", 1)));
        let mut order = Vec::new();
        let mut holder = "loop".to_owned();
        for n in 2..8 {
            let next = leases.release(&tree, &holder).expect("somebody waits");
            // The one that gave it back wants it again at once, and must wait for its turn.
            assert!(!leases.ask(&tree, claim(&holder, n)));
            holder = next.protocol.clone();
            order.push(next.protocol);
        }
        assert_eq!(order, ["handoff", "ledger", "loop", "handoff", "ledger", "loop"]);
    }

    #[test]
    fn only_the_holder_gives_a_tree_back() {
        let (mut leases, tree) = (Leases::default(), TreeRef::Main);
        assert!(leases.ask(&tree, claim("loop", 1)));
        assert!(!leases.ask(&tree, claim("handoff", 1)));
        assert_eq!(leases.release(&tree, "handoff"), None);
        assert_eq!(leases.held().collect::<Vec<_>>(), [(&tree, "loop")]);
    }
}
