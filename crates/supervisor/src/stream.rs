//! One output stream of the child, from its pipe into its log. When to read is the supervisor's matter.

use crate::logs::Log;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

/// Open until everybody who could write to it has closed it.
#[derive(Debug)]
pub(crate) struct Stream {
    pipe: Option<File>,
    log: Log,
}

impl Stream {
    pub(crate) fn new(pipe: Option<OwnedFd>, log: Log) -> io::Result<Self> {
        let pipe = pipe.map(File::from);
        if let Some(pipe) = &pipe {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self { pipe, log })
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(|pipe| pipe.as_fd())
    }

    /// What to say about output that is missing.
    pub(crate) fn note(&self) -> Option<String> {
        self.log.note()
    }

    /// Moves one chunk; `false`: there is none now.
    pub(crate) fn pump(&mut self, buffer: &mut [u8]) -> bool {
        let Some(pipe) = &mut self.pipe else { return false };
        match pipe.read(buffer) {
            Ok(0) => {
                self.pipe = None;
                false
            }
            Ok(count) => {
                self.log.keep(&buffer[..count]);
                true
            }
            Err(cause)
                if matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                false
            }
            // A pipe that fails would be ready for ever.
            Err(_) => {
                self.pipe = None;
                false
            }
        }
    }
}
