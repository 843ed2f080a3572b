//! What the owner hears, and why the relay waits for them. It sends nothing.

use super::Handoff;
use super::memory::{Draft, Hold, Memo, WayOut};
use crate::model::{Cause, Effect, Escalation, Fact, Failure, RuleId, Severity, clip};

/// A reason to stop and ask, or to tell.
pub(super) struct Reason {
    pub(super) rule: &'static str,
    pub(super) subject: String,
    pub(super) summary: String,
    pub(super) what: String,
    pub(super) did: String,
    pub(super) wont: String,
    pub(super) evidence: Vec<String>,
    pub(super) way_out: WayOut,
    /// What an agent offers as answers.
    pub(super) options: Vec<String>,
    /// What ends it where nothing is held.
    pub(super) resolve: String,
}

impl Reason {
    pub(super) fn new(rule: &'static str, subject: impl Into<String>, summary: String) -> Self {
        Self {
            rule,
            subject: subject.into(),
            what: summary.clone(),
            summary,
            did: "The workflow is held; nothing was started and nothing was thrown away."
                .to_owned(),
            wont: "We start no agent of it until you say so.".to_owned(),
            evidence: Vec::new(),
            way_out: WayOut::Resume,
            options: Vec::new(),
            resolve: "nothing to do".to_owned(),
        }
    }

    pub(super) fn escalation(
        self,
        handoff: &Handoff,
        severity: Severity,
        holds: bool,
    ) -> Escalation {
        let cause = cause(handoff, self.rule, &self.subject);
        let id = cause.id(&handoff.place.repo);
        let (resolve, options) = match (holds, self.way_out) {
            (_, WayOut::Answer) => (format!("agency answer {id} TEXT"), self.options),
            (false, _) => (self.resolve, Vec::new()),
            (true, WayOut::Resume) => ("agency resume".to_owned(), vec!["resume".to_owned()]),
            (true, WayOut::Adopt) => ("agency adopt".to_owned(), vec!["adopt".to_owned()]),
            (true, WayOut::AdoptState) => ("agency handoff adopt".to_owned(), Vec::new()),
            (true, WayOut::Trust) => ("agency trust".to_owned(), Vec::new()),
        };
        Escalation {
            options,
            cause,
            severity,
            holds,
            summary: clip(&self.summary, 200),
            what: self.what,
            did: self.did,
            wont: self.wont,
            resolve,
            evidence: self.evidence,
            everywhere: false,
        }
    }
}

pub(super) fn cause(handoff: &Handoff, rule: &str, subject: &str) -> Cause {
    Cause {
        protocol: super::NAME.to_owned(),
        rule: RuleId::new(rule),
        subject: clip(subject, 200),
        epoch: handoff.index.memory.epoch,
    }
}

/// Stops the relay and tells the owner. Effects that belong to the same decision must be added before: talk comes last.
pub(super) fn hold(handoff: &Handoff, decision: &mut Draft, reason: Reason) {
    let way_out = reason.way_out;
    let escalation = reason.escalation(handoff, Severity::Critical, true);
    let mut holds = handoff.index.memory.holds.clone();
    holds.retain(|known| known.cause != escalation.cause);
    holds.push(Hold {
        cause: escalation.cause.clone(),
        summary: escalation.summary.clone(),
        way_out,
    });
    decision.remember(Memo::Holds(Some(holds)));
    decision.effect(Effect::Escalate(Box::new(escalation)));
}

/// Tells the owner and goes on.
pub(super) fn tell(handoff: &Handoff, decision: &mut Draft, severity: Severity, reason: Reason) {
    let escalation = reason.escalation(handoff, severity, false);
    decision.effect(Effect::Escalate(Box::new(escalation)));
}

/// Is the owner already asked about this?
pub(super) fn is_held_by(handoff: &Handoff, rule: &str) -> bool {
    handoff.index.memory.holds.iter().any(|hold| hold.cause.rule.as_str() == rule)
}

/// A question about the tree or the history got no answer.
pub(super) fn unanswered(fact: &Fact) -> Reason {
    if let Fact::GitHeld(said) = fact {
        return git_held(said);
    }
    let said = if let Fact::Unknown(said) = fact { said.clone() } else { format!("{fact:?}") };
    Reason::new("DM-10", "git", format!("git could not answer: {said}"))
}

/// SE-01: each line of `said` is one change in what git runs, includes or obeys here.
fn git_held(said: &str) -> Reason {
    let first = said.lines().next().unwrap_or_default();
    let mut reason = Reason::new("SE-01", first, format!("git is held: {}", clip(first, 180)));
    reason.evidence = said.lines().take(20).map(str::to_owned).collect();
    reason.did = "No git was run; the workflow is held, and nothing was thrown away.".to_owned();
    reason.wont =
        "We run no git here until you have looked: put it back, or trust it as it is.".to_owned();
    reason.way_out = WayOut::Trust;
    reason
}

pub(super) fn broken(effect: &Effect, failure: &Failure) -> Reason {
    let doing = effect.doing();
    let summary = format!("{doing} failed: {}", clip(&failure.said, 160));
    let mut reason = Reason::new("DM-10", doing, summary);
    reason.evidence = vec![failure.said.clone()];
    reason
}
