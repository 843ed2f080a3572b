//! New settings while we work: on SIGHUP, or when the configuration file changes. An invalid one keeps the last good one
//! in force and says so (DM-09).

use crate::apply::chain;
use crate::capacity;
use crate::config::{Config, Env};
use crate::read::Stamp;
use crate::workspace::Settings;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Where the settings come from.
pub struct Source {
    /// `None`: the defaults hold, and there is nothing to read again.
    pub path: Option<PathBuf>,
    pub env: Env,
}

impl Source {
    /// Sends new settings as long as somebody listens.
    pub async fn follow(self, settings: watch::Sender<Settings>) -> std::io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut seen = self.stamp();
        loop {
            tokio::select! {
                _ = hangup.recv() => {}
                () = tokio::time::sleep(LOOK) => {
                    let now = self.stamp();
                    if now == seen {
                        continue;
                    }
                    seen = now;
                }
                () = settings.closed() => return Ok(()),
            }
            self.reload(&settings);
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        self.path.as_ref()?.metadata().ok().as_ref().map(Stamp::of)
    }

    fn reload(&self, settings: &watch::Sender<Settings>) {
        let Some(path) = &self.path else { return };
        let result = Config::load(path, &self.env);
        settings.send_if_modified(|current| match result {
            Ok(config) => {
                let changed = *current.config != config || current.problem.is_some();
                tracing::info!(changed, "configuration read again");
                current.capacity.set_limits(limits(&config));
                current.voice.reload(&config, &self.env);
                current.config = Arc::new(config);
                current.problem = None;
                changed
            }
            Err(error) => {
                let problem = format!("the new configuration is not used: {}", chain(&error));
                tracing::error!(%problem, "the last good configuration stays in force");
                let changed = current.problem.as_ref() != Some(&problem);
                current.problem = Some(problem);
                changed
            }
        });
    }
}

/// How many runs a configuration allows.
pub fn limits(config: &Config) -> capacity::Limits {
    let wanted = &config.limits;
    let cost_per_day = wanted.cost_per_day_usd.map(capacity::micro_usd);
    capacity::Limits {
        all: wanted.parallel,
        per_repo: wanted.per_repo,
        per_agent: wanted.per_agent,
        cost_per_day,
        tokens_per_day: wanted.tokens_per_day,
    }
}
