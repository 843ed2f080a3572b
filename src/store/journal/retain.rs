//! Keeps a long journal small: packs segments that are never written again, and deletes those that are older than the owner
//! wants to keep. The two newest segments stay as they are, because opening a journal reads both.

use super::{
    anchor::{self, Base},
    line::decode,
    segment::{self, damaged, next_line},
};
use crate::{
    model::Timestamp,
    store::{StoreError, spot::sync_dir},
};
use flate2::{Compression, write::GzEncoder};
use std::os::unix::fs::OpenOptionsExt as _;
use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::Path,
};

/// Segments at the end that are neither packed nor deleted.
const KEPT_PLAIN: usize = 2;

/// Packs what is older than the two newest segments and returns how many were packed. It may run beside appends, and again
/// after a crash.
pub fn pack(dir: &Path) -> Result<usize, StoreError> {
    let mut count = 0;
    for number in older(dir)? {
        let plain = segment::path(dir, number);
        if plain.exists() {
            pack_one(dir, number)?;
            fs::remove_file(&plain).map_err(StoreError::io("remove", &plain))?;
            count += 1;
        }
    }
    Ok(count)
}

/// The packed file is whole and on disk before its plain one goes. It keeps the time of the last line.
fn pack_one(dir: &Path, number: u64) -> Result<(), StoreError> {
    let (plain, packed) = (segment::path(dir, number), segment::packed_path(dir, number));
    let fresh = packed.with_added_extension(format!("{}.new", std::process::id()));
    let write = || -> io::Result<()> {
        let source = File::open(&plain)?;
        let modified = source.metadata()?.modified()?;
        let mut encoder = GzEncoder::new(private(&fresh)?, Compression::fast());
        io::copy(&mut BufReader::new(source), &mut encoder)?;
        let file = encoder.finish()?;
        file.set_modified(modified)?;
        file.sync_all()?;
        fs::rename(&fresh, &packed)
    };
    write().map_err(StoreError::io("pack", &plain))?;
    sync_dir(dir)
}

/// Deletes the oldest segments whose last line was written before `before`, and returns how many went. The chain then begins
/// at a base, which is on disk first.
pub(super) fn prune(dir: &Path, pins: &Path, before: Timestamp) -> Result<usize, StoreError> {
    let candidates = older(dir)?;
    let count = candidates.iter().take_while(|number| is_before(dir, **number, before)).count();
    let base = anchor::read_base(pins)?;
    let Some(last) = count.checked_sub(1).map(|at| candidates[at]) else { return Ok(0) };
    if last >= base.segment {
        anchor::write_base(pins, &base_at(dir, last + 1)?)?;
    }
    for number in &candidates[..count] {
        for path in [segment::path(dir, *number), segment::packed_path(dir, *number)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", &path)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
    }
    sync_dir(dir)?;
    Ok(count)
}

fn older(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let mut numbers = segment::list(dir)?;
    numbers.truncate(numbers.len().saturating_sub(KEPT_PLAIN));
    Ok(numbers)
}

fn is_before(dir: &Path, number: u64, before: Timestamp) -> bool {
    let paths = [segment::path(dir, number), segment::packed_path(dir, number)];
    let mut times = paths.iter().filter_map(|path| path.metadata().ok()?.modified().ok());
    times.next().is_some_and(|time| Timestamp::from(time) < before)
}

/// The first line of a segment names the record before it.
fn base_at(dir: &Path, number: u64) -> Result<Base, StoreError> {
    let path = segment::path(dir, number);
    let mut bytes = Vec::new();
    next_line(&mut segment::open(dir, number)?, &mut bytes)
        .map_err(StoreError::io("read", &path))?;
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let first = decode(line).map_err(|why| damaged(&path, 1, why))?;
    let head = super::Head { n: first.n.saturating_sub(1), hash: first.prev };
    Ok(Base { segment: number, head })
}
fn private(path: &Path) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(0o600).open(path)
}
