//! What keeps agents apart from the daemon here (SE-05): the sandbox of each run, or nothing. It looks and changes nothing.

use crate::config::{Config, Env, SandboxMode};
use crate::run::sandbox::{self, Kernel};
use serde::Serialize;
use std::path::Path;

/// The files by which container engines mark the inside.
const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Agents share the daemon's user on this machine.
    SharedUser,
    /// They share it, but only inside a container.
    Contained,
}

impl Level {
    pub(super) fn live(env: &Env) -> Self {
        let is_marked = MARKS.iter().any(|path| Path::new(path).exists());
        Self::of(is_marked || env.get("container").is_some_and(|value| !value.is_empty()))
    }

    fn of(is_contained: bool) -> Self {
        if is_contained { Self::Contained } else { Self::SharedUser }
    }

    /// For JSON.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::SharedUser => "shared-uid",
            Self::Contained => "contained",
        }
    }
}

/// The sandbox that runs get here (SE-06).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sandbox {
    kernel: Kernel,
    mode: SandboxMode,
    /// Agents that the configuration starts without one.
    without: Vec<String>,
}

/// As `agency status --json` shows it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct SandboxView {
    level: &'static str,
    mode: &'static str,
    /// The version of the kernel's Landlock, whether it is used or not.
    abi: Option<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without: Vec<String>,
}

impl Sandbox {
    pub(super) fn live(config: &Config) -> Self {
        Self::of(config, Kernel::here())
    }

    fn of(config: &Config, kernel: Kernel) -> Self {
        let open = config.agents.iter().filter(|(_, agent)| {
            agent.sandbox.is_some() && !sandbox::is_confined(config, Some(agent), kernel)
        });
        let without = open.map(|(name, _)| name.clone()).collect();
        Self { kernel, mode: config.sandbox.mode, without }
    }

    pub(super) fn is_live(&self) -> bool {
        self.mode != SandboxMode::Off && self.kernel.abi().is_some()
    }

    pub(super) fn mode(&self) -> SandboxMode {
        self.mode
    }

    pub(super) fn kernel(&self) -> Kernel {
        self.kernel
    }

    pub(super) fn view(&self) -> SandboxView {
        SandboxView {
            level: if self.is_live() { "landlock" } else { "none" },
            mode: self.mode.word(),
            abi: self.kernel.abi(),
            without: self.without.clone(),
        }
    }

    /// Said plainly: what is prevented and what is only found out.
    pub(crate) fn sentence(&self) -> String {
        let mode = self.mode.word();
        let text = match (self.kernel, self.mode) {
            (Kernel::Landlock { .. }, SandboxMode::Off) => {
                "isolation: none (sandbox mode off). Violations are detected, not prevented."
                    .to_owned()
            }
            (Kernel::Landlock { abi }, SandboxMode::Auto | SandboxMode::Strict) => format!(
                "isolation: landlock (ABI {abi}, mode {mode}). Writes outside a run's own tree are prevented; git's settings and hooks in your own tree are detected, not prevented."
            ),
            (Kernel::Nothing { why }, SandboxMode::Strict) => {
                format!(
                    "isolation: none (sandbox mode strict). No run starts: this kernel has no Landlock ({why})."
                )
            }
            (Kernel::Nothing { why }, SandboxMode::Auto | SandboxMode::Off) => format!(
                "isolation: none (sandbox mode {mode}; no Landlock: {why}). Violations are detected, not prevented."
            ),
        };
        match self.without.is_empty() {
            true => text,
            false => format!("{text} Without a sandbox: {}.", self.without.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LANDLOCK: Kernel = Kernel::Landlock { abi: 7 };
    const NOTHING: Kernel = Kernel::Nothing { why: "it is older" };

    fn sandbox(yaml: &str, kernel: Kernel) -> Sandbox {
        Sandbox::of(&Config::parse(yaml.as_bytes(), &Env::default()).unwrap(), kernel)
    }

    // covers: SE-05
    #[test]
    fn each_level_says_what_it_does_not_prevent() {
        for (yaml, kernel) in [("", LANDLOCK), ("sandbox: { mode: off }", LANDLOCK), ("", NOTHING)]
        {
            let said = sandbox(yaml, kernel).sentence();
            assert!(said.contains("detected, not prevented"), "{said}");
        }
        let strict = sandbox("sandbox: { mode: strict }", NOTHING);
        assert!(strict.sentence().contains("No run starts"), "{}", strict.sentence());
        assert!(!strict.is_live());
        let told = Env::from_iter([("container", "podman")]);
        assert_eq!(Level::live(&told), Level::Contained);
        assert_eq!(Level::of(false).word(), "shared-uid");
    }

    // covers: SE-05, SE-06
    #[test]
    fn an_agent_without_a_sandbox_is_named() {
        let open = sandbox("agents: { codex: { sandbox: off } }", LANDLOCK);
        assert!(open.sentence().ends_with("Without a sandbox: codex."), "{}", open.sentence());
        let view = serde_json::to_value(open.view()).unwrap();
        let wanted = serde_json::json!(
            { "level": "landlock", "mode": "auto", "abi": 7, "without": ["codex"] }
        );
        assert_eq!(view, wanted);
    }
}
