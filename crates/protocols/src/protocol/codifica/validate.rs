//! What is wrong with the state files as they stand, whoever wrote them: every task's fields and the links between tasks.

use super::board::{Board, TaskPosition};
use super::finding::Finding;
use super::moves::is_summary;
use super::task::Task;
use super::words::{Actor, Kind, Owner, State};
use crate::model::{clip, counted};
use std::collections::HashMap;

/// Everything at once, in file order, each with its line. One task is held in memory at a time.
pub fn validate(board: &Board) -> Vec<Finding> {
    let mut findings = board.problems.clone();
    for place in board.places() {
        let (task, mut faults) = board.partly_at(place);
        let whole = faults.is_empty();
        faults.retain(|fault| !board.problems.contains(fault));
        findings.append(&mut faults);
        // What can be read of a task is judged beside what cannot (CD-29).
        let task = task.as_ref();
        findings.extend(task.into_iter().flat_map(|task| match whole {
            true => of_task(board, place, task),
            false => of_part(board, place, task),
        }));
    }
    findings.extend(cycles(board));
    findings.extend(crowds(board));
    findings.sort_by(|a, b| {
        (&a.rejection.file, a.rejection.line).cmp(&(&b.rejection.file, b.rejection.line))
    });
    findings
}

/// The rules about one task as it stands.
pub(super) fn of_task(board: &Board, place: TaskPosition, task: &Task) -> Vec<Finding> {
    let spot = Spot { board, place, task };
    let checks: [fn(&Spot<'_>) -> Vec<Finding>; 7] =
        [types, accepted, hands, reasons, closing, links, evidence];
    checks.iter().flat_map(|check| check(&spot)).collect()
}

/// Those rules that a default value for a field that cannot be read does not break.
fn of_part(board: &Board, place: TaskPosition, task: &Task) -> Vec<Finding> {
    let spot = Spot { board, place, task };
    [types, links, evidence].iter().flat_map(|check| check(&spot)).collect()
}

struct Spot<'a> {
    board: &'a Board,
    place: TaskPosition,
    task: &'a Task,
}

impl Spot<'_> {
    fn violation(&self, rule: &str, found: impl Into<String>, wanted: &str) -> Finding {
        let finding = Finding::violation(rule, self.board.path_at(self.place), found, wanted)
            .at(self.board.line_at(self.place));
        if self.task.id.is_empty() { finding } else { finding.of(&self.task.id) }
    }

    fn warning(&self, rule: &str, found: impl Into<String>, wanted: &str) -> Finding {
        Finding { level: super::finding::Level::Warning, ..self.violation(rule, found, wanted) }
    }
}

fn types(it: &Spot<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Kind::Custom(word) = &it.task.kind
        && !it.board.config.rules.custom_types.contains(word)
    {
        let wanted = "build, test, review, investigate, followup, or one of `custom_types`";
        findings.push(it.violation("CD-21", format!("the type `{}`", clip(word, 60)), wanted));
    }
    if it.task.kind == Kind::Followup && it.task.derived_from.is_none() {
        findings.push(it.violation(
            "CD-21",
            "a followup without `derived_from`",
            "the task that it follows",
        ));
    }
    findings
}

fn accepted(it: &Spot<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if it.task.kind.follows_build() && it.task.acceptance.is_empty() {
        let found = format!(
            "a `{}` task in {} without acceptance criteria",
            it.task.kind.word(),
            it.task.state
        );
        let wanted = "at least one line in `acceptance` before it leaves todo";
        findings.push(match it.task.state {
            State::Todo | State::Blocked | State::Rejected => it.warning("CD-07c", found, wanted),
            State::InProgress | State::ToBeTested | State::Done => {
                it.violation("CD-07c", found, wanted)
            }
        });
    }
    findings
}

fn hands(it: &Spot<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if it.task.state == State::InProgress && it.task.owner == Owner::Unassigned {
        findings.push(it.violation(
            "CD-22",
            "`unassigned` in in_progress",
            "an owner: human or agent:<name>",
        ));
    }
    if let (State::InProgress | State::ToBeTested, Owner::Agent(name)) =
        (it.task.state, &it.task.owner)
        && !it.board.config.allows(name)
    {
        let found = format!("agent:{name}, who is not in `allowed_agents`");
        findings.push(it.violation("CD-12", found, "an agent that the owner allowed"));
    }
    findings
}

fn reasons(it: &Spot<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let blank = |text: &Option<String>| text.as_deref().is_none_or(|text| text.trim().is_empty());
    if it.task.state == State::Blocked && blank(&it.task.blocked_reason) {
        // New fields are not asked of tasks that were blocked before there were any (spec 3 §12.3).
        let logged = it.task.state_transitions.iter().any(|entry| entry.to == State::Blocked);
        let (found, wanted) = ("blocked without `blocked_reason`", "the reason");
        findings.push(if logged {
            it.violation("CD-13", found, wanted)
        } else {
            it.warning("CD-25", found, wanted)
        });
    }
    let last = it.task.state_transitions.last();
    if it.task.state == State::Rejected && last.is_some_and(|entry| blank(&entry.reason)) {
        findings.push(it.violation(
            "CD-13",
            "rejected without a reason",
            "a `reason` in `state_transitions`",
        ));
    }
    if let Some(last) = last.filter(|last| last.to != it.task.state) {
        let found = format!(
            "the last entry of `state_transitions` leads to {}, the task is {}",
            last.to, it.task.state
        );
        findings.push(it.warning("CD-20", found, "one entry for every transition"));
    }
    findings
}

fn closing(it: &Spot<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if it.task.state.is_terminal() && it.task.completed_at.is_none() && !it.task.is_legacy() {
        findings.push(it.warning(
            "CD-13",
            format!("{} without `completed_at`", it.task.state),
            "the time of completion",
        ));
    }
    if it.task.state == State::Done
        && it.task.execution_notes.last().is_some_and(|note| note.summary.is_none())
    {
        findings.push(it.warning(
            "CD-25",
            "a closing note without a summary",
            "at most 120 characters on one line",
        ));
    }
    for note in &it.task.execution_notes {
        if note.summary.as_deref().is_some_and(|summary| !is_summary(summary)) {
            findings.push(it.violation(
                "CD-13",
                "a summary of more than 120 characters or one line",
                "at most 120 characters on one line",
            ));
        }
        if note.by == Actor::Human {
            findings.push(it.warning(
                "CD-14",
                "a human in `execution_notes`",
                "agents only; humans write `human_review`",
            ));
        }
    }
    findings
}

fn links(it: &Spot<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for id in it.task.depends_on.iter().filter(|id| it.board.glance(id).is_none()) {
        let found = format!("`depends_on` names `{}`, which is in no state file", clip(id, 60));
        findings.push(it.violation("CD-06", found, "ids of tasks that exist"));
    }
    let gone = |id: &&String| it.board.glance(id).is_none();
    if let Some(id) = it.task.blocked_by.as_ref().filter(gone) {
        let found = format!("`blocked_by` names `{}`, which is in no state file", clip(id, 60));
        findings.push(it.violation("CD-29", found, "an id of a task that exists"));
    }
    if let Some(id) = it.task.derived_from.as_ref().filter(gone) {
        let found = format!("`derived_from` names `{}`, which is in no state file", clip(id, 60));
        findings.push(it.warning("CD-06", found, "an id of a task that exists"));
    }
    findings
}

/// spec 3 §9: images lie below `<assets>/<ID>/`.
fn evidence(it: &Spot<'_>) -> Vec<Finding> {
    let home = format!("{}/{}/", it.board.config.assets, it.task.id);
    let review = it.task.human_review.iter().flat_map(|review| &review.notes);
    let notes = it.task.execution_notes.iter().map(|note| &note.note);
    let texts = review.chain(notes).chain(&it.task.description);
    let astray = texts.flat_map(|text| images(text)).filter(|path| !path.starts_with(&home));
    let wanted = format!("a file below `{home}`");
    astray
        .map(|path| it.warning("CD-16", format!("the image `{}`", clip(path, 80)), &wanted))
        .collect()
}

/// The targets of `![…](…)` that are files, not addresses.
fn images(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("![").skip(1).filter_map(|rest| {
        let rest = rest.split_once("](")?.1;
        rest.split([')', ' ', '"']).next()
    });
    targets.filter(|target| {
        !target.is_empty() && !target.contains("://") && !target.starts_with("data:")
    })
}

/// spec 3 §5.2: circles, each printed as a path.
pub(super) fn cycles(board: &Board) -> Vec<Finding> {
    let mut seen: HashMap<&str, Mark> = HashMap::new();
    let mut findings = Vec::new();
    for glance in board.glances() {
        if seen.contains_key(glance.id.as_str()) || glance.depends_on.is_empty() {
            continue;
        }
        let mut path: Vec<(&str, usize)> = vec![(&glance.id, 0)];
        seen.insert(&glance.id, Mark::Open);
        while let Some((id, next)) = path.last_mut() {
            let links = board.glance(id).map_or(&[][..], |glance| &glance.depends_on);
            let Some(link) = links.get(*next) else {
                seen.insert(id, Mark::Closed);
                path.pop();
                continue;
            };
            *next += 1;
            match seen.get(link.as_str()) {
                Some(Mark::Open) => findings.extend(circle(board, &path, link)),
                Some(Mark::Closed) => {}
                None => {
                    seen.insert(link, Mark::Open);
                    path.push((link, 0));
                }
            }
        }
    }
    findings
}

enum Mark {
    Open,
    Closed,
}

fn circle(board: &Board, path: &[(&str, usize)], back_to: &str) -> Option<Finding> {
    let start = path.iter().position(|(id, _)| *id == back_to)?;
    let ids: Vec<_> = path[start..].iter().map(|(id, _)| *id).chain([back_to]).collect();
    let place = board.place(back_to)?;
    let shown = if ids.len() > 12 {
        format!("{} → … → {back_to}", ids[..10].join(" → "))
    } else {
        ids.join(" → ")
    };
    let found = format!("a circle of dependencies: {shown}");
    Some(
        Finding::violation("CD-06", board.path_at(place), found, "dependencies that end somewhere")
            .at(board.line_at(place))
            .of(back_to),
    )
}

/// A warning about one task, with its place.
pub fn at_task(
    board: &Board,
    id: &str,
    rule: &str,
    found: String,
    wanted: &str,
) -> Option<Finding> {
    let place = board.place(id)?;
    let finding = Finding::warning(rule, board.path_at(place), found, wanted);
    Some(finding.at(board.line_at(place)).of(id))
}

/// Agents with more in hand than the owner allows.
fn crowds(board: &Board) -> Vec<Finding> {
    let Some(limit) = board.config.rules.max_concurrent else { return Vec::new() };
    let mut held: HashMap<&Owner, u64> = HashMap::new();
    let mut findings = Vec::new();
    for (glance, place) in board.placed() {
        if glance.state != State::InProgress || !matches!(glance.owner, Owner::Agent(_)) {
            continue;
        }
        let count = held.entry(&glance.owner).or_default();
        *count += 1;
        if *count == limit + 1 {
            let found =
                format!("more than {} in progress by {}", counted(limit, "task"), glance.owner);
            let wanted = "what `max_concurrent_tasks_per_agent` allows";
            let finding = Finding::violation("CD-12", board.path_at(place), found, wanted);
            findings.push(finding.at(board.line_at(place)).of(&glance.id));
        }
    }
    findings
}
