//! One command line of the owner's as a supervised run of this process: limits, no orphan, its output streamed to stderr.

use super::super::context::Context;
use crate::config::{Config, Env};
use crate::model::{Access, RunEvent, RunId, Seat, Spawn, TreeRef};
use crate::protocol::board::artifact::{NOT_RUN, Ran, TIMED_OUT};
use crate::run::sandbox::{self, Ours, Subject};
use crate::run::{Executor as _, Folder, How, Limits, LocalExecutor, RunSpec};
use std::io::{IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, UnboundedReceiver};

const PAUSE: Duration = Duration::from_millis(100);

/// One of the commands, as people count them.
pub(super) struct Step<'a> {
    pub(super) number: usize,
    pub(super) count: usize,
    pub(super) command: &'a str,
}

impl std::fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}/{}] {}", self.number, self.count, crate::model::clip(self.command, 200))
    }
}

pub(super) struct Runner {
    root: PathBuf,
    runs: PathBuf,
    executor: LocalExecutor,
    events: UnboundedReceiver<Box<RunEvent>>,
    limit: Duration,
    terminal: bool,
    config: Config,
    ours: Ours,
}

/// The owner pressed Ctrl-C.
#[derive(Debug, thiserror::Error)]
#[error("interrupted; nothing was written")]
pub(super) struct Interrupted;

impl Runner {
    /// `runs`: a folder of this call alone, removed with it.
    pub(super) fn new(
        context: &Context,
        root: &Path,
        runs: PathBuf,
        limit: Duration,
    ) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&runs)?;
        let (sender, events) = mpsc::unbounded_channel();
        let executor = LocalExecutor::new(runs.clone(), std::env::current_exe()?, sender);
        let terminal = std::io::stderr().is_terminal();
        let (root, config) = (root.to_owned(), context.config()?);
        let ours = Ours { state_dir: context.state_dir()?.path().to_owned(), folder: runs.clone() };
        Ok(Self { root, runs, executor, events, limit, terminal, config, ours })
    }

    pub(super) async fn run(&mut self, task: &str, step: &Step<'_>) -> anyhow::Result<Ran> {
        let run = RunId::new(format!("verify-{}", step.number));
        self.executor.submit(&self.spec(&run, task, step.command))?;
        let folder = self.executor.folder(&run)?;
        let begun = Instant::now();
        let mut shown = Shown::default();
        let mut interrupted = false;
        loop {
            tokio::select! {
                Some(event) = self.events.recv() => {
                    if matches!(*event, RunEvent::Ended(_)) {
                        break;
                    }
                }
                pressed = tokio::signal::ctrl_c(), if !interrupted => {
                    pressed?;
                    interrupted = true;
                    self.executor.cancel(&run, "the owner interrupted it", Duration::from_secs(2))?;
                }
                () = tokio::time::sleep(PAUSE) => {}
            }
            shown.copy(&folder, self.terminal)?;
            self.tick(step, begun);
        }
        self.wipe();
        shown.copy(&folder, self.terminal)?;
        if interrupted {
            return Err(Interrupted.into());
        }
        Ok(ran(&folder, step.command, begun))
    }

    /// The commands are those of the profile in the repository, so they are kept in like an agent's.
    fn sandbox(&self, run: &RunId) -> Option<sandbox::Plan> {
        let (env, folder) = (Env::of_this_process(), self.runs.join(run.as_str()));
        let access = Access::Write;
        let (dir, folder) = (&*self.root, &*folder);
        let subject = Subject { dir, agent: None, profile: None, access, folder, env: &env };
        sandbox::plan(&self.config, &self.ours, &subject)
    }

    fn spec(&self, run: &RunId, task: &str, command: &str) -> RunSpec {
        let spawn = Spawn {
            run: run.clone(),
            seat: Seat::new("verify"),
            role: "verify".to_owned(),
            tree: TreeRef::Main,
            task: task.to_owned(),
            phase: "verify".to_owned(),
            prompt: String::new(),
            why: "agency verify".to_owned(),
            resume: None,
            command: None,
            access: Access::Write,
        };
        let ours = |name: &str| name.starts_with("AGENCY_");
        let limit = Some(self.limit.as_secs().max(1));
        RunSpec {
            spawn,
            repo: self.root.clone(),
            protocol: crate::protocol::board::NAME.to_owned(),
            argv: vec!["sh".to_owned(), "-c".to_owned(), command.to_owned()],
            dir: self.root.clone(),
            stdin: Default::default(),
            env: std::env::vars().filter(|(name, _)| !ours(name)).collect(),
            limits: Limits { silence_s: limit, wall_s: limit, ..Limits::default() },
            profile: None,
            agent: None,
            model: None,
            price: None,
            prices: Default::default(),
            sandbox: self.sandbox(run),
        }
    }

    /// One line that changes in place, on a terminal only.
    fn tick(&self, step: &Step<'_>, begun: Instant) {
        if self.terminal {
            let line = crate::model::clip(&step.to_string(), 66);
            anstream::eprint!("\r\x1b[K… {line}  {}s", begun.elapsed().as_secs());
            drop(std::io::stderr().flush());
        }
    }

    fn wipe(&self) {
        if self.terminal {
            anstream::eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Only our own folder; what cannot be removed is a few log files.
        drop(std::fs::remove_dir_all(&self.runs));
    }
}

fn ran(folder: &Folder, command: &str, begun: Instant) -> Ran {
    let exit = folder.exit().and_then(Result::ok);
    let code = match exit.as_ref().map(|exit| &exit.how) {
        Some(How::Exited(code)) => *code,
        Some(How::Signal(signal)) => 128 + signal,
        Some(How::Timeout(_)) => TIMED_OUT,
        Some(How::Stopped(_) | How::Lost(_) | How::FailedToStart(_) | How::NotFound(_)) | None => {
            NOT_RUN
        }
    };
    let elapsed = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let took = exit.map(|exit| exit.wall_ms).filter(|took| *took > 0).unwrap_or(elapsed);
    Ran { cmd: command.to_owned(), exit_code: code, duration_ms: took }
}

/// How much of each stream has been shown.
#[derive(Default)]
struct Shown {
    out: u64,
    err: u64,
}

impl Shown {
    fn copy(&mut self, folder: &Folder, terminal: bool) -> std::io::Result<()> {
        for (path, at) in [(folder.stdout(), &mut self.out), (folder.stderr(), &mut self.err)] {
            let Ok(mut file) = std::fs::File::open(path) else { continue };
            if file.metadata()?.len() < *at {
                // The log was begun anew.
                *at = 0;
            }
            file.seek(SeekFrom::Start(*at))?;
            let mut bytes = Vec::new();
            *at += file.take(1 << 20).read_to_end(&mut bytes)? as u64;
            if !bytes.is_empty() {
                let clear = if terminal { "\r\x1b[K" } else { "" };
                anstream::eprint!("{clear}{}", String::from_utf8_lossy(&bytes));
            }
        }
        Ok(())
    }
}
