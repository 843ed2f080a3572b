//! Where the pages find a repository by its name in addresses, and whether anything changed since the last look.

use crate::cli::context::Context;
use crate::model::Digest;
use crate::repository::{Known, repositories};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The folder that the daemon keeps for it; one that the daemon could not open has none.
pub(super) fn key(known: &[Known], path: &Path) -> String {
    let folder =
        known.iter().find(|known| known.path == path).and_then(|known| known.folder.file_name());
    match folder {
        Some(name) => name.to_string_lossy().into_owned(),
        None => format!("at-{}", Digest::of(path.as_os_str().as_encoded_bytes()).short()),
    }
}

pub(super) fn known(context: &Context) -> Vec<Known> {
    context.state_dir().ok().and_then(|dir| repositories(&dir).ok()).unwrap_or_default()
}

pub(super) fn find(context: &Context, wanted: &str) -> Option<Known> {
    known(context)
        .into_iter()
        .find(|known| known.folder.file_name().is_some_and(|name| name == wanted))
}

/// Of the files that say what happens: each is replaced or grows when something does.
pub(super) fn stamp(context: &Context, home: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut note = |path: &Path| {
        let Ok(meta) = path.symlink_metadata() else { return };
        (meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.size()).hash(&mut hasher);
    };
    for name in ["frozen.json", "outbox"] {
        note(&home.join(name));
    }
    for known in known(context) {
        for name in ["status.json", "events.ndjson", "outbox", "runs"] {
            note(&known.folder.join(name));
        }
    }
    hasher.finish()
}
