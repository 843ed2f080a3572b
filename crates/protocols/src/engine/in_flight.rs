//! The effects of one protocol that were decided and are not finished, and what came back of them: answers, failures, ends of
//! runs, permissions, commands. Derived: journal and wakes rebuild it. It decides nothing.

use crate::model::{
    Command, Effect, Fact, Failure, Key, Query, RunEnd, RunEvent, RunId, TreeRef, Wake,
};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub struct InFlight {
    effects: BTreeMap<Key, Effect>,
    answers: Vec<(Key, Query, Fact)>,
    failed: Option<(Effect, Failure)>,
    ended: Vec<RunEnd>,
    granted: BTreeSet<TreeRef>,
    stopping: BTreeSet<RunId>,
    commands: Vec<Command>,
}

impl InFlight {
    /// Takes in one wake. Returns the effect that is done now, if one is.
    pub fn absorb(&mut self, wake: &Wake) -> Option<Effect> {
        match wake {
            Wake::Run(RunEvent::Ended(end)) => self.ended.push((**end).clone()),
            Wake::Fact { key, value } => {
                if let Some(Effect::Ask { query }) = self.effects.remove(key) {
                    self.answers.push((key.clone(), query, value.clone()));
                }
            }
            Wake::Decided(decision) => {
                self.answers.clear();
                self.failed = None;
                for keyed in &decision.effects {
                    self.add(&keyed.key, &keyed.effect);
                }
            }
            Wake::Done { key } => return self.effects.remove(key),
            Wake::Leased { tree } => drop(self.granted.insert(tree.clone())),
            Wake::Failed { key, effect, failure } => {
                self.effects.remove(key);
                self.failed = Some((effect.clone(), failure.clone()));
            }
            Wake::Command(command) => self.commands.push(command.clone()),
            Wake::File(_)
            | Wake::Checkout(_)
            | Wake::Run(RunEvent::Started { .. })
            | Wake::Deadline => {}
        }
        None
    }

    fn add(&mut self, key: &Key, effect: &Effect) {
        if let Effect::Reply { command, .. } = effect {
            self.commands.retain(|known| known.id != *command);
        }
        if let Effect::Spawn(spawn) = effect {
            self.granted.remove(&spawn.tree);
            self.stopping.clear();
        }
        if let Effect::Release { tree } = effect {
            self.granted.remove(tree);
        }
        if let Effect::Stop { run, .. } = effect {
            self.stopping.insert(run.clone());
        }
        self.effects.insert(key.clone(), effect.clone());
    }

    /// Drops the ends of runs that nothing waits for any more.
    pub fn keep_ends(&mut self, is_waited_for: impl Fn(&RunId) -> bool) {
        self.ended.retain(|end| is_waited_for(&end.run));
    }

    /// The effect that deciding waits for. A lease, a stop or a push may take long and keeps nothing else from being decided.
    pub fn blocking(&self) -> Option<&Effect> {
        let waits = |effect: &Effect| {
            matches!(effect, Effect::Lease { .. } | Effect::Stop { .. } | Effect::Push { .. })
        };
        self.effects.values().find(|effect| !waits(effect))
    }

    pub fn is_leasing(&self, tree: &TreeRef) -> bool {
        let mut effects = self.effects.values();
        effects.any(|effect| matches!(effect, Effect::Lease { tree: asked, .. } if asked == tree))
    }

    /// One run may be started in this tree now.
    pub fn is_granted(&self, tree: &TreeRef) -> bool {
        self.granted.contains(tree)
    }

    pub fn is_stopping(&self, run: &RunId) -> bool {
        self.stopping.contains(run)
    }

    /// The answers that the next decision rests on.
    pub fn answers(&self) -> &[(Key, Query, Fact)] {
        &self.answers
    }

    /// The answer to a question, if it was asked and answered.
    pub fn fact(&self, asked: impl Fn(&Query) -> bool) -> Option<&Fact> {
        self.answers.iter().find(|(_, query, _)| asked(query)).map(|(_, _, fact)| fact)
    }

    /// The effect that failed since the last decision.
    pub fn failed(&self) -> Option<(&Effect, &Failure)> {
        self.failed.as_ref().map(|(effect, failure)| (effect, failure))
    }

    pub fn end_of(&self, run: &RunId) -> Option<&RunEnd> {
        self.ended.iter().find(|end| end.run == *run)
    }

    /// The oldest command that has no answer yet.
    pub fn command(&self) -> Option<&Command> {
        self.commands.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Decision, Keyed, Seat};

    fn decided(effects: Vec<Effect>) -> Wake {
        let keyed = |(at, effect)| Keyed { key: Key::new(format!("x-1.{at}")), effect };
        let effects = effects.into_iter().enumerate().map(keyed).collect();
        Wake::Decided(Decision { effects, ..Decision::default() })
    }

    fn tree() -> TreeRef {
        TreeRef::Worktree("t".to_owned())
    }

    fn lease() -> Effect {
        Effect::Lease { tree: tree(), seat: Seat::new("builder"), role: "builder".to_owned() }
    }

    // covers: DM-08
    #[test]
    fn a_question_blocks_until_it_is_answered_and_a_lease_never_does() {
        let query = Query::Tip { name: "refs/heads/main".to_owned() };
        let mut effects = InFlight::default();
        effects.absorb(&decided(vec![Effect::Ask { query: query.clone() }, lease()]));
        assert!(effects.blocking().is_some() && effects.is_leasing(&tree()));
        effects.absorb(&Wake::Fact { key: Key::new("x-1.0"), value: Fact::Tip(None) });
        assert_eq!(effects.blocking(), None);
        assert_eq!(effects.fact(|asked| *asked == query), Some(&Fact::Tip(None)));
        effects.absorb(&decided(Vec::new()));
        assert_eq!(effects.answers(), [], "an answer is good for one decision");
    }

    #[test]
    fn a_permission_is_for_one_tree_and_ends_with_its_release() {
        let mut effects = InFlight::default();
        effects.absorb(&Wake::Leased { tree: tree() });
        assert!(effects.is_granted(&tree()) && !effects.is_granted(&TreeRef::Main));
        effects.absorb(&decided(vec![Effect::Release { tree: TreeRef::Main }]));
        assert!(effects.is_granted(&tree()), "another tree was released");
        effects.absorb(&decided(vec![Effect::Release { tree: tree() }]));
        assert!(!effects.is_granted(&tree()));
    }
}
