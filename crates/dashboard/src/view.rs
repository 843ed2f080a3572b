//! What pages show, as plain values. All texts are as the repository or the agents wrote them: the pages make them safe.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub type Time = DateTime<Utc>;

/// Everything that the first two pages need.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub daemon: String,
    /// What keeps agents apart from the daemon, in one sentence.
    pub isolation: String,
    /// What is wrong with the configuration.
    pub problem: Option<String>,
    /// No channel is configured: nobody is told anywhere else.
    pub unreachable: bool,
    pub repos: Vec<RepoCard>,
}

impl Overview {
    /// Open causes that hold work, and repositories in which nothing can happen.
    pub fn urgent(&self) -> usize {
        let held =
            |repo: &&RepoCard| repo.needs_owner() && !repo.causes.iter().any(|one| one.holds);
        let causes = self.repos.iter().flat_map(|repo| &repo.causes).filter(|one| one.holds);
        causes.count() + self.repos.iter().filter(held).count()
    }

    /// Open notices that hold nothing.
    pub fn notices(&self) -> usize {
        self.repos.iter().flat_map(|repo| &repo.causes).filter(|one| !one.holds).count()
    }

    pub fn working(&self) -> usize {
        self.repos
            .iter()
            .flat_map(|repo| &repo.protocols)
            .filter(|one| one.kind == Kind::Working)
            .count()
    }

    pub fn cost_today(&self) -> f64 {
        self.repos.iter().map(|repo| repo.cost_today).sum()
    }
}

#[derive(Clone, Debug, Default)]
pub struct RepoCard {
    /// Its name in addresses: the folder that the daemon keeps for it.
    pub key: String,
    pub name: String,
    pub path: String,
    /// A running daemon works here.
    pub attended: bool,
    /// Why nothing happens here at all.
    pub closed: Option<String>,
    pub frozen: bool,
    pub held: bool,
    /// The owner's pause, in words.
    pub paused: Option<String>,
    pub notes: Vec<String>,
    pub protocols: Vec<ProtocolCard>,
    pub causes: Vec<Cause>,
    pub cost_today: f64,
}

impl RepoCard {
    pub fn needs_owner(&self) -> bool {
        self.attended && (self.held || self.frozen)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Frozen,
    Held,
    Working,
    #[default]
    Waiting,
    Idle,
    Done,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Frozen => "frozen",
            Self::Held => "held",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Done => "done",
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct ProtocolCard {
    pub name: String,
    pub kind: Kind,
    pub reason: String,
    pub until: Option<Time>,
    pub run: Option<String>,
    pub agent: Option<String>,
    pub task: Option<String>,
    pub since: Option<Time>,
    pub last_output: Option<Time>,
    pub trouble: Option<String>,
    pub resolve: Option<String>,
    pub summary: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    #[default]
    Notice,
    Warning,
    Critical,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A message to the owner that is still open.
#[derive(Clone, Debug, Default)]
pub struct Cause {
    pub id: String,
    pub rule: String,
    pub severity: Severity,
    pub protocol: String,
    pub summary: String,
    pub holds: bool,
    pub acked: bool,
    pub count: u64,
    pub first_seen: Time,
    pub what: String,
    pub did: String,
    pub wont: String,
    /// The command that resolves it.
    pub resolve: String,
    pub options: Vec<String>,
    /// An agent waits for words.
    pub question: bool,
    pub evidence: Vec<String>,
    /// Channels that could not deliver it.
    pub undelivered: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub struct RepoPage {
    pub card: RepoCard,
    /// Newest first.
    pub timeline: Vec<Step>,
    pub tables: Vec<RowTable>,
    pub tasks: Vec<Task>,
    /// Newest first.
    pub runs: Vec<RunLine>,
    /// Dollars by day, oldest first.
    pub cost_per_day: Vec<(String, f64)>,
    /// Seconds by agent.
    pub time_per_agent: Vec<(String, f64)>,
}

/// One thing that the journal says.
#[derive(Clone, Debug)]
pub struct Step {
    pub n: u64,
    pub at: Time,
    pub protocol: String,
    pub kind: StepKind,
    pub what: String,
    /// The row of the protocol's table.
    pub row: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Moved,
    Refused,
    Asked,
    Ended,
    Told,
    Noted,
}

impl StepKind {
    pub fn word(self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::Refused => "refused",
            Self::Asked => "asked",
            Self::Ended => "ended",
            Self::Told => "told",
            Self::Noted => "noted",
        }
    }
}

/// A protocol's transition table.
#[derive(Clone, Debug)]
pub struct RowTable {
    pub protocol: String,
    pub head: Vec<String>,
    pub rows: Vec<TableRow>,
}

#[derive(Clone, Debug)]
pub struct TableRow {
    pub cells: Vec<String>,
    /// It was the last one that moved something.
    pub lit: bool,
}

#[derive(Clone, Debug)]
pub struct Task {
    pub id: String,
    pub title: String,
    pub status: String,
    pub assignee: String,
    /// What the owner may do to it now: word of the verb.
    pub verbs: Vec<&'static str>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct RunLine {
    pub id: String,
    pub repo_key: String,
    pub repo: String,
    pub protocol: String,
    pub agent: String,
    pub role: String,
    pub task: String,
    pub phase: String,
    pub running: bool,
    pub outcome: Option<String>,
    pub reason: Option<String>,
    pub started: Time,
    pub ended: Option<Time>,
    pub cost: Option<f64>,
    pub cost_estimated: bool,
    pub input_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub model: Option<String>,
    /// A command line of the owner's, and no agent.
    pub command: bool,
}

#[derive(Clone, Debug, Default)]
pub struct RunPage {
    pub line: RunLine,
    pub why: String,
    pub pid: Option<i32>,
    pub argv: Vec<String>,
    pub dir: String,
    pub prompt: Option<String>,
    /// As `agency logs` shows it.
    pub transcript: Vec<Said>,
    /// The beginning of the transcript is not shown.
    pub transcript_cut: bool,
    pub complaints: String,
    pub diff: Option<DiffView>,
    pub gates: Vec<Gate>,
}

/// One entry of a transcript.
#[derive(Clone, Debug)]
pub struct Said {
    pub text: String,
    pub kind: SaidKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaidKind {
    Message,
    /// A tool, and what it answered.
    Tool,
    Failure,
}

#[derive(Clone, Debug)]
pub struct DiffView {
    /// What was compared.
    pub title: String,
    pub text: String,
    pub cut: bool,
}

/// A check that the daemon ran on the work.
#[derive(Clone, Debug)]
pub struct Gate {
    pub run: RunLine,
    pub line: String,
    pub output: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HistoryQuery {
    /// Words to look for in task, agent, rule, repository and outcome.
    pub q: String,
    pub repo: String,
    pub page: usize,
}

#[derive(Clone, Debug, Default)]
pub struct HistoryPage {
    pub runs: Vec<RunLine>,
    pub causes: Vec<PastCause>,
    /// There are older ones.
    pub more: bool,
}

/// A message of any state.
#[derive(Clone, Debug)]
pub struct PastCause {
    pub repo_key: String,
    pub repo: String,
    pub id: String,
    pub rule: String,
    pub severity: Severity,
    pub summary: String,
    pub state: String,
    pub first_seen: Time,
}

/// One thing that `agency doctor` looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    pub name: String,
    pub fine: bool,
    pub found: String,
    pub fix: Option<String>,
}
