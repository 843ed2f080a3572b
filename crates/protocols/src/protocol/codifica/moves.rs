//! One move of one task, judged: is there a row, may this actor, does everything hold that the row asks for?
//! Commands and foreign edits go through the same function.

use super::board::Board;
use super::finding::Finding;
use super::read::SUMMARY_MAX;
use super::table::{self, Guard, Row, Who};
use super::task::Task;
use super::words::{Actor, Kind, Owner, State};
use crate::model::{RelPath, counted};

/// A move to judge.
pub(super) struct Move<'a> {
    pub(super) before: &'a Task,
    pub(super) after: &'a Task,
    pub(super) from: State,
    pub(super) to: State,
    pub(super) reason: Option<&'a str>,
    pub(super) actor: &'a Actor,
    /// Everything as it is after the move.
    pub(super) board: &'a Board,
    pub(super) file: &'a RelPath,
    pub(super) line: u64,
}

pub(super) fn judge(it: &Move<'_>) -> Vec<Finding> {
    let Some(row) = table::find(it.from, it.to) else {
        let found = format!("{} → {} by {}", it.from, it.to, it.actor);
        return vec![it.refuse("CD-07", found, &possible(it.from))];
    };
    let mut findings = Vec::new();
    findings.extend(wrong_actor(it, row));
    findings.extend(row.guards.iter().filter_map(|guard| holds(it, *guard)));
    if it.before.kind.follows_build() && it.from == State::Todo && it.to != State::InProgress {
        findings.extend(
            holds(it, Guard::Acceptance)
                .filter(|_| !matches!(it.to, State::Rejected | State::Blocked)),
        );
    }
    findings
}

fn possible(from: State) -> String {
    let next: Vec<_> = State::ALL
        .iter()
        .filter(|to| table::find(from, **to).is_some())
        .map(|to| to.word())
        .collect();
    format!("from {from}: {}", next.join(", "))
}

impl Move<'_> {
    fn refuse(&self, rule: &str, found: impl Into<String>, wanted: &str) -> Finding {
        Finding::violation(rule, self.file, found, wanted).at(self.line).of(&self.after.id)
    }
}

fn wrong_actor(it: &Move<'_>, row: &Row) -> Option<Finding> {
    let (actor, owner) = (it.actor, &it.before.owner);
    match row.who {
        Who::Human => actor.is_agent().then(|| {
            let found = format!("{} → {} by {actor}", it.from, it.to);
            let wanted = match it.to {
                State::Blocked => {
                    "a human: an agent recommends a block with `agency work request-block`"
                }
                State::Todo
                | State::InProgress
                | State::ToBeTested
                | State::Done
                | State::Rejected => "a human: only they may do this",
            };
            it.refuse("CD-07a", found, wanted)
        }),
        Who::Owner | Who::Worker => (!actor.owns(current_owner(it))).then(|| {
            let found = format!("{} → {} by {actor}, owner {}", it.from, it.to, current_owner(it));
            it.refuse("CD-07b", found, "the task's owner")
        }),
        Who::Taker => {
            let free = matches!(owner, Owner::Unassigned)
                || actor.owns(owner)
                || matches!(actor, Actor::Human | Actor::Someone);
            (!free).then(|| {
                it.refuse(
                    "CD-08",
                    format!("a claim by {actor} of a task of {owner}"),
                    "an unassigned task, or the owner's own",
                )
            })
        }
    }
}

/// Within one edit a task may be taken and moved on: then the new owner is the one that counts.
fn current_owner<'a>(it: &'a Move<'_>) -> &'a Owner {
    if it.before.state == it.from { &it.before.owner } else { &it.after.owner }
}

fn holds(it: &Move<'_>, guard: Guard) -> Option<Finding> {
    match guard {
        Guard::Claimed => claimed(it),
        Guard::Owned => unowned(it),
        Guard::Acceptance => (it.after.kind.follows_build() && it.after.acceptance.is_empty())
            .then(|| {
                let found =
                    format!("a `{}` task without acceptance criteria", it.after.kind.word());
                it.refuse(
                    "CD-07c",
                    found,
                    "at least one line in `acceptance` before it leaves todo",
                )
            }),
        Guard::Dependencies => unmet(it),
        Guard::Room => no_room(it),
        Guard::Skips => it.after.kind.follows_build().then(|| {
            let found =
                format!("a `{}` task that goes from in_progress to done", it.after.kind.word());
            it.refuse(
                "CD-07d",
                found,
                "to_be_tested first: only test, review, investigate and followup may skip it",
            )
        }),
        Guard::Judgment => (it.after.kind == Kind::Review && it.actor.is_agent()).then(|| {
            it.refuse(
                "CD-21",
                format!("a `review` task in the hands of {}", it.actor),
                "a human: sign-off is human judgment",
            )
        }),
        Guard::Summary => no_summary(it),
        Guard::Completed => it.after.completed_at.is_none().then(|| {
            Finding::warning(
                "CD-13",
                it.file,
                format!("{} without `completed_at`", it.to),
                "the time of completion",
            )
            .at(it.line)
            .of(&it.after.id)
        }),
        Guard::BlockedReason => blank(it.after.blocked_reason.as_deref())
            .then(|| it.refuse("CD-13", "blocked without `blocked_reason`", "the reason")),
        Guard::Reason => blank(it.reason).then(|| {
            it.refuse(
                "CD-13",
                format!("{} → {} without a reason", it.from, it.to),
                "a `reason` in its entry of `state_transitions`",
            )
        }),
    }
}

fn blank(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}

fn claimed(it: &Move<'_>) -> Option<Finding> {
    unowned(it).or_else(|| {
        let mine =
            matches!(it.actor, Actor::Someone | Actor::Human) || it.actor.owns(&it.after.owner);
        if !mine {
            let found = format!("claimed by {} for {}", it.actor, it.after.owner);
            return Some(it.refuse("CD-08", found, "the one who claims as `owner`"));
        }
        // v0.1 knew no such field; a claim of today has it (spec 3 §12.3).
        let late = it.after.claimed_at.is_none() && it.board.config.version != "0.1";
        late.then(|| {
            it.refuse(
                "CD-08",
                "a claim without `claimed_at`",
                "state, owner and claimed_at in one commit",
            )
        })
    })
}

fn unowned(it: &Move<'_>) -> Option<Finding> {
    (it.after.owner == Owner::Unassigned).then(|| {
        it.refuse("CD-22", format!("`unassigned` in {}", it.to), "an owner: human or agent:<name>")
    })
}

fn unmet(it: &Move<'_>) -> Option<Finding> {
    for id in &it.after.depends_on {
        match it.board.glance(id) {
            None => {
                let found = format!(
                    "`depends_on` names `{}`, which is in no state file",
                    crate::model::clip(id, 60)
                );
                return Some(it.refuse("CD-06", found, "ids of tasks that exist"));
            }
            Some(task) if task.state != State::Done => {
                let found = format!("`depends_on` names {id}, which is {}", task.state);
                return Some(it.refuse("CD-06", found, "dependencies that are done"));
            }
            Some(_) => {}
        }
    }
    None
}

fn no_room(it: &Move<'_>) -> Option<Finding> {
    let Actor::Agent(agent) = it.actor else { return None };
    let limit = it.board.config.rules.max_concurrent?;
    let held = it.board.held_by(agent);
    (held > limit).then(|| {
        let found = format!("{} in progress by agent:{agent}", counted(held, "task"));
        it.refuse("CD-12", found, &format!("at most {limit} (`max_concurrent_tasks_per_agent`)"))
    })
}

/// The closing note is the owner's last one; humans write none.
fn no_summary(it: &Move<'_>) -> Option<Finding> {
    if !it.actor.is_agent() {
        return None;
    }
    let closing = it.after.execution_notes.iter().rev().find(|note| it.actor == &note.by);
    let wanted = "a closing note with a summary of at most 120 characters on one line";
    match closing.map(|note| note.summary.as_deref()) {
        Some(Some(summary)) if is_summary(summary) => None,
        Some(Some(summary)) => {
            let found = format!("a summary of {} characters", summary.chars().count());
            Some(it.refuse("CD-13", found, wanted))
        }
        Some(None) if it.board.config.version == "0.1" => Some(
            Finding::warning("CD-25", it.file, "a closing note without a summary", wanted)
                .at(it.line)
                .of(&it.after.id),
        ),
        Some(None) => Some(it.refuse("CD-13", "a closing note without a summary", wanted)),
        None => Some(it.refuse("CD-13", "no closing note", wanted)),
    }
}

pub(super) fn is_summary(text: &str) -> bool {
    !text.trim().is_empty() && text.chars().count() <= SUMMARY_MAX && !text.contains('\n')
}
