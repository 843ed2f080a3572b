//! One shim that is loaded and waits for its run, so that no start waits for a program to load. It keeps no run itself.
//!
//! A spare belongs to the process that made it: it reads one order from a pipe and ends when that closes without one.

use super::AFTER_START;
use agency_supervisor::order::{Order, WAIT};
use std::io::{self, PipeWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

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

#[cfg(test)]
mod tests {
    use super::*;

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
