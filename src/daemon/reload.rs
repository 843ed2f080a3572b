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
use tokio::sync::{mpsc, oneshot, watch};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Where the settings come from.
pub struct Source {
    /// `None`: the defaults hold, and there is nothing to read again.
    pub path: Option<PathBuf>,
    pub env: Env,
}

/// Asks for a look at the file now, so that a command is judged by the settings as the owner has just written them.
#[derive(Clone)]
pub struct LookNow(mpsc::Sender<oneshot::Sender<()>>);

/// Where the asking arrives.
pub struct Asked(mpsc::Receiver<oneshot::Sender<()>>);

impl LookNow {
    pub fn new() -> (Self, Asked) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), Asked(receiver))
    }

    /// Returns when the settings in force are those of the file.
    pub(super) async fn look(&self) {
        let (done, looked) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            drop(looked.await);
        }
    }
}

impl Source {
    /// Sends new settings as long as somebody listens.
    pub async fn follow(
        self,
        settings: watch::Sender<Settings>,
        mut asked: Asked,
    ) -> std::io::Result<()> {
        let mut hangup = signal(SignalKind::hangup())?;
        let mut seen = self.stamp();
        loop {
            tokio::select! {
                _ = hangup.recv() => self.reload(&settings),
                Some(done) = asked.0.recv() => {
                    self.reload_if_changed(&mut seen, &settings);
                    // A repository that was closed meanwhile does not wait for it any more.
                    done.send(()).ok();
                }
                () = tokio::time::sleep(LOOK) => self.reload_if_changed(&mut seen, &settings),
                () = settings.closed() => return Ok(()),
            }
        }
    }

    fn reload_if_changed(&self, seen: &mut Option<Stamp>, settings: &watch::Sender<Settings>) {
        let now = self.stamp();
        if now != *seen {
            *seen = now;
            self.reload(settings);
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
