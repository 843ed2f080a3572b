//! Runs: one process tree, one folder each, kept by a shim that outlives us. What a run means to a protocol is not known here.
//!
//! The daemon writes its intent ([`RunSpec`] → `run.json`), starts `agency shim FOLDER`, and watches the folder.
//! A run is alive while the lock on `alive` is held; `exit.json` is written only under that lock, and once.
//! What a known agent's output says (session, costs, why it failed) the daemon keeps in `usage.json`, and the last message of
//! one that may not write in `said.md`.

mod beat;
mod cgroup;
mod clearing;
mod deadlines;
pub mod environment;
mod executor;
mod exit;
mod folder;
mod follow;
pub mod history;
mod inside;
mod launch;
mod listen;
mod local;
mod logs;
mod lose;
mod observe;
pub mod profile;
pub mod shim;
mod signals;
mod spare;
mod spec;
mod stream;
mod supervise;
mod tree;
mod usage;

pub use clearing::clear;
pub use executor::{CancelOutcome, Executor, Held, HeldState, RunError, Ticket};
pub use exit::{ExitRecord, How};
pub use folder::Folder;
pub use inside::{folder_around, run_around};
pub use launch::{Launcher, NoAgent};
pub use local::LocalExecutor;
pub use logs::tail;
pub use spare::Spares;
pub use spec::{Limits, RunFile, RunSpec, Values, expand};
pub use usage::UsageFile;

use std::time::Duration;

/// An agent that was just started comes first: on a small machine what the daemon does beside it, and what the disk does for the
/// daemon, would be in its way.
pub(crate) const AFTER_START: Duration = Duration::from_millis(5);
