//! Reads small files and folders that anybody may have put there: never a pipe, never without a bound.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// What lies in a folder, in the order of its names; nothing, if it cannot be read.
pub(super) fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// A whole file, `None` if there is none; more than `max` bytes are an error.
pub(super) fn read_bytes(file: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let bytes = read_start(file, max + 1)?;
    let fits = bytes.as_ref().is_none_or(|bytes| bytes.len() as u64 <= max);
    if fits { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

/// The beginning of a file, `None` if there is none. Links are followed, as git follows them.
pub(super) fn read_start(file: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    match fs::metadata(file) {
        Ok(meta) if meta.is_file() => {}
        // Opening a pipe would wait for its writer.
        Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
        Err(error) if gone.contains(&error.kind()) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    fs::File::open(file)?.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}
