//! The demo's stage: a repository, scripted agents, a configuration, a state directory, all in one throw-away folder.

use super::super::context::Context;
use super::Play;
use crate::capacity::Capacity;
use crate::config::{Config, Env};
use crate::daemon::limits;
use crate::escalate::Notifier;
use crate::repository::StateDir;
use crate::run::Spares;
use crate::workspace::Settings;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

pub(super) struct Stage {
    dir: PathBuf,
}

impl Stage {
    /// All agents are one script: it reads what the daemon tells every agent, does a little work, and says so.
    pub(super) fn build(play: &Play) -> anyhow::Result<Self> {
        let name = format!("agency-demo-{}", &uuid::Uuid::new_v4().simple().to_string()[..8]);
        let stage = Self { dir: std::env::temp_dir().join(name) };
        std::fs::create_dir_all(stage.repo())?;
        std::fs::write(stage.dir.join("agent.sh"), play.script)?;
        std::fs::write(stage.config_path(), stage.config(play)?)?;
        std::fs::write(stage.repo().join("README.md"), "# A shop\n\nBuilt in three steps.\n")?;
        std::fs::write(stage.repo().join("CODEBASE.md"), "# Map\n\n- README.md:1 what this is\n")?;
        for (name, text) in play.files {
            let path = stage.repo().join(name);
            std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
            std::fs::write(path, text)?;
        }
        stage.git(&["init", "--quiet", "--initial-branch=main"])?;
        stage.commit("--message=The owner's first commit")?;
        Ok(stage)
    }

    /// What the owner types before it begins, committed.
    pub(super) fn prepare(&self, play: &Play) -> anyhow::Result<()> {
        for line in play.typed {
            self.type_in(line)?;
        }
        if play.typed.is_empty() {
            return Ok(());
        }
        anstream::println!();
        self.commit("--message=The owner's tasks")
    }

    /// A line of the owner's for this very program, shown and run as they would.
    pub(super) fn type_in(&self, line: &str) -> anyhow::Result<()> {
        anstream::println!("$ agency {line}");
        let status = Command::new(std::env::current_exe()?)
            .args(line.split(' '))
            .current_dir(self.repo())
            .env("AGENCY_STATE_DIR", self.state())
            .env("AGENCY_CONFIG", self.config_path())
            .status()?;
        anyhow::ensure!(status.success(), "agency {line} failed");
        Ok(())
    }

    fn commit(&self, message: &str) -> anyhow::Result<()> {
        self.git(&["add", "-A"])?;
        self.git(&["commit", "--quiet", message])
    }

    /// The owner's own git, before the daemon comes; the demo must work where nobody has configured a name.
    fn git(&self, words: &[&str]) -> anyhow::Result<()> {
        let status = Command::new("git")
            .args([
                "-c",
                "user.name=Owner",
                "-c",
                "user.email=owner@example.com",
                "-c",
                "commit.gpgSign=false",
            ])
            .args(words)
            .current_dir(self.repo())
            .status()?;
        anyhow::ensure!(status.success(), "git {} failed", words.join(" "));
        Ok(())
    }

    pub(super) fn repo(&self) -> PathBuf {
        self.dir.join("shop")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn config_path(&self) -> PathBuf {
        self.dir.join("agency.yaml")
    }

    /// Every seat's agent is the script; it gets our own path, for scripts that call us, and what it is asked to do.
    fn config(&self, play: &Play) -> anyhow::Result<String> {
        let script = self.dir.join("agent.sh");
        let command = json!(["sh", script, std::env::current_exe()?, "{prompt}"]);
        let agent = |&seat: &&str| (seat.to_owned(), json!({"command": command, "backoff": "1s"}));
        let agents: Map<String, Value> = play.seats.iter().map(agent).collect();
        let roles: Map<String, Value> =
            play.seats.iter().map(|&seat| (seat.to_owned(), json!(seat))).collect();
        let config = json!({"agents": agents, "roles": roles, "codifica": {"agents": play.seats}});
        // JSON is YAML too.
        Ok(serde_json::to_string_pretty(&config)?)
    }

    /// As a command line of the owner's would have it here.
    pub(super) fn context(&self) -> Context {
        let state = [("AGENCY_STATE_DIR".into(), self.state().into_os_string())];
        let env: Env = std::env::vars_os().chain(state).collect();
        Context::in_env(env, self.config_path())
    }

    pub(super) fn settings(&self) -> anyhow::Result<Settings> {
        let env = Env::from_iter([("AGENCY_STATE_DIR", self.state())]);
        let config = Config::load(&self.config_path(), &env)?;
        Ok(Settings {
            state_dir: StateDir::resolve(&env)?,
            capacity: Capacity::new(limits(&config)),
            config: Arc::new(config),
            env: Arc::new(std::env::vars().collect()),
            program: std::env::current_exe()?,
            spares: Spares::default(),
            notifier: Notifier::default(),
            problem: None,
        })
    }
}
