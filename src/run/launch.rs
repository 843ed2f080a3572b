//! From a spawn to a run: whose command line, which environment, which limits. It starts nothing.

use super::environment::{self, Names};
use super::spec::{Limits, RunSpec, Values, expand};
use crate::config::{Agent, Config, Profile, Start};
use crate::model::Spawn;
use std::path::{Path, PathBuf};

/// What every run of one repository has in common.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The repository, as the agent is told.
    pub repo: PathBuf,
    pub config: Config,
    /// The daemon's own environment; only what the list allows is passed on.
    pub env: Vec<(String, String)>,
}

#[derive(Debug, thiserror::Error)]
#[error("nobody is configured for the seat `{seat}` (role `{role}`)")]
pub struct NoAgent {
    seat: String,
    role: String,
}

impl Launcher {
    /// `dir` is the tree that the run works in, `prompt_file` where its prompt will lie.
    pub fn spec(
        &self,
        spawn: &Spawn,
        protocol: &str,
        dir: &Path,
        prompt_file: &Path,
    ) -> Result<RunSpec, NoAgent> {
        let no_agent = || NoAgent { seat: spawn.seat.to_string(), role: spawn.role.clone() };
        let (_, agent) = self.config.agent_for(&spawn.seat, &spawn.role).ok_or_else(no_agent)?;
        let values = Values {
            prompt: &spawn.prompt,
            prompt_file,
            repo: dir,
            run: &spawn.run,
            task: &spawn.task,
        };
        Ok(RunSpec {
            argv: expand(&template(agent), &values),
            spawn: spawn.clone(),
            repo: self.repo.clone(),
            protocol: protocol.to_owned(),
            dir: dir.to_owned(),
            env: self.environment(agent, spawn, protocol),
            limits: limits(agent),
        })
    }

    fn environment(&self, agent: &Agent, spawn: &Spawn, protocol: &str) -> Vec<(String, String)> {
        let mut extra = agent.env.clone();
        if let Start::Profile(profile) = agent.start {
            extra.extend(needs(profile).iter().map(|name| (*name).to_owned()));
        }
        let never: Vec<String> =
            self.config.escalation.secret_names().into_iter().map(str::to_owned).collect();
        let names = Names { extra: &extra, never: &never };
        environment::of_run(self.env.iter().cloned(), names, spawn, &self.repo, protocol)
    }
}

fn limits(agent: &Agent) -> Limits {
    Limits {
        first_output_s: Some(agent.first_output.as_secs()),
        silence_s: Some(agent.silence.as_secs()),
        wall_s: Some(agent.timeout.as_secs()),
        ..Limits::default()
    }
}

fn template(agent: &Agent) -> Vec<String> {
    match &agent.start {
        Start::Command(command) => command.clone(),
        Start::Profile(profile) => {
            command_line(*profile).iter().map(|&word| word.to_owned()).collect()
        }
    }
}

/// The headless command line of each CLI.
#[rustfmt::skip]
fn command_line(profile: Profile) -> &'static [&'static str] {
    match profile {
        Profile::Claude => &["claude", "-p", "{prompt}", "--output-format", "stream-json", "--verbose",
            "--permission-mode", "acceptEdits"],
        Profile::Codex => &["codex", "exec", "--json", "-s", "workspace-write", "-C", "{repo}", "{prompt}"],
        Profile::Gemini => &["gemini", "-p", "{prompt}", "-o", "stream-json", "--approval-mode", "yolo",
            "--skip-trust"],
        Profile::Aider => &["aider", "--message", "{prompt}", "--yes-always", "--no-stream", "--no-pretty",
            "--no-check-update", "--analytics-disable", "--no-auto-commits"],
    }
}

/// Variables that a CLI needs to sign in.
fn needs(profile: Profile) -> &'static [&'static str] {
    match profile {
        Profile::Claude => &["ANTHROPIC_*", "CLAUDE_*"],
        Profile::Codex => &["OPENAI_*", "CODEX_*"],
        Profile::Gemini => &["GEMINI_*", "GOOGLE_*"],
        Profile::Aider => &["AIDER_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*"],
    }
}
