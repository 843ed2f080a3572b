//! One shim that is loaded and waits for its run, so that no start waits for a program to load. It keeps no run itself.
//!
//! A spare belongs to the process that made it: it reads one order from a pipe and ends when that closes without one.

use super::AFTER_START;
use super::folder::Alive;
use super::signals::Signals;
use super::spec::RunFile;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use std::io::{self, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// In place of a folder on the shim's command line.
pub(super) const WAIT: &str = "-";
/// Environments are bounded by the kernel at a part of this.
const ORDER_MAX: u64 = 16 * 1024 * 1024;

/// What a waiting shim is told. The environment passes through a pipe and no file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) folder: PathBuf,
    pub(super) env: Vec<(String, String)>,
}

/// The spare of a process; a clone is the same one.
#[derive(Clone, Debug, Default)]
pub struct Spares(Arc<Mutex<Option<Spare>>>);

#[derive(Debug)]
struct Spare {
    program: PathBuf,
    child: Child,
    orders: PipeWriter,
}

impl Spares {
    /// `None`: there is none, or it did not take the order. Then it has not begun and never will.
    pub(super) fn start(&self, program: &Path, order: &Order) -> Option<Child> {
        let mut spare = self.lock().take().filter(|spare| spare.program == program)?;
        let text = serde_json::to_vec(order).ok()?;
        if spare.child.try_wait().ok()?.is_some() {
            return None;
        }
        // It acts on a whole order only, so that a failed write means that it acts on none.
        spare.orders.write_all(&text).ok()?;
        Some(spare.child)
    }

    /// Has the next one ready soon. Without it a run only starts later.
    pub(super) fn prepare(&self, program: &Path, runtime: &Handle) {
        let (own, program) = (self.clone(), program.to_owned());
        runtime.spawn(async move {
            tokio::time::sleep(AFTER_START).await;
            match Spare::make(program) {
                Ok(spare) => *own.lock() = Some(spare),
                Err(cause) => tracing::debug!(%cause, "no spare shim"),
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Spare>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    fn make(program: PathBuf) -> io::Result<Self> {
        let (input, orders) = io::pipe()?;
        let child = Command::new(&program)
            .args(["shim", WAIT])
            .env_clear()
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self { program, child, orders })
    }
}

/// A run and an order for it, as they come.
const SAMPLE_RUN: &str = r#"{"version":1,"run":"r-1","argv":["agent","-p","words"],"dir":"/repo","env":["PATH"],
    "limits":{"first_output_s":300,"silence_s":600,"wall_s":2700,"grace_s":5,"log_bytes":16777216},"beat_ms":7500,
    "repo":"/repo","protocol":"p","seat":"s","role":"r","task":"1","phase":"p","why":"w","prompt_file":"/runs/r-1/prompt.md",
    "intended_at":"2026-01-01T00:00:00.000000000Z","profile":"p"}"#;
const SAMPLE_ORDER: &str = r#"{"folder":"/runs/r-1","env":[["PATH","/bin"]]}"#;

/// When code runs for the first time the kernel looks for its pages. Nobody waits for a spare yet, so it does once what an order
/// will ask of it; what comes of that is of no use.
pub(super) fn rehearse(alive: &Alive) {
    drop(serde_json::from_str::<Order>(SAMPLE_ORDER));
    drop(serde_json::from_str::<RunFile>(SAMPLE_RUN));
    drop(serde_json::to_vec(alive));
}

/// The waiting side: the order, once the pipe closes. `None`: nobody needs us any more, or somebody wants us gone.
pub(super) fn wait(signals: &Signals) -> Option<Order> {
    let stdin = io::stdin();
    loop {
        let mut fds = [stdin.as_fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let polled = poll(&mut fds, PollTimeout::NONE);
        if signals.told_to_end() {
            return None;
        }
        if polled.is_ok() && fds[0].any().unwrap_or(true) {
            break;
        }
    }
    let mut text = Vec::new();
    stdin.lock().take(ORDER_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rehearsal_is_of_the_real_thing() {
        assert_eq!(serde_json::from_str::<Order>(SAMPLE_ORDER).unwrap().env.len(), 1);
        assert_eq!(serde_json::from_str::<RunFile>(SAMPLE_RUN).unwrap().argv.len(), 3);
    }

    /// `cat` waits on its input as a spare does.
    #[tokio::test]
    async fn a_spare_that_is_gone_takes_no_order() {
        let order = Order { folder: "/f".into(), env: Vec::new() };
        let program = Path::new("/bin/cat");
        let spares = Spares::default();
        assert!(spares.start(program, &order).is_none());
        let (input, orders) = io::pipe().unwrap();
        let mut child = Command::new(program).stdin(input).stdout(Stdio::null()).spawn().unwrap();
        child.kill().await.unwrap();
        let spare = Spare { program: program.to_owned(), child, orders };
        *spares.lock() = Some(spare);
        assert!(spares.start(program, &order).is_none());
        assert!(spares.lock().is_none());
    }
}
