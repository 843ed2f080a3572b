//! What the owner hears of Codifica, and why the keeper waits for them. It sends nothing.

use super::NAME;
use super::finding::Finding;
use super::keeper::Codifica;
use super::memory::Hold;
use crate::model::{Builder, Cause, Effect, Escalation, RuleId, Severity, clip};

/// Something to say.
pub(super) struct Notice {
    pub(super) rule: String,
    pub(super) subject: String,
    pub(super) summary: String,
    pub(super) what: String,
    pub(super) did: String,
    pub(super) resolve: String,
    pub(super) evidence: Vec<String>,
    /// To every channel, whatever the routes say.
    pub(super) everywhere: bool,
}

impl Notice {
    pub(super) fn new(rule: &str, subject: impl Into<String>, summary: String) -> Self {
        Self {
            rule: rule.to_owned(),
            subject: subject.into(),
            what: summary.clone(),
            summary,
            did: "Nothing was changed and nothing was thrown away.".to_owned(),
            resolve:
                "put the state file right, by hand or with `agency work`; the rule is explained by `agency explain`"
                    .to_owned(),
            evidence: Vec::new(),
            everywhere: false,
        }
    }

    /// Several findings of one edit are one message.
    pub(super) fn of_findings(subject: &str, who: &str, findings: &[Finding]) -> Option<Self> {
        let first = findings.iter().find(|finding| finding.is_violation())?;
        let more = findings.iter().filter(|finding| finding.is_violation()).count() - 1;
        let also = if more == 0 { String::new() } else { format!(" (and {more} more)") };
        let task = first.task.as_ref().map(|task| format!("{task}: ")).unwrap_or_default();
        let summary = format!("{who}: {task}{}{also}", first.rejection.found);
        let mut word = Self::new(first.rejection.rule.as_str(), subject, summary);
        word.what = format!("An edit by {who} breaks the rules of Codifica.");
        word.did =
            "It is recorded here; we did not undo it, since the files belong to you and your team."
                .to_owned();
        word.evidence =
            findings.iter().map(|finding| clip(&finding.to_string(), 400)).take(20).collect();
        Some(word)
    }

    fn escalation(self, codifica: &Codifica, severity: Severity, holds: bool) -> Escalation {
        let way_out = if self.rule == "SE-01" { "trust" } else { "resume" };
        Escalation {
            cause: Cause {
                protocol: NAME.to_owned(),
                rule: RuleId::new(self.rule),
                subject: clip(&self.subject, 200),
                epoch: codifica.index.memory.epoch,
            },
            severity,
            holds,
            summary: clip(&self.summary, 200),
            what: self.what,
            did: self.did,
            wont: if holds {
                "We hand out no task here until you say so."
            } else {
                "We reclaim, block or reject nothing by ourselves."
            }
            .to_owned(),
            resolve: self.resolve,
            options: holds.then_some(way_out).map(str::to_owned).into_iter().collect(),
            evidence: self.evidence,
            everywhere: self.everywhere,
        }
    }
}

pub(super) fn tell(
    codifica: &Codifica,
    decision: &mut Builder,
    severity: Severity,
    word: Notice,
) -> Cause {
    let escalation = word.escalation(codifica, severity, false);
    let cause = escalation.cause.clone();
    decision.effect(Effect::Escalate(Box::new(escalation)));
    cause
}

/// SE-01: each line of `said` is one change in what git runs, includes or obeys here.
pub(super) fn hold_git(codifica: &Codifica, decision: &mut Builder, said: &str) {
    let first = said.lines().next().unwrap_or_default();
    let mut word = Notice::new("SE-01", first, format!("git is held: {}", clip(first, 180)));
    word.did = "We run no git here; nothing was judged, and nothing was thrown away.".to_owned();
    word.evidence = said.lines().take(20).map(str::to_owned).collect();
    word.resolve = "look at what changed, then agency trust".to_owned();
    hold(codifica, decision, word);
}

/// Stops handing out tasks and tells the owner.
pub(super) fn hold(codifica: &Codifica, decision: &mut Builder, word: Notice) {
    let escalation = word.escalation(codifica, Severity::Critical, true);
    let mut holds = codifica.index.memory.holds.clone();
    holds.retain(|known| known.cause != escalation.cause);
    holds.push(Hold { cause: escalation.cause.clone(), summary: escalation.summary.clone() });
    decision.remember("holds", holds);
    decision.effect(Effect::Escalate(Box::new(escalation)));
}
