//! Keeps one workspace task per repository at work, freezes a broken one, takes over new settings, and stops them all.
//! It looks into none of them.

mod descriptors;
mod home;
mod keeper;
mod loosening;
mod presence;
mod reload;
mod router;
mod settings_file;

pub use home::{Frozen, FrozenBy, Home};
pub use keeper::KeepError;
pub use presence::{Life, PresenceError, SeenDaemon, daemons};
pub use reload::{LookNow, Source, limits};
pub use router::{CommandRouter, Routed};
pub use settings_file::SettingsFile;

use crate::watch::Watcher;
use crate::workspace::{STOP_LIMIT, Settings, Until};
use descriptors::Descriptors;
use keeper::Keeper;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub struct Daemon {
    pub watcher: Watcher,
    pub until: Until,
    /// On a stop, wait for the runs that are alive.
    pub drain: bool,
    /// The settings in force; new ones are taken over as they come.
    pub settings: watch::Receiver<Settings>,
    /// Looks at the configuration before a command is judged.
    pub look_now: LookNow,
    /// The daemon's own folder, open before any repository.
    pub home: Home,
}

/// Which repositories, by the settings in force. One that is not there now is among them, by the path that names it.
pub type Roots = Box<dyn Fn(&Settings) -> Vec<PathBuf> + Send>;

/// Between two tries to open what another agency holds, as long as there is other work here.
const BUSY_RETRY: Duration = Duration::from_secs(5);
/// Where every repository is another's, this daemon ends and says so. Only one that stays tells of those that it cannot have.
const BUSY_TOLD_AFTER: Duration = Duration::from_secs(1);

/// How the work on one repository ended.
#[derive(Debug)]
pub struct Outcome {
    pub root: PathBuf,
    pub error: Option<KeepError>,
}

impl Outcome {
    /// Set when another agency holds the repository.
    fn busy(&self) -> Option<&KeepError> {
        self.error.as_ref().filter(|error| error.is_busy())
    }
}

impl Daemon {
    /// Works on all repositories until `stop`, or until each is quiet or another's. Returns what went wrong in the end, per
    /// repository.
    pub async fn run(mut self, roots: Roots, stop: CancellationToken) -> Vec<Outcome> {
        let mut keepers = JoinSet::new();
        let mut kept: BTreeMap<PathBuf, CancellationToken> = BTreeMap::new();
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut told = BTreeSet::new();
        let is_untold = |outcomes: &[Outcome], told: &BTreeSet<PathBuf>| {
            outcomes.iter().any(|one| one.busy().is_some() && !told.contains(&one.root))
        };
        let descriptors = Descriptors::of_this_process();
        let home = self.home.clone();
        let mut tending = std::pin::pin!(home.tend());
        let wanted = roots(&self.settings.borrow_and_update());
        self.keep(wanted, &mut kept, &mut keepers, &stop, &descriptors);
        loop {
            let is_lacking = self.until == Until::Cancelled
                && outcomes.iter().any(|outcome| outcome.busy().is_some());
            let limit = if stop.is_cancelled() && !self.drain { STOP_LIMIT } else { Duration::MAX };
            tokio::select! {
                joined = timeout(limit, keepers.join_next()) => match joined {
                    Ok(Some(Ok(outcome))) => outcomes.push(outcome),
                    Ok(Some(Err(error))) => tracing::error!(%error, "a keeper ended badly"),
                    Ok(None) | Err(_) => return outcomes,
                },
                () = &mut tending => {}
                () = stop.cancelled(), if !stop.is_cancelled() => {}
                () = sleep(BUSY_TOLD_AFTER), if is_lacking && is_untold(&outcomes, &told) => {
                    self.tell_busy(&outcomes, &mut told);
                }
                () = sleep(BUSY_RETRY), if is_lacking && !stop.is_cancelled() => {
                    for outcome in outcomes.extract_if(.., |outcome| outcome.busy().is_some()) {
                        kept.remove(&outcome.root);
                        told.remove(&outcome.root);
                    }
                    let wanted = roots(&self.settings.borrow());
                    self.keep(wanted, &mut kept, &mut keepers, &stop, &descriptors);
                }
                Ok(()) = self.settings.changed(), if !stop.is_cancelled() => {
                    let wanted = roots(&self.settings.borrow_and_update());
                    self.keep(wanted, &mut kept, &mut keepers, &stop, &descriptors);
                }
            }
        }
    }

    /// Lists and tells what other daemons hold (DM-18).
    fn tell_busy(&self, outcomes: &[Outcome], told: &mut BTreeSet<PathBuf>) {
        for Outcome { root, error } in outcomes {
            let Some((error, cause)) = error.as_ref().and_then(|e| Some((e, e.other_daemon()?)))
            else {
                continue;
            };
            if told.insert(root.clone()) {
                tracing::error!(repo = %root.display(), cause, "tried again while there is other work");
            }
            self.home.freeze(root, FrozenBy::AnotherDaemon, &cause, &error.resolve(root));
        }
    }

    /// Starts what is new, stops what is no longer wanted.
    fn keep(
        &self,
        wanted: Vec<PathBuf>,
        kept: &mut BTreeMap<PathBuf, CancellationToken>,
        keepers: &mut JoinSet<Outcome>,
        stop: &CancellationToken,
        descriptors: &Descriptors,
    ) {
        kept.retain(|root, token| {
            let stays = wanted.contains(root);
            if !stays {
                tracing::info!(repo = %root.display(), "no longer in the configuration");
                token.cancel();
                self.home.thaw(root);
            }
            stays
        });
        for root in wanted {
            if kept.contains_key(&root) {
                continue;
            }
            let token = stop.child_token();
            kept.insert(root.clone(), token.clone());
            let keeper = Keeper {
                root,
                settings: self.settings.clone(),
                look_now: self.look_now.clone(),
                watcher: self.watcher.clone(),
                until: self.until,
                drain: self.drain,
                stop: token,
                home: self.home.clone(),
                descriptors: descriptors.clone(),
            };
            keepers.spawn(keeper.keep());
        }
    }
}
