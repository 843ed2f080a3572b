//! One open folder of a work tree: its names and its files, none of them reached through a link. It knows nothing of git.

use super::stamps::kind_of;
use super::{NotPlain, Step};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstat, fstatat};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;

/// A larger file is streamed by git.
const FILE_MAX: u64 = 16 << 20;

pub(super) const FLAGS: OFlag =
    OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

pub(super) fn enter(dir: &Dir, name: &str) -> Result<Dir, Errno> {
    Dir::openat(dir, name, FLAGS, Mode::empty())
}

/// A name in a folder, and what it stands for where the folder says so.
pub(super) type Name = (String, Option<Type>);

pub(super) fn is_leaf(kind: &Option<Type>) -> bool {
    matches!(kind, Some(Type::File | Type::Symlink))
}

pub(super) fn list(dir: &mut Dir) -> Step<Vec<Name>> {
    let mut names = Vec::new();
    for entry in dir.iter() {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { return Err(NotPlain("an odd name")) };
        if !matches!(name, "." | "..") {
            names.push((name.to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

/// `None`: it is gone.
pub(super) fn look_at(dir: &Dir, name: &str) -> Step<Option<FileStat>> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Err(Errno::ENOENT) => Ok(None),
        stat => Ok(Some(stat?)),
    }
}

/// It may have been exchanged for a pipe since it was listed: that must not hang us.
pub(super) fn open_file(dir: &Dir, name: &str) -> Step<(File, FileStat)> {
    let flags = OFlag::O_RDONLY
        | OFlag::O_NOFOLLOW
        | OFlag::O_NONBLOCK
        | OFlag::O_NOCTTY
        | OFlag::O_CLOEXEC;
    let file = File::from(openat(dir.as_fd(), name, flags, Mode::empty())?);
    let stat = fstat(&file)?;
    match kind_of(&stat) {
        Type::File => Ok((file, stat)),
        _ => Err(NotPlain("a file was exchanged")),
    }
}

pub(super) fn read_list(dir: &Dir, name: &str) -> Step<Vec<u8>> {
    let (file, stat) = open_file(dir, name)?;
    read(&file, &stat)
}

pub(super) fn read(file: &File, stat: &FileStat) -> Step<Vec<u8>> {
    let size = u64::try_from(stat.st_size).unwrap_or(0).min(FILE_MAX);
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
    match file.take(FILE_MAX + 1).read_to_end(&mut bytes) {
        Ok(count) if count as u64 <= FILE_MAX => Ok(bytes),
        Ok(_) => Err(NotPlain("a large file")),
        Err(_) => Err(NotPlain("something cannot be read")),
    }
}
