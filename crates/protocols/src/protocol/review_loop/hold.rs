//! What the owner hears, and why the loop waits for them. It sends nothing.

use super::{
    ReviewLoop, away,
    memory::{Hold, WayOut},
    takeover,
};
use crate::model::{
    Builder, Cause, Effect, Escalation, Fact, Failure, FailureKind, RuleId, Severity, clip,
};

/// A reason to stop and ask.
pub(super) struct Reason {
    pub(super) rule: &'static str,
    pub(super) subject: String,
    pub(super) summary: String,
    pub(super) what: String,
    pub(super) did: String,
    pub(super) wont: String,
    pub(super) evidence: Vec<String>,
    pub(super) way_out: WayOut,
    /// What the owner may type about something that holds nothing.
    pub(super) command: Option<String>,
}

impl Reason {
    pub(super) fn new(rule: &'static str, subject: impl Into<String>, summary: String) -> Self {
        Self {
            rule,
            subject: subject.into(),
            what: summary.clone(),
            summary,
            did: "The loop is held; nothing was started and nothing was thrown away.".to_owned(),
            wont: "We start no agent here until you say so.".to_owned(),
            evidence: Vec::new(),
            way_out: WayOut::Resume,
            command: None,
        }
    }

    fn escalation(self, review_loop: &ReviewLoop, severity: Severity, holds: bool) -> Escalation {
        let resolve = match self.command {
            Some(typed) => typed,
            None if holds => command(review_loop, self.way_out),
            None => {
                let id = cause(review_loop, self.rule, &self.subject).id(&review_loop.place.repo);
                format!("nothing to do; `agency ack {id}` closes it")
            }
        };
        let options: &[&str] = match (holds, self.way_out) {
            (false, _) => &[],
            (true, WayOut::Resume | WayOut::AcceptHistory) => &["resume"],
            (true, WayOut::AdoptOrRestore) => &["adopt", "restore"],
            (true, WayOut::Adopt) => &["adopt"],
            (true, WayOut::Trust) => &["trust"],
        };
        Escalation {
            options: options.iter().map(|&option| option.to_owned()).collect(),
            cause: cause(review_loop, self.rule, &self.subject),
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

/// What the owner types to let the loop go on, as the repository is now.
pub(super) fn command(review_loop: &ReviewLoop, way_out: WayOut) -> String {
    match way_out {
        WayOut::Resume => "agency resume".to_owned(),
        WayOut::AcceptHistory => match away::way_back(review_loop) {
            Some(git) => format!("{git} && agency resume"),
            None => "agency resume".to_owned(),
        },
        WayOut::AdoptOrRestore => {
            "agency adopt (the repository is right) or agency loop restore (our journal is right)"
                .to_owned()
        }
        WayOut::Adopt => review_loop
            .index
            .whole(super::STATE)
            .map_or("agency adopt".to_owned(), |file| takeover::command(&file.bytes)),
        WayOut::Trust => "agency trust".to_owned(),
    }
}

pub(super) fn cause(review_loop: &ReviewLoop, rule: &str, subject: &str) -> Cause {
    Cause {
        protocol: super::NAME.to_owned(),
        rule: RuleId::new(rule),
        subject: clip(subject, 200),
        epoch: review_loop.index.memory.epoch,
    }
}

/// Stops the loop and tells the owner. Effects that belong to the same decision must be added before: talk comes last.
pub(super) fn hold(review_loop: &ReviewLoop, decision: &mut Builder, reason: Reason) {
    let way_out = reason.way_out;
    let escalation = reason.escalation(review_loop, Severity::Critical, true);
    let mut holds = review_loop.index.memory.holds.clone();
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
    review_loop: &ReviewLoop,
    decision: &mut Builder,
    severity: Severity,
    reason: Reason,
) {
    let escalation = reason.escalation(review_loop, severity, false);
    decision.effect(Effect::Escalate(Box::new(escalation)));
}

pub(super) fn unknown_state(review_loop: &ReviewLoop) -> Reason {
    let mut reason = Reason::new(
        "DM-13",
        super::STATE,
        format!(
            "this repository already has a review loop (`{}`) that agency has not managed here",
            super::STATE
        ),
    );
    reason.what = format!(
        "`{}` exists, but this machine has no journal for this repository: it is a clone, a copy, \
         or another machine or another script ran the loop.",
        super::STATE
    );
    reason.evidence =
        review_loop.index.text(super::STATE).map(|text| clip(&text, 400)).into_iter().collect();
    reason.way_out = WayOut::Adopt;
    reason
}

/// SE-01: each line of `said` is one change in what git runs, includes or obeys here.
pub(super) fn git_held(said: &str) -> Reason {
    let first = said.lines().next().unwrap_or_default();
    let more = match said.lines().count() {
        0 | 1 => String::new(),
        lines => format!("; and {} more", lines - 1),
    };
    let mut reason =
        Reason::new("SE-01", first, format!("git is held: {}{more}", clip(first, 180)));
    reason.what = format!(
        "Something by which git runs, includes or redirects is not as you trusted it: {first}{more}."
    );
    reason.did = "No git was run; the loop is held, and nothing was thrown away.".to_owned();
    reason.wont =
        "We run no git here until you have looked: put it back, or trust it as it is now; \
         `agency trust` lets the loop go on either way."
            .to_owned();
    reason.evidence = said.lines().take(20).map(str::to_owned).collect();
    reason.way_out = WayOut::Trust;
    reason
}

/// A question about the tree or the history got no answer.
pub(super) fn unanswered(fact: &Fact, subject: &str, doing: &str) -> Reason {
    if let Fact::GitHeld(said) = fact {
        return git_held(said);
    }
    let said = if let Fact::Unknown(said) = fact { said.clone() } else { format!("{fact:?}") };
    Reason::new("DM-10", subject, format!("git could not {doing}: {said}"))
}

pub(super) fn broken(review_loop: &ReviewLoop, effect: &Effect, failure: &Failure) -> Reason {
    if failure.kind == FailureKind::GitHeld {
        return git_held(&failure.said);
    }
    let doing = effect.doing();
    let summary = format!("{doing} failed: {}", clip(&failure.said, 160));
    let mut reason = Reason::new("DM-10", doing, summary);
    reason.evidence = vec![failure.said.clone()];
    if let Some(state) = &review_loop.index.memory.state {
        reason.did = format!("The loop is held at step `{}`.", state.current_step);
    }
    reason
}
