//! Runs: one process tree, one folder each, kept by a shim that outlives us. What a run means to a protocol is not known here.
//!
//! The daemon writes its intent ([`RunSpec`] → `run.json`), starts `agency shim FOLDER`, and watches the folder.
//! A run is alive while the lock on `alive` is held; `exit.json` is written only under that lock, and once.
//! What a known agent's output says (session, costs, why it failed) the daemon keeps in `usage.json`, and the last message of
//! one that may not write in `said.md`.

mod clearing;
pub mod environment;
mod executor;
mod follow;
pub mod history;
mod launch;
mod listen;
mod local;
mod observe;
pub mod profile;
pub mod sandbox;
mod spare;
mod spec;

pub use agency_supervisor::caller_is_agent::{
    Caller, Peer, Unclear, caller, folder_around, own_caller, run_around,
};
pub use agency_supervisor::exit::{ExitRecord, How};
pub use agency_supervisor::folder::{CHANGED, Folder};
pub use agency_supervisor::logs::tail;
pub use agency_supervisor::run_file::{Limits, RunFile};
pub use agency_supervisor::shim;
pub use agency_supervisor::usage::UsageFile;
pub use clearing::clear;
pub use executor::{CancelOutcome, Executor, Held, HeldState, RunError, Ticket};
pub use launch::{Launcher, NoAgent};
pub use local::LocalExecutor;
pub use observe::OnForged;
pub use spare::Spares;
pub use spec::{RunSpec, Values, expand};

use agency_supervisor::{cgroup, exit, folder, logs, lost_run, usage};
use std::time::Duration;

/// An agent that was just started comes first: on a small machine what the daemon does beside it, and what the disk does for the
/// daemon, would be in its way.
pub(crate) const AFTER_START: Duration = Duration::from_millis(5);
