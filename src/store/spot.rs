//! One name in one open directory, so that nobody can swap a directory under us. It does not judge what lies there.

use super::{StoreError, Unsynced};
use crate::{
    model::{Digest, RelPath},
    read::folder_flags,
};
use nix::{
    errno::Errno,
    fcntl::{self, AtFlags, OFlag},
    sys::stat::{self, FileStat, Mode, SFlag},
    unistd::{self, UnlinkatFlags},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    rc::Rc,
};

/// No file that a protocol reads is larger (DESIGN §7), so nothing larger can be what we have seen.
pub const SEEN_MAX: u64 = 128 << 20;

/// What lies at a name, by the file system's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    File,
    Symlink,
    Directory,
    Fifo,
    Socket,
    Device,
}

impl Kind {
    fn of(stat: &FileStat) -> Self {
        match SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) {
            SFlag::S_IFREG => Self::File,
            SFlag::S_IFLNK => Self::Symlink,
            SFlag::S_IFDIR => Self::Directory,
            SFlag::S_IFIFO => Self::Fifo,
            SFlag::S_IFSOCK => Self::Socket,
            _ => Self::Device,
        }
    }
}

pub(super) enum Found {
    Absent,
    Plain {
        file: File,
        size: u64,
    },
    /// A plain file that we may not read.
    Sealed {
        size: u64,
    },
    Other(Kind),
}

/// A directory that is held, not opened: that makes no file event. Its path is for messages only.
struct Dir {
    file: File,
    path: PathBuf,
}

impl Dir {
    fn enter(&self, name: &OsStr) -> Result<Option<Self>, StoreError> {
        let path = self.path.join(name);
        match fcntl::openat(&self.file, name, folder_flags(OFlag::O_NOFOLLOW), Mode::empty()) {
            Ok(fd) => Ok(Some(Self { file: fd.into(), path })),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ENOTDIR | Errno::ELOOP) => Err(StoreError::NotADirectory { path }),
            Err(errno) => Err(StoreError::io("open the directory", &path)(errno)),
        }
    }

    fn enter_or_create(&self, name: &OsStr) -> Result<Self, StoreError> {
        if let Some(dir) = self.enter(name)? {
            return Ok(dir);
        }
        let path = self.path.join(name);
        match stat::mkdirat(&self.file, name, Mode::from_bits_truncate(0o755)) {
            Ok(()) => sync_held(&self.file).map_err(StoreError::io("sync", &self.path))?,
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(StoreError::io("create the directory", &path)(errno)),
        }
        self.enter(name)?.ok_or(StoreError::Contended { path })
    }
}

#[derive(Clone)]
pub(super) struct Spot {
    dir: Rc<Dir>,
    name: OsString,
}

impl Spot {
    /// A name in a directory of ours. Links on the way to it are the owner's and are followed.
    pub(super) fn at(dir: &Path, name: impl Into<OsString>) -> Result<Self, StoreError> {
        let held = fcntl::open(dir, folder_flags(OFlag::empty()), Mode::empty());
        let file = held.map_err(StoreError::io("open the directory", dir))?.into();
        Ok(Self { dir: Rc::new(Dir { file, path: dir.to_owned() }), name: name.into() })
    }

    /// A path in a repository; `None` when a directory on the way is missing.
    pub(super) fn find(root: &Path, path: &RelPath) -> Result<Option<Self>, StoreError> {
        let mut spot = Self::at(root, path.file_name())?;
        for part in parents(path) {
            let Some(dir) = spot.dir.enter(part.as_ref())? else { return Ok(None) };
            spot.dir = Rc::new(dir);
        }
        Ok(Some(spot))
    }

    /// A path in a repository; missing directories are made.
    pub(super) fn make(root: &Path, path: &RelPath) -> Result<Self, StoreError> {
        let mut spot = Self::at(root, path.file_name())?;
        for part in parents(path) {
            spot.dir = Rc::new(spot.dir.enter_or_create(part.as_ref())?);
        }
        Ok(spot)
    }

    pub(super) fn beside(&self, name: impl Into<OsString>) -> Self {
        Self { dir: Rc::clone(&self.dir), name: name.into() }
    }

    pub(super) fn path(&self) -> PathBuf {
        self.dir.path.join(&self.name)
    }

    pub(super) fn dir(&self) -> &File {
        &self.dir.file
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(super) fn stat(&self) -> Result<Option<(Kind, FileStat)>, StoreError> {
        match stat::fstatat(self.dir(), self.name(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some((Kind::of(&stat), stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(self.failed("look at")(errno)),
        }
    }

    pub(super) fn exists(&self) -> Result<bool, StoreError> {
        Ok(self.stat()?.is_some())
    }

    /// Opens what lies here if it is a plain file. Nothing else is opened, so nothing blocks (DM-04).
    pub(super) fn look(&self) -> Result<Found, StoreError> {
        let Some((kind, stat)) = self.stat()? else { return Ok(Found::Absent) };
        if kind != Kind::File {
            return Ok(Found::Other(kind));
        }
        let flags = OFlag::O_RDONLY
            | OFlag::O_NOFOLLOW
            | OFlag::O_NONBLOCK
            | OFlag::O_NOCTTY
            | OFlag::O_CLOEXEC;
        match fcntl::openat(self.dir(), self.name(), flags, Mode::empty()) {
            Ok(fd) => self.opened(fd.into()),
            Err(Errno::ENOENT) => Ok(Found::Absent),
            Err(Errno::ELOOP) => Ok(Found::Other(Kind::Symlink)),
            Err(Errno::EACCES | Errno::EPERM) => {
                Ok(Found::Sealed { size: u64::try_from(stat.st_size).unwrap_or(0) })
            }
            Err(errno) => Err(self.failed("open")(errno)),
        }
    }

    /// It may have been exchanged between the look and the open, so the open file has the last word.
    fn opened(&self, file: File) -> Result<Found, StoreError> {
        let stat = stat::fstat(&file).map_err(self.failed("look at"))?;
        Ok(match Kind::of(&stat) {
            Kind::File => Found::Plain { file, size: u64::try_from(stat.st_size).unwrap_or(0) },
            other => Found::Other(other),
        })
    }

    /// The digest of a plain file of at most `limit` bytes; `None` for everything else.
    pub(super) fn digest(&self, limit: u64) -> Result<Option<Digest>, StoreError> {
        Ok(self.open_digest(limit)?.map(|(digest, _)| digest))
    }

    /// The same, and the file that was read.
    pub(super) fn open_digest(&self, limit: u64) -> Result<Option<(Digest, File)>, StoreError> {
        let Found::Plain { mut file, size } = self.look()? else { return Ok(None) };
        if size > limit {
            return Ok(None);
        }
        let mut hasher = Sha256::new();
        let mut total = 0;
        let mut piece = vec![0; 64 << 10];
        while total <= limit {
            match file.read(&mut piece).map_err(self.failed("read"))? {
                0 => return Ok(Some((Digest::finish(hasher), file))),
                count => {
                    hasher.update(&piece[..count]);
                    total += count as u64;
                }
            }
        }
        Ok(None)
    }

    /// A plain file of at most `limit` bytes, whole; `None` for everything else.
    pub(super) fn bytes(&self, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let Found::Plain { file, size } = self.look()? else { return Ok(None) };
        if size > limit {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        file.take(limit + 1).read_to_end(&mut bytes).map_err(self.failed("read"))?;
        Ok((bytes.len() as u64 <= limit).then_some(bytes))
    }

    pub(super) fn create(&self, mode: u32) -> Result<File, StoreError> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(mode);
        fcntl::openat(self.dir(), self.name(), flags, mode)
            .map(File::from)
            .map_err(self.failed("create"))
    }

    pub(super) fn unlink(&self) -> Result<(), StoreError> {
        match unistd::unlinkat(self.dir(), self.name(), UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(self.failed("remove")(errno)),
        }
    }

    pub(super) fn sync_dir(&self) -> Result<(), StoreError> {
        sync_held(self.dir()).map_err(StoreError::io("sync", &self.dir.path))
    }

    /// The folder's names reach the disk with the rest.
    pub(super) fn note_dir(&self, unsynced: &mut Unsynced) -> Result<(), StoreError> {
        unsynced.note_dir(self.dir(), &self.dir.path)
    }

    pub(super) fn failed<E: Into<std::io::Error>>(
        &self,
        doing: &'static str,
    ) -> impl FnOnce(E) -> StoreError + use<E> {
        let path = self.path();
        move |source| StoreError::io(doing, &path)(source)
    }
}

/// A directory that is only held must be opened to be synced.
pub(super) fn sync_held(dir: &File) -> std::io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    File::from(fcntl::openat(dir, ".", flags, Mode::empty())?).sync_all()
}

fn parents(path: &RelPath) -> impl Iterator<Item = &str> {
    let (parents, _) = path.as_str().rsplit_once('/').unwrap_or(("", ""));
    parents.split('/').filter(|part| !part.is_empty())
}

/// Makes a directory of ours, for good.
pub(super) fn make_dir(dir: &Path) -> Result<(), StoreError> {
    if dir.is_dir() {
        return Ok(());
    }
    private_dir(dir).map_err(StoreError::io("create", dir))?;
    sync_dir(parent(dir))
}

/// Creates a folder of our state and its parents, which only we can enter, whatever the umask is (SE-09).
pub fn private_dir(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(StoreError::io("sync", dir))
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."))
}

/// `text` as part of a file name. What had to be altered or cut gets a digest, so that two texts never become one name.
pub(super) fn safe_name(text: &str) -> String {
    const LONGEST: usize = 80;
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && !text.starts_with('.') && text.len() <= LONGEST && text.chars().all(safe)
    {
        return text.to_owned();
    }
    let clean: String = text
        .trim_start_matches('.')
        .chars()
        .take(LONGEST)
        .map(|c| if safe(c) { c } else { '_' })
        .collect();
    format!("{clean}-{}", Digest::of(text.as_bytes()).short())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_on_the_way_is_named_and_not_followed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("real")).unwrap();
        symlink("real", root.path().join("link")).unwrap();
        let path = RelPath::fixed("link/x.md");
        for found in
            [Spot::find(root.path(), &path).map(drop), Spot::make(root.path(), &path).map(drop)]
        {
            let message = found.expect_err("a link was followed").to_string();
            assert!(message.contains("link` is not a directory"), "{message}");
        }
    }

    #[test]
    fn missing_directories_are_made_only_when_asked() {
        let root = tempfile::tempdir().unwrap();
        let path = RelPath::fixed("a/b/x.md");
        assert!(Spot::find(root.path(), &path).unwrap().is_none());
        assert_eq!(Spot::make(root.path(), &path).unwrap().path(), root.path().join("a/b/x.md"));
        assert!(root.path().join("a/b").is_dir());
    }

    #[test]
    fn two_keys_never_become_one_name() {
        let texts = ["a/b", "a:b", "a_b", "..", ".", "", &"x".repeat(300), &"x".repeat(301), "é"];
        let names: std::collections::BTreeSet<_> =
            texts.iter().map(|text| safe_name(text)).collect();
        assert_eq!(names.len(), texts.len());
        assert!(names.iter().all(|name| name.len() < 120 && !name.contains('/')));
        assert_eq!(safe_name("k1-take.json"), "k1-take.json");
    }

    #[test]
    fn a_file_over_the_limit_has_no_digest() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("x"), b"12345").unwrap();
        let spot = Spot::at(root.path(), "x").unwrap();
        assert_eq!(spot.digest(5).unwrap(), Some(Digest::of(b"12345")));
        assert_eq!(spot.digest(4).unwrap(), None);
    }
}
