//! Git's objects, made and read by ourselves: a process for each would cost more than the object. It knows loose objects only;
//! what lies in packs, git is asked for.

use super::ObjectFormat;
use agency_host::clock;
use agency_host::read::open_plain;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A larger object is left to git.
const READ_MAX: u64 = 16 * 1024 * 1024;
/// What is no longer than this takes a block of the disk in any case. To compress it would save nothing and take longer than to
/// write it.
const BLOCK: usize = 4096 - 16;
/// Git's own name for a file on its way in: its clean-up knows what to do with one that was left.
const TEMPORARY: &str = "tmp_obj_";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Blob,
    Tree,
    Commit,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Blob => "blob",
            Self::Tree => "tree",
            Self::Commit => "commit",
        }
    }
}

/// The folder `objects` of a repository.
pub(super) struct Objects {
    dir: PathBuf,
    format: ObjectFormat,
}

impl Objects {
    pub(super) fn new(dir: PathBuf, format: ObjectFormat) -> Self {
        Self { dir, format }
    }

    /// The id that these bytes have, here or anywhere.
    pub(super) fn id(&self, kind: Kind, bytes: &[u8]) -> String {
        self.format.hash(&whole(kind, bytes))
    }

    /// As durable as git's own: without a sync.
    pub(super) fn write(&self, kind: Kind, bytes: &[u8]) -> io::Result<String> {
        let whole = whole(kind, bytes);
        let id = self.format.hash(&whole);
        let (folder, file) = self.place(&id);
        if !is_there(&file) {
            self.make(&folder)?;
            publish(&folder, &file, &whole, self.mode()? & 0o444)?;
        }
        Ok(id)
    }

    /// `None`: it is not loose, not of this kind, or not what its name says.
    pub(super) fn read(&self, kind: Kind, id: &str) -> Option<Vec<u8>> {
        let file = open_plain(&self.place(id).1).ok()?;
        let mut whole = Vec::new();
        ZlibDecoder::new(file).take(READ_MAX + 1).read_to_end(&mut whole).ok()?;
        if whole.len() as u64 > READ_MAX || self.format.hash(&whole) != id {
            return None;
        }
        let end = whole.iter().position(|&byte| byte == 0)?;
        let starts = whole[..end].strip_prefix(kind.word().as_bytes())?.starts_with(b" ");
        starts.then(|| whole.split_off(end + 1))
    }

    fn place(&self, id: &str) -> (PathBuf, PathBuf) {
        let (start, rest) = id.split_at(2);
        let folder = self.dir.join(start);
        let file = folder.join(rest);
        (folder, file)
    }

    /// Who may read and write here is as the owner made the folder, also where several people share it.
    fn mode(&self) -> io::Result<u32> {
        Ok(self.dir.metadata()?.permissions().mode() & 0o7777)
    }

    fn make(&self, folder: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(self.mode()?).create(folder) {
            Ok(()) => fs::set_permissions(folder, fs::Permissions::from_mode(self.mode()?)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl ObjectFormat {
    pub(super) fn hash(self, bytes: &[u8]) -> String {
        match self {
            Self::Sha1 => hex(&Sha1::digest(bytes)),
            Self::Sha256 => hex(&Sha256::digest(bytes)),
        }
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of an id that was checked to be one.
pub(super) fn unhex(text: &str) -> impl Iterator<Item = u8> {
    let digit = |hex: u8| match hex {
        b'a'..=b'f' => hex - b'a' + 10,
        digit => digit.wrapping_sub(b'0'),
    };
    text.as_bytes().chunks_exact(2).map(move |pair| digit(pair[0]) << 4 | digit(pair[1]))
}

fn whole(kind: Kind, bytes: &[u8]) -> Vec<u8> {
    [format!("{} {}\0", kind.word(), bytes.len()).as_bytes(), bytes].concat()
}

/// An object that is there is made young again, or a clean-up of git's might take it now. An empty file is what a power failure
/// leaves of one.
fn is_there(file: &Path) -> bool {
    let there = fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    there && File::open(file).and_then(|file| file.set_modified(clock::wall().into())).is_ok()
}

/// As zlib writes what it is told not to compress: a head, one block, a sum.
fn stored(whole: &[u8]) -> Vec<u8> {
    let length = u16::try_from(whole.len()).expect("BUG: a block of the disk is that small");
    let (mut a, mut b) = (1u32, 0u32);
    for &byte in whole {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    let mut bytes = vec![0x78, 0x01, 0x01];
    bytes.extend(length.to_le_bytes());
    bytes.extend((!length).to_le_bytes());
    bytes.extend(whole);
    bytes.extend((b << 16 | a).to_be_bytes());
    bytes
}

fn publish(folder: &Path, file: &Path, whole: &[u8], mode: u32) -> io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!("{TEMPORARY}{}-{count}", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut file| {
            if whole.len() <= BLOCK {
                return file.write_all(&stored(whole));
            }
            let mut packed = ZlibEncoder::new(file, Compression::fast());
            packed.write_all(whole).and_then(|()| packed.finish()).map(drop)
        })
        .and_then(|()| fs::rename(&temporary, file));
    if written.is_err() {
        fs::remove_file(&temporary).ok();
    }
    written
}
