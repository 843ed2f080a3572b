//! What can go wrong on disk. What an agent wrote is never an error here.

use std::{io, path::Path, path::PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot {doing} `{path}`", path = path.display())]
    Io {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{path}` is not a directory; a link is never followed", path = path.display())]
    NotADirectory { path: PathBuf },
    #[error("`{path}` kept changing while we tried to replace it", path = path.display())]
    Contended { path: PathBuf },
    #[error("`{path}` is in the way; it holds what an earlier try set aside", path = path.display())]
    InTheWay { path: PathBuf },
    #[error("no free name is left for `{path}`", path = path.display())]
    NoFreeName { path: PathBuf },
    #[error("journal damaged in `{file}` line {line}: {why}", file = file.display())]
    JournalDamaged { file: PathBuf, line: u64, why: String },
    #[error("the journal in `{dir}` is gone, although this repository has one", dir = dir.display())]
    JournalGone { dir: PathBuf },
    #[error(
        "the journal could not be written earlier; nothing more is appended until it is opened again"
    )]
    Poisoned,
    #[error("a journal record of {size} bytes is over the limit of {limit}")]
    RecordTooLong { size: usize, limit: usize },
    #[error("a journal record of kind `{kind}` could not be read back: {why}")]
    RecordUnreadable { kind: String, why: String },
    #[error("`{path}` is not a JSON object with a readable `journal_head`", path = path.display())]
    Pins {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
}

impl StoreError {
    /// The journal's bytes are not what we wrote: trying again will not help.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::JournalDamaged { .. } | Self::JournalGone { .. } | Self::Pins { .. })
    }

    /// For `map_err`: names what we did and to which path.
    pub(super) fn io<E: Into<io::Error>>(
        doing: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Io { doing, path: path.to_owned(), source: source.into() }
    }
}
