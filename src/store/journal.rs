//! The record of every decision: append-only, hash-chained, in segments that begin with a snapshot. It does not know what a record means.
//!
//! A line is `{"n":…,"at":…,"prev":…,"kind":…,"body":…,"hash":…}` (see `line`). A segment is `000001.jsonl` and so on; the
//! chain runs on from one to the next. The head is anchored in `pins.json`, so that a journal cut short is found too. Older
//! segments are packed (`000001.jsonl.gz`) and, after `limits.keep_journal`, deleted (see `retain`).
//!
//! The segment that is written to ends with zeros: room for the next lines, so that a sync brings their bytes alone and nothing
//! about the file. A line has no zeros in it.

mod anchor;
mod distrust;
mod line;
mod preallocation;
mod read;
mod repair;
mod retain;
mod segment;

pub use anchor::Head;
pub use line::{LINE_MAX, Record};
pub use read::{Verified, latest, tail, verify};
pub use retain::pack;

use super::{
    StoreError, Unsynced,
    spot::{make_dir, sync_dir},
};
use crate::model::Timestamp;
use chrono::TimeDelta;
use preallocation::Preallocation;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::{
    fmt::Display,
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// A segment over this size asks for the next one.
pub const SEGMENT_MAX: u64 = 4 << 20;
/// Synced appends between two anchors: what can be cut off unnoticed is bounded by this.
const ANCHOR_EVERY: u32 = 64;
/// And the time between two anchors, as long as lines are appended.
const ANCHOR_AFTER: TimeDelta = TimeDelta::seconds(60);
/// The kind of the record that each segment but the first begins with.
const SNAPSHOT: &str = "snapshot";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On disk when the call returns, and every line before it too.
    Synced,
    /// Only written: a power failure may lose it, and the reader must not mind.
    Lazy,
}

/// What was found when the journal was opened.
#[derive(Debug)]
pub struct Opened {
    /// Since and including the last snapshot.
    pub records: Vec<Record>,
    /// What had to be repaired, for people.
    pub notes: Vec<String>,
    /// A sync had failed: nothing that was written before it is known to be on disk.
    pub was_rewritten: bool,
}

#[derive(Debug)]
pub struct Journal {
    dir: PathBuf,
    pins: PathBuf,
    segment: u64,
    file: File,
    /// Where the last line ends.
    size: u64,
    room: Preallocation,
    /// Of that, what it begins with: the snapshot.
    first: u64,
    head: Head,
    synced_since_anchor: u32,
    /// `None`: no head of this journal was ever anchored.
    anchored_at: Option<Timestamp>,
    poisoned: bool,
}

impl Journal {
    /// Reads the last segment. A last line without an end is dropped and noted; all other damage is an error.
    pub fn open(dir: &Path, pins: &Path) -> Result<(Self, Opened), StoreError> {
        make_dir(dir)?;
        let anchor = anchor::read(pins)?;
        let is_anchored = anchor.is_some();
        let tip = read::tip(dir, anchor)?;
        let mut notes = repair::repair(dir, &tip)?;
        let path = segment::path(dir, tip.segment);
        let was_rewritten = distrust::is_noted(dir);
        if was_rewritten {
            notes.push(distrust::rewrite(dir, &path, tip.size)?);
        }
        let file = File::options()
            .create(true)
            .mode(0o600)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(StoreError::io("open", &path))?;
        // What is read here is acted upon, so it must not vanish afterwards.
        file.sync_all()
            .inspect_err(|_| distrust::note(dir))
            .map_err(StoreError::io("sync", &path))?;
        sync_dir(dir)?;
        let room = Preallocation::of(&file).map_err(StoreError::io("look at", &path))?;
        let journal = Self {
            dir: dir.to_owned(),
            pins: pins.to_owned(),
            segment: tip.segment,
            file,
            size: tip.size,
            room,
            first: tip.first,
            head: tip.head,
            synced_since_anchor: 0,
            anchored_at: tip.records.last().filter(|_| is_anchored).map(|record| record.at),
            poisoned: false,
        };
        Ok((journal, Opened { records: tip.records, notes, was_rewritten }))
    }

    /// The last record.
    /// Is the file at its path still the one that we write to?
    pub fn is_current(&self) -> bool {
        let named = segment::path(&self.dir, self.segment).symlink_metadata();
        match (self.file.metadata(), named) {
            (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
            _ => false,
        }
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Writes one record, whose body is a text of JSON, and returns its number. A record of kind `snapshot` is where the next `open` begins. After a failed write or sync nothing more is taken: what the disk holds
    /// then is unknown, and only a new `open` can tell.
    pub fn append(
        &mut self,
        kind: &str,
        body: &impl Display,
        at: Timestamp,
        durability: Durability,
    ) -> Result<u64, StoreError> {
        self.check_poison()?;
        let (text, head) = line::encode(&self.head, kind, body, at)?;
        let written = self.file.write_all_at(&text, self.size).and_then(|()| match durability {
            Durability::Synced => self.file.sync_data(),
            Durability::Lazy => Ok(()),
        });
        self.poison_on_error(written, "append to")?;
        self.head = head;
        self.size += text.len() as u64;
        if durability == Durability::Synced {
            self.room.is_wanted |= self.room.is_scarce(self.size);
            self.anchor_sometimes(at);
        }
        Ok(self.head.n)
    }

    /// For a sync beside the work: everything appended so far is on disk when that ends.
    pub fn note_in(&self, unsynced: &mut Unsynced) -> Result<(), StoreError> {
        unsynced.note(&self.file, &segment::path(&self.dir, self.segment))
    }

    /// Where it runs short. It is of use once it is on disk, and nobody minds where there is none to be had.
    pub fn make_room(&mut self) {
        if !self.poisoned {
            self.room.make(&self.file, self.size);
        }
    }

    /// Not before a segment is twice its snapshot: what is large to begin with would be written anew with every record.
    pub fn should_rotate(&self) -> bool {
        self.size > SEGMENT_MAX.max(2 * self.first)
    }

    /// Begins the next segment with a snapshot, from which the next `open` reads on. Older segments stay for audit.
    pub fn rotate(&mut self, snapshot: &impl Display, at: Timestamp) -> Result<(), StoreError> {
        self.check_poison()?;
        let encoded = line::encode(&self.head, SNAPSHOT, snapshot, at);
        if encoded.is_err() {
            // Asked for again when the segment has doubled, not with every record.
            self.first = self.size;
        }
        let (text, head) = encoded?;
        self.end_segment()?;
        let path = segment::path(&self.dir, self.segment + 1);
        let begun = begin_segment(&path, &text, &self.dir);
        if begun.is_err() {
            self.distrust();
        }
        self.file = begun?;
        self.room = Preallocation::default();
        self.segment += 1;
        self.size = text.len() as u64;
        self.first = self.size;
        self.head = head;
        self.anchor()
    }

    /// A sync beside the work failed: no later sync of the same file proves that its bytes are on disk, so the next `open`
    /// writes them anew.
    pub fn distrust(&mut self) {
        self.poisoned = true;
        distrust::note(&self.dir);
    }

    /// Deletes old segments and returns how many went.
    pub fn prune(&mut self, before: Timestamp) -> Result<usize, StoreError> {
        retain::prune(&self.dir, &self.pins, before)
    }

    /// Syncs every line and anchors the head, so that a cut after this is found. Only under the repository's lock, because
    /// it cuts off whatever follows the last line.
    pub fn close(&mut self) -> Result<(), StoreError> {
        self.check_poison()?;
        // An anchor without its journal would call the next journal damaged.
        if !self.is_in_place() {
            return Ok(());
        }
        self.end_segment()?;
        self.anchor()
    }

    /// False where the segment was removed or replaced under us.
    fn is_in_place(&self) -> bool {
        let key = |found: std::fs::Metadata| (found.dev(), found.ino());
        let there = segment::path(&self.dir, self.segment).symlink_metadata().map(key).ok();
        there.is_some() && there == self.file.metadata().map(key).ok()
    }

    /// Keeps a damaged journal beside the new one that begins with the next `open`. Returns where it lies.
    pub fn set_aside(dir: &Path, pins: &Path, at: Timestamp) -> Result<PathBuf, StoreError> {
        let stamp = at.format("%Y%m%dT%H%M%SZ");
        let aside = dir.with_file_name(format!("journal-damaged-{stamp}"));
        match std::fs::rename(dir, &aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::io("rename", dir)(error));
            }
            Ok(()) | Err(_) => {}
        }
        if let Err(StoreError::Pins { .. }) = anchor::forget(pins) {
            let kept = pins.with_file_name(format!("pins-damaged-{stamp}.json"));
            std::fs::rename(pins, &kept).map_err(StoreError::io("rename", pins))?;
        }
        Ok(aside)
    }

    /// Nothing follows its last line any more.
    fn end_segment(&mut self) -> Result<(), StoreError> {
        let ended = self.file.set_len(self.size).and_then(|()| self.file.sync_all());
        self.poison_on_error(ended, "sync")
    }

    fn check_poison(&self) -> Result<(), StoreError> {
        if self.poisoned { Err(StoreError::Poisoned) } else { Ok(()) }
    }

    fn poison_on_error(
        &mut self,
        result: io::Result<()>,
        doing: &'static str,
    ) -> Result<(), StoreError> {
        if result.is_err() {
            self.distrust();
        }
        result.map_err(StoreError::io(doing, &segment::path(&self.dir, self.segment)))
    }

    /// The record is safe whether or not its anchor is, so a failure here is not the append's; the next one tries again.
    fn anchor_sometimes(&mut self, at: Timestamp) {
        self.synced_since_anchor += 1;
        let is_due = self.anchored_at.is_none_or(|last| at - last >= ANCHOR_AFTER || at < last);
        if self.synced_since_anchor < ANCHOR_EVERY && !is_due {
            return;
        }
        self.anchored_at = Some(at);
        if let Err(error) = self.anchor() {
            tracing::warn!(error = &error as &dyn std::error::Error, "journal head not anchored");
        }
    }

    fn anchor(&mut self) -> Result<(), StoreError> {
        if self.head.n > 0 {
            anchor::write(&self.pins, &self.head)?;
        }
        self.synced_since_anchor = 0;
        Ok(())
    }
}

fn begin_segment(path: &Path, text: &[u8], dir: &Path) -> Result<File, StoreError> {
    let mut file = File::options()
        .create_new(true)
        .mode(0o600)
        .write(true)
        .open(path)
        .map_err(StoreError::io("create", path))?;
    file.write_all(text).and_then(|()| file.sync_all()).map_err(StoreError::io("write", path))?;
    sync_dir(dir)?;
    Ok(file)
}

#[cfg(test)]
mod tests;
