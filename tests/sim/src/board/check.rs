//! What must hold in every world at every moment, known from the specification and not from the protocol's table.

use super::{PERSON, Play};
use crate::world::{Commit, Tree};
use agency::model::*;
use agency::protocol::board::state;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Spec 2 §9.2 and AG-08, written down once more.
const LEGAL: &[(&str, &str)] = &[
    ("NEW", "ASSIGNED"),
    // `agency task start` of a new task: assigned and begun in one.
    ("NEW", "IN_PROGRESS"),
    ("ASSIGNED", "IN_PROGRESS"),
    ("IN_PROGRESS", "READY_FOR_REVIEW"),
    ("IN_PROGRESS", "BLOCKED"),
    ("READY_FOR_REVIEW", "DONE"),
    ("READY_FOR_REVIEW", "IN_PROGRESS"),
    ("BLOCKED", "ASSIGNED"),
];
const REMEDIATIONS_MAX: u32 = 3;

/// One journalled move.
struct Move<'a> {
    task: &'a str,
    from: &'a str,
    to: &'a str,
    by_owner: bool,
    /// The number of its decision.
    at: usize,
}

impl Play {
    /// The journal's moves, in order.
    fn moves(&self) -> Vec<Move<'_>> {
        let mut moves = Vec::new();
        for (at, decision) in self.world.decisions.iter().enumerate() {
            let by_owner =
                decision.effects.iter().any(|keyed| matches!(keyed.effect, Effect::Reply { .. }));
            for keyed in &decision.effects {
                if let Effect::Log(event) = &keyed.effect
                    && event.event == "transition"
                {
                    let word =
                        |name: &str| event.context.get(name).map_or("", |word| word.as_str());
                    let (task, from, to) = (word("task"), word("from"), word("to"));
                    moves.push(Move { task, from, to, by_owner, at });
                }
            }
        }
        moves
    }

    /// Where each task went.
    pub(super) fn history(&self) -> BTreeMap<String, Vec<String>> {
        let mut history: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for step in self.moves() {
            history.entry(step.task.to_owned()).or_default().push(step.to.to_owned());
        }
        history
    }

    /// Where each task stands by the journal.
    pub(super) fn statuses(&self) -> BTreeMap<String, String> {
        let new = self.tasks.keys().map(|id| (id.clone(), "NEW".to_owned()));
        let mut statuses: BTreeMap<String, String> = new.collect();
        let mut last: BTreeMap<&str, &str> = BTreeMap::new();
        for step in self.moves() {
            last.insert(step.task, step.to);
        }
        statuses.extend(last.into_iter().map(|(id, at)| (id.to_owned(), at.to_owned())));
        statuses
    }

    /// A person's task, or one that the owner began themselves: its report comes by hand, and nobody is started for it.
    pub(super) fn by_hand(&self, id: &str) -> bool {
        let moves = self.moves();
        let begun = moves.iter().rev().find(|step| {
            step.task == id && step.to == "IN_PROGRESS" && step.from != "READY_FOR_REVIEW"
        });
        // One that we began ourselves once goes on by us.
        let ours = self.world.runs.values().any(|run| run.spawn.task == id);
        self.tasks[id].assignee == PERSON || begun.is_some_and(|step| step.by_owner && !ours)
    }

    pub(super) fn check(&mut self) {
        // What is only suspected is waited for.
        self.world.pass(Duration::from_secs(3));
        self.settle();
        self.check_history();
        self.check_files();
        self.check_merges();
        self.check_talk();
        self.check_stalls();
    }

    /// AG-14: what is verified is what is merged next, so only one task is at it at a time.
    pub(super) fn check_turns(&self) {
        let runs = self.world.runs.values().filter(|run| run.end.is_none() && run.stop.is_none());
        let tasks: BTreeSet<&str> = runs
            .filter(|run| run.spawn.role == "verify")
            .map(|run| run.spawn.task.as_str())
            .collect();
        assert!(tasks.len() <= 1, "seed {}: {tasks:?} are verified at once", self.seed);
    }

    /// Only legal rows, each from where the one before led; nothing begins before what it depends on is DONE; never a fourth
    /// remediation without the owner.
    fn check_history(&self) {
        let seed = self.seed;
        let mut at: BTreeMap<&str, &str> = BTreeMap::new();
        let mut rounds: BTreeMap<&str, u32> = BTreeMap::new();
        let by_hand: BTreeSet<&String> = self.tasks.keys().filter(|id| self.by_hand(id)).collect();
        for step in self.moves() {
            let Move { task, from, to, .. } = step;
            // A remediation is made assigned, and a new file may say it.
            let made = !self.tasks.contains_key(task) || from == "ASSIGNED";
            let first = if made { "ASSIGNED" } else { "NEW" };
            let known = at.insert(task, to).unwrap_or(first);
            assert!(known == from, "seed {seed}: {task} was {known}, then {from} → {to}");
            let canceled = to == "CANCELED" && from != "CANCELED";
            assert!(canceled || LEGAL.contains(&(from, to)), "seed {seed}: {task} {from} → {to}");
            assert!(!canceled || step.by_owner, "seed {seed}: {task} was canceled by nobody");
            if (from, to) == ("ASSIGNED", "IN_PROGRESS") {
                let first = self.tasks.get(task).map_or(&[][..], |task| &task.depends_on);
                let open = first.iter().find(|id| at.get(id.as_str()) != Some(&"DONE"));
                assert!(open.is_none(), "seed {seed}: {task} began before {open:?} was DONE");
            }
            let round = rounds.entry(task).or_default();
            let person = by_hand.iter().any(|id| *id == task);
            if step.by_owner {
                *round = 0;
            } else if (from, to) == ("READY_FOR_REVIEW", "IN_PROGRESS") && !person {
                *round += 1;
            }
            // A remediation goes back and forth with its parent, where it is counted.
            let bounded = *round <= REMEDIATIONS_MAX || !self.tasks.contains_key(task);
            assert!(bounded, "seed {seed}: {task} went back {round} times");
        }
    }

    /// No task is lost: its file lies there and says where it stands, unless what it says is refused; STATE.md says the same.
    fn check_files(&self) {
        let seed = self.seed;
        let status = self.world.protocol.status(self.world.now);
        let refused: BTreeSet<&str> = status.detail["refused"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|path| path.as_str())
            .collect();
        let listed = self.world.bytes(state::PATH).expect("STATE.md is there");
        let listed = state::parse(listed).expect("STATE.md is ours");
        let statuses = self.statuses();
        for (id, task) in &self.tasks {
            let path = task.path();
            let bytes = self.world.bytes(&path).expect("nobody removes a task");
            let text = String::from_utf8_lossy(bytes).into_owned();
            let said = text.lines().find_map(|line| line.strip_prefix("status: ")).unwrap();
            let at = statuses[id].clone();
            // Before the first move of its task a file may say ASSIGNED or CANCELED; a held board moves none.
            let never = at == "NEW" && ["ASSIGNED", "CANCELED"].contains(&said);
            assert!(
                said == at || never || refused.contains(path.as_str()),
                "seed {seed}: {id} is {at}, its file says {said}"
            );
            let is_in = |list: &[agency::protocol::board::names::TaskId]| {
                list.iter().any(|other| other.as_str() == id)
            };
            let active = matches!(at.as_str(), "IN_PROGRESS" | "READY_FOR_REVIEW");
            assert_eq!(is_in(&listed.active_tasks), active, "seed {seed}: {id} is {at}");
            assert_eq!(is_in(&listed.blocked_tasks), at == "BLOCKED", "seed {seed}: {id} is {at}");
        }
    }

    /// Everything of ours on main: once for each task, as its auditor saw it and as it was verified, or as the owner overrode.
    fn check_merges(&self) {
        let seed = self.seed;
        let log = self.world.log("main");
        let history = self.history();
        for (id, task) in &self.tasks {
            let mark = format!("Agency-Task: {id}\n");
            let merges: Vec<_> =
                log.iter().filter(|commit| commit.message.contains(&mark)).collect();
            let done = history.get(id).is_some_and(|to| to.iter().any(|to| to == "DONE"));
            if self.by_hand(id) {
                assert!(!done || self.vouched.contains(id), "seed {seed}: {id} is DONE by nobody");
                assert!(merges.is_empty(), "seed {seed}: {id} was merged");
                continue;
            }
            assert!(merges.len() <= 1, "seed {seed}: {id} was merged {} times", merges.len());
            assert!(!done || merges.len() == 1, "seed {seed}: {id} is DONE and not merged");
            if done {
                let report = task.path().replace("/inbox/", "/outbox/");
                assert!(self.has_report(&report), "seed {seed}: {id} is DONE without a report");
            }
            for commit in merges {
                self.check_merge(id, commit);
            }
        }
    }

    /// Under whatever date it was written; that of a remediation is its parent's too.
    fn has_report(&self, path: &str) -> bool {
        let parts: Vec<&str> = path.split('/').collect();
        let (agent, stem) = (parts[2], parts[4].trim_end_matches(".md"));
        let remedy = format!("-remediate-{}-", stem[..5].to_lowercase());
        self.world.files.keys().any(|path| {
            let path = path.as_str();
            let names_it = path.contains(stem) || path.contains(&remedy);
            path.starts_with(&format!(".kodingx/outbox/{agent}/")) && names_it
        })
    }

    fn check_merge(&self, id: &str, commit: &Commit) {
        let seed = self.seed;
        let none = Tree::new();
        let parent = commit.parent.as_ref().map_or(&none, |id| &self.world.commits[id].tree);
        let (before, after) = (code(parent), code(&commit.tree));
        let paths: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        let changed: Vec<_> =
            paths.into_iter().filter(|path| before.get(*path) != after.get(*path)).collect();
        for path in &changed {
            let allowed = path.as_str().starts_with("work/") || path.as_str() == "broken";
            assert!(allowed, "seed {seed}: {id} changed {path}");
            assert!(!path.as_str().contains("secret"), "seed {seed}: {id} changed {path}");
        }
        if self.vouched.contains(id) {
            return;
        }
        let audited = self.passed.iter().any(|(of, seen)| {
            of == id && changed.iter().all(|path| seen.get(*path) == after.get(*path))
        });
        assert!(audited, "seed {seed}: {id} was merged as no auditor saw it");
        let verified = self.verified.iter().any(|(of, seen)| of == id && code(seen) == after);
        assert!(verified, "seed {seed}: {id} was merged as no verify saw it");
    }

    /// The same cause is told once until it is resolved; a file that is put right and spoilt again in the same way may be told again.
    fn check_talk(&self) {
        let mut told: BTreeSet<&Cause> = BTreeSet::new();
        for decision in &self.world.decisions {
            for keyed in &decision.effects {
                if let Effect::Resolve { cause, .. } = &keyed.effect {
                    told.remove(cause);
                } else if let Effect::Escalate(escalation) = &keyed.effect {
                    let once = told.insert(&escalation.cause);
                    let file = matches!(escalation.cause.rule.as_str(), "AG-06" | "AG-07");
                    assert!(once || file, "seed {}: told twice: {}", self.seed, escalation.summary);
                }
            }
        }
    }

    /// What an agent should do and nobody does is told to the owner, after the last thing that they said about it.
    fn check_stalls(&self) {
        if !self.is_idle() || self.world.protocol.status(self.world.now).held.is_some() {
            return;
        }
        let running = self.alive();
        let moves = self.moves();
        for (id, at) in self.open() {
            let (dead, ready) = self.dependencies(&id);
            let waits = !ready && !dead && at == "ASSIGNED";
            // Its remediations work in its tree.
            let here = TreeRef::Worktree(id.clone());
            let works = running.iter().any(|run| run.task == id || run.tree == here);
            if self.by_hand(&id) || waits || works {
                continue;
            }
            // Room for four at a time; the others wait for their turn.
            if at == "ASSIGNED" && ready && !running.is_empty() {
                continue;
            }
            // The DoD runs on the base for one task; the others wait for what it finds.
            if at == "IN_PROGRESS" && running.iter().any(|run| run.role == "base") {
                continue;
            }
            // Merges take turns: one that is being verified is waited for.
            if at == "READY_FOR_REVIEW" && running.iter().any(|run| run.role == "verify") {
                continue;
            }
            let spoke = moves.iter().rev().find(|step| step.task == id && step.by_owner);
            let since = spoke.map_or(0, |step| step.at);
            let told = self.world.decisions[since..].iter().any(|decision| {
                decision.effects.iter().any(|keyed| match &keyed.effect {
                    Effect::Escalate(told) => told.summary.contains(id.as_str()),
                    _ => false,
                })
            });
            assert!(told, "seed {}: {id} is {at}, nobody works on it, nobody was told", self.seed);
        }
    }
}

/// A tree without the board's own folder.
fn code(tree: &Tree) -> Tree {
    let ours = |path: &RelPath| path.as_str().starts_with(".kodingx/");
    tree.iter().filter(|(path, _)| !ours(path)).map(|(p, d)| (p.clone(), d.clone())).collect()
}
