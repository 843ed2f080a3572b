//! The order that a waiting shim reads from its pipe: which run to keep, and with which environment. The daemon's pool of
//! waiting shims is not here.

use crate::folder::Alive;
use crate::run_file::RunFile;
use crate::signals::Signals;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;

/// In place of a folder on the shim's command line.
pub const WAIT: &str = "-";
/// Environments are bounded by the kernel at a part of this.
const ORDER_MAX: u64 = 16 * 1024 * 1024;

/// What a waiting shim is told. The environment passes through a pipe and no file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub folder: PathBuf,
    pub env: Vec<(String, String)>,
}

/// A run and an order for it, as they come.
const SAMPLE_RUN: &str = r#"{"version":1,"run":"r-1","argv":["agent","-p","words"],"dir":"/repo","env":["PATH"],
    "limits":{"first_output_s":300,"silence_s":600,"wall_s":2700,"grace_s":5,"log_bytes":16777216},"beat_ms":7500,
    "repo":"/repo","protocol":"p","seat":"s","role":"r","task":"1","phase":"p","why":"w","prompt_file":"/runs/r-1/prompt.md",
    "intended_at":"2026-01-01T00:00:00.000000000Z","profile":"p"}"#;
const SAMPLE_ORDER: &str = r#"{"folder":"/runs/r-1","env":[["PATH","/bin"]]}"#;

/// When code runs for the first time the kernel looks for its pages. Nobody waits for a spare yet, so it does once what an order
/// will ask of it; what comes of that is of no use.
pub(crate) fn rehearse(alive: &Alive) {
    drop(serde_json::from_str::<Order>(SAMPLE_ORDER));
    drop(serde_json::from_str::<RunFile>(SAMPLE_RUN));
    drop(serde_json::to_vec(alive));
}

/// The waiting side: the order, once the pipe closes. `None`: nobody needs us any more, or somebody wants us gone.
pub(crate) fn wait(signals: &Signals) -> Option<Order> {
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
}
