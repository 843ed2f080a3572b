//! Two versions of the state files and who made the second from the first: everything that breaks a rule (CD-10, CD-20).
//! It costs what changed: a task whose bytes are the same is not read.

use super::board::{Board, TaskPosition};
use super::edit::same;
use super::finding::Finding;
use super::moves::{self, Move};
use super::task::{Glance, Provenance, Task, Transition};
use super::validate::cycles;
use super::words::{Actor, OURSELVES, Owner, State};
use crate::model::clip;
use std::collections::HashSet;

pub fn judge(old: &Board, new: &Board, actor: &Actor) -> Vec<Finding> {
    let mut findings = fresh_problems(old, new);
    for (glance, place) in new.placed() {
        match old.place(&glance.id) {
            None => findings.extend(added(new, place, actor)),
            Some(before) if old.text_at(before).trim_end() == new.text_at(place).trim_end() => {
                findings.extend(carried(old, before, new, place, actor));
            }
            Some(before) => findings.extend(changed(old, before, new, place, actor)),
        }
    }
    let broken: HashSet<&str> =
        new.problems.iter().filter_map(|finding| finding.task.as_deref()).collect();
    for (glance, place) in old.placed() {
        if new.place(&glance.id).is_none() && !broken.contains(glance.id.as_str()) {
            findings.push(removed(old, place, &glance.id));
        }
    }
    findings.extend(fresh_cycles(old, new));
    if let Actor::Agent(name) = actor {
        findings.extend(around(old, new, name));
    }
    findings
}

/// Circles are looked for only where a dependency changed.
fn fresh_cycles(old: &Board, new: &Board) -> Vec<Finding> {
    let links = |board: &Board, id: &str| board.glance(id).map(|task| task.depends_on.clone());
    let changed = |task: &Glance| {
        !task.depends_on.is_empty() && links(old, &task.id).as_ref() != Some(&task.depends_on)
    };
    if !new.glances().any(changed) {
        return Vec::new();
    }
    let known: HashSet<_> = cycles(old).iter().map(said).collect();
    cycles(new).into_iter().filter(|finding| !known.contains(&said(finding))).collect()
}

/// What could be read before and cannot be now.
fn fresh_problems(old: &Board, new: &Board) -> Vec<Finding> {
    let known: HashSet<_> = old.problems.iter().map(said).collect();
    new.problems.iter().filter(|finding| !known.contains(&said(finding))).cloned().collect()
}

/// Without the line, which moves.
fn said(finding: &Finding) -> (String, String, Option<String>) {
    let rejection = &finding.rejection;
    (rejection.file.to_string(), rejection.found.clone(), finding.task.clone())
}

fn removed(old: &Board, place: TaskPosition, id: &str) -> Finding {
    Finding::violation(
        "CD-20",
        old.path_at(place),
        "a task that is gone",
        "every task, under its id, for ever",
    )
    .at(old.line_at(place))
    .of(id)
}

fn added(new: &Board, place: TaskPosition, actor: &Actor) -> Vec<Finding> {
    let task = match new.task_at(place) {
        Ok(task) => task,
        Err(findings) => return findings,
    };
    let refuse = |rule: &str, found: String, wanted: &str| {
        Finding::violation(rule, new.path_at(place), found, wanted)
            .at(new.line_at(place))
            .of(&task.id)
    };
    let mut findings = super::validate::of_task(new, place, &task);
    if actor.is_agent() && task.state != State::Todo {
        findings.push(refuse(
            "CD-10",
            format!("a new task in {} by {actor}", task.state),
            "new tasks in todo",
        ));
    }
    if actor.is_agent() && task.human_review.is_some() {
        findings.push(refuse("CD-10", format!("`human_review` by {actor}"), "a human"));
    }
    findings.retain(Finding::is_violation);
    findings
}

/// The same bytes in another file: archived, or moved by a human.
fn carried(
    old: &Board,
    before: TaskPosition,
    new: &Board,
    after: TaskPosition,
    actor: &Actor,
) -> Option<Finding> {
    if old.path_at(before) == new.path_at(after) || !actor.is_agent() {
        return None;
    }
    let state = old.task_at(before).map(|task| task.state);
    (!state.is_ok_and(State::is_terminal)).then(|| {
        let found = format!("a task moved from {} by {actor}", old.path_at(before));
        let id = new.task_at(after).map(|task| task.id).unwrap_or_default();
        Finding::violation(
            "CD-10",
            new.path_at(after),
            found,
            "only done and rejected tasks are archived",
        )
        .at(new.line_at(after))
        .of(&id)
    })
}

fn changed(
    old: &Board,
    before: TaskPosition,
    new: &Board,
    after: TaskPosition,
    actor: &Actor,
) -> Vec<Finding> {
    let was = old.task_at(before);
    let is = match new.task_at(after) {
        Ok(task) => task,
        Err(findings) => return findings,
    };
    // What could not be read before is nobody's baseline.
    let Ok(was) = was else { return Vec::new() };
    let pair = Pair { old, new, was: &was, is: &is, before, after, actor };
    let mut findings = pair.moves();
    findings.extend(pair.ownership());
    findings.extend(pair.logs());
    findings.extend(pair.review());
    findings.extend(pair.hands_off());
    findings.extend(pair.agent_allowed());
    // What was refused above is not refused again in other words.
    let known: HashSet<_> = findings.iter().map(|finding| finding.rejection.rule.clone()).collect();
    let shape = pair.shape().into_iter();
    findings.extend(shape.filter(|finding| !known.contains(&finding.rejection.rule)));
    findings
}

/// One task before and after.
struct Pair<'a> {
    old: &'a Board,
    new: &'a Board,
    was: &'a Task,
    is: &'a Task,
    before: TaskPosition,
    after: TaskPosition,
    actor: &'a Actor,
}

impl Pair<'_> {
    fn refuse(&self, rule: &str, found: impl Into<String>, wanted: &str) -> Finding {
        Finding::violation(rule, self.new.path_at(self.after), found, wanted)
            .at(self.new.line_at(self.after))
            .of(&self.is.id)
    }

    /// The entries that this edit added to the log.
    fn new_entries(&self) -> &[Transition] {
        let known = self.was.state_transitions.len();
        self.is.state_transitions.get(known..).unwrap_or_default()
    }

    fn moves(&self) -> Vec<Finding> {
        let entries = self.new_entries();
        let mut at = self.was.state;
        let mut findings = Vec::new();
        for entry in entries {
            if entry.from != at {
                let found = format!("an entry {} → {} of a task in {at}", entry.from, entry.to);
                findings.push(self.refuse("CD-20", found, "entries that follow from each other"));
            }
            at = entry.to;
            findings.extend(self.speaker(&entry.by, "a transition"));
            findings.extend(self.step(
                entry.from,
                entry.to,
                entry.reason.as_deref(),
                &self.spokesman(&entry.by),
            ));
        }
        if at != self.is.state {
            findings.extend(self.step(at, self.is.state, None, self.actor));
            let found = format!("{at} → {} without an entry in `state_transitions`", self.is.state);
            findings.push(self.refuse("CD-20", found, "one entry for every transition"));
        }
        findings
    }

    fn step(&self, from: State, to: State, reason: Option<&str>, actor: &Actor) -> Vec<Finding> {
        moves::judge(&Move {
            before: self.was,
            after: self.is,
            from,
            to,
            reason,
            actor,
            board: self.new,
            file: self.new.path_at(self.after),
            line: self.new.line_at(self.after),
        })
    }

    /// A human may write down what an agent did; an agent speaks for itself only.
    fn spokesman(&self, by: &Actor) -> Actor {
        match self.actor {
            Actor::Agent(_) => self.actor.clone(),
            Actor::Human | Actor::Someone => by.clone(),
        }
    }

    fn speaker(&self, by: &Actor, what: &str) -> Option<Finding> {
        (self.actor.is_agent() && by != self.actor).then(|| {
            self.refuse(
                "CD-10",
                format!("{what} `by: {by}` written by {}", self.actor),
                "one's own name in `by`",
            )
        })
    }

    /// Who has a task changes by a claim; otherwise humans decide.
    fn ownership(&self) -> Option<Finding> {
        let (was, is) = (&self.was.owner, &self.is.owner);
        let claimed =
            self.was.state == State::Todo && self.is.state != State::Todo && self.actor.owns(is);
        let fine = was == is || claimed || !self.actor.is_agent();
        if !fine {
            return Some(self.refuse(
                "CD-10",
                format!("owner {was} → {is} by {}", self.actor),
                "a claim, or a human",
            ));
        }
        let idle = self.is.state == State::InProgress && *is == Owner::Unassigned && was != is;
        idle.then(|| {
            self.refuse("CD-22", "`unassigned` in in_progress", "an owner: human or agent:<name>")
        })
    }

    /// The past stays as it was written.
    fn logs(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for key in ["execution_notes", "state_transitions"] {
            if !starts_with(self.old.meaning_at(self.before), self.new.meaning_at(self.after), key)
            {
                let found = format!("a past entry of `{key}` that was edited or removed");
                findings.push(self.refuse("CD-20", found, "entries are added, never changed"));
            }
        }
        let known = self.was.execution_notes.len();
        for note in self.is.execution_notes.get(known..).unwrap_or_default() {
            findings.extend(self.speaker(&note.by, "a note"));
            if note.by == Actor::Human {
                findings.push(self.refuse(
                    "CD-14",
                    "a human in `execution_notes`",
                    "agents only; humans write `human_review`",
                ));
            }
            if note.summary.as_deref().is_some_and(|summary| !moves::is_summary(summary)) {
                let found = format!(
                    "a summary of {} characters",
                    note.summary.as_deref().unwrap_or_default().chars().count()
                );
                findings.push(self.refuse("CD-13", found, "one line of at most 120 characters"));
            }
        }
        findings.extend(self.origin());
        findings
    }

    /// spec 3 §10.3: agents say where their entries come from. It is recommended, so that it only warns.
    fn origin(&self) -> Option<Finding> {
        let notes = self.is.execution_notes.get(self.was.execution_notes.len()..);
        let notes = notes.unwrap_or_default().iter().map(|note| &note.provenance);
        let moves = self.new_entries().iter().map(|entry| &entry.provenance);
        let bare = notes.chain(moves).any(|origin| *origin == Provenance::default());
        let asked = self.actor.is_agent() && self.new.config.version != "0.1";
        (asked && bare).then(|| {
            let found = format!("an entry by {} without `provenance`", self.actor);
            let wanted = "the session that made it; `agency work` fills it in";
            let path = self.new.path_at(self.after);
            let finding = Finding::warning("CD-14", path, found, wanted);
            finding.at(self.new.line_at(self.after)).of(&self.is.id)
        })
    }

    fn review(&self) -> Option<Finding> {
        (self.actor.is_agent() && self.was.human_review != self.is.human_review).then(|| {
            self.refuse("CD-10", format!("`human_review` edited by {}", self.actor), "a human")
        })
    }

    /// spec 3 §8.3: agents touch only their own task. Our own warnings are notes on anybody's.
    fn hands_off(&self) -> Option<Finding> {
        let Actor::Agent(name) = self.actor else { return None };
        let own = self.actor.owns(&self.was.owner) || self.actor.owns(&self.is.owner);
        if own || (name == OURSELVES && self.only_notes()) {
            return None;
        }
        Some(self.refuse(
            "CD-10",
            format!("{}'s task edited by {}", self.was.owner, self.actor),
            "one's own task block only",
        ))
    }

    fn only_notes(&self) -> bool {
        let notes = self.is.execution_notes.clone();
        Task { execution_notes: notes, ..self.was.clone() } == *self.is
    }

    fn agent_allowed(&self) -> Option<Finding> {
        let Actor::Agent(name) = self.actor else { return None };
        (!self.new.config.allows(name)).then(|| {
            self.refuse(
                "CD-12",
                format!("{} is not in `allowed_agents`", self.actor),
                "an agent that the owner allowed",
            )
        })
    }

    /// Rules about the task as such, where this edit broke them.
    fn shape(&self) -> Vec<Finding> {
        let key = |finding: &Finding| {
            (finding.rejection.rule.to_string(), finding.rejection.found.clone())
        };
        let known: HashSet<_> =
            super::validate::of_task(self.old, self.before, self.was).iter().map(key).collect();
        let mut now = super::validate::of_task(self.new, self.after, self.is);
        now.retain(|finding| finding.is_violation() && !known.contains(&key(finding)));
        now
    }
}

fn starts_with(
    old: Option<super::yaml::Meaning>,
    new: Option<super::yaml::Meaning>,
    key: &str,
) -> bool {
    use super::yaml::Meaning;
    let list = |task: Option<Meaning>| match task.as_ref().and_then(|task| task.get(key)) {
        Some(Meaning::List(items)) => items.clone(),
        Some(Meaning::Null | Meaning::Text(_) | Meaning::Map(_)) | None => Vec::new(),
    };
    let (old, new) = (list(old), list(new));
    new.len() >= old.len() && old.iter().zip(&new).all(|(old, new)| same(old, new))
}

/// Order and prose, which an agent leaves alone (spec 3 §8.3).
fn around(old: &Board, new: &Board, agent: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &old.files {
        let Some(now) = new.files.iter().find(|other| other.path == file.path) else { continue };
        if file.text == now.text {
            continue;
        }
        if order(old, &file.path, new) != order(new, &file.path, old) {
            let found = format!("tasks put in another order by agent:{agent}");
            findings.push(Finding::violation(
                "CD-10",
                &file.path,
                found,
                "the order of others' tasks as it was",
            ));
        }
        if prose(file) != prose(now) {
            let found = format!("text outside the tasks changed by agent:{agent}");
            findings.push(Finding::violation(
                "CD-10",
                &file.path,
                clip(&found, 200),
                "only one's own task block",
            ));
        }
    }
    findings
}

/// The ids of a file in order, without those that the other version has not in that file.
fn order<'a>(board: &'a Board, path: &crate::model::RelPath, other: &Board) -> Vec<&'a str> {
    let there = |id: &str| other.place(id).is_some_and(|place| other.path_at(place) == path);
    let here = board.placed().filter(|(_, place)| board.path_at(*place) == path);
    here.map(|(glance, _)| glance.id.as_str()).filter(|id| there(id)).collect()
}

/// Everything but the lists of tasks, without their fences and without blank lines.
fn prose(file: &super::board::StateFile) -> Vec<&str> {
    let mut at = 0;
    let mut parts = Vec::new();
    for list in &file.lists {
        let has_tasks = file.items.iter().any(|item| list.bytes.contains(&item.bytes.start));
        if has_tasks {
            parts.push(&file.text[at..list.bytes.start]);
            at = list.bytes.end;
        }
    }
    parts.push(&file.text[at..]);
    let lines = parts.into_iter().flat_map(str::lines).map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("```") && !line.starts_with("~~~"))
        .collect()
}
