//! A new file whose name nobody else has the beginning of: looked for and written under one lock. It does not choose the name.

use super::StoreError;
use super::edit::{FolderLock, publish};
use super::spot::{Found, Spot, safe_name};
use crate::model::{Digest, RelPath};
use std::path::Path;
use std::time::Duration;

/// Whoever holds the lock longer than this is not making a file.
const WAIT: Duration = Duration::from_secs(5);
/// Folders below folders, as deep as anybody looks for a name.
const DEPTH_MAX: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    Written,
    /// The file is there with exactly these bytes: it was written before a crash.
    Same,
    /// Another file has that beginning.
    Taken {
        by: String,
    },
    Busy,
}

/// Writes `path`, unless a file below `under` has a name that begins with `start`.
pub fn create(
    root: &Path,
    path: &RelPath,
    bytes: &[u8],
    under: &RelPath,
    start: &str,
) -> Result<Created, StoreError> {
    // Links on the way are refused before anything is opened by its path.
    let spot = Spot::make(root, path)?;
    let folder = root.join(under.as_str());
    let Some(_lock) = FolderLock::acquire(&folder, WAIT)? else { return Ok(Created::Busy) };
    if spot.digest(bytes.len() as u64)? == Some(Digest::of(bytes)) {
        return Ok(Created::Same);
    }
    if let Some(by) = find(&folder, start)? {
        return Ok(Created::Taken { by });
    }
    publish(&spot, bytes)?;
    Ok(Created::Written)
}

/// Brings a plain file into another tree, where nothing lies at its place. Whoever works in that tree may have put a link on
/// the way: it is refused, not followed.
pub fn carry(from: &Path, to: &Path, path: &RelPath) -> Result<(), StoreError> {
    let Some(source) = Spot::find(from, path)? else { return Ok(()) };
    let Found::Plain { mut file, .. } = source.look()? else { return Ok(()) };
    let target = Spot::make(to, path)?;
    if target.exists()? {
        return Ok(());
    }
    let mode = source.stat()?.map_or(0o644, |(_, stat)| stat.st_mode & 0o777);
    let temp = target.beside(format!(".agency-tmp-carry-{}", safe_name(path.file_name())));
    temp.unlink()?;
    let mut copy = temp.create(mode)?;
    std::io::copy(&mut file, &mut copy).map_err(temp.failed("write"))?;
    nix::fcntl::renameat(temp.dir(), temp.name(), target.dir(), target.name())
        .map_err(target.failed("write"))
}

/// Any name counts, whatever lies there; links are not followed.
fn find(folder: &Path, start: &str) -> Result<Option<String>, StoreError> {
    let mut open = vec![(folder.to_owned(), 0)];
    while let Some((dir, depth)) = open.pop() {
        let entries = std::fs::read_dir(&dir).map_err(StoreError::io("read", &dir))?;
        for entry in entries {
            let entry = entry.map_err(StoreError::io("read", &dir))?;
            let name = entry.file_name();
            if name.as_encoded_bytes().starts_with(start.as_bytes()) {
                return Ok(Some(name.to_string_lossy().into_owned()));
            }
            if depth < DEPTH_MAX && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push((entry.path(), depth + 1));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(root: &Path, path: &str, bytes: &str) -> Created {
        let (path, under) = (RelPath::new(path).unwrap(), RelPath::fixed("in"));
        let start = format!("{}-", path.file_name().split('-').next().unwrap());
        create(root, &path, bytes.as_bytes(), &under, &start).unwrap()
    }

    // covers: AG-05
    #[test]
    fn a_beginning_is_given_once_and_a_repeat_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(make(root, "in/a/T1-x.md", "one"), Created::Written);
        assert_eq!(make(root, "in/a/T1-x.md", "one"), Created::Same);
        assert_eq!(make(root, "in/a/T10-x.md", "ten"), Created::Written);
        let taken = Created::Taken { by: "T1-x.md".to_owned() };
        assert_eq!(make(root, "in/b/T1-y.md", "two"), taken);
        assert_eq!(make(root, "in/a/T1-x.md", "other bytes"), taken);
        assert_eq!(std::fs::read_to_string(root.join("in/a/T1-x.md")).unwrap(), "one");
        assert!(!root.join("in/b/T1-y.md").exists());
    }

    #[test]
    fn somebody_who_makes_files_is_waited_for() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("in")).unwrap();
        let lock = FolderLock::acquire(&root.path().join("in"), WAIT).unwrap();
        let path = root.path().to_owned();
        let maker = std::thread::spawn(move || make(&path, "in/T1-x.md", "one"));
        drop(lock);
        assert_eq!(maker.join().unwrap(), Created::Written);
    }

    // covers: AG-14
    #[test]
    fn a_file_is_carried_whole_and_never_over_another() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = RelPath::fixed("a/x.env");
        std::fs::create_dir(from.path().join("a")).unwrap();
        std::fs::write(from.path().join("a/x.env"), "one").unwrap();
        carry(from.path(), to.path(), &path).unwrap();
        std::fs::write(from.path().join("a/x.env"), "two").unwrap();
        carry(from.path(), to.path(), &path).unwrap();
        assert_eq!(std::fs::read_to_string(to.path().join("a/x.env")).unwrap(), "one");
        carry(from.path(), to.path(), &RelPath::fixed("a/missing")).unwrap();
        std::os::unix::fs::symlink("/tmp", to.path().join("b")).unwrap();
        std::fs::create_dir(from.path().join("b")).unwrap();
        std::fs::write(from.path().join("b/y"), "y").unwrap();
        assert!(carry(from.path(), to.path(), &RelPath::fixed("b/y")).is_err());
    }

    #[test]
    fn a_link_is_never_written_through() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", root.path().join("in")).unwrap();
        let path = RelPath::fixed("in/T1-x.md");
        assert!(create(root.path(), &path, b"one", &RelPath::fixed("in"), "T1-").is_err());
    }
}
