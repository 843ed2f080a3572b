//! Safe bounded reads (DM-04): a plain file inside a tree, reached through no link, of at most so many bytes.
//! It does not know what a file means, and waits for nothing.

use agency_protocols::model::{Digest, FileState, Now, RelPath, Timestamp, Unreadable, WholeFile};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// How often a file that moves under our eyes is read before we say so.
const ATTEMPTS: usize = 3;

/// What tells one writing of a file from another, as far as the file system knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub mtime_ns: i64,
    pub ctime_ns: i64,
}

impl Stamp {
    pub fn of(meta: &Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            mtime_ns: nanoseconds(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The same file with the same bytes; its names or rights may differ.
    pub fn same_content(&self, other: &Self) -> bool {
        Self { ctime_ns: 0, ..*self } == Self { ctime_ns: 0, ..*other }
    }
}

/// One file as a safe read found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    pub state: FileState,
    /// `None` when there is no such file, or none that we may look at.
    pub stamp: Option<Stamp>,
    /// It has a second name. Whether that lasts is for the caller to see.
    pub linked: bool,
}

/// Reads one file. An error is trouble of the machine, a missing `root`, or (`ResourceBusy`) a file that is being written.
pub fn read(root: &Path, path: &RelPath, limit: u64, seen: Now) -> io::Result<Reading> {
    Tree::open(root)?.read(path, limit, seen)
}

/// A tree that is open, for whoever reads many of its files.
pub struct Tree<'a> {
    root: &'a Path,
    top: OwnedFd,
}

impl<'a> Tree<'a> {
    pub fn open(root: &'a Path) -> io::Result<Self> {
        let top = open(root, folder_flags(OFlag::empty()), Mode::empty())?;
        Ok(Self { root, top })
    }

    /// As [`read`].
    pub fn read(&self, path: &RelPath, limit: u64, seen: Now) -> io::Result<Reading> {
        for _ in 0..ATTEMPTS {
            if let Some(reading) = self.read_once(path, limit, seen)? {
                return Ok(reading);
            }
        }
        let changed = format!("`{path}` changed while it was read");
        Err(io::Error::new(io::ErrorKind::ResourceBusy, changed))
    }

    fn read_once(&self, path: &RelPath, limit: u64, seen: Now) -> io::Result<Option<Reading>> {
        // Looked at before it is opened: to open a pipe or a device is already to act on it.
        match std::fs::symlink_metadata(self.root.join(path)) {
            Ok(meta) if !meta.is_file() => return Ok(Some(not_a_file(&meta, limit))),
            // No folder is on the way that could be a link.
            Err(error) if is_absence(&error) && !path.as_str().contains('/') => {
                return Ok(Some(unstamped(FileState::Absent)));
            }
            Ok(_) | Err(_) => {}
        }
        match open_inside(&self.top, path) {
            Ok(file) => read_open(&file, limit, seen),
            Err(errno) => explain(errno, self.root, path, limit).map(Some),
        }
    }
}

/// What the file system says of a file, without opening it. `None` when there is none.
pub fn stamp(root: &Path, path: &RelPath) -> io::Result<Option<Stamp>> {
    match std::fs::symlink_metadata(root.join(path)) {
        Ok(meta) => Ok(Some(Stamp::of(&meta))),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a plain file that lies outside any tree, such as one of our own. An agent of the same user can put a pipe or a link
/// there, and neither may hang us.
pub fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "not a plain file"))
}

/// The words for a file that is not read.
pub fn refused(found: impl Into<String>, limit: u64) -> FileState {
    let wanted = format!("a plain file of at most {limit} bytes");
    FileState::Unreadable(Box::new(Unreadable { found: found.into(), wanted }))
}

/// The words for a file whose second name stays.
pub fn second_name(limit: u64) -> FileState {
    refused("a file with a second hard link", limit)
}

/// Walks folder by folder, so that no component can be a link, not even for a moment.
fn open_inside(top: &OwnedFd, path: &RelPath) -> Result<File, Errno> {
    let (folders, name) = path.as_str().rsplit_once('/').unwrap_or(("", path.as_str()));
    let mut inner = None;
    for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
        let at = inner.as_ref().unwrap_or(top);
        inner = Some(openat(at, folder, folder_flags(OFlag::O_NOFOLLOW), Mode::empty())?);
    }
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_CLOEXEC
        | OFlag::O_NOCTTY;
    openat(inner.as_ref().unwrap_or(top), name, flags, Mode::empty()).map(File::from)
}

/// On Linux a folder is only named, not opened: it needs no right to list it and makes no file event.
pub fn folder_flags(more: OFlag) -> OFlag {
    #[cfg(target_os = "linux")]
    let how = OFlag::O_PATH;
    #[cfg(not(target_os = "linux"))]
    let how = OFlag::O_RDONLY;
    how | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC | more
}

/// `None` when the file changed while it was read.
fn read_open(file: &File, limit: u64, seen: Now) -> io::Result<Option<Reading>> {
    let before = file.metadata()?;
    if !before.is_file() {
        return Ok(Some(not_a_file(&before, limit)));
    }
    if before.size() > limit {
        let state = refused(format!("{} bytes", before.size()), limit);
        return Ok(Some(reading(state, &before)));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.size()).unwrap_or(0));
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let after = file.metadata()?;
    let whole = u64::try_from(bytes.len()) == Ok(after.size());
    if !whole || !Stamp::of(&before).same_content(&Stamp::of(&after)) {
        return Ok(None);
    }
    let digest = Digest::of(&bytes);
    let written = written(&after);
    let whole = WholeFile { bytes: bytes.into(), digest, written, seen };
    let state = FileState::Whole(Box::new(whole));
    Ok(Some(reading(state, &after)))
}

fn reading(state: FileState, meta: &Metadata) -> Reading {
    Reading { state, stamp: Some(Stamp::of(meta)), linked: meta.is_file() && meta.nlink() > 1 }
}

fn unstamped(state: FileState) -> Reading {
    Reading { state, stamp: None, linked: false }
}

fn not_a_file(meta: &Metadata, limit: u64) -> Reading {
    reading(refused(kind(meta.file_type()), limit), meta)
}

fn kind(kind: FileType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Why a file could not be opened. A link on the way shows as "not a folder", so the way is looked at again for the words.
fn explain(errno: Errno, root: &Path, path: &RelPath, limit: u64) -> io::Result<Reading> {
    match errno {
        Errno::ENOTDIR | Errno::ELOOP | Errno::EMLINK if passes_a_link(root, path) => {
            Ok(unstamped(refused("a symbolic link", limit)))
        }
        Errno::ENOENT | Errno::ENOTDIR => Ok(unstamped(FileState::Absent)),
        Errno::EACCES | Errno::EPERM => {
            let state = refused("a file that we may not read", limit);
            Ok(Reading { stamp: stamp(root, path).unwrap_or(None), ..unstamped(state) })
        }
        // A socket or a device without a driver, put there after we looked.
        Errno::ENXIO | Errno::ENODEV => Ok(unstamped(refused("a device", limit))),
        errno => Err(errno.into()),
    }
}

fn passes_a_link(root: &Path, path: &RelPath) -> bool {
    let mut at = root.to_owned();
    path.as_str().split('/').any(|part| {
        at.push(part);
        std::fs::symlink_metadata(&at).is_ok_and(|meta| meta.is_symlink())
    })
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A stamp beyond the calendar, which anybody can set, counts as the oldest one.
fn written(meta: &Metadata) -> Timestamp {
    let part = u32::try_from(meta.mtime_nsec()).unwrap_or(0);
    Timestamp::from_timestamp(meta.mtime(), part).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn nanoseconds(seconds: i64, part: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(part)
}

#[cfg(test)]
mod tests;
