//! The demo's stage: a repository, two scripted agents, a state directory, all in one throw-away folder.

use super::Play;
use crate::capacity::Capacity;
use crate::config::{Agent, Config, Env, Start};
use crate::daemon::limits;
use crate::escalate::Voice;
use crate::model::Seat;
use crate::repository::StateDir;
use crate::run::Spares;
use crate::workspace::Settings;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

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
        std::fs::write(stage.repo().join("README.md"), "# A shop\n\nBuilt in three steps.\n")?;
        std::fs::write(stage.repo().join("CODEBASE.md"), "# Map\n\n- README.md:1 what this is\n")?;
        for (name, text) in play.files {
            std::fs::write(stage.repo().join(name), text)?;
        }
        for words in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "-A"],
            &["commit", "--quiet", "--message=The owner's first commit"],
        ] {
            stage.git(words)?;
        }
        Ok(stage)
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

    pub(super) fn settings(&self, play: &Play) -> anyhow::Result<Settings> {
        let mut config = Config::default();
        let script = self.dir.join("agent.sh").display().to_string();
        // For scripts that call us.
        let program = std::env::current_exe()?.display().to_string();
        for &seat in play.seats {
            let start = Start::Command(vec!["sh".to_owned(), script.clone(), program.clone()]);
            let agent = Agent { backoff: Duration::from_secs(1), ..Agent::new(start) };
            config.agents.insert(seat.to_owned(), agent);
            config.roles.insert(Seat::new(seat), seat.to_owned());
            config.codifica.agents.push(seat.to_owned());
        }
        Ok(Settings {
            state_dir: StateDir::resolve(&Env::from_iter([("AGENCY_STATE_DIR", self.state())]))?,
            capacity: Capacity::new(limits(&config)),
            config: Arc::new(config),
            env: Arc::new(std::env::vars().collect()),
            program: std::env::current_exe()?,
            spares: Spares::default(),
            voice: Voice::default(),
            problem: None,
        })
    }
}
