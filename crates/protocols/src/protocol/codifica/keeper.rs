//! The daemon's part of Codifica: it hands out tasks, starts their agents, and judges every commit of the state files.
//! It decides; it reads and writes nothing. `index.rs` is what is known now, `memory.rs` what is known for ever.

use super::board::Board;
use super::dispatch::ROLE;
use super::index::Index;
use super::scope::IMAGES;
use super::task::Glance;
use super::words::{Actor, Owner, State};
use super::{FILE, NAME, STATE_MAX, away, condition, decide};
use crate::model::{
    Builder, Condition, Decision, Interest, Now, RelPath, Seat, Shape, Wake, WatchedFile,
    WatchedTree,
};
use crate::protocol::{Protocol, Status};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// A larger image is known by its name alone.
const IMAGE_MAX: u64 = 64 << 20;

/// Where the protocol is at work, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeeperSettings {
    /// Distinguishes runs of different repositories.
    pub repo: String,
    pub git: bool,
    /// This program, for the commands that we run ourselves.
    pub program: String,
    /// The agents that are started; none: those of `allowed_agents`.
    pub agents: Vec<String>,
    /// Tries after the first and the first wait between them, for each agent.
    pub tries: BTreeMap<String, (u32, Duration)>,
    /// No worktree is made when less space than this is free, in bytes.
    pub disk_floor: u64,
}

pub struct Codifica {
    pub(super) desk: KeeperSettings,
    pub(super) index: Index,
}

impl Codifica {
    pub fn new(desk: KeeperSettings) -> Self {
        Self { desk, index: Index::default() }
    }

    pub(super) fn builder(&self) -> Builder {
        Builder::new(NAME, self.index.memory.decisions)
    }

    /// The agents that may be handed a task.
    pub(super) fn roster(&self, board: &Board) -> Vec<String> {
        let named = if self.desk.agents.is_empty() {
            &board.config.rules.allowed_agents
        } else {
            &self.desk.agents
        };
        named.iter().filter(|name| board.config.allows(name)).cloned().collect()
    }
}

impl Protocol for Codifica {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Files that a glob has shown are named too, so that each look reads them.
    fn interest(&self) -> Interest {
        let file = |path: RelPath, shape| WatchedFile { path, shape, limit: STATE_MAX };
        let mut files =
            vec![WatchedFile { limit: 1 << 20, ..file(RelPath::fixed(FILE), Shape::Json) }];
        files.extend(self.index.config().map(|config| file(config.spec.clone(), Shape::Text)));
        files.extend(self.index.state_paths().into_iter().map(|path| file(path, Shape::Text)));
        let patterns = self.index.config().into_iter().flat_map(|config| config.state.clone());
        let trees = patterns.filter(|pattern| pattern.plain().is_none()).filter_map(|pattern| {
            let ending =
                pattern.text.rsplit(['*', '?', ']', '}']).next().unwrap_or_default().to_owned();
            Some(WatchedTree {
                root: pattern.folder()?,
                endings: vec![ending],
                shape: Shape::Text,
                limit: STATE_MAX,
            })
        });
        let mut trees: Vec<_> = trees.collect();
        trees.extend(self.index.config().map(|config| WatchedTree {
            root: config.assets.clone(),
            endings:
                IMAGES.iter().flat_map(|it| [(*it).to_owned(), it.to_ascii_uppercase()]).collect(),
            shape: Shape::Text,
            limit: IMAGE_MAX,
        }));
        Interest { trees, files }
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

    fn seats(&self) -> Vec<(Seat, &'static str)> {
        self.desk.agents.iter().map(|agent| (Seat::new(agent), ROLE)).collect()
    }

    fn status(&self, _: Now) -> Status {
        let memory = &self.index.memory;
        let held = memory.holds.first().map(|hold| hold.summary.clone());
        let Some(board) = self.index.board() else {
            let summary = held.clone().unwrap_or_else(|| "no readable codifica.json".to_owned());
            return Status { summary, held, detail: json!(null) };
        };
        let count = |state: State| board.glances().filter(|task| task.state == state).count();
        let states: Vec<_> = State::ALL
            .iter()
            .map(|state| (state.word(), count(*state)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let counted: Vec<_> =
            states.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let at_work: Vec<_> =
            memory.jobs.values().map(|job| format!("{} has {}", job.agent, job.task)).collect();
        let ours = |task: &Glance| task.owner != Owner::Human && !task.state.is_terminal();
        let complete = !board.is_empty() && !board.glances().any(ours);
        let mut summary = match (counted.is_empty(), complete) {
            (true, _) => "no tasks".to_owned(),
            (false, true) => format!("complete for the agents: {}", counted.join(", ")),
            (false, false) => counted.join(", "),
        };
        if let Some(held) = &held {
            summary = format!("{summary} · held: {held}");
        } else if let Some(why) = away::reason(self) {
            summary = format!("{summary} · away: {why}");
        } else if !at_work.is_empty() {
            summary = format!("{summary} · {}", at_work.join(", "));
        }
        let refused = memory.draft.as_ref().filter(|draft| draft.refused.is_some());
        if let Some(draft) = refused {
            let files: Vec<_> = draft.marks.keys().map(RelPath::as_str).collect();
            summary = format!("{summary} · refused: {}", files.join(", "));
        }
        let detail = json!({"tasks": states.into_iter().collect::<BTreeMap<_, _>>(), "jobs": memory.jobs.values().collect::<Vec<_>>(),
            "refused": refused.map(|draft| draft.marks.keys().collect::<Vec<_>>()),
            "accepted": memory.accepted.as_ref().map(|accepted| accepted.commit.clone())});
        Status { summary, held, detail }
    }
}

/// Who wrote a commit, by its author: agents commit as `agent:<name>`, or under a name that the owner allowed.
pub fn actor_of(author: &str, allowed: &[String]) -> Actor {
    let known = allowed.iter().find(|name| name.as_str() == author).cloned();
    match super::words::agent_name(author).or(known) {
        Some(name) => Actor::Agent(name),
        None if author == super::OURSELVES => Actor::Agent(author.to_owned()),
        None => Actor::Human,
    }
}
