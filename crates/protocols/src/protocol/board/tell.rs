//! What the owner hears of a board, and why it waits for them. It sends nothing.

use super::Board;
use super::memory::{Hold, WayOut};
use crate::model::{Builder, Cause, Effect, Escalation, RuleId, Severity, clip};
use std::collections::BTreeMap;

/// A reason to speak.
pub(super) struct Reason {
    pub(super) rule: &'static str,
    pub(super) subject: String,
    pub(super) summary: String,
    pub(super) what: String,
    pub(super) did: String,
    pub(super) wont: String,
    pub(super) resolve: String,
    pub(super) evidence: Vec<String>,
}

impl Reason {
    pub(super) fn new(rule: &'static str, subject: impl Into<String>, summary: String) -> Self {
        Self {
            rule,
            subject: subject.into(),
            what: summary.clone(),
            summary,
            did: "Nothing was started and nothing was thrown away.".to_owned(),
            wont: "We do not go on with it by ourselves.".to_owned(),
            resolve: "nothing to do".to_owned(),
            evidence: Vec::new(),
        }
    }

    fn escalation(
        self,
        board: &Board,
        severity: Severity,
        holds: bool,
        options: &[&str],
    ) -> Escalation {
        Escalation {
            cause: cause(board, self.rule, &self.subject),
            severity,
            holds,
            summary: clip(&self.summary, 200),
            what: self.what,
            did: self.did,
            wont: self.wont,
            resolve: self.resolve,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            evidence: self.evidence,
            everywhere: false,
        }
    }
}

pub(super) fn cause(board: &Board, rule: &str, subject: &str) -> Cause {
    Cause {
        protocol: super::NAME.to_owned(),
        rule: RuleId::new(rule),
        subject: clip(subject, 200),
        epoch: board.index.memory.epoch,
    }
}

/// Stops the board and tells the owner. Talk comes last in a decision.
pub(super) fn hold(board: &Board, decision: &mut Builder, mut reason: Reason, way_out: WayOut) {
    let option = match way_out {
        WayOut::Resume => "resume",
        WayOut::Adopt => "adopt",
    };
    reason.resolve = format!("agency {option}");
    let escalation = reason.escalation(board, Severity::Critical, true, &[option]);
    let mut holds = board.index.memory.holds.clone();
    holds.retain(|known| known.cause != escalation.cause);
    holds.push(Hold {
        cause: escalation.cause.clone(),
        summary: escalation.summary.clone(),
        way_out,
    });
    decision.remember("holds", holds);
    decision.effect(Effect::Escalate(Box::new(escalation)));
}

/// Tells the owner and goes on.
pub(super) fn tell(
    board: &Board,
    decision: &mut Builder,
    severity: Severity,
    reason: Reason,
) -> Cause {
    let escalation = reason.escalation(board, severity, false, &[]);
    let cause = escalation.cause.clone();
    decision.effect(Effect::Escalate(Box::new(escalation)));
    cause
}

/// What is so until the owner changes it is said once; `agency status` goes on showing it.
pub(super) fn once(
    board: &Board,
    decision: &mut Builder,
    rule: &'static str,
    about: &str,
    text: &str,
) {
    let mut told = board.index.memory.told.clone();
    if told.get(about).is_some_and(|known| known == text) {
        return;
    }
    told.insert(about.to_owned(), text.to_owned());
    decision.remember("told", told);
    let mut reason = Reason::new(rule, subject(about, text), text.to_owned());
    reason.did = "The work goes on; this is said once.".to_owned();
    reason.wont = "We do not count it as checked.".to_owned();
    tell(board, decision, Severity::Notice, reason);
}

fn subject(about: &str, text: &str) -> String {
    format!("{about}: {}", clip(text, 120))
}

/// What was said once and is so no more is shown no more, and its notice ends.
pub(super) fn over(
    board: &Board,
    decision: &mut Builder,
    rule: &str,
    is_over: impl Fn(&str) -> bool,
) {
    let (ended, told): (BTreeMap<_, _>, BTreeMap<_, _>) =
        board.index.memory.told.clone().into_iter().partition(|(about, _)| is_over(about));
    if ended.is_empty() {
        return;
    }
    decision.remember("told", told);
    for (about, text) in &ended {
        let cause = cause(board, rule, &subject(about, text));
        decision.effect(Effect::Resolve { cause, how: "this is so no more".to_owned() });
    }
}
