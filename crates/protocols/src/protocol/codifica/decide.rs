//! The order of duties: which one question the keeper answers next. Each duty lives in its own file.

use super::keeper::Codifica;
use super::memory::Stage;
use super::tell::{self, Notice};
use super::{FILE, away, command, condition, dispatch, draft, finish, history, watchful};
use crate::model::{Deadline, Decision, Effect, FailureKind, Moment, Now, RunId};

pub(super) fn decide(codifica: &Codifica, now: Now) -> Decision {
    if codifica.index.in_flight.blocking().is_some() {
        return Decision::default();
    }
    // What is committed is judged before anything is believed of it.
    let duties: [fn(&Codifica, Now) -> Option<Decision>; 10] = [
        command::answer,
        failure,
        unknown,
        contract_is_broken,
        history::judge_commits,
        finish::look_at_ends,
        draft::look,
        watchful::look,
        away::look,
        dispatch::go_on,
    ];
    let decision = duties.iter().find_map(|duty| duty(codifica, now)).unwrap_or_default();
    if decision.is_quiet() {
        Decision { next_deadline: deadline(codifica, now), ..decision }
    } else {
        decision
    }
}

/// DM-13: state files that our journal does not know. They may be a clone's, or another box's; the owner must say.
fn unknown(codifica: &Codifica, _: Now) -> Option<Decision> {
    let memory = &codifica.index.memory;
    if memory.accepted.is_some()
        || !memory.holds.is_empty()
        || codifica.index.config().is_none()
        || !codifica.desk.git
    {
        return None;
    }
    let summary = "First time here: run \"agency adopt\" to start from the current state files";
    let mut word = Notice::new("DM-13", FILE, summary.to_owned());
    word.what = format!(
        "`{FILE}` exists, and this machine has no journal for it: the repository is new here, a clone or a copy."
    );
    word.did = "No task is handed out.".to_owned();
    word.resolve = "agency adopt".to_owned();
    let mut decision = codifica.builder();
    tell::hold(codifica, &mut decision, word);
    Some(decision.finish())
}

/// CD-01, CD-26: stop, and go on by itself when it is put right.
fn contract_is_broken(codifica: &Codifica, _: Now) -> Option<Decision> {
    let memory = &codifica.index.memory;
    let problem = match (codifica.index.config_problems(), codifica.index.unreadable()) {
        (Some(findings), _) => findings.iter().map(ToString::to_string).next(),
        (None, Some((path, found))) => Some(format!("`{path}` is {found}")),
        (None, None) => codifica.index.missing(),
    };
    let told = memory.holds.iter().find(|hold| hold.cause.subject == "contract");
    match (problem, told) {
        (Some(problem), None) => {
            let mut word = Notice::new(
                "CD-01",
                "contract",
                format!("the runtime contract cannot be used: {problem}"),
            );
            word.resolve = format!("correct `{FILE}` or the file it names; we go on by ourselves");
            let mut decision = codifica.builder();
            tell::hold(codifica, &mut decision, word);
            Some(decision.finish())
        }
        (None, Some(told)) if codifica.index.config().is_some() => {
            let mut decision = codifica.builder();
            let left: Vec<_> = memory.holds.iter().filter(|hold| *hold != told).cloned().collect();
            decision.remember("holds", left);
            decision.effect(Effect::Resolve {
                cause: told.cause.clone(),
                how: "it was put right".to_owned(),
            });
            Some(decision.finish())
        }
        _ => None,
    }
}

/// An effect of ours failed: the job it belongs to cannot go on, and the owner must look.
fn failure(codifica: &Codifica, now: Now) -> Option<Decision> {
    let (effect, failure) = codifica.index.in_flight.failed()?;
    if let Effect::Spawn(spawn) = effect {
        return dispatch::spawn_failed(codifica, spawn, failure, now);
    }
    let mut decision = codifica.builder();
    if failure.kind == FailureKind::GitHeld {
        tell::hold_git(codifica, &mut decision, &failure.said);
        return Some(decision.finish());
    }
    let doing = effect.doing();
    let mut word = Notice::new("DM-10", doing.clone(), format!("{doing} failed: {}", failure.said));
    word.evidence = vec![failure.said.clone()];
    word.resolve = "agency resume".to_owned();
    tell::hold(codifica, &mut decision, word);
    Some(decision.finish())
}

/// The next moment at which time alone changes the answer. Stale claims are found by the regular looks.
fn deadline(codifica: &Codifica, now: Now) -> Option<Deadline> {
    let memory = &codifica.index.memory;
    let draft = draft::deadline(codifica).filter(|_| !memory.is_git_held());
    if !memory.holds.is_empty() {
        let left = draft?.left(now)?;
        return Some(Deadline { at: now.ticks.after(left), why: "an edit settles" });
    }
    let jobs = memory
        .jobs
        .values()
        .filter(|job| job.stage == Stage::Tree)
        .filter_map(|job| job.not_before);
    let head = codifica.index.head();
    let rests = memory
        .rests
        .values()
        .filter(|rest| rest.failures < dispatch::CLAIM_TRIES || rest.head.as_ref() != head);
    let moments = jobs.chain(rests.map(|rest| rest.not_before)).chain(draft);
    let moments = moments.chain(away::deadline(codifica, now));
    let left = moments.filter_map(|moment: Moment| moment.left(now)).min();
    let soon = left.map(|left| Deadline { at: now.ticks.after(left), why: "try again" });
    let outside = condition::outside(codifica).map(|_| Deadline::patrol(now));
    Deadline::earlier(soon, outside)
}

impl Stage {
    pub(super) fn run(&self) -> Option<&RunId> {
        match self {
            Self::Claiming { run } | Self::Working { run } | Self::Ended { run, .. } => Some(run),
            Self::Claim | Self::Base { .. } | Self::Tree => None,
        }
    }
}
