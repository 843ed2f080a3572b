//! Keeps a copy of a repository's file under a free name. It never overwrites and never removes the original.

use super::{
    StoreError, Unsynced,
    rename::{Moved, Renames},
    spot::{Found, Spot, safe_name},
};
use crate::model::{Digest, RelPath};
use sha2::{Digest as _, Sha256};
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
};

/// Copies under one name before we give up.
const NAMES_MAX: u32 = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    New(RelPath),
    /// A copy with these bytes was there already.
    Same(RelPath),
    /// The file is not, or is no longer, the one that was seen.
    Changed,
}

/// Copies `from` to `to`, or to `to-2`, `to-3` … where other bytes lie there. A file over `limit` bytes counts as changed.
pub fn copy(
    root: &Path,
    from: &RelPath,
    to: &RelPath,
    seen: &Digest,
    limit: u64,
    unsynced: &mut Unsynced,
) -> Result<Copied, StoreError> {
    if let Some(path) = find_copy(root, to, seen, limit, unsynced)? {
        return Ok(Copied::Same(path));
    }
    let Some(source) = Spot::find(root, from)? else { return Ok(Copied::Changed) };
    let Found::Plain { file, size } = source.look()? else { return Ok(Copied::Changed) };
    if size > limit {
        return Ok(Copied::Changed);
    }
    let place = Spot::make(root, to)?;
    let temp = place.beside(format!(".agency-tmp-copy-{}", safe_name(seen.as_str())));
    temp.unlink()?;
    if fill(&temp, file, limit, unsynced)? != *seen {
        temp.unlink()?;
        return Ok(Copied::Changed);
    }
    publish(&temp, to, unsynced).map(Copied::New)
}

/// An earlier call may have made the copy already, whatever the original is by now.
fn find_copy(
    root: &Path,
    to: &RelPath,
    seen: &Digest,
    limit: u64,
    unsynced: &mut Unsynced,
) -> Result<Option<RelPath>, StoreError> {
    let Some(place) = Spot::find(root, to)? else { return Ok(None) };
    for path in names(to) {
        let spot = place.beside(path.file_name());
        if !spot.exists()? {
            return Ok(None);
        }
        if spot.digest(limit)?.as_ref() == Some(seen) {
            spot.note_dir(unsynced)?;
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn fill(
    temp: &Spot,
    file: File,
    limit: u64,
    unsynced: &mut Unsynced,
) -> Result<Digest, StoreError> {
    let mut to = temp.create(0o644)?;
    let mut file = file.take(limit.saturating_add(1));
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = file.read(&mut piece).map_err(temp.failed("copy to"))?;
        if count == 0 {
            break;
        }
        hasher.update(&piece[..count]);
        to.write_all(&piece[..count]).map_err(temp.failed("write"))?;
    }
    unsynced.note(&to, &temp.path())?;
    Ok(Digest::finish(hasher))
}

fn publish(temp: &Spot, to: &RelPath, unsynced: &mut Unsynced) -> Result<RelPath, StoreError> {
    for path in names(to) {
        let place = temp.beside(path.file_name());
        if Renames::Flags.to_free(temp, &place)? == Moved::Done {
            place.note_dir(unsynced)?;
            return Ok(path);
        }
    }
    temp.unlink()?;
    Err(StoreError::NoFreeName { path: temp.beside(to.file_name()).path() })
}

/// `a/b.md`, `a/b-2.md`, `a/b-3.md` …
fn names(path: &RelPath) -> impl Iterator<Item = RelPath> {
    let text = path.as_str();
    let start = text.len() - path.file_name().len();
    let cut =
        path.file_name().rfind('.').filter(|dot| *dot > 0).map_or(text.len(), |dot| start + dot);
    let (stem, extension) = (text[..cut].to_owned(), text[cut..].to_owned());
    let numbered = move |n| RelPath::new(format!("{stem}-{n}{extension}")).ok();
    std::iter::once(path.clone()).chain((2..=NAMES_MAX).map_while(numbered))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn path(text: &str) -> RelPath {
        RelPath::new(text).unwrap()
    }

    fn copy_flag(root: &Path, seen: &[u8]) -> Copied {
        copy(
            root,
            &path("flag.json"),
            &path("log/flag.json"),
            &Digest::of(seen),
            100,
            &mut Unsynced::default(),
        )
        .unwrap()
    }

    #[test]
    fn a_copy_never_overwrites_and_is_made_once() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("flag.json");
        fs::write(&file, "one").unwrap();
        assert_eq!(copy_flag(root.path(), b"one"), Copied::New(path("log/flag.json")));
        assert_eq!(copy_flag(root.path(), b"one"), Copied::Same(path("log/flag.json")));
        fs::write(&file, "two").unwrap();
        assert_eq!(copy_flag(root.path(), b"two"), Copied::New(path("log/flag-2.json")));
        fs::write(&file, "three").unwrap();
        assert_eq!(copy_flag(root.path(), b"three"), Copied::New(path("log/flag-3.json")));
        assert_eq!(copy_flag(root.path(), b"two"), Copied::Same(path("log/flag-2.json")));
        assert_eq!(fs::read(root.path().join("log/flag.json")).unwrap(), b"one");
        assert_eq!(fs::read(root.path().join("log/flag-2.json")).unwrap(), b"two");
        assert_eq!(fs::read_dir(root.path().join("log")).unwrap().count(), 3);
    }

    #[test]
    fn only_what_was_seen_is_copied() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(copy_flag(root.path(), b"one"), Copied::Changed);
        fs::write(root.path().join("flag.json"), "other").unwrap();
        assert_eq!(copy_flag(root.path(), b"one"), Copied::Changed);
        let large = vec![b'x'; 101];
        fs::write(root.path().join("flag.json"), &large).unwrap();
        assert_eq!(copy_flag(root.path(), &large), Copied::Changed);
        let names: Vec<_> = fs::read_dir(root.path().join("log")).unwrap().collect();
        assert!(names.is_empty(), "{names:?}");
    }

    #[test]
    fn a_copy_cut_off_by_a_crash_is_made_anew() {
        // covers: DM-06
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("flag.json"), "whole").unwrap();
        fs::create_dir(root.path().join("log")).unwrap();
        let temp = format!("log/.agency-tmp-copy-{}", Digest::of(b"whole"));
        fs::write(root.path().join(temp), "who").unwrap();
        assert_eq!(copy_flag(root.path(), b"whole"), Copied::New(path("log/flag.json")));
        assert_eq!(fs::read_dir(root.path().join("log")).unwrap().count(), 1);
    }

    #[test]
    fn the_number_goes_before_the_extension() {
        let second = |text| names(&path(text)).nth(1).unwrap().as_str().to_owned();
        assert_eq!(second("a.b/c.md"), "a.b/c-2.md");
        assert_eq!(second("a.b/c"), "a.b/c-2");
        assert_eq!(second(".hidden"), ".hidden-2");
    }
}
