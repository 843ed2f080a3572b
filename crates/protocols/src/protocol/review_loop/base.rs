//! LP-33: before the first agent of a loop the gates run once on the commit that the loop begins from. A gate that fails there
//! says nothing about an agent, so the owner mends it, changes it or accepts it by name. It starts no agent.

use super::{
    ReviewLoop, gates,
    hold::{self, Reason},
    memory::{Base, BaseStage, Failed, Start},
};
use crate::model::{Builder, Command, CommitId, Decision, Outcome, RunEnd, RunId, clip};
use std::collections::BTreeSet;

/// The rule of everything here.
const RULE: &str = "LP-33";

/// What the first turn has to do before its agent.
pub(super) enum Duty {
    /// Nothing: the agent may start.
    Clear,
    /// A gate runs.
    Wait,
    /// This gate is to run, in the tree of the loop.
    Run(String),
    Hold(Box<Decision>),
}

/// A loop begins here. Results on the same commit count again, unless somebody's work lay in the tree.
pub(super) fn opened(review_loop: &ReviewLoop, start: Option<&Start>) -> Base {
    let clean = start.filter(|start| start.dirty.is_empty());
    let commit = clean.and_then(|start| start.head.clone());
    let known = review_loop.index.memory.base.clone();
    match known.filter(|base| commit.is_some() && base.commit == commit) {
        Some(known) => Base { stage: BaseStage::Open, ..known },
        None => Base::new(commit),
    }
}

pub(super) fn duty(review_loop: &ReviewLoop) -> Duty {
    let Some(base) = &review_loop.index.memory.base else { return Duty::Clear };
    match &base.stage {
        BaseStage::Over => return Duty::Clear,
        BaseStage::Running { .. } => return Duty::Wait,
        BaseStage::Open => {}
    }
    let gates = gates::all(review_loop);
    if let Some(gate) = gates.iter().find(|gate| !base.is_known(gate)) {
        return Duty::Run(gate.clone());
    }
    let red: Vec<&Failed> =
        base.failed.iter().filter(|failed| gates.contains(&failed.gate)).collect();
    match red.as_slice() {
        [] => Duty::Clear,
        red => {
            let mut decision = review_loop.builder();
            hold::hold(review_loop, &mut decision, failing(base, red));
            Duty::Hold(Box::new(decision.finish()))
        }
    }
}

fn failing(base: &Base, red: &[&Failed]) -> Reason {
    let named = |failed: &&Failed| format!("`{}` {}", clip(&failed.gate, 80), failed.how);
    let list: Vec<String> = red.iter().map(named).collect();
    let on = on_commit(base.commit.as_ref());
    let summary = format!("before the first agent{on}: {}", list.join("; "));
    let mut reason = Reason::new(RULE, list.join("; "), summary);
    reason.what = format!(
        "The gates ran once before the first agent{on}, and these failed: {}.",
        list.join("; ")
    );
    reason.did = "No agent was started; nothing was changed.".to_owned();
    let first = red.first().map_or("", |failed| failed.gate.as_str());
    reason.wont = format!(
        "An agent would be blamed for a failure that was there before it. Mend it and run `agency resume` (the gates run \
         again), or change `loop.gates` and run `agency resume`, or accept the failure: agency resume --accept-gate {}",
        quoted(first)
    );
    reason.evidence =
        red.iter().map(|failed| format!("$ {}\n{}", failed.gate, failed.output)).collect();
    reason
}

/// One word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn on_commit(commit: Option<&CommitId>) -> String {
    commit.map(|commit| format!(" on {}", short(commit))).unwrap_or_default()
}

fn short(commit: &CommitId) -> String {
    clip(commit.as_str(), 8)
}

/// A gate begins.
pub(super) fn running(review_loop: &ReviewLoop, decision: &mut Builder, run: RunId, gate: String) {
    if let Some(base) = &review_loop.index.memory.base {
        let stage = BaseStage::Running { run, gate };
        decision.remember("base", Base { stage, ..base.clone() });
    }
}

/// A gate of ours on the base has ended: remember how. One that was stopped, or whose end nobody saw, is run again.
pub(super) fn noted(review_loop: &ReviewLoop, end: &RunEnd) -> Option<Decision> {
    let mut base = review_loop.index.memory.base.clone()?;
    let BaseStage::Running { run, gate } = &base.stage else { return None };
    if *run != end.run {
        return None;
    }
    match &end.outcome {
        Outcome::Ok => base.passed.push(gate.clone()),
        Outcome::Lost | Outcome::Stopped { .. } => {}
        failed @ (Outcome::Crash { .. }
        | Outcome::Timeout { .. }
        | Outcome::UsageLimit { .. }
        | Outcome::Provider { .. }
        | Outcome::Auth { .. }
        | Outcome::Denied { .. }
        | Outcome::NotFound { .. }) => base.failed.push(gates::failure(gate, failed, &end.tail)),
    }
    base.stage = BaseStage::Open;
    let mut decision = review_loop.builder();
    decision.remember("base", base);
    Some(decision.finish())
}

/// The first agent starts: the base is left behind.
pub(super) fn close(review_loop: &ReviewLoop, decision: &mut Builder) {
    let open = review_loop.index.memory.base.as_ref().filter(|base| base.stage != BaseStage::Over);
    if let Some(base) = open {
        decision.remember("base", Base { stage: BaseStage::Over, ..base.clone() });
    }
}

/// `agency resume`: the gates run again, except those that the owner accepts as they failed.
pub(super) fn resumed(
    review_loop: &ReviewLoop,
    decision: &mut Builder,
    command: &Command,
) -> Result<Option<String>, String> {
    let wanted: BTreeSet<&str> = command.arg("accept-gate").unwrap_or_default().lines().collect();
    let waits = review_loop.index.memory.base.as_ref().filter(|base| base.stage == BaseStage::Open);
    let Some(base) = waits.filter(|base| !base.failed.is_empty()) else {
        return match wanted.first() {
            Some(gate) => Err(format!(
                "no gate failed before the first agent, so `{gate}` cannot be accepted"
            )),
            None => Ok(None),
        };
    };
    let failed = |gate: &&str| base.failed.iter().any(|failed| failed.gate == *gate);
    if let Some(other) = wanted.iter().find(|gate| !failed(gate)) {
        let names: Vec<_> = base.failed.iter().map(|failed| quoted(&failed.gate)).collect();
        return Err(format!(
            "`{other}` is not a gate that failed; these did: {}",
            names.join(", ")
        ));
    }
    let mut next = Base { failed: Vec::new(), ..base.clone() };
    if wanted.is_empty() {
        // The owner changed something: which commit has it, if one has, is not known here.
        (next.commit, next.passed) = (None, Vec::new());
    }
    for failed in base.failed.iter().filter(|failed| wanted.contains(failed.gate.as_str())) {
        next.accepted.insert(failed.gate.clone(), failed.how.clone());
    }
    decision.remember("base", next);
    let names: Vec<_> = wanted.iter().map(|gate| format!("`{gate}`")).collect();
    Ok((!names.is_empty()).then(|| format!("the failing gate {} is accepted", names.join(", "))))
}

/// The owner accepted that this gate fails, in this way.
pub(super) fn accepts(review_loop: &ReviewLoop, failed: &Failed) -> bool {
    let base = review_loop.index.memory.base.as_ref();
    base.is_some_and(|base| base.accepted.get(&failed.gate) == Some(&failed.how))
}

pub(super) fn accepted(review_loop: &ReviewLoop) -> Vec<&String> {
    review_loop.index.memory.base.iter().flat_map(|base| base.accepted.keys()).collect()
}

/// What the gates are doing on the base, while one runs.
pub(super) fn doing(review_loop: &ReviewLoop) -> Option<String> {
    let base = review_loop.index.memory.base.as_ref()?;
    let BaseStage::Running { gate, .. } = &base.stage else { return None };
    let (on, gates) = (on_commit(base.commit.as_ref()), gates::all(review_loop));
    let at = gates.iter().filter(|gate| base.is_known(gate)).count() + 1;
    let gate = clip(gate, 60);
    Some(format!(
        "checking the gates{on} before the first agent: `{gate}` ({at} of {})",
        gates.len()
    ))
}

/// A transition whose gates passed is committed: a loop that begins on that commit need not run them again.
pub(super) fn follow(review_loop: &ReviewLoop, decision: &mut Builder, commit: &CommitId) {
    let memory = &review_loop.index.memory;
    let checks = memory.turn.as_ref().and_then(|turn| turn.checks.as_ref());
    let (Some(base), Some(checks)) = (&memory.base, checks.filter(|checks| checks.untouched))
    else {
        return;
    };
    let passed = checks.passed.iter().filter(|gate| !base.accepted.contains_key(*gate)).cloned();
    let (commit, passed) = (Some(commit.clone()), passed.collect());
    decision.remember("base", Base { commit, passed, ..base.clone() });
}

impl Base {
    fn new(commit: Option<CommitId>) -> Self {
        let (passed, failed, accepted) = Default::default();
        Self { commit, passed, failed, accepted, stage: BaseStage::Open }
    }

    fn is_known(&self, gate: &str) -> bool {
        self.passed.iter().any(|known| known == gate)
            || self.failed.iter().any(|known| known.gate == gate)
            || self.accepted.contains_key(gate)
    }

    pub(super) fn run(&self) -> Option<&RunId> {
        match &self.stage {
            BaseStage::Running { run, .. } => Some(run),
            BaseStage::Open | BaseStage::Over => None,
        }
    }
}
