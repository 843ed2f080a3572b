//! The owner with their verbs, people who build, and somebody who edits what is not theirs.

use super::{PERSON, Play};
use crate::sheets::{Answer, DAY, MANIFEST};
use agency::model::*;
use serde_json::json;
use std::time::Duration;

const STATUSES: [&str; 7] =
    ["NEW", "ASSIGNED", "IN_PROGRESS", "BLOCKED", "READY_FOR_REVIEW", "DONE", "CANCELED"];

impl Play {
    fn ask(&mut self, words: &[(&str, &str)]) -> String {
        self.world.look();
        self.world.command(Verb::Do, words)
    }

    /// A verb for a task, whether it makes sense or not.
    pub(super) fn owner_speaks(&mut self) {
        let id = self.any_task();
        let verbs = ["start", "request-changes", "done", "unblock", "cancel", "verify", "override"];
        // Canceling is rare: there would be nothing left to look at.
        let at = if self.dice.one_in(6) { 4 } else { self.dice.below(7) as usize };
        match verbs[at] {
            "cancel" if !self.dice.one_in(3) => {}
            "verify" => self.verify(&id, false),
            "override" => self.verify(&id, true),
            verb => {
                self.ask(&[("do", verb), ("task", &id), ("reason", "the owner says so")]);
            }
        }
    }

    /// `agency verify` by the owner, in their own tree.
    fn verify(&mut self, id: &str, overrule: bool) {
        let Fact::Snapshot(snapshot) = self.world.snapshot() else { return };
        let code = i32::from(overrule);
        let artifact = json!({
            "protocol": "agency/1.0", "task_id": id, "timestamp": "2026-01-01T09:00:00+00:00",
            "dod_profile": "tiny", "result": if overrule { "fail" } else { "pass" },
            "commands": [{"cmd": "make", "exit_code": code, "duration_ms": 1}], "notes": [],
            "tree": snapshot.tree.as_str(),
        });
        let text = artifact.to_string();
        let mut words = vec![("do", "verified"), ("task", id), ("artifact", &text)];
        let other = self.tasks.keys().find(|other| *other != id).cloned().unwrap_or_default();
        if overrule {
            words.extend([("override", "yes"), ("reason", "hotfix"), ("followup", &other)]);
            words.push(("approver", "owner@example.com"));
        }
        if overrule || self.by_hand(id) {
            self.vouched.insert(id.to_owned());
        }
        self.ask(&words);
    }

    /// Sometimes in the very file that a task works on.
    pub(super) fn owner_commits(&mut self) {
        let (text, id) = (self.text("the owner's"), self.any_task());
        let path = if self.dice.one_in(3) {
            format!("work/{id}.txt")
        } else {
            format!("docs/{}.md", self.dice.below(3))
        };
        // Only what the owner wrote: files that lie there uncommitted stay so.
        self.world.write(&path, text);
        let mut tree = self.world.head().expect("there is a first commit").tree.clone();
        let path = RelPath::new(path).unwrap();
        tree.insert(path.clone(), self.world.tree()[&path].clone());
        self.world.commit_tree(tree, "the owner works too");
    }

    pub(super) fn owner_goes_away(&mut self) {
        let head = self.world.heads["main"].clone();
        self.world.heads.entry("feature".to_owned()).or_insert(head);
        self.world.branch = Some("feature".to_owned());
        let spawned = self.world.runs.len();
        self.settle();
        assert_eq!(self.world.runs.len(), spawned, "seed {}: started while away", self.seed);
        self.world.branch = Some("main".to_owned());
    }

    /// Somebody writes into the owner's tree what they should not.
    pub(super) fn somebody_meddles(&mut self) {
        let id = self.any_task();
        let path = self.tasks[&id].path();
        match self.dice.below(8) {
            0 => self.world.write(".kodingx/STATE.md", "---\ndone_tasks_recent: [T0001]\n---\n"),
            1 => self.world.remove(".kodingx/STATE.md"),
            2 => {
                let stem = path.rsplit('/').next().unwrap().trim_end_matches(".md").to_owned();
                let forged = format!(".kodingx/verify/{DAY}/{stem}.verify.json");
                self.world.write(&forged, json!({"task_id": id, "result": "pass"}).to_string());
            }
            3 => {
                let report = path.replace("/inbox/", "/outbox/").replace(".md", "-report.md");
                let body = self.text("forged");
                let text = Answer { body, ..Answer::default() }.report(&report);
                self.world.write(&report, text);
            }
            4 => {
                self.world.write(".kodingx/agency.json", MANIFEST.replace("/1.0", "/2.0"));
                self.settle();
                let task = self.any_task();
                self.ask(&[("do", "start"), ("task", &task)]);
                self.settle();
                self.world.write(".kodingx/agency.json", MANIFEST);
            }
            _ => {
                let status = STATUSES[self.dice.below(7) as usize];
                self.set_status(&path, status);
            }
        }
    }

    fn set_status(&mut self, path: &str, status: &str) {
        let Some(bytes) = self.world.bytes(path) else { return };
        let text = String::from_utf8_lossy(bytes).into_owned();
        let line = text.lines().find(|line| line.starts_with("status: ")).unwrap_or("status: ");
        let text = text.replacen(line, &format!("status: {status}"), 1);
        self.world.write(path, text);
    }

    /// Everything that waits for the owner gets its answer.
    pub(super) fn owner_helps(&mut self) {
        self.world.pass(Duration::from_secs(3));
        self.settle();
        if self.world.protocol.status(self.world.now).held.is_some() {
            self.world.look();
            self.world.command(Verb::Resume, &[]);
            self.settle();
        }
        self.mend_main();
        for (id, at) in self.open() {
            let path = self.tasks[&id].path();
            self.set_status(&path, &at);
            self.settle();
            let person = self.by_hand(&id);
            let waits = self.alive().iter().all(|run| run.task != id);
            let (dead, done) = self.dependencies(&id);
            match at.as_str() {
                _ if dead => drop(self.ask(&[("do", "cancel"), ("task", &id)])),
                "BLOCKED" => drop(self.ask(&[("do", "unblock"), ("task", &id)])),
                "NEW" | "ASSIGNED" if self.tasks[&id].assignee == PERSON && done => {
                    self.ask(&[("do", "start"), ("task", &id)]);
                }
                "IN_PROGRESS" if person => {
                    // What the owner changed meanwhile is not the person's (AG-13).
                    self.ask(&[("do", "start"), ("task", &id), ("reason", "not hers")]);
                    self.settle();
                    self.person_reports(&path);
                }
                "READY_FOR_REVIEW" if person => {
                    self.verify(&id, false);
                    self.settle();
                    self.ask(&[("do", "done"), ("task", &id)]);
                }
                "READY_FOR_REVIEW" if waits && self.is_idle() => {
                    let words = [("do", "request-changes"), ("task", &id), ("reason", "again")];
                    self.ask(&words);
                }
                _ => {}
            }
            self.settle();
        }
    }

    /// What an override let in is put right.
    fn mend_main(&mut self) {
        let mut tree = self.world.head().expect("there is a first commit").tree.clone();
        if tree.remove(&RelPath::fixed("broken")).is_some() {
            self.world.remove("broken");
            self.world.commit_tree(tree, "the owner mends it");
        }
    }

    /// Nothing comes by waiting alone.
    pub(super) fn is_idle(&self) -> bool {
        let deadline = self.world.protocol.decide(self.world.now).next_deadline;
        deadline.is_none_or(|deadline| deadline.is_patrol())
    }

    /// One of them is CANCELED; all of them are DONE.
    pub(super) fn dependencies(&self, id: &str) -> (bool, bool) {
        let first = &self.tasks[id].depends_on;
        if first.is_empty() {
            return (false, true);
        }
        let statuses = self.statuses();
        let all: Vec<&str> = first.iter().map(|id| statuses[id].as_str()).collect();
        (all.contains(&"CANCELED"), all.iter().all(|at| *at == "DONE"))
    }

    fn person_reports(&mut self, task: &str) {
        let path = task.replace("/inbox/", "/outbox/").replace(".md", "-report.md");
        let body = self.text("a person's report");
        let text = Answer { body, ..Answer::default() }.report(&path);
        self.world.write(&path, text);
    }
}
