//! A file without a name, made ahead and beside the work: whoever writes a file anew has only to fill it and to name it.

use super::spot::Spot;
use std::{
    fs::File,
    sync::{Mutex, PoisonError},
};

#[derive(Debug, Default)]
pub(super) struct Blank(Mutex<Option<File>>);

impl Blank {
    /// For the next one who needs a file near `dir`. Where no file can be without a name, everybody makes their own.
    pub(super) fn make(&self, dir: &File) {
        self.put(nameless::make(dir).ok());
    }

    pub(super) fn put(&self, file: Option<File>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }

    pub(super) fn take(&self) -> Option<File> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Gives the file its name, which must be free. False: that cannot be done here, and nothing has happened.
pub(super) fn name(file: &File, spot: &Spot) -> bool {
    nameless::name(file, spot).is_ok()
}

#[cfg(target_os = "linux")]
mod nameless {
    use super::Spot;
    use nix::{
        fcntl::{AT_FDCWD, AtFlags, OFlag, openat},
        sys::stat::Mode,
        unistd::linkat,
    };
    use std::{fs::File, os::fd::AsRawFd as _};

    pub(super) fn make(dir: &File) -> nix::Result<File> {
        let flags = OFlag::O_TMPFILE | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        openat(dir, ".", flags, Mode::from_bits_truncate(0o644)).map(File::from)
    }

    pub(super) fn name(file: &File, spot: &Spot) -> nix::Result<()> {
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(AT_FDCWD, open.as_str(), spot.dir(), spot.name(), AtFlags::AT_SYMLINK_FOLLOW)
    }
}

#[cfg(not(target_os = "linux"))]
mod nameless {
    use super::Spot;
    use nix::errno::Errno;
    use std::fs::File;

    pub(super) fn make(_: &File) -> nix::Result<File> {
        Err(Errno::ENOSYS)
    }

    pub(super) fn name(_: &File, _: &Spot) -> nix::Result<()> {
        Err(Errno::ENOSYS)
    }
}
