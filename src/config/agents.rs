//! The `agents` and `roles` of a configuration: who can be started, how, and for which seat. It starts nothing.

use super::sandbox::{MODES, SandboxMode};
use super::value::{
    NAME, dollars, duration, env_name, is_name, known_name, list, number, one_of, optional,
    some_list, text,
};
use super::walk::{Section, Spot, section};
use super::yaml::{Kind, join};
use crate::model::Seat;
use std::collections::BTreeMap;
use std::time::Duration;

/// Agents by their name in `agents`.
pub type Agents = BTreeMap<String, Agent>;
/// The name of the agent that sits in a seat.
pub type Roles = BTreeMap<Seat, String>;

#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    pub start: Start,
    /// Wall clock.
    pub timeout: Duration,
    /// Until the first output.
    pub first_output: Duration,
    /// Without output.
    pub silence: Duration,
    /// After the first try.
    pub retries: u32,
    /// Before the first retry; doubles.
    pub backoff: Duration,
    /// Names of variables that are passed through.
    pub env: Vec<String>,
    pub cost_per_run_usd: Option<f64>,
    /// With a profile: the model that its CLI is told to use.
    pub model: Option<String>,
    /// With a profile: further arguments, before the prompt.
    pub args: Vec<String>,
    pub permissions: Permissions,
    /// In place of `sandbox.mode`.
    pub sandbox: Option<SandboxMode>,
}

/// What an agent with a profile may do without being asked (SU-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Permissions {
    ReadOnly,
    Edit,
    /// `Edit`, and the gates' and the DoD's commands.
    #[default]
    Test,
    /// Everything; for agents that are kept in otherwise.
    Full,
}

const PERMISSIONS: &[(&str, Permissions)] = &[
    ("read-only", Permissions::ReadOnly),
    ("edit", Permissions::Edit),
    ("test", Permissions::Test),
    ("full", Permissions::Full),
];

/// How an agent is started: by a built-in profile, or by a template of the owner's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    Profile(Profile),
    Command(Vec<String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Claude,
    Codex,
    Gemini,
    Aider,
}

const PROFILES: &[(&str, Profile)] = &[
    ("claude", Profile::Claude),
    ("codex", Profile::Codex),
    ("gemini", Profile::Gemini),
    ("aider", Profile::Aider),
];

/// Agents that exist without being configured.
const BUILT_IN: &[(&str, Profile)] = &[
    ("claude-code", Profile::Claude),
    ("codex", Profile::Codex),
    ("gemini", Profile::Gemini),
    ("aider", Profile::Aider),
];

const ROLES: &[(&str, &str)] = &[
    ("builder", "claude-code"),
    ("reviewer", "codex"),
    ("auditor", "gemini"),
    ("planner", "claude-code"),
    ("fixer", "claude-code"),
];

const SECOND: Duration = Duration::from_secs(1);

impl Agent {
    pub fn new(start: Start) -> Self {
        Self {
            start,
            timeout: 45 * 60 * SECOND,
            first_output: 5 * 60 * SECOND,
            silence: 10 * 60 * SECOND,
            retries: 2,
            backoff: 30 * SECOND,
            env: Vec::new(),
            cost_per_run_usd: None,
            model: None,
            args: Vec::new(),
            permissions: Permissions::default(),
            sandbox: None,
        }
    }
}

pub(super) fn default_agents() -> Agents {
    let agent = |(name, profile): &(&str, Profile)| {
        ((*name).to_owned(), Agent::new(Start::Profile(*profile)))
    };
    BUILT_IN.iter().map(agent).collect()
}

pub(super) fn default_roles() -> Roles {
    ROLES.iter().map(|(seat, agent)| (Seat::new(*seat), (*agent).to_owned())).collect()
}

/// Adds the agents of the file to the built-in ones.
pub(super) fn read_agents(spot: &mut Spot<'_>, mut agents: Agents) -> Option<Agents> {
    each(spot, |name, spot| {
        let start = BUILT_IN.iter().find(|(known, _)| *known == name);
        let start = start.map(|(_, profile)| Start::Profile(*profile));
        let agent = section(spot, |keys| read_agent(keys, start));
        if let Some(agent) = agent.flatten() {
            agents.insert(name.to_owned(), agent);
        } else {
            // So that one wrong agent is not reported a second time by every role that names it.
            let stand_in = Agent::new(Start::Profile(Profile::Claude));
            agents.entry(name.to_owned()).or_insert(stand_in);
        }
    })?;
    Some(agents)
}

fn read_agent(keys: &mut Section<'_>, built_in: Option<Start>) -> Option<Agent> {
    let both = keys.has("profile") && keys.has("command");
    let neither = !keys.has("profile") && !keys.has("command");
    let profile = keys.get("profile", one_of(PROFILES)).map(Start::Profile);
    let command = keys.get("command", some_list(text)).map(Start::Command);
    let start = if both {
        keys.refuse("both `profile` and `command`", "one of them");
        None
    } else if neither && built_in.is_none() {
        keys.refuse("neither `profile` nor `command`", "one of them");
        None
    } else {
        profile.or(command).or(built_in)
    };
    let mut agent = Agent::new(start.clone().unwrap_or(Start::Profile(Profile::Claude)));
    keys.set("timeout", &mut agent.timeout, duration(SECOND));
    keys.set("first_output", &mut agent.first_output, duration(SECOND));
    keys.set("silence", &mut agent.silence, duration(SECOND));
    keys.set("retries", &mut agent.retries, number(0..=20));
    keys.set("backoff", &mut agent.backoff, duration(Duration::ZERO));
    keys.set("env", &mut agent.env, list(env_name));
    keys.set("cost_per_run_usd", &mut agent.cost_per_run_usd, optional(dollars));
    keys.set("model", &mut agent.model, |spot| text(spot).map(Some));
    keys.set("args", &mut agent.args, list(text));
    keys.set("permissions", &mut agent.permissions, one_of(PERMISSIONS));
    keys.set("sandbox", &mut agent.sandbox, |spot| one_of(MODES)(spot).map(Some));
    if matches!(start, Some(Start::Command(_))) {
        for key in ["model", "args", "permissions"] {
            if keys.has(key) {
                let found = format!("`{key}` beside `command`");
                keys.refuse(found, "a `profile`, or the flags in `command` itself");
            }
        }
    }
    start.map(|_| agent)
}

/// What tokens cost, by model.
pub type Prices = BTreeMap<String, Price>;

/// Dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
}

impl Price {
    /// Millionths of a dollar: a dollar per million tokens is one for each token.
    pub fn microusd(&self, input: u64, output: u64) -> u64 {
        (input as f64 * self.input + output as f64 * self.output).round() as u64
    }
}

pub(super) fn read_prices(spot: &mut Spot<'_>) -> Option<Prices> {
    let mut prices = Prices::new();
    each(spot, |model, spot| {
        let price = section(spot, |keys| {
            let price = keys.get("input", dollars).zip(keys.get("output", dollars));
            if price.is_none() {
                keys.refuse("no price", "`input` and `output`, dollars per million tokens");
            }
            price.map(|(input, output)| Price { input, output })
        });
        if let Some(price) = price.flatten() {
            prices.insert(model.to_owned(), price);
        }
    })?;
    Some(prices)
}

/// Adds the roles of the file to the default ones.
pub(super) fn read_roles(spot: &mut Spot<'_>, mut roles: Roles, agents: &Agents) -> Option<Roles> {
    let known: Vec<&str> = agents.keys().map(String::as_str).collect();
    each(spot, |seat, spot| {
        if let Some(agent) = known_name("an agent", &known)(spot) {
            roles.insert(Seat::new(seat), agent);
        }
    })?;
    Some(roles)
}

/// Visits a mapping whose keys are names of the owner's choice.
fn each(spot: &mut Spot<'_>, mut visit: impl FnMut(&str, &mut Spot<'_>)) -> Option<()> {
    let entries = match &spot.node.kind {
        Kind::Map(entries) => entries,
        Kind::Null => return Some(()),
        Kind::Scalar { .. } | Kind::List(_) => {
            spot.refuse("a mapping (`name: …`)");
            return None;
        }
    };
    let path = spot.path.clone();
    for entry in entries {
        let mut spot = spot.inner(&entry.value, join(&path, &entry.key));
        if is_name(&entry.key) {
            visit(&entry.key, &mut spot);
        } else {
            spot.refuse_as("this name", NAME, None);
        }
    }
    Some(())
}
