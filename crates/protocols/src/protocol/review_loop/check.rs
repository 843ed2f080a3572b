//! What `agency check` says of a loop's files: everything that is wrong, at once. It reads and repairs nothing.

use super::{
    COMMENTS, STATE, change_request, codebase, mandates,
    memory::{LoopState, step_of},
    steps,
};
use crate::model::{Rejection, RelPath, clip, without_bom};
use serde_json::Value;

/// The loop's files as they lie there, and what our journal says of them.
#[derive(Default)]
pub struct Files<'a> {
    pub state: Option<&'a [u8]>,
    /// The state that our journal remembers, if there is one.
    pub remembered: Option<&'a Value>,
    pub mandates: Option<&'a [u8]>,
    pub comments: Option<&'a [u8]>,
    pub map: Option<&'a [u8]>,
}

/// `lines` says how many lines a file has, or why it cannot be counted.
pub fn problems(
    files: &Files<'_>,
    lines: &mut dyn FnMut(&RelPath) -> Result<u64, String>,
) -> Vec<Rejection> {
    let mut problems = state(files);
    problems.extend(files.mandates.and_then(|bytes| mandates::parse(bytes).err()));
    if let Some(bytes) = files.comments {
        problems.extend(comments(&String::from_utf8_lossy(without_bom(bytes))));
    }
    match files.map {
        Some(bytes) => {
            let text = String::from_utf8_lossy(without_bom(bytes));
            problems.extend(codebase::problems(&text, lines));
        }
        None => problems.push(Rejection::new(
            "LP-18",
            &RelPath::fixed(super::CODEBASE),
            "no such file",
            "a map of the code for the agents",
        )),
    }
    problems
}

fn comments(text: &str) -> Vec<Rejection> {
    let file = RelPath::fixed(COMMENTS);
    let (requests, mut problems) = change_request::parse_all(&file, text);
    let odd = requests.iter().filter(|request| request.is_open() && !request.has_known_category());
    problems.extend(odd.map(|request| change_request::wrong_category(&file, request)));
    problems.sort_by_key(|problem| problem.line);
    problems
}

/// LP-11: the state is whole, follows from its own history, and is the one that our journal knows.
fn state(files: &Files<'_>) -> Vec<Rejection> {
    let wrong = |found: String, wanted: &str| {
        Rejection::new("LP-11", &RelPath::fixed(STATE), found, wanted)
    };
    let Some(bytes) = files.state else { return Vec::new() };
    let state = match LoopState::from_bytes(bytes) {
        Ok(state) => state,
        Err(why) => {
            return vec![wrong(why, "the state of a review loop, as `agency loop init` writes it")];
        }
    };
    let mut problems = Vec::new();
    let known = |step: &String| steps::is_step(step) && state.steps.contains(step);
    if !known(&state.current_step) {
        let found = format!("currentStep `{}`", clip(&state.current_step, 40));
        problems.push(wrong(found, "one of its steps"));
    }
    for pair in state.history.windows(2).filter(|pair| pair[0].to != pair[1].from) {
        let found = format!("a history that goes on from `{}`", clip(&pair[1].from, 60));
        problems.push(wrong(found, &format!("from `{}`, where it stood", clip(&pair[0].to, 60))));
    }
    let here = format!("{}/{}", state.current_step, state.phase.word());
    if let Some(last) = state.history.last().filter(|last| last.to != here) {
        let found = format!(
            "step `{}` after a history that ends in `{}`",
            here,
            clip(step_of(&last.to), 40)
        );
        problems.push(wrong(found, "the end of its history"));
    }
    let ours = files.remembered.and_then(|value| serde_json::from_value(value.clone()).ok());
    if ours.is_some_and(|ours: LoopState| ours.to_bytes() != bytes) {
        problems.push(wrong(
            "other bytes than our journal knows".to_owned(),
            "what the daemon wrote; `agency loop restore` puts it back",
        ));
    }
    problems
}
