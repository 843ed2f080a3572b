//! SE-04: what only a human may do is told to the owner on all channels whenever it was done, by a command or by hand. An agent
//! under the owner's own user can commit in the owner's name; it cannot do so unheard.

use super::board::Board;
use super::keeper::Codifica;
use super::memory::Stage;
use super::table::{self, Who};
use super::task::Task;
use super::tell::{self, Notice};
use super::words::State;
use crate::model::{Builder, Severity, clip};

const MOST: usize = 20;

/// What a version let go on, undid or signed off that the one before did not. A block tightens, and is not among it.
pub(super) fn loosened(old: &Board, new: &Board) -> Vec<String> {
    let mut found = Vec::new();
    for (glance, place) in new.placed() {
        let Some(before) = old.place(&glance.id) else { continue };
        if old.text_at(before) == new.text_at(place) {
            continue;
        }
        if let (Ok(was), Ok(is)) = (old.task_at(before), new.task_at(place)) {
            found.extend(by_humans(&was, &is));
        }
    }
    found
}

fn by_humans(was: &Task, is: &Task) -> Vec<String> {
    let known = was.state_transitions.len();
    let entries = is.state_transitions.get(known..).unwrap_or_default();
    let human = entries.iter().filter(|entry| {
        entry.to != State::Blocked
            && table::find(entry.from, entry.to).is_some_and(|row| row.who == Who::Human)
    });
    let mut found: Vec<String> = human
        .map(|entry| {
            let reason = entry.reason.as_deref().unwrap_or("no reason given");
            format!("{}: {} → {} ({})", is.id, entry.from, entry.to, clip(reason, 120))
        })
        .collect();
    if let Some(review) = is.human_review.as_ref().filter(|_| was.human_review != is.human_review) {
        let status = review.status.map_or("changed", super::words::Verdict::word);
        let reviewer = review.reviewer.as_deref().unwrap_or("nobody named");
        found.push(format!("{}: human_review {status} by {}", is.id, clip(reviewer, 60)));
    }
    found
}

pub(super) fn announce(
    codifica: &Codifica,
    decision: &mut Builder,
    who: &str,
    how: &str,
    mut loosened: Vec<String>,
) {
    let more = loosened.len() - 1;
    let also = if more == 0 { String::new() } else { format!(" (and {more} more)") };
    let summary = format!("done as a human by {who}: {}{also}", loosened[0]);
    let mut word = Notice::new("SE-04", how, summary);
    word.did = "It counts. If it was not you, see who had access: `agency work audit`.".to_owned();
    word.resolve =
        "nothing to do if it was you; else put the task right with `agency work`".to_owned();
    loosened.truncate(MOST);
    word.evidence = std::iter::once(how.to_owned()).chain(loosened).collect();
    let alive = codifica.index.memory.jobs.values().filter_map(|job| match &job.stage {
        Stage::Working { run } => Some(format!("meanwhile `{run}` of agent:{} ran", job.agent)),
        Stage::Claim
        | Stage::Claiming { .. }
        | Stage::Base { .. }
        | Stage::Tree
        | Stage::Ended { .. } => None,
    });
    word.evidence.extend(alive);
    word.everywhere = true;
    tell::tell(codifica, decision, Severity::Notice, word);
}
