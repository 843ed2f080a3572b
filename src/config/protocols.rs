//! The limits and habits of each protocol, and of the daemon as a whole. It applies none of them.

use super::value::{
    NAME, dollars, duration, is_name, known_name, list, number, one_of, optional, size, text,
    text_that, yes_or_no,
};
use super::walk::{Section, Spot, section};
use crate::model::RelPath;
use crate::protocol::review_loop::GateTree;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

/// `limits`: what the daemon may use in all.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Runs at a time.
    pub parallel: u32,
    /// Runs in one repository at a time.
    pub per_repo: u32,
    /// Runs of one agent at a time.
    pub per_agent: u32,
    pub cost_per_day_usd: Option<f64>,
    /// Input and output of all runs of one day.
    pub tokens_per_day: Option<u64>,
    /// How long the folder of a run is kept after its end: prompt, output, record.
    pub keep_runs: Duration,
    /// How long the journal's old segments are kept; what still counts is kept in any case.
    pub keep_journal: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            parallel: 2,
            per_repo: 2,
            per_agent: 1,
            cost_per_day_usd: None,
            tokens_per_day: None,
            keep_runs: 90 * DAY,
            keep_journal: 90 * DAY,
        }
    }
}

pub(super) fn read_limits(spot: &mut Spot<'_>, mut limits: Limits) -> Option<Limits> {
    section(spot, |keys| {
        keys.set("parallel", &mut limits.parallel, number(1..=256));
        keys.set("per_repo", &mut limits.per_repo, number(1..=256));
        keys.set("per_agent", &mut limits.per_agent, number(1..=256));
        keys.set("cost_per_day_usd", &mut limits.cost_per_day_usd, optional(dollars));
        keys.set("tokens_per_day", &mut limits.tokens_per_day, optional(tokens));
        keys.set("keep_runs", &mut limits.keep_runs, duration(DAY));
        keys.set("keep_journal", &mut limits.keep_journal, duration(DAY));
    })?;
    Some(limits)
}

fn tokens(spot: &mut Spot<'_>) -> Option<u64> {
    number(1_000..=4_000_000_000)(spot).map(u64::from)
}

/// `loop`: the review loop.
#[derive(Clone, Debug, PartialEq)]
pub struct LoopConfig {
    /// spec 1 §2: a flag older than this is refused.
    pub flag_max_age: Duration,
    /// spec 1 §7: a turn without a sign of life.
    pub lock_stale: Duration,
    pub max_rejections: u32,
    pub max_rounds: u32,
    /// How long an agent that has finished gets to exit.
    pub settle: Duration,
    /// The owner's own command lines, each for `sh -c`.
    pub gates: Vec<String>,
    pub gate_timeout: Duration,
    pub gate_tree: GateTree,
    /// Prepares the checkout that gates run in, each for `sh -c`; `None`: as its lock files call for.
    pub setup: Option<Vec<String>>,
    pub push: bool,
    /// What the runs of one step may cost before the owner is asked.
    pub cost_per_step_usd: Option<f64>,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            flag_max_age: 30 * 60 * SECOND,
            lock_stale: 45 * 60 * SECOND,
            max_rejections: 3,
            max_rounds: 8,
            settle: 30 * SECOND,
            gates: Vec::new(),
            gate_timeout: 45 * 60 * SECOND,
            gate_tree: GateTree::Clean,
            setup: None,
            push: false,
            cost_per_step_usd: None,
        }
    }
}

const GATE_TREES: &[(&str, GateTree)] = &[("clean", GateTree::Clean), ("shared", GateTree::Shared)];

pub(super) fn read_loop(spot: &mut Spot<'_>, mut limits: LoopConfig) -> Option<LoopConfig> {
    section(spot, |keys| {
        keys.set("flag_max_age", &mut limits.flag_max_age, duration(SECOND));
        keys.set("lock_stale", &mut limits.lock_stale, duration(SECOND));
        keys.set("max_rejections", &mut limits.max_rejections, number(1..=100));
        keys.set("max_rounds", &mut limits.max_rounds, number(1..=1000));
        keys.set("settle", &mut limits.settle, duration(Duration::ZERO));
        keys.set("gates", &mut limits.gates, list(text));
        keys.set("gate_timeout", &mut limits.gate_timeout, duration(SECOND));
        keys.set("gate_tree", &mut limits.gate_tree, one_of(GATE_TREES));
        keys.set("setup", &mut limits.setup, optional(list(text)));
        keys.set("push", &mut limits.push, yes_or_no);
        keys.set("cost_per_step_usd", &mut limits.cost_per_step_usd, optional(dollars));
    })?;
    Some(limits)
}

/// `board`: the task board of the Agency protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardConfig {
    pub isolation: Isolation,
    pub merge: Merge,
    /// The agent that audits reports; `None`: the one that sits in the seat `auditor`.
    pub auditor: Option<String>,
    /// Run once in each new worktree, each for `sh -c`.
    pub setup: Vec<String>,
    /// Ignored files that each new worktree gets.
    pub copy: Vec<RelPath>,
    /// No worktree is made when less space than this is free, in bytes.
    pub disk_floor: u64,
}

/// Where a builder works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each in a worktree and on a branch of its own.
    Worktree,
    /// One at a time in the owner's own tree; the only way without git.
    Shared,
}

/// What becomes of a task's branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// One commit with all of it.
    Squash,
    /// A commit with both as parents.
    Merge,
    /// The branch itself, where the target did not move; else as `merge`.
    FastForward,
    /// It is left for a pull request.
    None,
}

impl Default for BoardConfig {
    fn default() -> Self {
        Self {
            isolation: Isolation::Worktree,
            merge: Merge::Squash,
            auditor: None,
            setup: Vec::new(),
            copy: Vec::new(),
            disk_floor: 1 << 30,
        }
    }
}

/// `agents` are the names that `auditor` may be.
pub(super) fn read_board(
    spot: &mut Spot<'_>,
    mut board: BoardConfig,
    agents: &[&str],
) -> Option<BoardConfig> {
    section(spot, |keys| {
        let isolations =
            one_of(&[("worktree", Isolation::Worktree), ("shared", Isolation::Shared)]);
        keys.set("isolation", &mut board.isolation, isolations);
        let merges = one_of(&[
            ("squash", Merge::Squash),
            ("merge", Merge::Merge),
            ("ff", Merge::FastForward),
            ("none", Merge::None),
        ]);
        keys.set("merge", &mut board.merge, merges);
        keys.set("auditor", &mut board.auditor, optional(known_name("an agent", agents)));
        keys.set("setup", &mut board.setup, list(text));
        read_copy(keys, &mut board.copy);
        keys.set("disk_floor", &mut board.disk_floor, size);
    })?;
    Some(board)
}

fn read_copy(keys: &mut Section<'_>, copy: &mut Vec<RelPath>) {
    let path = text_that("a path inside the repository", |path| RelPath::new(path).is_ok());
    keys.set("copy", copy, |spot| {
        list(|spot| path(spot).and_then(|path| RelPath::new(path).ok()))(spot)
    });
}

/// `handoff`: the relay by messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandoffConfig {
    /// Fixes of one workflow before the owner is asked.
    pub max_iterations: u32,
}

impl Default for HandoffConfig {
    fn default() -> Self {
        Self { max_iterations: 5 }
    }
}

pub(super) fn read_handoff(
    spot: &mut Spot<'_>,
    mut limits: HandoffConfig,
) -> Option<HandoffConfig> {
    section(spot, |keys| {
        keys.set("max_iterations", &mut limits.max_iterations, number(1..=1000));
    })?;
    Some(limits)
}

/// `codifica`: tasks in state files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodificaConfig {
    /// The agents that the daemon starts, by their names in state files; none: those of `allowed_agents`.
    pub agents: Vec<String>,
    /// Where `agency work archive` moves finished tasks.
    pub archive: Option<RelPath>,
}

pub(super) fn read_codifica(
    spot: &mut Spot<'_>,
    mut codifica: CodificaConfig,
) -> Option<CodificaConfig> {
    section(spot, |keys| {
        keys.set("agents", &mut codifica.agents, list(text_that(NAME, is_name)));
        let path = text_that("a path inside the repository", |path| RelPath::new(path).is_ok());
        keys.set("archive", &mut codifica.archive, |spot| {
            path(spot).and_then(|path| RelPath::new(path).ok()).map(Some)
        });
    })?;
    Some(codifica)
}
