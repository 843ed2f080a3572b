//! The `sandbox` of a configuration (SE-06): what keeps runs in, and what they may reach. It asks no kernel and applies nothing.

use super::env::Env;
use super::value::{list, number, one_of, text};
use super::walk::{Spot, section};
use super::yaml::Kind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxConfig {
    pub mode: SandboxMode,
    /// Beside what every run may write; as written, with `~`.
    pub write: Vec<String>,
    /// Not readable, beside our own state and configuration; as written, with `~`.
    pub hide: Vec<String>,
    pub network: Network,
}

/// What happens where the kernel has no Landlock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxMode {
    /// Runs start without a sandbox, and every view says so.
    #[default]
    Auto,
    /// No run starts.
    Strict,
    /// No run has a sandbox, whatever the kernel can do.
    Off,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    Any,
    /// The TCP ports that runs may connect to.
    Ports(Vec<u16>),
}

/// Hidden unless the owner names others.
const HIDDEN: &[&str] =
    &["~/.ssh", "~/.gnupg", "~/.aws", "~/.netrc", "~/.config/gh", "~/.docker/config.json"];

pub(super) const MODES: &[(&str, SandboxMode)] =
    &[("auto", SandboxMode::Auto), ("strict", SandboxMode::Strict), ("off", SandboxMode::Off)];

impl SandboxMode {
    pub fn word(self) -> &'static str {
        let found = MODES.iter().find(|(_, mode)| *mode == self);
        found.map(|(word, _)| *word).expect("BUG: every mode has its word in the table")
    }
}

impl Default for SandboxConfig {
    fn default() -> Self {
        let hide = HIDDEN.iter().map(|&path| path.to_owned()).collect();
        Self { mode: SandboxMode::Auto, write: Vec::new(), hide, network: Network::Any }
    }
}

pub(super) fn read_sandbox(spot: &mut Spot<'_>, env: &Env) -> Option<SandboxConfig> {
    section(spot, |keys| {
        let mut config = SandboxConfig::default();
        let paths = |spot: &mut Spot<'_>| list(|spot| read_path(spot, env))(spot);
        keys.set("mode", &mut config.mode, one_of(MODES));
        keys.set("write", &mut config.write, paths);
        keys.set("hide", &mut config.hide, paths);
        keys.set("network", &mut config.network, read_network);
        config
    })
}

fn read_network(spot: &mut Spot<'_>) -> Option<Network> {
    match &spot.node.kind {
        Kind::Scalar { text, .. } if text == "any" => Some(Network::Any),
        Kind::List(_) => {
            let ports = list(number(1..=65_535))(spot)?;
            Some(Network::Ports(
                ports.into_iter().filter_map(|port| port.try_into().ok()).collect(),
            ))
        }
        Kind::Scalar { .. } | Kind::Null | Kind::Map(_) => {
            spot.refuse("`any`, or a list of TCP ports such as `[443]`");
            None
        }
    }
}

fn read_path(spot: &mut Spot<'_>, env: &Env) -> Option<String> {
    let written = text(spot)?;
    if env.expand(&written).is_some_and(|path| path.is_absolute()) {
        return Some(written);
    }
    spot.refuse("an absolute path, or one that starts with `~/`");
    None
}
