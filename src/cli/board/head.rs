//! The head of a task file, where its status stands. A disk that has much to read is fastest when it knows early what is wanted:
//! files are opened some way ahead of the one that is read.

use crate::protocol::board::table::Status;
use crate::read::Stamp;
use nix::fcntl::{OFlag, openat};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::stat::Mode;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;

/// Enough of a task file to find its status in, and where nearly every one says it.
pub(super) const HEAD: usize = 8 * 1024;
const FIRST: usize = 1024;

/// How many files one reader holds open at most.
const AHEAD: usize = 32;

/// How far ahead each of `readers` may open files: all together they leave most of what the system grants us to others.
pub(super) fn ahead(readers: usize) -> usize {
    let granted = getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft);
    let share = usize::try_from(granted).unwrap_or(usize::MAX) / 2 / readers.max(1);
    share.clamp(1, AHEAD)
}

/// Begins with each, and ends each when `ahead` others are begun or none is left: the disk always knows what is wanted next.
pub(super) fn each_ahead<T, B>(
    all: impl IntoIterator<Item = T>,
    ahead: usize,
    mut begin: impl FnMut(T) -> B,
    mut end: impl FnMut(B),
) {
    let mut begun = VecDeque::with_capacity(ahead);
    for one in all {
        if begun.len() >= ahead {
            begun.pop_front().into_iter().for_each(&mut end);
        }
        begun.push_back(begin(one));
    }
    begun.into_iter().for_each(end);
}

/// A plain file that is open, with its stamp from before it is read.
pub(super) struct Open {
    file: File,
    stamp: Stamp,
}

impl Open {
    /// `None`: it cannot be read, or is none that we would read. The disk may begin.
    pub(super) fn new(dir: &File, name: &OsStr) -> Option<Self> {
        let file = open(dir, name).ok()?;
        let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        want(&file);
        Some(Self { file, stamp: Stamp::of(&meta) })
    }

    /// Reads no more than it takes to find the status. `None`: it cannot be read.
    pub(super) fn status(mut self, head: &mut [u8]) -> Option<(Stamp, Option<Status>)> {
        let mut filled = 0;
        for end in [FIRST.min(head.len()), head.len()] {
            while filled < end {
                match self.file.read(&mut head[filled..end]) {
                    Ok(0) => return Some((self.stamp, status_in(&head[..filled]))),
                    Ok(count) => filled += count,
                    Err(_) => return None,
                }
                // Most files are shorter than the first look, and say their status early.
                if let Some(status) = status_in(&head[..filled]) {
                    return Some((self.stamp, Some(status)));
                }
            }
        }
        Some((self.stamp, None))
    }
}

/// We only look: where the system lets us, that leaves no trace, which would be a write for each file that is read.
fn open(dir: &File, name: &OsStr) -> nix::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    #[cfg(target_os = "linux")]
    match openat(dir, name, flags | OFlag::O_NOATIME, Mode::empty()) {
        // Somebody else's file.
        Err(nix::errno::Errno::EPERM) => {}
        opened => return opened.map(File::from),
    }
    openat(dir, name, flags, Mode::empty()).map(File::from)
}

/// Where a system cannot be told, reading waits a little longer.
#[cfg(any(target_os = "linux", target_os = "freebsd"))]
fn want(file: &File) {
    use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
    let first = FIRST.try_into().unwrap_or(0);
    posix_fadvise(file, 0, first, PosixFadviseAdvice::POSIX_FADV_WILLNEED).ok();
}

#[cfg(not(any(target_os = "linux", target_os = "freebsd")))]
fn want(_: &File) {}

/// The `status:` line of a frontmatter, without reading the rest. A line that is not whole yet does not count.
fn status_in(head: &[u8]) -> Option<Status> {
    let head = head.strip_prefix("\u{feff}".as_bytes()).unwrap_or(head);
    let mut lines =
        head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.next().filter(|line| line.trim_ascii_end() == b"---")?;
    let mut fields = lines.take_while(|line| line.trim_ascii_end() != b"---");
    let value = fields.find_map(|line| line.strip_prefix(b"status:"))?;
    let value = std::str::from_utf8(value).ok()?.split('#').next().unwrap_or_default();
    Status::parse(value.trim().trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    // covers: DM-04, SE-02
    #[test]
    fn nothing_but_a_plain_file_is_opened_and_looking_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let text = "---\nstatus: NEW\n---\n";
        std::fs::write(at("plain"), text).unwrap();
        std::os::unix::fs::symlink("plain", at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), Mode::S_IRWXU).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let dir = File::open(folder.path()).unwrap();
        for odd in ["link", "pipe", "folder", "socket", "none", "folder/../plain/x"] {
            assert!(Open::new(&dir, OsStr::new(odd)).is_none(), "{odd}");
        }
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let times = std::fs::FileTimes::new().set_accessed(long_ago);
        File::options().write(true).open(at("plain")).unwrap().set_times(times).unwrap();
        let open = Open::new(&dir, OsStr::new("plain")).unwrap();
        assert_eq!(open.status(&mut [0; HEAD]).unwrap().1, Some(Status::New));
        if cfg!(target_os = "linux") {
            let accessed = std::fs::metadata(at("plain")).unwrap().accessed().unwrap();
            assert_eq!(accessed, long_ago);
        }
    }

    // covers: AG-21
    #[test]
    fn each_is_begun_and_ended_in_order_and_never_too_many_at_once() {
        for ahead in [1, 3, 32] {
            let open = std::cell::Cell::new(0);
            let mut ended = Vec::new();
            let begin = |one: usize| {
                open.set(open.get() + 1);
                assert!(open.get() <= ahead, "{ahead}");
                one
            };
            each_ahead(0..10, ahead, begin, |one| {
                open.set(open.get() - 1);
                ended.push(one);
            });
            assert_eq!(ended, (0..10).collect::<Vec<_>>());
        }
        assert!((1..=AHEAD).contains(&ahead(16)) && ahead(usize::MAX) == 1);
    }
}
