//! The workflow in one line for `agency status`, and the same for machines.

use super::index::StateSeen;
use super::memory::{Turn, Workflow};
use super::table::Folder;
use super::{Handoff, away, state};
use crate::model::{Now, clock_time};
use crate::protocol::Status;
use serde_json::json;
use std::time::Duration;

pub(super) fn status(handoff: &Handoff, now: Now) -> Status {
    let memory = &handoff.index.memory;
    let held = memory.holds.first().map(|hold| hold.summary.clone());
    let Some(workflow) = &memory.workflow else {
        let none = match &handoff.index.state {
            Some(StateSeen::Bad(foreign)) => state::other_format(&foreign.problems),
            Some(StateSeen::Absent | StateSeen::Good(_)) | None => {
                "no workflow; `agency handoff start` begins one".to_owned()
            }
        };
        return Status { summary: held.clone().unwrap_or(none), held, detail: json!(null) };
    };
    let count =
        |folder: Folder| memory.open.values().filter(|known| known.folder == folder).count();
    let detail = json!({
        "workflow": workflow.id, "type": workflow.flow.word(), "spec": workflow.spec, "started": workflow.started,
        "iteration": workflow.iteration, "ended": workflow.ended, "approved": workflow.approved,
        "pending": count(Folder::Pending), "accepted": count(Folder::Accepted),
        "agent": memory.turn.as_ref().map(|turn| turn.who.word()), "last_handoff": memory.last_handoff,
        "questions": memory.asked.len(), "refused": memory.refused,
    });
    let summary = summary(handoff, workflow, now);
    Status { summary, held, detail }
}

fn summary(handoff: &Handoff, workflow: &Workflow, now: Now) -> String {
    let memory = &handoff.index.memory;
    let flow = workflow.flow.word();
    if workflow.ended.is_some() {
        let how = if workflow.approved { "complete" } else { "cancelled" };
        return format!("{how}, {flow}, iteration {}", workflow.iteration);
    }
    let waiting = memory.open.values().filter(|known| known.folder == Folder::Pending).count();
    let doing = match (&memory.turn, memory.holds.first()) {
        (_, Some(hold)) => format!("held: {}", hold.summary),
        (Some(Turn { run: Some(running), who, .. }), _) => {
            format!("{} works for {}", who.word(), short(now.ticks.since(running.ticks)))
        }
        (Some(turn), _) => match (turn.tries.pause(now), away::in_the_way(handoff)) {
            (Some((until, "")), _) => format!(
                "waiting: the next run of {} starts at {}",
                turn.who.word(),
                clock_time(until.wall())
            ),
            (Some((_, paused)), _) => format!("waiting: {paused}"),
            (None, Some(busy)) => format!("{} waits: {}", turn.who.word(), busy.words()),
            (None, None) => format!("{} is next", turn.who.word()),
        },
        (None, None) => "waiting".to_owned(),
    };
    // A hold or a pause says by itself what was refused.
    let turn = memory.turn.as_ref().filter(|_| !memory.is_held());
    let refused = turn.and_then(|turn| turn.refusals.sentence(turn.who));
    let refused = refused.filter(|words| !doing.contains(words));
    let refused = refused.map_or_else(String::new, |words| format!(" · {words}"));
    format!("{flow} · iteration {} · {waiting} pending · {doing}{refused}", workflow.iteration)
}

fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}
