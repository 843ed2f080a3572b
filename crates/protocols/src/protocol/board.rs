//! The Agency board (spec 2): tasks, reports, verify, one state. It decides; it reads and writes nothing.
//!
//! Documents: `task`, `report`, `state`, `manifest`, `profile`, `risks`, `artifact`. `table` is §9.2; `index.rs` holds what is
//! known now, `memory.rs` what is known for ever, `decide.rs` the order of duties.

pub mod adapters;
pub mod artifact;
mod assignees;
mod auditing;
mod away;
mod base;
mod building;
pub mod check;
mod command;
mod condition;
mod decide;
mod forged_artifact;
mod front;
mod hand;
pub mod import;
mod index;
mod judge;
pub mod manifest;
mod memory;
mod moves;
pub mod names;
mod overview;
mod playwright;
pub mod profile;
mod prompt;
mod record;
pub mod region;
mod remedy;
pub mod report;
pub mod risks;
pub mod scaffold;
pub mod scope;
mod shared;
mod spoken;
pub mod state;
pub mod table;
mod tamper;
pub mod task;
mod tell;
mod verifying;
mod work;

use super::{Protocol, Status};
use crate::model::{
    Condition, Decision, Interest, MergeStyle, Now, RelPath, Seat, Wake, WatchedFile, WatchedTree,
};
use index::{FIXED, Index, TREES, shape_of};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const NAME: &str = "board";
pub const PROTOCOL: &str = "agency/1.0";
/// The largest document that is read.
pub const FILE_MAX: u64 = 1 << 20;

/// Where this board lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoFacts {
    /// Distinguishes runs of different repositories.
    pub repo: String,
    pub git: bool,
}

/// What the owner's configuration says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Seats that can be started; every other assignee is a person (AG-28).
    pub agents: BTreeSet<String>,
    /// Whom a seat really means, where it is not the agent of its own name.
    pub roles: BTreeMap<String, String>,
    pub auditor: String,
    /// People's work is audited too: the owner chose an auditor (AG-28).
    pub audits_people: bool,
    pub answers: Answers,
    /// Builders work in the owner's own tree, one at a time.
    pub shared: bool,
    /// The maker of each agent's CLI, where it is known: two of one maker share their blind spots.
    pub makers: BTreeMap<String, String>,
    /// Runs at a time in this repository.
    pub parallel: u32,
    pub setup: Vec<String>,
    pub copy: Vec<RelPath>,
    pub disk_floor: u64,
    /// `None`: the branch is left for a pull request.
    pub merge: Option<MergeStyle>,
    pub verify_timeout: Duration,
    /// Tries after the first and the first wait between them, for each seat.
    pub tries: BTreeMap<String, (u32, Duration)>,
    /// The system that commands run on.
    pub os: &'static str,
}

/// How the auditor is asked to bring its verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// A command of the owner's: nobody can keep it from writing.
    #[default]
    ByFile,
    /// An agent whose CLI is started read-only, and whose last message we read.
    ByMessage,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            agents: BTreeSet::new(),
            roles: BTreeMap::new(),
            auditor: "gemini".to_owned(),
            audits_people: false,
            answers: Answers::default(),
            shared: false,
            makers: BTreeMap::new(),
            parallel: 2,
            setup: Vec::new(),
            copy: Vec::new(),
            disk_floor: 0,
            merge: Some(MergeStyle::Squash),
            verify_timeout: Duration::from_secs(30 * 60),
            tries: BTreeMap::new(),
            os: "linux",
        }
    }
}

impl Limits {
    fn tries_of(&self, seat: &Seat) -> (u32, Duration) {
        self.tries.get(seat.as_str()).copied().unwrap_or((2, Duration::from_secs(30)))
    }

    /// Whom a seat really means.
    fn agent_of<'a>(&'a self, seat: &'a Seat) -> &'a str {
        self.roles.get(seat.as_str()).map_or(seat.as_str(), String::as_str)
    }

    /// AG-10: two seats may be the same agent.
    fn same_agent(&self, a: &Seat, b: &Seat) -> bool {
        self.agent_of(a) == self.agent_of(b)
    }

    /// The maker that two agents have in common.
    fn same_maker(&self, a: &Seat, b: &Seat) -> Option<&str> {
        let maker = self.makers.get(self.agent_of(a))?;
        (self.makers.get(self.agent_of(b)) == Some(maker)).then_some(maker.as_str())
    }
}

pub struct Board {
    limits: Limits,
    place: RepoFacts,
    index: Index,
}

impl Board {
    pub fn new(place: RepoFacts, limits: Limits) -> Self {
        let index = Index::new(limits.agents.clone());
        Self { limits, place, index }
    }
}

impl Protocol for Board {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interest(&self) -> Interest {
        let files = FIXED.map(|path| WatchedFile {
            path: RelPath::fixed(path),
            shape: shape_of(path),
            limit: FILE_MAX,
        });
        let trees = TREES.map(|(root, ending)| WatchedTree {
            root: RelPath::fixed(root),
            endings: vec![ending.to_owned()],
            shape: shape_of(ending),
            limit: FILE_MAX,
        });
        Interest { files: files.to_vec(), trees: trees.to_vec() }
    }

    /// A task's run leaves its papers in its own tree, from where they are asked for.
    fn hears_worktrees(&self) -> bool {
        false
    }

    fn assumed(&self) -> Vec<RelPath> {
        self.index.assumed.iter().cloned().collect()
    }

    fn absorb(&mut self, wake: &Wake) {
        self.index.absorb(wake);
    }

    fn decide(&self, now: Now) -> Decision {
        decide::decide(self, now)
    }

    fn condition(&self, now: Now) -> Condition {
        condition::condition(self, now)
    }

    fn commands(&self) -> Vec<String> {
        let works = self.index.memory.working.iter();
        let works = works.filter_map(|id| self.index.memory.tasks.get(id)?.work.as_ref());
        let mut lines: Vec<String> =
            works.flat_map(|work| &work.dod).chain(&self.limits.setup).cloned().collect();
        lines.sort();
        lines.dedup();
        lines
    }

    fn seats(&self) -> Vec<(Seat, &'static str)> {
        let over = table::Status::is_over;
        let tasks = self.index.memory.tasks.keys();
        let tasks = tasks.filter(|id| !self.index.status_of(id).is_some_and(over));
        let builders = tasks.filter_map(|id| Some(names::seat(&self.index.task(id)?.assignee)));
        let mut seats: Vec<_> = builders.map(|seat| (Seat::new(seat), "builder")).collect();
        seats.push((Seat::new(names::seat(&self.limits.auditor)), "auditor"));
        seats.sort();
        seats.dedup();
        seats
    }

    fn status(&self, _: Now) -> Status {
        let index = &self.index;
        let held = index.memory.holds.first().map(|hold| hold.summary.clone());
        let counts: Vec<(&str, usize)> =
            table::Status::ALL.iter().map(|status| (status.word(), index.count(*status))).collect();
        let words: Vec<String> = counts
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        let mut summary =
            if words.is_empty() { "no task yet".to_owned() } else { words.join(" · ") };
        if let Some(held) = &held {
            summary = format!("{summary} · held: {held}");
        } else if let Some(why) = away::reason(self) {
            summary = format!("{summary} · away: {why}");
        }
        if !index.memory.refused.is_empty() {
            summary = format!("{summary} · {} refused", index.memory.refused.len());
        }
        let refused: Vec<String> =
            index.memory.refused.keys().take(100).map(ToString::to_string).collect();
        let state = index.memory.state.as_ref();
        let warnings: Vec<&String> = index.memory.told.values().collect();
        let detail = json!({
            "counts": counts.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "active": state.map(|state| &state.active_tasks),
            "blocked": state.map(|state| &state.blocked_tasks),
            "last_verify": state.and_then(|state| state.last_verify.as_ref()),
            "refused": refused,
            "lines": overview::lines(self),
            "warnings": warnings,
            "accepted_gates": index.memory.base.accepted.keys().collect::<Vec<_>>(),
            "proposals": index.memory.proposals.iter().map(|p| json!({"task": p.task, "text": p.text})).collect::<Vec<_>>(),
        });
        Status { summary, held, detail }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: AG-10
    #[test]
    fn two_agents_of_one_maker_are_known_by_whom_their_seats_mean() {
        let pairs = |list: &[(&str, &str)]| {
            list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let limits = Limits {
            roles: pairs(&[("auditor", "second-claude")]),
            makers: pairs(&[
                ("claude-code", "claude"),
                ("second-claude", "claude"),
                ("codex", "codex"),
            ]),
            ..Limits::default()
        };
        let maker = |a: &str, b: &str| limits.same_maker(&Seat::new(a), &Seat::new(b));
        assert_eq!(maker("auditor", "claude-code"), Some("claude"));
        assert_eq!(maker("codex", "claude-code"), None);
        assert_eq!(maker("unknown", "other"), None, "what is not known is not accused");
    }
}
