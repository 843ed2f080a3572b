//! Which failures are the machine's and may pass by themselves: a full disk, an I/O error, no free file descriptor.

use std::error::Error;
use std::io;

/// The C library's texts for these errors. git and other programs report only the text, not the number.
const TEXTS: [&str; 6] = [
    "No space left on device",
    "Disk quota exceeded",
    "Input/output error",
    "Too many open files",
    "Read-only file system",
    "Cannot allocate memory",
];

/// True if the same effect may work later without anybody changing the repository.
pub(super) fn may_pass(error: &(dyn Error + 'static)) -> bool {
    let mut below: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = below {
        let by_machine = error.downcast_ref::<io::Error>().is_some_and(is_of_the_machine);
        if by_machine || says_so(&error.to_string()) {
            return true;
        }
        below = error.source();
    }
    false
}

fn says_so(text: &str) -> bool {
    TEXTS.iter().any(|known| text.contains(known))
}

fn is_of_the_machine(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(
            Errno::ENOSPC
                | Errno::EDQUOT
                | Errno::EIO
                | Errno::EMFILE
                | Errno::ENFILE
                | Errno::ENOMEM
                | Errno::EAGAIN
                | Errno::EROFS
                | Errno::ESTALE
                // A directory that was replaced by a file.
                | Errno::ENOTDIR
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::ApplyError;
    use crate::git::GitError;
    use crate::run::RunError;

    // covers: DM-21
    #[test]
    fn a_full_disk_passes_and_a_missing_program_does_not() {
        let folder = |errno| RunError::Folder {
            path: "/runs/r-1".into(),
            cause: io::Error::from_raw_os_error(errno),
        };
        for errno in [28, 5, 24, 20] {
            assert!(may_pass(&ApplyError::from(folder(errno))), "{errno}");
        }
        assert!(!may_pass(&ApplyError::from(folder(2))), "ENOENT stays");
        let said = "fatal: unable to write new index file: No space left on device".to_owned();
        let refused =
            |said| ApplyError::from(GitError::Refused { verb: "commit", code: None, said });
        assert!(may_pass(&refused(said)));
        assert!(!may_pass(&refused("fatal: bad object".to_owned())));
        assert!(!may_pass(&ApplyError::NoGit));
    }
}
