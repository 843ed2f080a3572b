//! One segment file: its name, and a scan of its lines with the chain checked. It changes nothing on disk.

use super::{
    Head,
    line::{LINE_MAX, Record, decode},
};
use crate::store::StoreError;
use flate2::bufread::GzDecoder;
use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.jsonl"))
}

/// The same lines, compressed. Only segments that are never written again are packed.
pub(super) fn packed_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:06}.jsonl.gz"))
}

/// A plain segment wins over a packed one: packing removes it last.
pub(super) fn open(dir: &Path, number: u64) -> Result<Box<dyn BufRead>, StoreError> {
    let plain = path(dir, number);
    match File::open(&plain) {
        Ok(file) => return Ok(Box::new(BufReader::with_capacity(64 << 10, file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(StoreError::io("open", &plain)(error)),
    }
    let packed = packed_path(dir, number);
    match File::open(&packed) {
        Ok(file) => Ok(Box::new(BufReader::new(GzDecoder::new(BufReader::new(file))))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(damaged(&plain, 1, "the segment is missing"))
        }
        Err(error) => Err(StoreError::io("open", &packed)(error)),
    }
}

/// The numbers of all segments, plain or packed, in order. Files with other names are not ours to judge.
pub(super) fn list(dir: &Path) -> Result<Vec<u64>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("list", dir)(error)),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.map_err(StoreError::io("list", dir))?.file_name();
        let number = name.to_str().and_then(|name| {
            name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".jsonl")?.parse().ok()
        });
        let ours = |number: &u64| {
            let names = [path(dir, *number), packed_path(dir, *number)];
            *number > 0 && names.iter().any(|path| path.file_name() == Some(&name))
        };
        numbers.extend(number.filter(ours));
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// What a scan found.
pub(super) struct Scan {
    /// After the last whole line; `None` if there is no line and the scan was not told where the chain stands.
    pub(super) head: Option<Head>,
    pub(super) lines: u64,
    /// Where the first line ends.
    pub(super) first: u64,
    /// Where the last whole line ends.
    pub(super) size: u64,
    /// Bytes after that, without the zeros at the end: a line that a crash cut off.
    pub(super) torn: Vec<u8>,
}

/// Reads line by line. `before` is where the chain stands; without it the first line is believed.
pub(super) fn scan(
    dir: &Path,
    number: u64,
    before: Option<Head>,
    mut each: impl FnMut(Record) -> Result<(), String>,
) -> Result<Scan, StoreError> {
    let path = &path(dir, number);
    let mut reader = open(dir, number)?;
    let mut scan = Scan { head: before, lines: 0, first: 0, size: 0, torn: Vec::new() };
    let mut bytes = Vec::new();
    while next_line(&mut reader, &mut bytes).map_err(StoreError::io("read", path))? {
        let bad = |why| damaged(path, scan.lines + 1, why);
        if bytes.contains(&0) && is_blank(&mut reader).map_err(StoreError::io("read", path))? {
            // Preallocation for lines to come, or the parts of the last one that were on disk when the power failed.
            bytes.truncate(bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
            scan.torn = bytes;
            break;
        }
        let Some(line) = bytes.strip_suffix(b"\n") else {
            if bytes.len() > LINE_MAX {
                return Err(bad(format!("it is longer than {LINE_MAX} bytes")));
            }
            scan.torn = bytes;
            break;
        };
        let record = decode(line).map_err(bad)?;
        scan.head.as_ref().map_or(Ok(()), |head| head.check_next(&record)).map_err(bad)?;
        scan.head = Some(Head::of(&record));
        each(record).map_err(bad)?;
        scan.lines += 1;
        scan.size += bytes.len() as u64;
        if scan.lines == 1 {
            scan.first = scan.size;
        }
    }
    Ok(scan)
}

/// Nothing but zeros follows.
fn is_blank(reader: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() || piece.iter().any(|byte| *byte != 0) {
            return Ok(piece.is_empty());
        }
        let read = piece.len();
        reader.consume(read);
    }
}

/// False at the end. A line that is too long is cut, and so has no end.
pub(super) fn next_line(reader: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    Ok(reader.take(LINE_MAX as u64 + 1).read_until(b'\n', bytes)? > 0)
}

pub(super) fn damaged(file: &Path, line: u64, why: impl Into<String>) -> StoreError {
    StoreError::JournalDamaged { file: file.to_owned(), line, why: why.into() }
}
