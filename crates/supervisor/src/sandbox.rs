//! The sandbox of one run (SE-06): which files its processes may read and write, applied by Landlock just before the program is
//! started. It decides no policy; the daemon writes the plan into `run.json`.
//!
//! A ruleset binds the thread that applies it and everything that this thread starts. So the shim applies it in a thread of its
//! own, starts the program from there, and lets the thread end: the program is confined, the shim is not. That saves a second
//! `exec` between shim and program, and a ruleset that cannot be applied is an error in the shim before anything was started.
//!
//! Landlock grants and never denies: what is to be hidden is left out, and everything around it is granted entry by entry.

#[cfg(target_os = "linux")]
mod landlock;
pub mod probe;
#[cfg(any(target_os = "linux", test))]
mod reach;
mod temp;

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
pub use temp::Temp;

/// What one run may read, write and reach, as the daemon decided it. Folders and files that do not exist are skipped, so that
/// nothing can be made in their place either.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// May be written. Symbolic links are followed: these paths come from the owner or lie where no agent writes.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// May be written, and must be the named folder itself: an agent may have been able to put a link in its place.
    #[serde(default)]
    pub write_exact: Vec<PathBuf>,
    /// Made first where they are missing, so that they can be granted.
    #[serde(default)]
    pub make: Vec<PathBuf>,
    /// Contents are not readable. Names stay visible.
    #[serde(default)]
    pub hide: Vec<PathBuf>,
    /// Readable, although they lie in something hidden.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// The TCP ports that may be connected to; `None`: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<u16>>,
    /// The folder in which the run gets its own folder for temporary files.
    pub temp: PathBuf,
    /// The variables that name that folder to the program.
    #[serde(default)]
    pub temp_env: Vec<String>,
}

/// What this kernel can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The newest version of Landlock that the kernel and this program know.
    Landlock { abi: u32 },
    /// Why there is none.
    Nothing { why: &'static str },
}

impl Kernel {
    pub fn abi(self) -> Option<u32> {
        match self {
            Self::Landlock { abi } => Some(abi),
            Self::Nothing { .. } => None,
        }
    }

    /// Asks the kernel, once per process.
    #[cfg(target_os = "linux")]
    pub fn here() -> Self {
        static KERNEL: std::sync::OnceLock<Kernel> = std::sync::OnceLock::new();
        *KERNEL.get_or_init(landlock::kernel)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn here() -> Self {
        Self::Nothing { why: "Landlock exists on Linux only" }
    }
}

/// Why nothing was started. A run whose sandbox fails never starts without it.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("this kernel has no Landlock: {why}")]
    NoLandlock { why: &'static str },
    #[error("`sandbox.network` needs Landlock ABI 4 (Linux 6.7); this kernel has {abi}")]
    NoPorts { abi: u32 },
    #[error("cannot make the folder for temporary files in `{}`", path.display())]
    Temp { path: PathBuf, source: io::Error },
    #[error("`{}` is not the folder that it was: it leads to `{}`", path.display(), found.display())]
    Moved { path: PathBuf, found: PathBuf },
    #[error("cannot look at `{}`", path.display())]
    Look { path: PathBuf, source: io::Error },
    #[error("the kernel refused the rules: {0}")]
    Refused(String),
    #[error("no thread for the rules")]
    Thread(#[source] io::Error),
}

/// Starts the program inside the plan. `Ok(Err(…))`: the rules hold, but the program could not be started.
#[cfg(target_os = "linux")]
pub fn spawn(
    plan: &Plan,
    temp: &Temp,
    command: &mut Command,
) -> Result<io::Result<Child>, SandboxError> {
    for name in &plan.temp_env {
        command.env(name, temp.path());
    }
    confined(plan, Some(temp.path()), || command.spawn())
}

#[cfg(not(target_os = "linux"))]
pub fn spawn(_: &Plan, _: &Temp, _: &mut Command) -> Result<io::Result<Child>, SandboxError> {
    Err(SandboxError::NoLandlock { why: "Landlock exists on Linux only" })
}

/// Does this in a thread that obeys the plan; what it starts obeys it too.
#[cfg(target_os = "linux")]
fn confined<T: Send>(
    plan: &Plan,
    temp: Option<&Path>,
    act: impl FnOnce() -> T + Send,
) -> Result<T, SandboxError> {
    /// Opening files and one `posix_spawn` need little.
    const STACK: usize = 256 * 1024;
    std::thread::scope(|scope| {
        let inside = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || {
            landlock::restrict(plan, temp)?;
            Ok(act())
        });
        match inside.map_err(SandboxError::Thread)?.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
