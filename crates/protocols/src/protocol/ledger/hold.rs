//! What the owner hears, and why the loop waits for them. It sends nothing.

use super::Ledger;
use super::memory::{Hold, WayOut};
use crate::model::{
    Builder, Cause, Decision, Effect, Escalation, Failure, FailureKind, RuleId, Severity, clip,
};

/// A reason to stop and ask, or to tell.
pub(super) struct Reason {
    pub(super) rule: &'static str,
    pub(super) subject: String,
    pub(super) summary: String,
    pub(super) did: String,
    pub(super) wont: String,
    pub(super) evidence: Vec<String>,
    pub(super) way_out: WayOut,
}

impl Reason {
    pub(super) fn new(rule: &'static str, subject: impl Into<String>, summary: String) -> Self {
        Self {
            rule,
            subject: subject.into(),
            summary,
            did: "The ledger's loop is held; nothing was started and nothing was thrown away."
                .to_owned(),
            wont: "We start no agent here until you say so.".to_owned(),
            evidence: Vec::new(),
            way_out: WayOut::Resume,
        }
    }

    fn escalation(self, it: &Ledger, severity: Severity, holds: bool) -> Escalation {
        let verb = self.way_out.verb();
        let resolve = match holds {
            false => "nothing to do; `agency ack ID` closes it".to_owned(),
            true => format!("agency {verb}"),
        };
        Escalation {
            cause: Cause {
                protocol: super::NAME.to_owned(),
                rule: RuleId::new(self.rule),
                subject: clip(&self.subject, 200),
                epoch: it.index.memory.epoch,
            },
            severity,
            holds,
            what: self.summary.clone(),
            summary: clip(&self.summary, 200),
            did: self.did,
            wont: self.wont,
            resolve,
            options: holds.then(|| verb.to_owned()).into_iter().collect(),
            evidence: self.evidence,
            everywhere: false,
        }
    }
}

/// Stops the loop and tells the owner. Effects that belong to the same decision must be added before: talk comes last.
pub(super) fn hold(it: &Ledger, decision: &mut Builder, reason: Reason) {
    let way_out = reason.way_out;
    let escalation = reason.escalation(it, Severity::Critical, true);
    let mut holds = it.index.memory.holds.clone();
    holds.retain(|known| known.cause != escalation.cause);
    let (cause, summary) = (escalation.cause.clone(), escalation.summary.clone());
    holds.push(Hold { cause, summary, way_out });
    decision.remember("holds", holds);
    decision.effect(Effect::Escalate(Box::new(escalation)));
}

pub(super) fn held(it: &Ledger, reason: Reason) -> Decision {
    let mut decision = it.builder();
    hold(it, &mut decision, reason);
    decision.finish()
}

/// Tells the owner and goes on.
pub(super) fn tell(it: &Ledger, decision: &mut Builder, severity: Severity, mut reason: Reason) {
    reason.wont = "Nothing waits for you here.".to_owned();
    decision.effect(Effect::Escalate(Box::new(reason.escalation(it, severity, false))));
}

/// Asks the owner about one thing and goes on with the others. The cause, for when they have answered.
pub(super) fn ask(it: &Ledger, decision: &mut Builder, reason: Reason) -> Cause {
    let verb = reason.way_out.verb();
    let mut escalation = reason.escalation(it, Severity::Warning, false);
    escalation.resolve = format!("agency {verb}");
    escalation.options = vec![verb.to_owned()];
    let cause = escalation.cause.clone();
    decision.effect(Effect::Escalate(Box::new(escalation)));
    cause
}

/// SE-01: each line of `said` is one change in what git runs, includes or obeys here.
pub(super) fn git_held(said: &str) -> Reason {
    let first = said.lines().next().unwrap_or_default();
    let summary = format!("git is held: {}", clip(first, 180));
    let mut reason = Reason::new("SE-01", first, summary);
    reason.wont = "We run no git here until you have looked and said `agency trust`.".to_owned();
    reason.evidence = said.lines().take(20).map(str::to_owned).collect();
    reason.way_out = WayOut::Trust;
    reason
}

pub(super) fn broken(effect: &Effect, failure: &Failure) -> Reason {
    if failure.kind == FailureKind::GitHeld {
        return git_held(&failure.said);
    }
    let doing = effect.doing();
    let summary = format!("{doing} failed: {}", clip(&failure.said, 160));
    let mut reason = Reason::new("DM-10", doing, summary);
    reason.evidence = vec![failure.said.clone()];
    reason
}
