//! New settings while we work: on SIGHUP, or when the configuration file changes. An invalid one keeps the last good one
//! in force and says so (DM-09). One that was written while a run was alive may be an agent's: what it loosens waits for the
//! owner's `agency trust --settings` (SE-11).

use super::home::Home;
use super::loosening::{difference, loosened};
use super::settings_file::{SettingsFile, WAITS};
use crate::apply::chain;
use crate::capacity;
use crate::config::{Config, Env};
use crate::model::{Answer, Cause, Digest, Escalation, RuleId, Severity, Timestamp};
use crate::read::Stamp;
use crate::workspace::Settings;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
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
    pub home: Home,
    /// `None`: there is no file.
    pub file: Option<SettingsFile>,
}

/// What may be asked of the follower.
enum Wish {
    Look(oneshot::Sender<()>),
    /// The owner accepts the configuration as it is now.
    Trust {
        by: String,
        done: oneshot::Sender<Answer>,
    },
}

/// Asks for a look at the file now, so that a command is judged by the settings as the owner has just written them.
#[derive(Clone)]
pub struct LookNow(mpsc::Sender<Wish>);

/// Where the asking arrives.
pub struct Asked(mpsc::Receiver<Wish>);

impl LookNow {
    pub fn new() -> (Self, Asked) {
        let (sender, receiver) = mpsc::channel(16);
        (Self(sender), Asked(receiver))
    }

    /// Returns when the settings in force are those of the file.
    pub(super) async fn look(&self) {
        let (done, looked) = oneshot::channel();
        if self.0.send(Wish::Look(done)).await.is_ok() {
            drop(looked.await);
        }
    }

    pub(super) async fn trust(&self, by: &str) -> Answer {
        let (done, answer) = oneshot::channel();
        let wish = Wish::Trust { by: by.to_owned(), done };
        let stopping =
            || Answer { accepted: false, text: "the daemon is stopping; try again".to_owned() };
        if self.0.send(wish).await.is_err() {
            return stopping();
        }
        answer.await.unwrap_or_else(|_| stopping())
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
        if let (Some(path), Some(file)) = (&self.path, &self.file)
            && !file.is_waiting()
        {
            // It was put back or accepted while no daemon ran.
            self.home.settle(&cause(path));
        } else {
            // It may have been put back between the daemon's first read and the first look.
            self.reload(&settings);
        }
        loop {
            tokio::select! {
                _ = hangup.recv() => self.reload(&settings),
                Some(wish) = asked.0.recv() => match wish {
                    Wish::Look(done) => {
                        self.reload_if_changed(&mut seen, &settings);
                        // A repository that was closed meanwhile does not wait for it any more.
                        done.send(()).ok();
                    }
                    Wish::Trust { by, done } => {
                        seen = self.stamp();
                        drop(done.send(self.trust(&by, &settings)));
                    }
                },
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
        let read = || std::fs::read_to_string(path).unwrap_or_default();
        let text = read();
        let result = Config::load(path, &self.env);
        if read() != text {
            // It changed meanwhile, so these settings may not be those of this text. The next look sees a new stamp.
            return;
        }
        settings.send_if_modified(|current| match result {
            Ok(config) => self.take_over(path, &text, config, current),
            Err(error) => {
                let problem = format!("the new configuration is not used: {}", chain(&error));
                tracing::error!(%problem, "the last good configuration stays in force");
                let changed = current.problem.as_ref() != Some(&problem);
                current.problem = Some(problem);
                changed
            }
        });
    }

    /// True when what is in force, or what is said of it, changed.
    fn take_over(&self, path: &Path, text: &str, config: Config, current: &mut Settings) -> bool {
        let Some(file) = &self.file else { return self.put_in_force(config, current) };
        let accepted = file.accepted().unwrap_or_default();
        let parts = loosened(&current.config, &config);
        let by_run = current.capacity.was_alive_since(changed_at(path)) || file.is_waiting();
        if text != accepted && !parts.is_empty() && by_run {
            if let Err(error) = file.wait(text) {
                tracing::error!(%error, "a waiting configuration cannot be marked");
            }
            tracing::warn!(?parts, "the configuration was changed while a run was alive; it waits");
            self.home.raise(&waiting(path, &parts, text, difference(&accepted, text)));
            let changed = current.problem.as_deref() != Some(WAITS);
            current.problem = Some(WAITS.to_owned());
            return changed;
        }
        self.home.settle(&cause(path));
        if text != accepted {
            let lines = difference(&accepted, text);
            tracing::info!(?lines, "the configuration was changed");
            if by_run {
                // Its channels are the old ones: another one would loosen something.
                self.home.raise(&changed_by_run(path, text, lines));
            }
        }
        if let Err(error) = file.accept(text) {
            tracing::warn!(%error, "the accepted configuration cannot be kept");
        }
        self.put_in_force(config, current)
    }

    fn put_in_force(&self, config: Config, current: &mut Settings) -> bool {
        let changed = *current.config != config || current.problem.is_some();
        tracing::info!(changed, "configuration read again");
        current.capacity.set_limits(limits(&config));
        current.notifier.reload(&config, &self.env);
        current.config = Arc::new(config);
        current.problem = None;
        changed
    }

    fn trust(&self, by: &str, settings: &watch::Sender<Settings>) -> Answer {
        let refused = |text: String| Answer { accepted: false, text };
        let (Some(path), Some(file)) = (&self.path, &self.file) else {
            return refused("there is no configuration file to trust".to_owned());
        };
        let config = match Config::load(path, &self.env) {
            Ok(config) => config,
            Err(error) => return refused(chain(&error)),
        };
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = difference(&file.accepted().unwrap_or_default(), &text);
        if let Err(error) = file.accept(&text) {
            return refused(chain(&error));
        }
        let what = format!("`{}` counts as it is now ({by})", path.display());
        let key = Digest::of(text.as_bytes()).short().to_owned();
        let mut told = Escalation::announcement("agency", &key, "trust --settings", &what);
        told.evidence = lines;
        self.home.raise(&told);
        self.home.settle(&cause(path));
        settings.send_if_modified(|current| self.put_in_force(config, current));
        Answer { accepted: true, text: what }
    }
}

/// When the file came to be as it is. Unlike the time of its text, a process cannot choose this one.
fn changed_at(path: &Path) -> Timestamp {
    let changed = path.metadata().map(|meta| (meta.ctime(), meta.ctime_nsec()));
    let at = changed.ok().and_then(|(s, ns)| Timestamp::from_timestamp(s, u32::try_from(ns).ok()?));
    at.unwrap_or(Timestamp::UNIX_EPOCH)
}

fn cause(path: &Path) -> Cause {
    Cause {
        protocol: "agency".to_owned(),
        rule: RuleId::new("SE-11"),
        subject: path.display().to_string(),
        epoch: 0,
    }
}

fn waiting(path: &Path, parts: &[&str], text: &str, lines: Vec<String>) -> Escalation {
    let (parts, path_text) = (parts.join(", "), path.display());
    Escalation {
        cause: cause(path),
        severity: Severity::Critical,
        holds: false,
        summary: format!("agency.yaml was changed while a run was alive: {parts}"),
        what: format!(
            "`{path_text}` (now {}) was changed while a run was alive, perhaps by an agent. It changes: {parts}.",
            Digest::of(text.as_bytes()).short()
        ),
        did: "The configuration before it stays in force, with its channels.".to_owned(),
        wont: "The daemon does not obey a configuration that an agent may have written.".to_owned(),
        resolve: "look at the difference; accept it: agency trust --settings. Or put the file back"
            .to_owned(),
        options: Vec::new(),
        evidence: lines,
        everywhere: true,
    }
}

fn changed_by_run(path: &Path, text: &str, lines: Vec<String>) -> Escalation {
    let digest = Digest::of(text.as_bytes());
    let base = waiting(path, &[], text, lines);
    Escalation {
        cause: Cause { subject: format!("{} {}", path.display(), digest.short()), ..cause(path) },
        severity: Severity::Warning,
        summary: "agency.yaml was changed while a run was alive; it loosens nothing".to_owned(),
        what: format!("`{}` was changed while a run was alive.", path.display()),
        did: "It is in force: it only tightens limits, names repositories or prices.".to_owned(),
        wont: "A change that loosens something would wait for you.".to_owned(),
        resolve: "nothing to do; \"agency ack ID\" closes it".to_owned(),
        ..base
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
