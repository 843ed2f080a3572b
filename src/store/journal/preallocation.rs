//! Preallocation after a segment's last line, written ahead of the lines: zeros that are on disk before they are needed.

use std::{fs::File, io, os::unix::fs::FileExt as _};

/// At a time: some ten decisions.
const ROOM: usize = 64 << 10;
/// With less than this left it is time for more.
const SCARCE: u64 = ROOM as u64 / 4;

#[derive(Debug, Default)]
pub(super) struct Preallocation {
    /// Where it ends, and the file with it.
    end: u64,
    pub(super) is_wanted: bool,
}

impl Preallocation {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        Ok(Self { end: file.metadata()?.len(), is_wanted: false })
    }

    pub(super) fn is_scarce(&self, size: u64) -> bool {
        self.end < size + SCARCE
    }

    /// Where it is wanted and scarce. `size` is where the last line ends.
    pub(super) fn make(&mut self, file: &File, size: u64) {
        if !std::mem::take(&mut self.is_wanted) || !self.is_scarce(size) {
            return;
        }
        let begin = self.end.max(size);
        let written = file.write_all_at(&[0; ROOM], begin);
        // A disk that is nearly full may have taken a part.
        self.end = file.metadata().map_or(begin, |meta| meta.len());
        if let Err(error) = written {
            tracing::debug!(%error, "no room is made ahead in the journal");
        }
    }
}
