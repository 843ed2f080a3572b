//! The review files: what a flag claims must be in them, who may write them, what the owner's mandates allow in them.

use super::{
    CODEBASE, COMMENTS, MANDATES, RESPONSE, ReviewLoop, away, change_request,
    change_request::{ChangeRequest, Severity, Status},
    deferral,
    hold::{self, Reason},
    mandates::{self, Mandates},
    memory::{ABSENT, LoopState, Turn},
    overreach,
    table::{FlagStatus, Holder},
};
use crate::model::{
    Builder, Decision, Effect, FileState, Now, Rejection, RelPath, Severity as Weight, clip,
    without_bom,
};

/// What a flag with this status must find in the comments; judged when its run has ended and every file is final.
pub(super) fn check(
    review_loop: &ReviewLoop,
    state: &LoopState,
    said: FlagStatus,
) -> Result<(), Rejection> {
    match said {
        FlagStatus::Reviewed => check_requests(review_loop, state),
        FlagStatus::Approved | FlagStatus::VerifiedClean => {
            check_nothing_open(review_loop, state, said)
        }
        FlagStatus::Proposed | FlagStatus::Executed | FlagStatus::Revised => Ok(()),
    }
}

/// LP-12, LP-14, LP-15: at least one request, each in the right form, none about the scope of a mandated step.
fn check_requests(review_loop: &ReviewLoop, state: &LoopState) -> Result<(), Rejection> {
    let file = RelPath::fixed(COMMENTS);
    let requests = requests(review_loop)?;
    if !requests.iter().any(ChangeRequest::is_open) {
        let found = "no open change request".to_owned();
        return Err(Rejection::new("LP-15", &file, found, "at least one, or an approval"));
    }
    let mandated =
        mandates_of(review_loop).is_ok_and(|mandates| mandates.binds(&state.current_step));
    for request in requests.iter().filter(|request| request.is_open()) {
        if mandated && request.is_about_scope() {
            let found = format!("{} about scope or plan", request.id);
            let wanted = "no such request: the owner has mandated this step";
            return Err(Rejection::new("LP-12", &file, found, wanted).at_line(request.line));
        }
        if !request.has_known_category() {
            return Err(change_request::wrong_category(&file, request));
        }
        if request.round != state.current_round {
            let found = format!("{} of round {}", request.id, request.round);
            let wanted = format!("the current round {}", state.current_round);
            return Err(Rejection::new("LP-14", &file, found, &wanted).at_line(request.line));
        }
    }
    Ok(())
}

/// LP-15: nothing is approved over an open critical or high request of this round.
fn check_nothing_open(
    review_loop: &ReviewLoop,
    state: &LoopState,
    said: FlagStatus,
) -> Result<(), Rejection> {
    let requests = requests(review_loop)?;
    let open = requests.iter().find(|request| {
        request.is_open()
            && request.round == state.current_round
            && request.severity >= Severity::High
    });
    let Some(request) = open else { return Ok(()) };
    let found =
        format!("`{}` while {} is open and {:?}", said.word(), request.id, request.severity);
    let wanted = "no open critical or high change request of this round";
    Err(Rejection::new("LP-15", &RelPath::fixed(COMMENTS), found, wanted).at_line(request.line))
}

fn requests(review_loop: &ReviewLoop) -> Result<Vec<ChangeRequest>, Rejection> {
    let file = RelPath::fixed(COMMENTS);
    match review_loop.index.file(COMMENTS) {
        Some(FileState::Unreadable(odd)) => {
            Err(Rejection::new("DM-04", &file, odd.found.clone(), &odd.wanted))
        }
        Some(FileState::Absent) | None => Ok(Vec::new()),
        Some(FileState::Whole(whole)) => {
            change_request::parse(&file, &String::from_utf8_lossy(without_bom(&whole.bytes)))
        }
    }
}

/// The open requests as one line each, for people.
pub(super) fn open_requests(review_loop: &ReviewLoop) -> Vec<String> {
    let requests = requests(review_loop).unwrap_or_default();
    let open = requests.iter().filter(|request| request.is_open());
    open.map(|request| format!("{} ({:?}): {}", request.id, request.severity, request.title))
        .collect()
}

pub(super) fn mandates_of(review_loop: &ReviewLoop) -> Result<Mandates, Rejection> {
    match review_loop.index.file(MANDATES) {
        Some(FileState::Whole(file)) => mandates::parse(&file.bytes),
        Some(FileState::Unreadable(odd)) => {
            Err(Rejection::new("LP-29", &RelPath::fixed(MANDATES), odd.found.clone(), &odd.wanted))
        }
        Some(FileState::Absent) | None => Ok(Mandates::default()),
    }
}

/// LP-29: with mandates that nobody can read no turn begins.
pub(super) fn unreadable_mandates(review_loop: &ReviewLoop) -> Option<Reason> {
    let rejection = mandates_of(review_loop).err()?;
    let mut reason =
        Reason::new("LP-29", MANDATES, format!("`{MANDATES}` cannot be used: {}", rejection.found));
    reason.evidence = vec![rejection.to_string()];
    reason.wont = "We start no agent that could not be told what you mandated.".to_owned();
    Some(reason)
}

/// LP-12: the mandates are the owner's; they do not change while an agent runs.
pub(super) fn changed_mandates(review_loop: &ReviewLoop, turn: &Turn, run: &str) -> Option<Reason> {
    let now = review_loop.index.whole(MANDATES).map(|file| file.digest.clone());
    if turn.mandates == now {
        return None;
    }
    let summary = format!("`{MANDATES}` changed while `{run}` was running");
    let mut reason = Reason::new("LP-12", run, summary);
    reason.wont = "We judge by no mandates that an agent may have written; resume accepts them as they are now.".to_owned();
    Some(reason)
}

/// LP-13: an answer that defers or skips a mandated step is the owner's to see.
pub(super) fn tell_of_deferral(
    review_loop: &ReviewLoop,
    state: &LoopState,
    decision: &mut Builder,
) {
    let mandated =
        mandates_of(review_loop).is_ok_and(|mandates| mandates.binds(&state.current_step));
    let text = review_loop.index.text(RESPONSE).unwrap_or_default();
    let deferred = requests(review_loop)
        .unwrap_or_default()
        .iter()
        .any(|request| request.status == Status::Deferred);
    let Some(line) = deferral::declared(&text)
        .or(deferred.then(|| "a change request answered `deferred`".to_owned()))
    else {
        return;
    };
    if !mandated || state.active_agent != Holder::Builder {
        return;
    }
    let summary =
        format!("step `{}` is mandated, and its answer defers: {line}", state.current_step);
    let subject = format!("{}/{}", state.current_step, state.history.len());
    let mut reason = Reason::new("LP-13", subject, summary);
    reason.did = "The loop goes on; the reviewer sees the same text.".to_owned();
    reason.wont = "We do not decide for you whether that is a deferral.".to_owned();
    hold::tell(review_loop, decision, Weight::Warning, reason);
}

/// LP-17: each review file has one author; a change at another time is told. LP-18: a missing map is told once.
pub(super) fn watch_files(review_loop: &ReviewLoop, _: Now) -> Option<Decision> {
    let state = review_loop.index.memory.state.as_ref()?;
    if away::is_away(review_loop) || review_loop.index.memory.is_history_held() {
        return None;
    }
    [(COMMENTS, Holder::Reviewer), (RESPONSE, Holder::Builder)]
        .into_iter()
        .find_map(|(name, author)| changed_file(review_loop, state, name, author))
        .or_else(|| missing_map(review_loop))
}

fn changed_file(
    review_loop: &ReviewLoop,
    state: &LoopState,
    name: &'static str,
    author: Holder,
) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    let now = as_it_is(review_loop, name)?;
    let known = memory.authored.get(name);
    // A loop of an earlier version has not noted that the file was absent: it is known from its first bytes on.
    if known == Some(&now) || (known.is_none() && now == ABSENT) {
        return None;
    }
    let turn = memory.turn.as_ref();
    let running = turn.and_then(|turn| turn.run.as_ref());
    // A quick agent's last words are found together with its end.
    let just_ended = turn.and_then(|turn| turn.ended.as_ref()).is_some_and(|ended| !ended.looked);
    let by_author = (running.is_some() || just_ended) && state.active_agent == author;
    let mut decision = review_loop.builder();
    decision.remember(&format!("authored/{name}"), &now);
    // What lay there before the first turn is nobody's doing.
    if known.is_some() && !by_author {
        let who = running.map_or("no run was alive".to_owned(), |running| {
            format!("`{}` was alive", running.run)
        });
        let summary =
            format!("`{name}` was written by somebody other than {} ({who})", author.word());
        let mut reason = Reason::new("LP-17", format!("{name} {now}"), summary);
        reason.evidence = vec![format!("`{name}` is {} now", clip(&now, 12))];
        reason.evidence.extend(review_loop.index.text(name).map(|text| clip(&text, 400)));
        reason.did = match running {
            Some(_) if overreach::binds(state) => {
                "The file is put back when the run has ended.".to_owned()
            }
            _ => "The file stays as it is; the loop goes on.".to_owned(),
        };
        reason.wont = "agency does not decide whether an agent or a human wrote it.".to_owned();
        hold::tell(review_loop, &mut decision, Weight::Critical, reason);
    }
    Some(decision.finish())
}

/// The digest of a review file, or that there is none; `None`: nobody has looked, or it cannot be read.
pub(super) fn as_it_is(review_loop: &ReviewLoop, name: &'static str) -> Option<String> {
    match review_loop.index.file(name)? {
        FileState::Whole(file) => Some(file.digest.to_string()),
        FileState::Absent => Some(ABSENT.to_owned()),
        FileState::Unreadable(_) => None,
    }
}

/// The review files as they are now are nobody's violation (LP-17).
pub(super) fn take_as_known(review_loop: &ReviewLoop, decision: &mut Builder) {
    for name in [COMMENTS, RESPONSE] {
        if let Some(now) = as_it_is(review_loop, name) {
            decision.remember(&format!("authored/{name}"), now);
        }
    }
}

fn missing_map(review_loop: &ReviewLoop) -> Option<Decision> {
    match (review_loop.index.file(CODEBASE)?, &review_loop.index.memory.told_of_map) {
        (FileState::Absent, None) => Some(tell_missing_map(review_loop)),
        (FileState::Whole(_), Some(cause)) => {
            let mut decision = review_loop.builder();
            decision.forget("told-of-map");
            let how = format!("`{CODEBASE}` was added");
            decision.effect(Effect::Resolve { cause: cause.clone(), how });
            Some(decision.finish())
        }
        _ => None,
    }
}

fn tell_missing_map(review_loop: &ReviewLoop) -> Decision {
    let mut decision = review_loop.builder();
    decision.remember("told-of-map", hold::cause(review_loop, "LP-18", CODEBASE));
    let mut reason = Reason::new("LP-18", CODEBASE, format!("`{CODEBASE}` is missing"));
    reason.did = "Every prompt asks for it until it is there.".to_owned();
    reason.wont = "We write no map ourselves.".to_owned();
    hold::tell(review_loop, &mut decision, Weight::Notice, reason);
    decision.finish()
}
