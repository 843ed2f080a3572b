//! Renames that destroy nothing, on file systems that know `renameat2` and on those that do not. They sync nothing.

use super::{Kind, StoreError, spot::Spot};
use nix::{
    errno::Errno,
    fcntl::{self, AtFlags},
    unistd,
};

/// Which system calls to use. `Flags` turns to `Portable` by itself where the file system refuses them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Renames {
    Flags,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests take this road on any file system"))]
    Portable,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Done,
    /// Something lies at the other name; nothing was moved.
    Taken,
    /// There is nothing to move.
    Gone,
    /// The two names are on different file systems.
    Apart,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Exchanged {
    Done,
    Gone,
    /// The two names are on different file systems.
    Apart,
    Unsupported,
}

impl Renames {
    /// Moves `from` to a name that must be free.
    pub(super) fn to_free(self, from: &Spot, to: &Spot) -> Result<Moved, StoreError> {
        let native = match self {
            Self::Flags => native::noreplace(from, to),
            Self::Portable => Err(Errno::ENOSYS),
        };
        let result = match native {
            Err(Errno::EINVAL | Errno::ENOSYS) => link_then_unlink(from, to)?,
            other => other,
        };
        moved(from, result)
    }

    /// Exchanges two names in one step.
    pub(super) fn exchange(self, one: &Spot, other: &Spot) -> Result<Exchanged, StoreError> {
        let native = match self {
            Self::Flags => native::exchange(one, other),
            Self::Portable => Err(Errno::ENOSYS),
        };
        match native {
            Ok(()) => Ok(Exchanged::Done),
            Err(Errno::ENOENT) => Ok(Exchanged::Gone),
            Err(Errno::EXDEV) => Ok(Exchanged::Apart),
            Err(Errno::EINVAL | Errno::ENOSYS) => Ok(Exchanged::Unsupported),
            Err(errno) => Err(other.failed("exchange")(errno)),
        }
    }
}

/// Moves `from` to a name of ours that the caller knows to be free.
pub(super) fn to_ours(from: &Spot, to: &Spot) -> Result<Moved, StoreError> {
    moved(from, fcntl::renameat(from.dir(), from.name(), to.dir(), to.name()))
}

fn moved(from: &Spot, result: nix::Result<()>) -> Result<Moved, StoreError> {
    match result {
        Ok(()) => Ok(Moved::Done),
        Err(Errno::EEXIST | Errno::ENOTEMPTY) => Ok(Moved::Taken),
        Err(Errno::ENOENT) => Ok(Moved::Gone),
        Err(Errno::EXDEV) => Ok(Moved::Apart),
        Err(errno) => Err(from.failed("rename")(errno)),
    }
}

/// A link is refused where a name is taken, which a plain rename is not. Between the two steps both names are the same file.
fn link_then_unlink(from: &Spot, to: &Spot) -> Result<nix::Result<()>, StoreError> {
    if matches!(from.stat()?, Some((Kind::Directory, _))) {
        // Directories have no links. A plain rename puts one over nothing but an empty directory; over a file it is refused.
        let renamed = fcntl::renameat(from.dir(), from.name(), to.dir(), to.name());
        return Ok(if renamed == Err(Errno::ENOTDIR) { Err(Errno::EEXIST) } else { renamed });
    }
    let linked = unistd::linkat(from.dir(), from.name(), to.dir(), to.name(), AtFlags::empty());
    if linked.is_ok() {
        from.unlink()?;
    }
    Ok(linked)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod native {
    use super::Spot;
    use nix::fcntl::{RenameFlags, renameat2};

    pub(super) fn noreplace(from: &Spot, to: &Spot) -> nix::Result<()> {
        renameat2(from.dir(), from.name(), to.dir(), to.name(), RenameFlags::RENAME_NOREPLACE)
    }

    pub(super) fn exchange(one: &Spot, other: &Spot) -> nix::Result<()> {
        renameat2(one.dir(), one.name(), other.dir(), other.name(), RenameFlags::RENAME_EXCHANGE)
    }
}

/// `nix` offers `renameat2` for glibc only.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod native {
    use super::Spot;
    use nix::errno::Errno;

    pub(super) fn noreplace(_: &Spot, _: &Spot) -> nix::Result<()> {
        Err(Errno::ENOSYS)
    }

    pub(super) fn exchange(_: &Spot, _: &Spot) -> nix::Result<()> {
        Err(Errno::ENOSYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_taken_name_is_never_overwritten() {
        for renames in [Renames::Flags, Renames::Portable] {
            let dir = tempfile::tempdir().unwrap();
            let spot = |name: &str| Spot::at(dir.path(), name).unwrap();
            fs::write(dir.path().join("a"), "a").unwrap();
            fs::write(dir.path().join("b"), "b").unwrap();
            fs::create_dir(dir.path().join("d")).unwrap();
            assert_eq!(renames.to_free(&spot("a"), &spot("b")).unwrap(), Moved::Taken);
            assert_eq!(renames.to_free(&spot("d"), &spot("b")).unwrap(), Moved::Taken);
            assert_eq!(renames.to_free(&spot("gone"), &spot("c")).unwrap(), Moved::Gone);
            assert_eq!(renames.to_free(&spot("a"), &spot("c")).unwrap(), Moved::Done);
            assert_eq!(renames.to_free(&spot("d"), &spot("e")).unwrap(), Moved::Done);
            assert_eq!(fs::read(dir.path().join("b")).unwrap(), b"b");
            assert_eq!(fs::read(dir.path().join("c")).unwrap(), b"a");
            assert!(!dir.path().join("a").exists() && dir.path().join("e").is_dir());
        }
    }
}
