//! The owner's configuration: reads it, lists everything that is wrong with it, gives every key a default.
//! It acts on nothing, and it does not decide whether a repository's own file is trusted.
//!
//! To add a key: a field with its default, a `keys.set` line in its section, a line in `config/agency.yaml`.

mod address;
mod agents;
mod env;
mod escalation;
mod find;
mod problem;
mod protocols;
mod quiet;
mod repos;
mod sandbox;
mod serve;
#[cfg(test)]
mod tests;
mod value;
mod walk;
mod yaml;

pub use agents::{Agent, Agents, Permissions, Price, Prices, Profile, Roles, Start};
pub use env::Env;
pub use escalation::{CommandChannel, Email, EscalationConfig, Heartbeat, Webhook, WebhookFormat};
pub use problem::{Problem, Problems};
pub use protocols::{
    BoardConfig, CodificaConfig, HandoffConfig, Isolation, Limits, LoopConfig, Merge,
};
pub use quiet::{Quiet, TimeOfDay};
pub use repos::{ProtocolName, RepoEntry};
pub use sandbox::{Network, SandboxConfig, SandboxMode};
pub use serve::{DashboardConfig, MetricsConfig};

use crate::model::Seat;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use walk::{Section, Spot, section};

/// Everything that the owner can set.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub repos: Vec<RepoEntry>,
    /// The built-in agents are always among them.
    pub agents: Agents,
    pub roles: Roles,
    pub limits: Limits,
    /// For CLIs that name tokens and no cost.
    pub prices: Prices,
    pub sandbox: SandboxConfig,
    /// `loop`
    pub review_loop: LoopConfig,
    pub board: BoardConfig,
    pub handoff: HandoffConfig,
    pub codifica: CodificaConfig,
    pub escalation: EscalationConfig,
    pub heartbeat: Option<Heartbeat>,
    pub dashboard: DashboardConfig,
    pub metrics: MetricsConfig,
    /// The file that this was read from; `None`: the defaults hold.
    pub file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("`{}`, named by {by}, does not exist", path.display())]
    Missing { path: PathBuf, by: &'static str },
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}`: {problems}", path.display())]
    Invalid { path: PathBuf, problems: Problems },
}

/// What a repository's own file must not set.
const OWNER_ONLY: &[&str] = &[
    "repos",
    "agents",
    "roles",
    "limits",
    "prices",
    "sandbox",
    "escalation",
    "heartbeat",
    "dashboard",
    "metrics",
];

impl Default for Config {
    fn default() -> Self {
        Self {
            repos: Vec::new(),
            agents: agents::default_agents(),
            roles: agents::default_roles(),
            limits: Limits::default(),
            prices: Prices::new(),
            sandbox: SandboxConfig::default(),
            review_loop: LoopConfig::default(),
            board: BoardConfig::default(),
            handoff: HandoffConfig::default(),
            codifica: CodificaConfig::default(),
            escalation: EscalationConfig::default(),
            heartbeat: None,
            dashboard: DashboardConfig::default(),
            metrics: MetricsConfig::default(),
            file: None,
        }
    }
}

impl Config {
    /// The file that holds: `--config`, `$AGENCY_CONFIG`, the owner's, the machine's. `None`: the defaults hold.
    pub fn find(explicit: Option<&Path>, env: &Env) -> Result<Option<PathBuf>, ConfigError> {
        find::find(explicit, env)
    }

    pub fn load(path: &Path, env: &Env) -> Result<Self, ConfigError> {
        let bytes = read_bounded(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let config = Self::parse(&bytes, env)
            .map_err(|problems| ConfigError::Invalid { path: path.to_owned(), problems })?;
        Ok(Self { file: Some(path.to_owned()), ..config })
    }

    /// Reads the owner's file. `env` says what `~` is.
    pub fn parse(bytes: &[u8], env: &Env) -> Result<Self, Problems> {
        walk(bytes, |keys| read_owner(keys, env))
    }

    /// What holds in a repository that has an `agency.yaml` of its own. The caller passes only bytes that the owner trusted.
    pub fn overlay(owner: &Self, repo_yaml: &[u8]) -> Result<Self, ConfigError> {
        walk(repo_yaml, |keys| read_repository(keys, owner.clone()))
            .map_err(|problems| ConfigError::Invalid { path: "agency.yaml".into(), problems })
    }

    /// Who sits in a seat: as `roles` says of the seat, else the agent of that name, else as `roles` says of the role.
    pub fn agent_for(&self, seat: &Seat, role: &str) -> Option<(&str, &Agent)> {
        let agent = |name: &str| self.agents.get_key_value(name);
        let found = match self.roles.get(seat) {
            Some(name) => agent(name),
            None => agent(seat.as_str())
                .or_else(|| self.roles.get(&Seat::new(role)).and_then(|name| agent(name))),
        };
        found.map(|(name, agent)| (name.as_str(), agent))
    }
}

fn walk(bytes: &[u8], read: impl FnOnce(&mut Section<'_>) -> Config) -> Result<Config, Problems> {
    let mut problems = Problems::default();
    let config = yaml::parse(bytes, &mut problems)
        .and_then(|node| section(&mut Spot::new(&node, String::new(), &mut problems), read));
    match config {
        Some(config) if problems.is_empty() => Ok(config),
        _ => Err(problems.sorted()),
    }
}

fn read_owner(keys: &mut Section<'_>, env: &Env) -> Config {
    let mut config = Config::default();
    keys.set("repos", &mut config.repos, |spot| repos::read_repos(spot, env));
    let built_in = config.agents.clone();
    keys.set("agents", &mut config.agents, |spot| agents::read_agents(spot, built_in));
    let agents = &config.agents;
    let mut usual = config.roles.clone();
    // AG-36: an agent that has the name of a role is the one for that role, unless `roles` says otherwise.
    usual.retain(|seat, _| !agents.contains_key(seat.as_str()));
    config.roles.clone_from(&usual);
    keys.set("roles", &mut config.roles, |spot| agents::read_roles(spot, usual, agents));
    let usual = config.limits.clone();
    keys.set("limits", &mut config.limits, |spot| protocols::read_limits(spot, usual));
    keys.set("prices", &mut config.prices, agents::read_prices);
    keys.set("sandbox", &mut config.sandbox, |spot| sandbox::read_sandbox(spot, env));
    read_protocols(keys, &mut config);
    keys.set("escalation", &mut config.escalation, escalation::read_escalation);
    let heartbeat = value::optional(escalation::read_heartbeat);
    keys.set("heartbeat", &mut config.heartbeat, heartbeat);
    keys.set("dashboard", &mut config.dashboard, serve::read_dashboard);
    keys.set("metrics", &mut config.metrics, serve::read_metrics);
    refuse_leaks(keys, &config);
    config
}

fn read_repository(keys: &mut Section<'_>, mut config: Config) -> Config {
    keys.forbid(OWNER_ONLY, "only the owner's config may set this");
    read_protocols(keys, &mut config);
    config
}

/// The sections that a repository's own file may have too.
fn read_protocols(keys: &mut Section<'_>, config: &mut Config) {
    let usual = config.review_loop.clone();
    keys.set("loop", &mut config.review_loop, |spot| protocols::read_loop(spot, usual));
    let usual = config.board.clone();
    let agents: Vec<&str> = config.agents.keys().map(String::as_str).collect();
    keys.set("board", &mut config.board, |spot| protocols::read_board(spot, usual, &agents));
    let usual = config.handoff.clone();
    keys.set("handoff", &mut config.handoff, |spot| protocols::read_handoff(spot, usual));
    let usual = config.codifica.clone();
    keys.set("codifica", &mut config.codifica, |spot| protocols::read_codifica(spot, usual));
}

/// SE-03: a variable that holds a channel's secret is never passed to an agent.
fn refuse_leaks(keys: &mut Section<'_>, config: &Config) {
    let secrets = config.escalation.secret_names();
    for (name, agent) in &config.agents {
        for leak in agent.env.iter().filter(|env| secrets.contains(&env.as_str())) {
            let found = format!("`{leak}`, a channel's secret, in `agents.{name}.env`");
            keys.refuse(found, "no secret of `escalation` among the variables of an agent");
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(yaml::SIZE_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
