//! What a protocol wants done now. A decision is a value: the journal stores it before anything is done.

use super::{Deadline, Effect, Escalation, Fact, Key, Rejection, RowId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The table row that moved the protocol, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<RowId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejections: Vec<Rejection>,
    /// In the order in which they must happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Keyed>,
    /// The answers that this decision rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub used: Vec<(Key, Fact)>,
    /// What the protocol will know after this decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memo: Vec<Memo>,
    #[serde(skip)]
    pub next_deadline: Option<Deadline>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keyed {
    pub key: Key,
    pub effect: Effect,
}

/// One entry of a protocol's durable memory: set, or forgotten when `value` is `None`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memo {
    pub name: String,
    pub value: Option<Value>,
}

impl Decision {
    /// Nothing to journal, nothing to do.
    pub fn is_quiet(&self) -> bool {
        self.row.is_none()
            && self.rejections.is_empty()
            && self.effects.is_empty()
            && self.memo.is_empty()
    }

    /// Only questions and memory: nothing that could be done twice, so the journal need not be synced for it.
    pub fn only_asks(&self) -> bool {
        self.only(|effect| matches!(effect, Effect::Ask { .. } | Effect::Lease { .. }))
    }

    /// It moves nothing but opens a turn. A kill leaves the journal as it is; what takes the journal's last lines, a power failure,
    /// ends the run as well, and then the turn is opened again. So the run need not wait for the disk.
    pub fn only_starts(&self) -> bool {
        self.only(|effect| {
            matches!(
                effect,
                Effect::Ask { .. }
                    | Effect::Lease { .. }
                    | Effect::Copy { .. }
                    | Effect::Log(_)
                    | Effect::Spawn(_)
            )
        })
    }

    fn only(&self, wanted: impl Fn(&Effect) -> bool) -> bool {
        let still = self.row.is_none() && self.rejections.is_empty();
        still && self.effects.iter().all(|keyed| wanted(&keyed.effect))
    }
}

/// Builds a decision; gives every effect its key.
#[derive(Debug)]
pub struct Builder {
    protocol: String,
    prefix: String,
    decision: Decision,
}

impl Builder {
    /// `number` counts the decisions of this protocol in this repository, so that keys are unique and repeatable.
    pub fn new(protocol: &str, number: u64) -> Self {
        let (protocol, prefix) = (protocol.to_owned(), format!("{protocol}-{number}"));
        Self { protocol, prefix, decision: Decision::default() }
    }

    /// The key of the decision as a whole.
    pub fn key(&self) -> &str {
        &self.prefix
    }

    pub fn row(&mut self, row: RowId) -> &mut Self {
        self.decision.row = Some(row);
        self
    }

    pub fn reject(&mut self, rejection: Rejection) -> &mut Self {
        self.decision.rejections.push(rejection);
        self
    }

    pub fn effects(&mut self, effects: impl IntoIterator<Item = Effect>) {
        for effect in effects {
            self.effect(effect);
        }
    }

    pub fn effect(&mut self, effect: Effect) -> &mut Self {
        let key = Key::new(format!("{}.{}", self.prefix, self.decision.effects.len()));
        self.decision.effects.push(Keyed { key, effect });
        self
    }

    /// SE-04: every verb that loosens something is told to the owner, on every channel.
    pub fn announce(&mut self, verb: &str, text: &str) -> &mut Self {
        let escalation = Escalation::announcement(&self.protocol, &self.prefix, verb, text);
        self.effect(Effect::Escalate(Box::new(escalation)))
    }

    pub fn used(&mut self, key: Key, fact: Fact) -> &mut Self {
        self.decision.used.push((key, fact));
        self
    }

    pub fn memo(&mut self, memo: Memo) -> &mut Self {
        self.decision.memo.push(memo);
        self
    }

    pub fn remember(&mut self, name: &str, value: impl Serialize) -> &mut Self {
        let value = serde_json::to_value(value).expect("BUG: memory must be plain data");
        self.decision.memo.push(Memo { name: name.to_owned(), value: Some(value) });
        self
    }

    pub fn forget(&mut self, name: &str) -> &mut Self {
        self.decision.memo.push(Memo { name: name.to_owned(), value: None });
        self
    }

    pub fn finish(self) -> Decision {
        self.decision
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, Digest, Query, RelPath, TreeRef};

    fn of(effects: Vec<Effect>) -> Decision {
        let keyed = |(at, effect)| Keyed { key: Key::new(format!("x-1.{at}")), effect };
        let effects = effects.into_iter().enumerate().map(keyed).collect();
        Decision { effects, ..Decision::default() }
    }

    // covers: DM-08
    #[test]
    fn what_moves_or_writes_anything_waits_for_the_disk() {
        let (path, seen) = (RelPath::fixed("a"), Digest::of(b"a"));
        let ask = || Effect::Ask { query: Query::Tip { name: "refs/heads/main".to_owned() } };
        let copy = Effect::Copy { from: path.clone(), to: RelPath::fixed("b"), seen };
        let replace = Effect::Replace { path, bytes: Bytes(Vec::new()), seen: None };
        assert!(of(vec![ask()]).only_asks() && of(vec![ask()]).only_starts());
        let opens = of(vec![ask(), copy.clone()]);
        assert!(!opens.only_asks() && opens.only_starts());
        assert!(!of(vec![copy.clone(), replace]).only_starts());
        assert!(!of(vec![Effect::Release { tree: TreeRef::Main }]).only_starts());
        let moved = Decision { row: Some(RowId::new("R1")), ..of(vec![copy]) };
        assert!(!moved.only_starts(), "a transition is on disk before anything follows from it");
    }
}
