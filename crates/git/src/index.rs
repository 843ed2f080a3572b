//! Git's index as bytes and entries, where it is plain: version 2 or 3, every file whole and merged. Any other is left to git. It
//! reads and writes no file.

mod folders;
#[cfg(test)]
mod tests;

use super::objects::{hex, unhex};
use super::tree::File;
use super::{ObjectFormat, names};
use folders::Folders;
use std::collections::BTreeMap;
use std::ops::Range;

const HEAD: usize = 12;
const STAT: usize = 40;
/// The bits beside the length of the name.
const ASSUMED: u16 = 0x8000;
const EXTENDED: u16 = 0x4000;
const CONFLICT: u16 = 0x3000;
const NAME_MAX: u16 = 0x0fff;
/// The one of the extended bits that we know.
const SKIPPED: u16 = 0x4000;

/// To make room for one entry moves those behind it; more than these are cheaper all at once.
const FEW: usize = 16;

/// What git knows of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexEntry {
    pub(super) stat: Stat,
    pub(super) mode: u32,
    pub(super) id: Id,
    /// Git was told not to look at the file: assumed unchanged, or skipped.
    hidden: bool,
}

impl IndexEntry {
    pub(super) fn new(stat: Stat, mode: u32, id: Id) -> Self {
        Self { stat, mode, id, hidden: false }
    }

    /// As it stands in a tree. The file's stamps are not known.
    pub(super) fn of((mode, id): &File) -> Option<Self> {
        let mode = u32::from_str_radix(mode, 8).ok()?;
        Some(Self::new(Stat::default(), mode, Id::parse(id)?))
    }

    pub(super) fn file(&self) -> File {
        (format!("{:06o}", self.mode), hex(self.id.bytes()))
    }
}

/// An object's id in the room that it takes in the file: an index may have a hundred thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Id {
    bytes: [u8; 32],
    len: u8,
}

impl Id {
    fn new(from: &[u8]) -> Option<Self> {
        let mut bytes = [0; 32];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Self { bytes, len: u8::try_from(from.len()).ok()? })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes: Vec<u8> = unhex(text).collect();
        names::is_object(text).then(|| Self::new(&bytes)).flatten()
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// What the file system said of a file when it was last read. All zeros: nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) ctime: (u32, u32),
    pub(super) mtime: (u32, u32),
    pub(super) dev: u32,
    pub(super) ino: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u32,
}

/// Entries by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    entries: Vec<(String, IndexEntry)>,
    /// Trees that git has written for folders, as far as nothing below them changed since.
    folders: Option<Folders>,
}

/// What paths are to hold; `None`: nothing.
pub(super) type Edits = BTreeMap<String, Option<IndexEntry>>;

impl Index {
    /// `None`: not plain, damaged, or no index at all.
    pub(super) fn parse(bytes: &[u8], format: ObjectFormat) -> Option<Self> {
        let body = bytes.len().checked_sub(format.id_len())?;
        let (body, sum) = bytes.split_at(body);
        // Zeros: whoever wrote it was told to spare the sum.
        if sum.iter().any(|&byte| byte != 0) && hex(sum) != format.hash(body) {
            return None;
        }
        let mut reader = Reader(body);
        if reader.take(4)? != b"DIRC" || !matches!(reader.number()?, 2 | 3) {
            return None;
        }
        let count = reader.number()?;
        // A count that no file of this size holds must not make us ask for the room.
        let mut entries = Vec::with_capacity((count as usize).min(body.len() / STAT));
        for _ in 0..count {
            entries.push(reader.entry(format.id_len())?);
        }
        let ordered = entries.is_sorted_by(|(a, _), (b, _)| a.as_bytes() < b.as_bytes());
        let folders = reader.extensions(format.id_len())?;
        ordered.then_some(Self { entries, folders })
    }

    /// Is git told not to look at some of the files?
    pub(super) fn hides(&self) -> bool {
        self.entries.iter().any(|(_, entry)| entry.hidden)
    }

    /// What git was told not to look at is looked at: an agent can tell git so too.
    pub(super) fn reveal(&mut self) {
        for (_, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.hidden) {
            *entry = IndexEntry { stat: Stat::default(), hidden: false, ..entry.clone() };
        }
    }

    /// Keeps only such stamps as another index has for the same file, and forgets those that somebody else put there.
    pub(super) fn believe_only(&mut self, other: &Self) {
        let mut others = other.entries.iter().peekable();
        for (path, entry) in &mut self.entries {
            while others.next_if(|(found, _)| found.as_bytes() < path.as_bytes()).is_some() {}
            if !others.peek().is_some_and(|(found, known)| found == path && known == entry) {
                entry.stat = Stat::default();
            }
        }
    }

    /// One that hides nothing. `sum`: with the sum at the end that git can check.
    pub(super) fn to_bytes(&self, format: ObjectFormat, sum: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + self.entries.len() * 112);
        bytes.extend(b"DIRC");
        bytes.extend(2u32.to_be_bytes());
        bytes.extend(number(self.entries.len()));
        for (path, entry) in &self.entries {
            put(&mut bytes, path, entry);
        }
        if let Some(folders) = &self.folders {
            let text = folders.to_bytes();
            bytes.extend(b"TREE");
            bytes.extend(number(text.len()));
            bytes.extend(text);
        }
        let end = if sum { format.hash(&bytes) } else { format.zeros() };
        bytes.extend(unhex(&end));
        bytes
    }

    pub(super) fn entries(&self) -> &[(String, IndexEntry)] {
        &self.entries
    }

    pub(super) fn get(&self, path: &str) -> Option<&IndexEntry> {
        let at = self.position(path, &(0..self.entries.len()))?;
        Some(&self.entries[at].1)
    }

    /// Where a path stands, among some of the entries.
    pub(super) fn position(&self, path: &str, among: &Range<usize>) -> Option<usize> {
        let order = |(found, _): &(String, IndexEntry)| found.as_bytes().cmp(path.as_bytes());
        let at = self.entries[among.clone()].binary_search_by(order).ok()?;
        Some(among.start + at)
    }

    /// Which of some entries lie below a folder. Its path ends with a slash.
    pub(super) fn below(&self, folder: &str, among: &Range<usize>) -> Range<usize> {
        let entries = &self.entries[among.clone()];
        let start = entries.partition_point(|(path, _)| path.as_bytes() < folder.as_bytes());
        let count = entries[start..].partition_point(|(path, _)| path.starts_with(folder));
        let start = among.start + start;
        start..start + count
    }

    /// A file takes the place of a folder and the other way round.
    pub(super) fn edit(&mut self, mut edits: Edits) {
        if edits.is_empty() {
            return;
        }
        for path in self.displaced(&edits) {
            edits.entry(path).or_insert(None);
        }
        for (path, to) in &edits {
            // New stamps of the same file leave the trees above it as they are.
            let same = |was: &IndexEntry, is: &IndexEntry| (was.mode, was.id) == (is.mode, is.id);
            let (was, is) = (self.get(path), to.as_ref());
            let stays =
                was.zip(is).map_or(was.is_none() && is.is_none(), |(was, is)| same(was, is));
            if let Some(folders) = self.folders.as_mut().filter(|_| !stays) {
                folders.forget(path);
            }
        }
        if edits.len() <= FEW {
            edits.into_iter().for_each(|(path, to)| self.set(path, to));
        } else {
            self.set_all(edits);
        }
    }

    fn set(&mut self, path: String, to: Option<IndexEntry>) {
        let order = |(found, _): &(String, IndexEntry)| found.as_bytes().cmp(path.as_bytes());
        match (self.entries.binary_search_by(order), to) {
            (Ok(at), Some(entry)) => self.entries[at].1 = entry,
            (Ok(at), None) => drop(self.entries.remove(at)),
            (Err(at), Some(entry)) => self.entries.insert(at, (path, entry)),
            (Err(_), None) => {}
        }
    }

    fn set_all(&mut self, edits: Edits) {
        self.entries.retain(|(path, _)| !edits.contains_key(path));
        self.entries.extend(edits.into_iter().filter_map(|(path, to)| Some((path, to?))));
        // Two runs that are in order each, which is what a stable sort is fast at.
        self.entries.sort_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
    }

    fn displaced(&self, edits: &Edits) -> Vec<String> {
        let mut gone = Vec::new();
        for path in edits.iter().filter(|(_, to)| to.is_some()).map(|(path, _)| path) {
            let below = self.below(&format!("{path}/"), &(0..self.entries.len()));
            gone.extend(self.entries[below].iter().map(|(path, _)| path.clone()));
            let above = path.match_indices('/').map(|(at, _)| &path[..at]);
            gone.extend(above.filter(|above| self.get(above).is_some()).map(str::to_owned));
        }
        gone
    }
}

fn put(bytes: &mut Vec<u8>, path: &str, entry: &IndexEntry) {
    let start = bytes.len();
    let Stat { ctime, mtime, dev, ino, uid, gid, size } = entry.stat;
    let mode = entry.mode;
    for part in [ctime.0, ctime.1, mtime.0, mtime.1, dev, ino, mode, uid, gid, size] {
        bytes.extend(part.to_be_bytes());
    }
    bytes.extend(entry.id.bytes());
    let length = u16::try_from(path.len()).unwrap_or(NAME_MAX).min(NAME_MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(path.bytes());
    // At least one zero, up to a multiple of eight.
    let length = bytes.len() - start;
    bytes.resize(start + length + 8 - length % 8, 0);
}

fn number(count: usize) -> [u8; 4] {
    u32::try_from(count)
        .expect("BUG: what was read from a file of git's fits into one")
        .to_be_bytes()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn short(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn entry(&mut self, id_len: usize) -> Option<(String, IndexEntry)> {
        let mut parts = [0; 10];
        for part in &mut parts {
            *part = self.number()?;
        }
        let [ctime, ctime_ns, mtime, mtime_ns, dev, ino, mode, uid, gid, size] = parts;
        let (ctime, mtime) = ((ctime, ctime_ns), (mtime, mtime_ns));
        let stat = Stat { ctime, mtime, dev, ino, uid, gid, size };
        let id = Id::new(self.take(id_len)?)?;
        let flags = self.short()?;
        let extended = if flags & EXTENDED == 0 { None } else { Some(self.short()?) };
        if flags & CONFLICT != 0 || extended.is_some_and(|bits| bits & !SKIPPED != 0) {
            return None;
        }
        let hidden = flags & ASSUMED != 0 || extended.is_some_and(|bits| bits & SKIPPED != 0);
        let length = self.0.iter().position(|&byte| byte == 0)?;
        let path = std::str::from_utf8(self.take(length)?).ok()?.to_owned();
        let written = STAT + id_len + 2 + if extended.is_some() { 2 } else { 0 } + length;
        self.take(8 - written % 8)?;
        Some((path, IndexEntry { stat, mode, id, hidden }))
    }

    /// What is left after the entries; `None` if it says more than we could keep true.
    fn extensions(mut self, id_len: usize) -> Option<Option<Folders>> {
        let mut folders = None;
        while !self.0.is_empty() {
            let name = self.take(4)?;
            let length = self.number()? as usize;
            let text = self.take(length)?;
            match name {
                b"TREE" => folders = Some(Folders::parse(text, id_len)?),
                // Where entries begin, for readers with several threads. They do without.
                b"EOIE" | b"IEOT" => {}
                _ => return None,
            }
        }
        Some(folders)
    }
}
