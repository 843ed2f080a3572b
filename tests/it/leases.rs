//! One lease per tree: whatever protocols ask for and in whatever order, one holds a tree at a time and none starves.

use agency::model::{Key, TreeRef};
use agency::workspace::leases::{Claim, Leases};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

const PROTOCOLS: [&str; 4] = ["loop", "handoff", "board", "ledger"];

fn claim(protocol: &str, n: usize) -> Claim {
    let (key, agent) = (Key::new(format!("{protocol}-{n}.0")), "codex".to_owned());
    Claim { protocol: protocol.to_owned(), key, agent }
}

fn tree(number: usize) -> TreeRef {
    if number == 0 { TreeRef::Main } else { TreeRef::Worktree(format!("t{number}")) }
}

proptest! {
    // covers: DM-14
    #[test]
    fn one_holder_at_a_time_in_the_order_of_asking(moves in prop::collection::vec((0..4_usize, 0..2_usize, any::<bool>()), 1..200)) {
        let mut leases = Leases::default();
        // What should be, kept in the simplest way: a line per tree, its head holds.
        let mut lines: BTreeMap<usize, VecDeque<&str>> = BTreeMap::new();
        for (n, (protocol, at, asks)) in moves.into_iter().enumerate() {
            let (protocol, line) = (PROTOCOLS[protocol], lines.entry(at).or_default());
            if asks && !line.contains(&protocol) {
                line.push_back(protocol);
                prop_assert_eq!(leases.ask(&tree(at), claim(protocol, n)), line.len() == 1);
            } else if !asks {
                let holds = line.front() == Some(&protocol);
                let next = leases.release(&tree(at), protocol);
                if holds {
                    line.pop_front();
                    prop_assert_eq!(next.map(|claim| claim.protocol), line.front().map(|next| (*next).to_owned()));
                } else {
                    prop_assert_eq!(next, None, "only the holder gives a tree back");
                }
            }
            let held: Vec<_> = leases.held().map(|(tree, holder)| (tree.clone(), holder.to_owned())).collect();
            let wanted: Vec<_> = lines.iter().filter_map(|(at, line)| Some((tree(*at), (*line.front()?).to_owned()))).collect();
            prop_assert_eq!(held, wanted);
        }
    }
}

// covers: DM-14
#[test]
fn whoever_gives_a_tree_back_waits_for_its_turn() {
    let (mut leases, tree) = (Leases::default(), TreeRef::Main);
    assert!(leases.ask(&tree, claim("loop", 1)));
    assert!(!leases.ask(&tree, claim("handoff", 1)) && !leases.ask(&tree, claim("ledger", 1)));
    let mut holder = "loop".to_owned();
    let mut order = Vec::new();
    for n in 2..8 {
        let next = leases.release(&tree, &holder).expect("somebody waits");
        assert!(!leases.ask(&tree, claim(&holder, n)), "at once again, and last in line");
        holder = next.protocol;
        order.push(holder.clone());
    }
    assert_eq!(order, ["handoff", "ledger", "loop", "handoff", "ledger", "loop"]);
}
