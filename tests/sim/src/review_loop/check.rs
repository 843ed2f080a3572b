//! What must hold in every world at every moment, known from the specification and not from the protocol's table.

use super::{FLAG, LEGAL, Play};
use agency::model::{Cause, Effect, Outcome};
use serde_json::{Value, json};
use std::collections::BTreeSet;

impl Play {
    pub(super) fn check(&self) {
        let seed = self.seed;
        let state = self.state();
        let history = state["history"].as_array().cloned().unwrap_or_default();
        self.check_history(&history, &state);
        let ours: Vec<_> = self
            .world
            .log("main")
            .into_iter()
            .filter(|c| c.message.starts_with("Review loop:"))
            .collect();
        assert_eq!(ours.len(), history.len(), "seed {seed}: one commit for each transition");
        // The newest is the first.
        for (number, commit) in ours.iter().rev().enumerate() {
            let parent = commit.parent.as_ref().map(|id| &self.world.commits[id].tree);
            for (path, digest) in &commit.tree {
                let new = parent.is_none_or(|tree| tree.get(path) != Some(digest));
                // A flag that an agent's own commit brought in stays in the history; ours bring none.
                let flag = path.as_str() == FLAG;
                assert!(!(new && flag), "seed {seed}: a flag was committed");
                assert!(
                    !(new && self.owners_work.contains(digest)) || self.by_hand.contains(&number),
                    "seed {seed}: the owner's `{path}` was committed"
                );
            }
        }
        self.check_talk();
        self.check_gates();
    }

    /// LP-22: work is let through only after a gate of ours passed since the last transition, where there is one.
    fn check_gates(&self) {
        let gated = !self.seed.is_multiple_of(2);
        let mut passed = false;
        for decision in self.world.decisions.iter().filter(|_| gated) {
            for keyed in &decision.effects {
                if let Effect::Spawn(spawn) = &keyed.effect
                    && spawn.command.is_some()
                {
                    let end = self.world.runs[&spawn.run].end.as_ref();
                    passed = end.is_some_and(|end| end.outcome == Outcome::Ok);
                }
            }
            match decision.row.as_ref().map(|row| row.as_str()) {
                // Executed, and verified clean.
                Some(row @ ("RL4" | "RL5" | "RL9")) => {
                    assert!(passed, "seed {}: {row} without a gate that passed", self.seed);
                    passed = false;
                }
                Some(_) => passed = false,
                None => {}
            }
        }
    }

    /// Every step of the history is a line of the specification, and they follow one another.
    fn check_history(&self, history: &[Value], state: &Value) {
        let mut at = ("1".to_owned(), "propose".to_owned());
        for entry in history {
            let place = |key: &str| {
                let text = entry[key].as_str().unwrap();
                let (step, phase) = text.rsplit_once('/').unwrap();
                (step.to_owned(), phase.to_owned())
            };
            let (from, to) = (place("from"), place("to"));
            assert_eq!(from, at, "seed {}: the history has a gap", self.seed);
            let agent = entry["agent"].as_str().unwrap();
            let legal = LEGAL.iter().any(|(phase, holder, _, next, _)| {
                let arrives = match *next {
                    "advance" => to.1 == "complete" || (to.1 == "propose" && to.0 != from.0),
                    next => to == (from.0.clone(), next.to_owned()),
                };
                from.1 == *phase && agent == *holder && arrives
            });
            assert!(legal, "seed {}: {entry} is no legal transition", self.seed);
            at = to;
        }
        if !state["phase"].is_null() {
            assert_eq!(
                (&state["currentStep"], &state["phase"]),
                (&json!(at.0), &json!(at.1)),
                "seed {}",
                self.seed
            );
        }
    }

    /// One message per cause; nothing is started between a hold and its resolution.
    fn check_talk(&self) {
        let mut told = BTreeSet::new();
        let mut holds: BTreeSet<Cause> = BTreeSet::new();
        for effect in self
            .world
            .decisions
            .iter()
            .flat_map(|decision| &decision.effects)
            .map(|keyed| &keyed.effect)
        {
            match effect {
                Effect::Escalate(escalation) => {
                    if escalation.holds {
                        holds.insert(escalation.cause.clone());
                    }
                    let tamper = escalation.cause.rule.as_str() == "LP-11";
                    let fresh = told.insert(escalation.cause.clone());
                    assert!(
                        fresh || tamper,
                        "seed {}: told twice: {:?}",
                        self.seed,
                        escalation.cause
                    );
                }
                Effect::Resolve { cause, .. } => drop(holds.remove(cause)),
                Effect::Spawn(spawn) => {
                    assert!(
                        holds.is_empty(),
                        "seed {}: {} started while held by {holds:?}",
                        self.seed,
                        spawn.run
                    );
                }
                _ => {}
            }
        }
    }
}
