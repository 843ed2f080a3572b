//! Output kept in bounded files: writing them in the shim, reading their end in the daemon. It does not know what output means.

use crate::folder::Folder;
use agency_host::read::open_plain;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What is read from a pipe at once, and the least that one file may hold.
pub const CHUNK: usize = 64 * 1024;

/// The end of a run's output that goes into the journal.
const TAIL: u64 = 2 * 1024;

/// One stream in two files: the newest part, and the part before it under `.1`.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    limit: u64,
    file: Option<File>,
    size: u64,
    dropped: u64,
    first_error: Option<io::Error>,
}

impl Log {
    /// `total` is the bound of a whole run: two streams of two files each.
    pub fn new(path: PathBuf, total: u64) -> Self {
        let limit = (total / 4).max(CHUNK as u64);
        Self { path, limit, file: None, size: 0, dropped: 0, first_error: None }
    }

    /// Never fails: a run is worth more than its output. What cannot be kept is dropped and counted.
    pub fn keep(&mut self, bytes: &[u8]) {
        if let Err(cause) = self.try_keep(bytes) {
            self.dropped += bytes.len() as u64;
            self.first_error.get_or_insert(cause);
        }
    }

    /// What to say about output that is missing.
    pub fn note(&self) -> Option<String> {
        let cause = self.first_error.as_ref()?;
        Some(format!("{} bytes of `{}` dropped: {cause}", self.dropped, self.path.display()))
    }

    fn try_keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.size > 0 && self.size + bytes.len() as u64 > self.limit {
            self.file = None;
            std::fs::rename(&self.path, older(&self.path))?;
            self.size = 0;
        }
        if self.file.is_none() {
            self.file =
                Some(OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?);
        }
        let file = self.file.as_mut().expect("it was opened just above");
        self.size += bytes.len() as u64;
        file.write_all(bytes)
    }
}

/// Where the part before the newest lies.
pub fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// The last 2 KiB of what a run said: the end of stdout, then the end of stderr.
pub fn tail(folder: &Folder) -> String {
    let stderr = end_of(&folder.stderr(), TAIL / 2);
    let stdout = end_of(&folder.stdout(), TAIL - stderr.len() as u64);
    let between = if stdout.is_empty() || stdout.ends_with(b"\n") { "" } else { "\n" };
    let text = [&stdout[..], between.as_bytes(), &stderr[..]].concat();
    String::from_utf8_lossy(&text)
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

fn end_of(path: &Path, most: u64) -> Vec<u8> {
    let newest = end_of_file(path, most).unwrap_or_default();
    let missing = most - newest.len() as u64;
    let mut end = end_of_file(&older(path), missing).unwrap_or_default();
    end.extend(newest);
    end
}

fn end_of_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = open_plain(path)?;
    let from = file.metadata()?.len().saturating_sub(most);
    file.seek(SeekFrom::Start(from))?;
    let mut end = Vec::new();
    file.take(most).read_to_end(&mut end)?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SU-04
    #[test]
    fn a_log_stays_within_its_bound_and_keeps_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stdout.log");
        let mut log = Log::new(path.clone(), 4 * CHUNK as u64);
        for number in 0..40 {
            log.keep(format!("{number:05}").repeat(2_000).as_bytes());
        }
        let sizes = [&path, &older(&path)].map(|path| path.metadata().unwrap().len());
        assert!(sizes.iter().all(|size| (10_000..=CHUNK as u64).contains(size)), "{sizes:?}");
        assert!(std::fs::read_to_string(&path).unwrap().ends_with("00039"));
        assert_eq!(log.note(), None);
    }

    #[test]
    fn output_that_cannot_be_kept_is_counted_not_fatal() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = Log::new(dir.path().join("missing/stdout.log"), 0);
        log.keep(b"abc");
        log.keep(b"de");
        assert!(log.note().unwrap().starts_with("5 bytes of"));
    }

    #[test]
    fn the_tail_joins_both_streams_across_a_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        std::fs::write(older(&folder.stdout()), "x".repeat(5_000) + "before ").unwrap();
        std::fs::write(folder.stdout(), "after\u{1b}[31m").unwrap();
        std::fs::write(folder.stderr(), "e".repeat(5_000) + "the error\n").unwrap();
        let tail = tail(&folder);
        assert!(tail.len() <= 2_049 && tail.ends_with("the error\n"), "{tail}");
        assert!(tail.contains("before after[31m\ne"), "{tail}");
    }
}
