//! The review loop (spec 1): two agents, one flag, six rows. It decides; it reads and writes nothing.
//!
//! `index.rs` holds what is known now, `memory.rs` what is known for ever, `decide.rs` the order of duties.

pub mod audit;
mod away;
mod base;
mod change_request;
pub mod check;
mod codebase;
mod command;
mod condition;
mod decide;
mod deferral;
mod detect;
mod failure;
mod flag;
mod gates;
mod history;
mod hold;
mod index;
mod mandates;
mod memory;
mod open_list;
mod overreach;
mod owner_verbs;
mod prompt;
mod push;
mod review;
mod run_changes;
mod secrets;
mod steps;
mod summary;
pub mod table;
mod takeover;
mod tamper;
mod transition;
mod turn;

use super::{Protocol, Status};
use crate::model::{Condition, Decision, Interest, Now, RelPath, Seat, Shape, Wake, WatchedFile};
use index::Index;
use serde_json::json;
use std::{collections::BTreeMap, time::Duration};

pub const NAME: &str = "loop";
pub const STATE: &str = ".review-loop-state.json";
pub const MANDATES: &str = "owner-mandates.json";
pub const RESPONSE: &str = "ENG_REVIEW_RESPONSE.md";
pub const COMMENTS: &str = "ENG_REVIEW_COMMENTS.md";
pub const CODEBASE: &str = "CODEBASE.md";
const FILES: [(&str, Shape); 6] = [
    (flag::PATH, Shape::Json),
    (STATE, Shape::Json),
    (MANDATES, Shape::Json),
    (RESPONSE, Shape::Text),
    (COMMENTS, Shape::Text),
    (CODEBASE, Shape::Text),
];
const FILE_MAX: u64 = 1 << 20;

/// The limits of the loop. The defaults are the spec's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub flag_max_age: Duration,
    /// A turn that a run without a living process holds for longer than this is stale.
    pub lock_stale: Duration,
    pub max_rejections: u32,
    pub max_rounds: u32,
    pub settle: Duration,
    pub push: bool,
    /// The owner's own checks, each for `sh -c`; none: those that are found.
    pub gates: Vec<String>,
    pub gate_timeout: Duration,
    pub gate_tree: GateTree,
    /// Prepares the checkout of the gates; `None`: as its lock files call for.
    pub setup: Option<Vec<String>>,
    /// What the runs of one step may cost, in millionths of a dollar.
    pub cost_per_step: Option<u64>,
    /// Tries after the first and the first wait between them, for each seat.
    pub tries: BTreeMap<Seat, (u32, Duration)>,
}

/// Where gates run (LP-34).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateTree {
    /// In a checkout of the judged tree, where nothing ignored or hidden has a part.
    Clean,
    /// In the agents' own tree, with everything that lies there. The owner's choice, shown by every view.
    Shared,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            flag_max_age: Duration::from_secs(30 * 60),
            lock_stale: Duration::from_secs(45 * 60),
            max_rejections: 3,
            max_rounds: 8,
            settle: Duration::from_secs(30),
            push: false,
            gates: Vec::new(),
            gate_timeout: Duration::from_secs(45 * 60),
            gate_tree: GateTree::Clean,
            setup: None,
            cost_per_step: None,
            tries: BTreeMap::new(),
        }
    }
}

/// Where this loop lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoFacts {
    /// Distinguishes runs of different repositories.
    pub repo: String,
    pub git: bool,
}

pub struct ReviewLoop {
    limits: Limits,
    place: RepoFacts,
    index: Index,
}

impl ReviewLoop {
    pub fn new(place: RepoFacts, limits: Limits) -> Self {
        Self { limits, place, index: Index::default() }
    }
}

impl Protocol for ReviewLoop {
    fn name(&self) -> &'static str {
        NAME
    }

    fn interest(&self) -> Interest {
        let files = FILES.map(|(path, shape)| WatchedFile {
            path: RelPath::fixed(path),
            shape,
            limit: FILE_MAX,
        });
        let found = detect::FILES.map(|path| WatchedFile {
            path: RelPath::fixed(path),
            shape: Shape::Text,
            limit: FILE_MAX,
        });
        Interest { files: files.into_iter().chain(found).collect(), trees: Vec::new() }
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
        gates::gates(self)
    }

    fn seats(&self) -> Vec<(Seat, &'static str)> {
        let both = [table::Holder::Builder, table::Holder::Reviewer];
        both.map(|holder| (Seat::new(holder.word()), holder.role())).to_vec()
    }

    fn status(&self, now: Now) -> Status {
        let memory = &self.index.memory;
        let held = memory.holds.first().map(|hold| hold.summary.clone());
        let Some(state) = &memory.state else {
            let summary =
                held.clone().unwrap_or_else(|| "no loop; `agency loop init` begins one".to_owned());
            return Status { summary, held, detail: json!(null) };
        };
        let summary = summary::summary(self, state, now);
        let mut detail = json!({
            "step": state.current_step, "round": state.current_round, "phase": state.phase.word(),
            "status": state.status, "holder": state.active_agent.word(),
            "steps": state.steps, "steps_complete": state.steps_complete,
            "open_requests": review::open_requests(self),
            "rejections": memory.refusals.in_a_row, "last_rejection": memory.refusals.last,
        });
        detail["gates"] = json!(gates::gates(self));
        if self.limits.gate_tree == GateTree::Shared {
            detail["gate_tree"] = "shared".into();
        }
        detail["accepted_gates"] = json!(base::accepted(self));
        detail["away"] = json!(memory.away.as_ref().map(|cause| &cause.subject));
        Status { summary, held, detail }
    }
}
