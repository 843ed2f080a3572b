//! Handoffs (spec 4): planner → builder → reviewer ⇄ fixer, by messages in folders. It decides; it reads and writes nothing.
//!
//! `table.rs` holds the rules as rows, `message.rs` and `state.rs` read what others wrote, `index.rs` holds what is known now,
//! `memory.rs` what is known for ever, `decide.rs` the order of duties.

mod away;
mod claims;
mod command;
mod condition;
mod decide;
mod ending;
mod failure;
mod hold;
mod index;
mod json;
pub mod locks;
mod mail;
mod memory;
pub mod message;
mod moves;
mod noting;
pub mod payload;
mod prompt;
mod reconcile;
pub mod state;
mod summary;
pub mod table;
mod turn;
mod upkeep;

use super::{Protocol, Status};
use crate::model::{
    Condition, Decision, Effect, Event, Interest, Now, RelPath, Seat, Shape, Wake, WatchedFile,
    WatchedTree,
};
use index::Index;
use memory::Draft;
use std::{collections::BTreeMap, time::Duration};
use table::{Folder, Who};

pub const NAME: &str = "handoff";
pub const HANDOFFS: &str = ".claude/handoffs";
pub const PENDING: &str = ".claude/handoffs/pending";
pub const MESSAGE_MAX: u64 = 1 << 20;

/// The limits of the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// HO-08: fixes of one workflow before the owner is asked.
    pub max_iterations: u32,
    /// Tries after the first and the first wait between them, for each seat.
    pub tries: BTreeMap<Seat, (u32, Duration)>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_iterations: 5, tries: BTreeMap::new() }
    }
}

/// Where this relay lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoFacts {
    /// Distinguishes runs of different repositories.
    pub repo: String,
    pub git: bool,
}

pub struct Handoff {
    limits: Limits,
    place: RepoFacts,
    index: Index,
}

impl Handoff {
    pub fn new(place: RepoFacts, limits: Limits) -> Self {
        Self { limits, place, index: Index::default() }
    }

    fn builder(&self) -> Draft {
        Draft::new(NAME, self.index.memory.decisions)
    }

    /// One of the six events of the spec (HO-09), with the workflow and its spec.
    fn log(&self, decision: &mut Draft, event: &str, who: Option<Who>, more: &[(&str, &str)]) {
        let mut context: BTreeMap<String, String> =
            more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if let Some(workflow) = &self.index.memory.workflow {
            let named = [
                ("workflow", workflow.flow.word().to_owned()),
                ("workflow_id", workflow.id.clone()),
                ("spec", workflow.spec.clone()),
                ("iteration", workflow.iteration.to_string()),
            ];
            for (name, value) in named {
                context.entry(name.to_owned()).or_insert(value);
            }
        }
        let agent = who.map(|who| Seat::new(who.word()));
        decision.effect(Effect::Log(Event { event: event.to_owned(), agent, context }));
    }
}

impl Protocol for Handoff {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interest(&self) -> Interest {
        let state = WatchedFile {
            path: RelPath::fixed(state::PATH),
            shape: Shape::Json,
            limit: state::LIMIT,
        };
        let messages = WatchedTree {
            root: RelPath::fixed(HANDOFFS),
            endings: vec![".json".to_owned()],
            shape: Shape::Json,
            limit: MESSAGE_MAX,
        };
        Interest { files: vec![state], trees: vec![messages] }
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
        let agents = [Who::Planner, Who::Builder, Who::Reviewer, Who::Fixer];
        agents.map(|who| (Seat::new(who.word()), who.word())).to_vec()
    }

    fn status(&self, now: Now) -> Status {
        summary::status(self, now)
    }
}

/// Where a message of this file name lies in a folder.
pub fn path_in(folder: Folder, name: &str) -> RelPath {
    RelPath::new(format!("{HANDOFFS}/{}/{name}", folder.word()))
        .expect("BUG: a file name holds no slash")
}

/// The folder that a path lies in, if it is one of the protocol's.
pub fn folder_of(path: &RelPath) -> Option<Folder> {
    let (folder, name) =
        path.as_str().strip_prefix(HANDOFFS)?.strip_prefix('/')?.split_once('/')?;
    if name.contains('/') { None } else { Folder::parse(folder) }
}
