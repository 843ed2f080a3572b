//! When a file last changed, as the file system tells it. It reads no contents.

use crate::checkout::is_settled;
use agency_protocols::model::Timestamp;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Equal stamps mean the same bytes, once the stamp is old enough: nobody but root sets a ctime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    Absent,
    There { device: u64, inode: u64, mode: u32, size: u64, mtime: (i64, i64), ctime: (i64, i64) },
}

impl Stamp {
    /// Links are followed: a link that leads elsewhere shows another file's stamp.
    pub(super) fn of(path: &Path) -> Self {
        path.metadata().map_or(Self::Absent, |meta| Self::from(&meta))
    }

    /// A file that changes twice within one tick of its clock has the same stamp twice.
    pub(super) fn is_settled(&self, now: Timestamp) -> bool {
        match self {
            Self::Absent => true,
            Self::There { ctime, .. } => is_settled(ctime.0, ctime.1, now),
        }
    }
}

impl From<&Metadata> for Stamp {
    fn from(meta: &Metadata) -> Self {
        Self::There {
            device: meta.dev(),
            inode: meta.ino(),
            mode: meta.mode(),
            size: meta.len(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}
