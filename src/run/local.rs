//! Runs on this machine: writes the intent, starts the shim, finds runs again after a restart. Observing is `observe`'s work.

use super::AFTER_START;
use super::cgroup::Cgroup;
use super::executor::{CancelOutcome, Executor, Held, HeldState, RunError, Ticket};
use super::exit::{ExitRecord, How};
use super::folder::{AHEAD, EXIT, Folder, INTENT, NO_ARTIFACT, PROMPT, SEEN, STARTED, Stop};
use super::observe::{OnForged, OwnShim, Watched, observe};
use super::spare::Spares;
use super::spec::RunSpec;
use super::usage;
use crate::clock::wall;
use crate::model::{RunEvent, RunId};
use agency_supervisor::order::Order;
use nix::sys::signal::Signal;
use std::collections::HashMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

/// A shim beats this many times before it counts as stuck.
const BEATS_BEFORE_STUCK: u32 = 6;
/// SU-02 wants it noticed within a minute, counted from its last beat.
const STUCK_AFTER: Duration = Duration::from_secs(45);

/// Made inside a tokio runtime. Dropping it stops the observing; the runs go on.
pub struct LocalExecutor {
    runs: PathBuf,
    shim: PathBuf,
    stuck_after: Duration,
    events: UnboundedSender<Box<RunEvent>>,
    on_forged: OnForged,
    /// Without one every run waits for its own shim to load.
    spares: Option<Spares>,
    runtime: Handle,
    /// The runs that have an observer or had one, until their end is acknowledged.
    watched: Mutex<HashMap<RunId, AbortHandle>>,
}

impl LocalExecutor {
    /// `shim`: the program that is started as `SHIM shim FOLDER`, which is our own.
    pub fn new(runs: PathBuf, shim: PathBuf, events: UnboundedSender<Box<RunEvent>>) -> Self {
        Self {
            // The shim works in another directory than we do.
            runs: std::path::absolute(&runs).unwrap_or(runs),
            shim,
            stuck_after: STUCK_AFTER,
            events,
            on_forged: Arc::new(|_, _| ()),
            spares: None,
            runtime: Handle::current(),
            watched: Mutex::default(),
        }
    }

    /// How long a shim may be silent; it beats six times as often.
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.stuck_after = limit;
        self
    }

    /// Hears of forged records (SE-09).
    pub fn on_forged(mut self, told: OnForged) -> Self {
        self.on_forged = told;
        self
    }

    /// Shared by all executors of the process.
    pub fn spares(mut self, spares: Spares) -> Self {
        self.spares = Some(spares);
        self
    }

    pub fn folder(&self, run: &RunId) -> Result<Folder, RunError> {
        let id = run.as_str();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fits = (1..=128).contains(&id.len()) && !id.starts_with('.') && id.chars().all(plain);
        if !fits {
            return Err(RunError::Id { run: run.clone() });
        }
        Ok(Folder::new(self.runs.join(id)))
    }

    /// For the list of runs: it ended well and left nothing. Of a run whose folder is gone nothing is listed.
    pub fn note_no_artifact(&self, run: &RunId) -> Result<(), RunError> {
        let folder = self.folder(run)?;
        match folder.publish(NO_ARTIFACT, b"") {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(bad(&folder, cause)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn watched(&self) -> MutexGuard<'_, HashMap<RunId, AbortHandle>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(
        &self,
        watched: &mut HashMap<RunId, AbortHandle>,
        run: &RunId,
        folder: &Folder,
        shim: Option<Child>,
    ) {
        let watch = Watched {
            run: run.clone(),
            folder: folder.clone(),
            stuck_after: self.stuck_after,
            events: self.events.clone(),
            on_forged: Arc::clone(&self.on_forged),
        };
        let task = self.runtime.spawn(observe(watch, shim.map(OwnShim::new)));
        watched.insert(run.clone(), task.abort_handle());
    }

    fn intend(&self, folder: &Folder, spec: &RunSpec) -> io::Result<()> {
        // One that was started keeps what it has: it is never started again, and its intent is only for people then.
        if folder.intent().is_ok() || (folder.has(INTENT) && folder.was_started()) {
            return Ok(());
        }
        self.make(folder)?;
        folder.publish(PROMPT, spec.spawn.prompt.as_bytes())?;
        let beat = (self.stuck_after / BEATS_BEFORE_STUCK).as_millis();
        let beat_ms = u64::try_from(beat).unwrap_or(u64::MAX);
        let resume = spec.spawn.resume.as_deref();
        let before = resume.and_then(|session| usage::of_session(&self.runs, session));
        let mut run = spec.run_file(&folder.prompt(), beat_ms, before, wall());
        run.cgroup = Cgroup::of_run(spec.spawn.run.as_str());
        folder.publish_json_lazily(INTENT, &run)
    }

    /// The one that was made ahead, else a new one.
    fn make(&self, folder: &Folder) -> io::Result<()> {
        let ahead = self.runs.join(AHEAD);
        let waits = ahead.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if waits && std::fs::rename(&ahead, folder.path()).is_ok() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(folder.path())
    }

    /// The one that waits, else a new one.
    fn start_shim(&self, folder: &Folder, spec: &RunSpec) -> io::Result<Child> {
        let _context = self.runtime.enter();
        let order = Order { folder: folder.path().to_owned(), env: environment(spec) };
        let shim = match self.spares.as_ref().and_then(|own| own.start(&self.shim, &order)) {
            Some(shim) => shim,
            None => self.new_shim(folder, order.env)?,
        };
        if let Some(spares) = &self.spares {
            spares.prepare(&self.shim, &self.runtime);
        }
        Ok(shim)
    }

    /// The shim's environment is the child's, so it is exactly the run's.
    fn new_shim(&self, folder: &Folder, env: Vec<(String, String)>) -> io::Result<Child> {
        Command::new(&self.shim)
            .arg("shim")
            .arg(folder.path())
            .env_clear()
            .envs(env)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(folder.complaints()?)
            .spawn()
    }

    /// After a power failure only the mark tells a run that was started from one that was not, so it must be on disk soon. A
    /// kill needs it not: no child is started before `alive` has its text. So nothing waits for it.
    fn mark_started(&self, folder: &Folder) {
        let (folder, runs) = (folder.clone(), self.runs.clone());
        self.runtime.spawn(async move {
            tokio::time::sleep(AFTER_START).await;
            tokio::task::spawn_blocking(move || {
                if let Err(cause) = marked(&folder, &runs) {
                    tracing::warn!(folder = %folder.path().display(), %cause, "a start is not on disk");
                }
                // Without it the next start only makes its own.
                Folder::new(runs.join(AHEAD)).make_ahead().ok();
            });
        });
    }

    fn held(&self, folder: &Folder) -> Option<HeldState> {
        if folder.has(SEEN) || !folder.has(INTENT) {
            return None;
        }
        if folder.has(EXIT) {
            return Some(HeldState::Ended);
        }
        match folder.try_lock() {
            Ok(Some(_free)) if folder.was_started() => Some(HeldState::Losing),
            Ok(Some(_free)) => Some(HeldState::Intended),
            Ok(None) | Err(_) => Some(HeldState::Alive),
        }
    }

    /// Nobody has started it: under its lock, nobody will.
    fn cancel_intent(&self, run: &RunId, folder: &Folder, why: &str) -> Result<(), RunError> {
        let record = ExitRecord::new(How::Stopped(why.to_owned()), wall());
        folder.publish_json(EXIT, &record).map_err(|cause| bad(folder, cause))?;
        let mut watched = self.watched();
        if !watched.contains_key(run) {
            self.watch(&mut watched, run, folder, None);
        }
        Ok(())
    }
}

impl Executor for LocalExecutor {
    fn submit(&self, spec: &RunSpec) -> Result<Ticket, RunError> {
        let run = &spec.spawn.run;
        let folder = self.folder(run)?;
        let mut watched = self.watched();
        if watched.contains_key(run) {
            return Ok(Ticket::Known);
        }
        self.intend(&folder, spec).map_err(|cause| bad(&folder, cause))?;
        match self.held(&folder) {
            None => return Ok(Ticket::Over),
            Some(HeldState::Intended) => {}
            Some(HeldState::Alive | HeldState::Ended | HeldState::Losing) => {
                self.watch(&mut watched, run, &folder, None);
                return Ok(Ticket::Known);
            }
        }
        let shim = self
            .start_shim(&folder, spec)
            .map_err(|cause| RunError::Shim { path: self.shim.clone(), cause })?;
        self.watch(&mut watched, run, &folder, Some(shim));
        self.mark_started(&folder);
        Ok(Ticket::Started)
    }

    fn cancel(&self, run: &RunId, why: &str, grace: Duration) -> Result<CancelOutcome, RunError> {
        let folder = self.folder(run)?;
        if !folder.has(INTENT) {
            return Err(RunError::Unknown { run: run.clone() });
        }
        if folder.has(EXIT) {
            return Ok(CancelOutcome::AlreadyEnded);
        }
        let stop = Stop { why: why.to_owned(), grace_s: whole_seconds(grace) };
        folder.publish_json("stop.json", &stop).map_err(|cause| bad(&folder, cause))?;
        match folder.try_lock().map_err(|cause| bad(&folder, cause))? {
            Some(_held) if !folder.was_started() && !self.watched().contains_key(run) => {
                self.cancel_intent(run, &folder, why)?;
                return Ok(CancelOutcome::NotStarted);
            }
            // Between start and lock: the shim will find `stop.json`.
            Some(_held) => {}
            None => folder.alive().into_iter().for_each(|alive| alive.shim.signal(Signal::SIGTERM)),
        }
        Ok(CancelOutcome::Asked)
    }

    fn adopt(&self) -> Result<Vec<Held>, RunError> {
        let entries = match std::fs::read_dir(&self.runs) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(RunError::Folder { path: self.runs.clone(), cause }),
        };
        let mut watched = self.watched();
        let mut held = Vec::new();
        for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let run = RunId::new(name);
            let Ok(folder) = self.folder(&run) else { continue };
            let Some(state) = self.held(&folder) else { continue };
            if state != HeldState::Intended && !watched.contains_key(&run) {
                self.watch(&mut watched, &run, &folder, None);
            }
            held.push(Held { run, state });
        }
        held.sort_by(|a, b| a.run.cmp(&b.run));
        Ok(held)
    }

    fn acknowledge(&self, run: &RunId) -> Result<(), RunError> {
        let folder = self.folder(run)?;
        if !folder.has(EXIT) {
            return Err(RunError::Unknown { run: run.clone() });
        }
        // Lost with the power it is only told again.
        folder.publish(SEEN, b"").map_err(|cause| bad(&folder, cause))?;
        self.watched().remove(run);
        Ok(())
    }
}

impl Drop for LocalExecutor {
    fn drop(&mut self) {
        self.watched().values().for_each(AbortHandle::abort);
    }
}

fn marked(folder: &Folder, runs: &Path) -> io::Result<()> {
    folder.publish(STARTED, b"")?;
    [folder.path(), runs].into_iter().try_for_each(|folder| File::open(folder)?.sync_all())
}

fn bad(folder: &Folder, cause: io::Error) -> RunError {
    RunError::Folder { path: folder.path().to_owned(), cause }
}

fn environment(spec: &RunSpec) -> Vec<(String, String)> {
    let mut env = spec.env.clone();
    env.retain(|(name, _)| name != "AGENCY_RUN" && name != "AGENCY_REPO");
    // What a lost run's processes are found by.
    env.push(("AGENCY_RUN".to_owned(), spec.spawn.run.to_string()));
    env.push(("AGENCY_REPO".to_owned(), spec.repo.display().to_string()));
    env
}

/// Rounded up: a short grace is not none.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}
