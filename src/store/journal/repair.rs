//! Drops what a crash left unfinished at the journal's end, and keeps the dropped bytes beside it. It never touches a whole line.

use super::{read::Tip, segment};
use crate::store::{StoreError, spot::sync_dir, write_atomic};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Says for people what was done. Called again after a crash in its midst, it does the rest.
pub(super) fn repair(dir: &Path, tip: &Tip) -> Result<Vec<String>, StoreError> {
    let mut notes = Vec::new();
    if !tip.torn.is_empty() {
        notes.push(drop_torn(dir, tip)?);
    }
    if let Some((number, bytes)) = &tip.unborn {
        notes.push(remove_unborn(dir, *number, bytes, tip.head.n + 1)?);
    }
    Ok(notes)
}

fn drop_torn(dir: &Path, tip: &Tip) -> Result<String, StoreError> {
    let kept = keep(dir, tip.head.n + 1, &tip.torn)?;
    let path = segment::path(dir, tip.segment);
    File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(tip.size).and_then(|()| file.sync_all()))
        .map_err(StoreError::io("shorten", &path))?;
    let (path, kept) = (path.display(), kept.display());
    Ok(format!("dropped an unfinished last line of `{path}`; its bytes are in `{kept}`"))
}

fn remove_unborn(dir: &Path, number: u64, bytes: &[u8], n: u64) -> Result<String, StoreError> {
    let path = segment::path(dir, number);
    if !bytes.is_empty() {
        keep(dir, n, bytes)?;
    }
    fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
    sync_dir(dir)?;
    Ok(format!("removed the unfinished segment `{}`", path.display()))
}

/// `torn-<n>`, with a number added where other torn bytes lie there already.
fn keep(dir: &Path, n: u64, bytes: &[u8]) -> Result<PathBuf, StoreError> {
    for path in (1_u64..).map(|i| match i {
        1 => dir.join(format!("torn-{n}")),
        _ => dir.join(format!("torn-{n}-{i}")),
    }) {
        match fs::read(&path) {
            Ok(there) if there == bytes => return Ok(path),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_atomic(&path, bytes)?;
                return Ok(path);
            }
            Err(error) => return Err(StoreError::io("read", &path)(error)),
        }
    }
    Err(StoreError::NoFreeName { path: dir.join(format!("torn-{n}")) })
}
