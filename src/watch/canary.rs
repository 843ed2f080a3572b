//! A file of ours whose event must come back, since some file systems never send one and say nothing about it.
//! It is written only into a folder of ours, never into the owner's tree.

use std::fs::{OpenOptions, remove_file};
use std::io::{self, Write as _};
use std::path::Path;

pub(super) const NAME: &str = ".canary";

pub(super) fn is_named(name: &str) -> bool {
    name == NAME
}

/// Never written through a link somebody left there: an old one is removed, and the new one must be new.
pub(super) fn write(folder: &Path) -> io::Result<()> {
    let path = folder.join(NAME);
    remove(folder);
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut file) => file.write_all(b"proves that file events arrive\n"),
        // Another root of the same repository is a moment ahead; its event reaches us too.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

pub(super) fn remove(folder: &Path) {
    if let Err(error) = remove_file(folder.join(NAME))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!(folder = %folder.display(), %error, "canary not removed");
    }
}
