//! Signals to the shim as something to poll and to ask. It decides nothing about them.

use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set up before anybody knows our pid.
#[derive(Debug)]
pub(crate) struct Signals {
    woken: UnixStream,
    told_to_end: Arc<AtomicBool>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let (woken, wake) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        let told_to_end = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&told_to_end))?;
        }
        for signal in [SIGCHLD, SIGTERM, SIGINT, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, wake.try_clone()?)?;
        }
        Ok(Self { woken, told_to_end })
    }

    pub(crate) fn told_to_end(&self) -> bool {
        self.told_to_end.load(Ordering::SeqCst)
    }

    /// Forgets the wakes so far; what they were about is still there to be seen.
    pub(crate) fn clear(&self) {
        let mut bytes = [0; 64];
        while (&self.woken).read(&mut bytes).is_ok_and(|count| count > 0) {}
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }
}
