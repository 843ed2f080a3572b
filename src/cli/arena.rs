//! One pool of memory for all threads of the daemon. It knows nothing of the daemon's work.
//!
//! glibc gives threads arenas of their own. Threads that block on the disk come and go, what they leave lives for long, and so
//! every arena keeps pages for a little of it: memory that grows with the work although nothing is kept. The number of arenas
//! is read from the environment before `main`, so the daemon starts itself once more, as the same process.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

const VARIABLE: &str = "MALLOC_ARENA_MAX";

/// Returns when there is nothing to change, and when it does not work: then we only take more room. What the owner has set counts.
pub(super) fn use_one() {
    if !cfg!(target_env = "gnu") || std::env::var_os(VARIABLE).is_some() {
        return;
    }
    let mut words = std::env::args_os();
    let (Some(name), Ok(program)) = (words.next(), std::env::current_exe()) else { return };
    let words: Vec<OsString> = words.collect();
    let error = Command::new(program).arg0(name).args(words).env(VARIABLE, "1").exec();
    tracing::warn!(%error, "the daemon cannot start itself with one pool of memory");
}
