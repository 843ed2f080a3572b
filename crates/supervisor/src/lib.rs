//! The supervisor of one run: a process tree, a folder, and a shim that outlives the daemon. It has no async runtime, and it
//! does not know protocols, agents or their output.
//!
//! The daemon writes its intent (`run.json`, [`run_file`]) and starts `agency shim FOLDER` ([`shim`]). A run is alive while the
//! lock on `alive` is held ([`folder`]); `exit.json` ([`exit`]) is written only under that lock, and once.

mod beat;
pub mod caller_is_agent;
pub mod cgroup;
mod deadlines;
pub mod exit;
pub mod folder;
pub mod logs;
pub mod lost_run;
pub mod order;
pub mod run_file;
pub mod run_name;
pub mod sandbox;
pub mod shim;
mod signals;
mod stream;
mod supervise;
pub mod tree;
pub mod usage;
