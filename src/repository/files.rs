//! Small files of ours, read with a bound and written whole. It does not know what is in them.

use super::RepositoryError;
use nix::fcntl::OFlag;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub(super) fn failed(
    doing: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> RepositoryError {
    let path = path.to_owned();
    move |source| RepositoryError::Io { doing, path, source }
}

/// Creates a folder that only we can enter, and its parents. One that is there stays as it is.
pub(super) fn create_private(path: &Path) -> Result<(), RepositoryError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("create", path))
}

/// The first `limit` bytes of a plain file; `None` if there is none. Never follows a link, never waits.
pub(super) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, RepositoryError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed("read", path)(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed("read", path))?;
    Ok(Some(bytes))
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Replaces a file: whoever reads it sees the old bytes or the new ones.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), RepositoryError> {
    let fresh = write_beside(path, bytes)?;
    rename(&fresh, path)
}

/// Creates a file with these bytes unless there is one already.
pub(super) fn create(path: &Path, bytes: &[u8]) -> Result<(), RepositoryError> {
    let fresh = write_beside(path, bytes)?;
    let linked = std::fs::hard_link(&fresh, path);
    std::fs::remove_file(&fresh).map_err(failed("remove", &fresh))?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(failed("create", path)(error))
        }
        Ok(()) | Err(_) => sync_folder_of(path),
    }
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<(), RepositoryError> {
    std::fs::rename(from, to).map_err(failed("rename", from))?;
    sync_folder_of(to)
}

fn write_beside(path: &Path, bytes: &[u8]) -> Result<PathBuf, RepositoryError> {
    let fresh = path.with_added_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(failed("write", &fresh))?;
    Ok(fresh)
}

fn sync_folder_of(path: &Path) -> Result<(), RepositoryError> {
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))
}
