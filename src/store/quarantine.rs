//! Where everything goes that was taken away, each with a note on what it was. It never decides that something must go.

use super::{
    Kind, SEEN_MAX, StoreError, Unsynced,
    rename::{Moved, to_ours},
    spot::{Found, Spot, make_dir, safe_name},
};
use crate::model::{Digest, Key, RelPath};
use nix::{errno::Errno, fcntl, unistd};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// How much of a refused file is kept.
pub const KEEP_MAX: u64 = 1 << 20;
/// Names tried for one key and file before we give up.
const NAMES_MAX: u32 = 1000;

/// A folder of kept files: `<key>-<file name>` with the bytes, and the same with `.json` added for the note.
#[derive(Clone, Debug)]
pub struct Quarantine {
    dir: PathBuf,
}

/// The note beside a kept file; this is its format on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineEntry {
    /// The file's name in the quarantine.
    pub name: String,
    /// Where it lay in the repository.
    pub path: RelPath,
    pub key: Key,
    pub why: String,
    pub kind: Kind,
    pub size: u64,
    /// How many of its bytes are here; fewer than `size` means that it was cut.
    pub kept: u64,
    /// Over all its bytes; absent where nobody has read them all.
    pub digest: Option<Digest>,
    /// Set for what is moved whole instead of copied. It lies at `name`, or still here if file systems differ.
    pub left: Option<String>,
}

/// What goes on the note, and how much must be kept.
pub(super) struct Label<'a> {
    pub(super) path: &'a RelPath,
    pub(super) key: &'a Key,
    pub(super) why: &'a str,
    /// The digest, where the caller has just computed it.
    pub(super) digest: Option<&'a Digest>,
    pub(super) share: Share,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Somebody has judged it: `KEEP_MAX` bytes are enough.
    Excerpt,
    /// Nobody has read it yet: all of it.
    Whole,
}

/// How the bytes get into the quarantine.
enum Content {
    Copied(Spot),
    Moved,
    Nothing,
}

impl Quarantine {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Moves `on_disk` here, whatever it is. Asked again with the same key, it finishes and says the same.
    pub fn keep(
        &self,
        on_disk: &Path,
        path: &RelPath,
        why: &str,
        key: &Key,
    ) -> Result<QuarantineEntry, StoreError> {
        let missing = || StoreError::NoFreeName { path: on_disk.to_owned() };
        let (dir, name) = on_disk.parent().zip(on_disk.file_name()).ok_or_else(missing)?;
        let label = Label { path, key, why, digest: None, share: Share::Excerpt };
        self.keep_at(&Spot::at(dir, name)?, &label)
    }

    /// What was kept under this key, if anything. The newest, if there is more than one.
    pub fn find(&self, key: &Key, path: &RelPath) -> Result<Option<QuarantineEntry>, StoreError> {
        let mut found = None;
        for name in names(key, path) {
            let Some(note) = self.note(&name)? else { break };
            if note.as_ref().is_some_and(|note| note.key == *key && note.path == *path) {
                found = note;
            }
        }
        Ok(found)
    }

    pub(super) fn keep_at(
        &self,
        from: &Spot,
        label: &Label<'_>,
    ) -> Result<QuarantineEntry, StoreError> {
        let mut unsynced = Unsynced::default();
        let (content, entry) = self.keep_unsynced(from, label, &mut unsynced)?;
        unsynced.sync()?;
        self.release(from, &content, &entry)?;
        Ok(entry)
    }

    /// The same of what was read already. It is on disk when this returns.
    pub(super) fn keep_bytes(&self, bytes: &[u8], label: &Label<'_>) -> Result<(), StoreError> {
        make_dir(&self.dir)?;
        let (temp, mut to) = self.temp(label.key)?;
        to.write_all(bytes).map_err(temp.failed("write"))?;
        let mut unsynced = Unsynced::default();
        unsynced.note(&to, &temp.path())?;
        let size = bytes.len() as u64;
        let digest = Some(Digest::of(bytes));
        let entry = QuarantineEntry { size, kept: size, digest, ..describe(label) };
        self.publish(&Content::Copied(temp), entry, &mut unsynced)?;
        unsynced.sync()
    }

    /// As [`Self::keep_at`], but what was copied stays where it is until all is on disk.
    pub(super) fn keep_for_later(
        &self,
        from: &Spot,
        label: &Label<'_>,
        unsynced: &mut Unsynced,
    ) -> Result<(), StoreError> {
        let mut own = Unsynced::default();
        let (content, entry) = self.keep_unsynced(from, label, &mut own)?;
        match content {
            Content::Copied(_) => {
                own.leave(from.path());
                unsynced.join(own);
            }
            // Its note must be safe before it moves.
            Content::Moved | Content::Nothing => {
                own.sync()?;
                self.release(from, &content, &entry)?;
            }
        }
        Ok(())
    }

    fn keep_unsynced(
        &self,
        from: &Spot,
        label: &Label<'_>,
        unsynced: &mut Unsynced,
    ) -> Result<(Content, QuarantineEntry), StoreError> {
        make_dir(&self.dir)?;
        let Some((content, entry)) = self.take_in(from, label, unsynced)? else {
            let gone = || from.failed("keep")(io::Error::from(io::ErrorKind::NotFound));
            let entry = self.find(label.key, label.path)?.ok_or_else(gone)?;
            return Ok((Content::Nothing, entry));
        };
        let entry = self.publish(&content, entry, unsynced)?;
        Ok((content, entry))
    }

    /// Copies what can be copied to a temporary file, and describes it. `None` if nothing is there.
    fn take_in(
        &self,
        from: &Spot,
        label: &Label<'_>,
        unsynced: &mut Unsynced,
    ) -> Result<Option<(Content, QuarantineEntry)>, StoreError> {
        let mut entry = describe(label);
        let content = match from.look()? {
            Found::Absent => return Ok(None),
            Found::Plain { file, size } if size <= SEEN_MAX || label.share == Share::Excerpt => {
                entry.size = size;
                let copy = self.copy_in(from, file, label.share, &mut entry, unsynced)?;
                Content::Copied(copy)
            }
            Found::Plain { size, .. } | Found::Sealed { size } => moved(from, size, &mut entry),
            Found::Other(Kind::Directory) => {
                entry.kind = Kind::Directory;
                moved(from, 0, &mut entry)
            }
            Found::Other(Kind::Symlink) => {
                Content::Copied(self.copy_link(from, &mut entry, unsynced)?)
            }
            Found::Other(kind) => {
                entry.kind = kind;
                Content::Nothing
            }
        };
        Ok(Some((content, entry)))
    }

    fn copy_in(
        &self,
        from: &Spot,
        file: File,
        share: Share,
        entry: &mut QuarantineEntry,
        unsynced: &mut Unsynced,
    ) -> Result<Spot, StoreError> {
        let limit = if share == Share::Whole { u64::MAX } else { KEEP_MAX };
        let (temp, mut to) = self.temp(&entry.key)?;
        let mut hasher = Sha256::new();
        let mut file = file.take(limit);
        let mut piece = vec![0; 64 << 10];
        loop {
            let count = file.read(&mut piece).map_err(from.failed("read"))?;
            if count == 0 {
                break;
            }
            hasher.update(&piece[..count]);
            to.write_all(&piece[..count]).map_err(temp.failed("write"))?;
            entry.kept += count as u64;
        }
        unsynced.note(&to, &temp.path())?;
        entry.size = entry.size.max(entry.kept);
        if entry.kept == entry.size {
            entry.digest = Some(Digest::finish(hasher));
        }
        Ok(temp)
    }

    /// Of a link its target's name is kept.
    fn copy_link(
        &self,
        from: &Spot,
        entry: &mut QuarantineEntry,
        unsynced: &mut Unsynced,
    ) -> Result<Spot, StoreError> {
        let target = fcntl::readlinkat(from.dir(), from.name()).map_err(from.failed("read"))?;
        let (temp, mut to) = self.temp(&entry.key)?;
        to.write_all(target.as_bytes()).map_err(temp.failed("write"))?;
        unsynced.note(&to, &temp.path())?;
        entry.kind = Kind::Symlink;
        entry.size = target.len() as u64;
        entry.kept = entry.size;
        Ok(temp)
    }

    fn temp(&self, key: &Key) -> Result<(Spot, File), StoreError> {
        let temp = Spot::at(&self.dir, format!(".agency-tmp-{}", safe_name(key.as_str())))?;
        temp.unlink()?;
        let file = temp.create(0o600)?;
        Ok((temp, file))
    }

    /// The note comes last for copies, and first for what is moved: at any crash the thing itself or its note still leads here.
    fn publish(
        &self,
        content: &Content,
        mut entry: QuarantineEntry,
        unsynced: &mut Unsynced,
    ) -> Result<QuarantineEntry, StoreError> {
        let fresh = self.choose_name(&mut entry)?;
        let place = Spot::at(&self.dir, &entry.name)?;
        match content {
            // Over an earlier copy too: a power failure may have left its name and not its bytes.
            Content::Copied(temp) => {
                if to_ours(temp, &place)? != Moved::Done {
                    return Err(StoreError::InTheWay { path: place.path() });
                }
                place.note_dir(unsynced)?;
            }
            // Without a note it is a copy that a crash cut off; its original is still where it was.
            Content::Moved if fresh => place.unlink()?,
            Content::Moved | Content::Nothing => {}
        }
        if fresh {
            let note = serde_json::to_vec_pretty(&entry).expect("a note has only string keys");
            self.write_note(&place, &note, unsynced)?;
        }
        Ok(entry)
    }

    fn write_note(
        &self,
        place: &Spot,
        note: &[u8],
        unsynced: &mut Unsynced,
    ) -> Result<(), StoreError> {
        let named = |ending: &str| {
            let mut name = place.name().to_owned();
            name.push(ending);
            place.beside(name)
        };
        let (whole, temp) = (named(".json"), named(".json.tmp"));
        temp.unlink()?;
        let mut file = temp.create(0o600)?;
        file.write_all(note).map_err(temp.failed("write"))?;
        unsynced.note(&file, &whole.path())?;
        if to_ours(&temp, &whole)? != Moved::Done {
            return Err(StoreError::InTheWay { path: whole.path() });
        }
        place.note_dir(unsynced)
    }

    /// False if this very thing has its note already.
    fn choose_name(&self, entry: &mut QuarantineEntry) -> Result<bool, StoreError> {
        for name in names(&entry.key, &entry.path) {
            entry.name = name;
            match self.note(&entry.name)? {
                None => return Ok(true),
                Some(Some(note)) if note == *entry && !self.holds_moved(entry)? => {
                    return Ok(false);
                }
                Some(_) => {}
            }
        }
        Err(StoreError::NoFreeName { path: self.dir.join(&entry.name) })
    }

    fn holds_moved(&self, entry: &QuarantineEntry) -> Result<bool, StoreError> {
        Ok(entry.left.is_some() && Spot::at(&self.dir, &entry.name)?.exists()?)
    }

    /// `Some(None)` is a note that cannot be read; its name counts as taken.
    fn note(&self, name: &str) -> Result<Option<Option<QuarantineEntry>>, StoreError> {
        let path = self.note_path(name);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).ok())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io("read", &path)(error)),
        }
    }

    fn note_path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.json"))
    }

    /// Takes the original away, now that its note is safe.
    fn release(
        &self,
        from: &Spot,
        content: &Content,
        entry: &QuarantineEntry,
    ) -> Result<(), StoreError> {
        match content {
            Content::Copied(_) | Content::Nothing => from.unlink(),
            Content::Moved => {
                let place = Spot::at(&self.dir, &entry.name)?;
                match to_ours(from, &place)? {
                    Moved::Done => place.sync_dir().and_then(|()| from.sync_dir()),
                    Moved::Apart => remove_empty(from),
                    Moved::Gone => Ok(()),
                    Moved::Taken => Err(StoreError::InTheWay { path: place.path() }),
                }
            }
        }
    }
}

/// An empty directory holds nothing worth keeping; all else stays where the note says.
fn remove_empty(from: &Spot) -> Result<(), StoreError> {
    match unistd::unlinkat(from.dir(), from.name(), unistd::UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR | Errno::ENOENT) => Ok(()),
        Err(errno) => Err(from.failed("remove")(errno)),
    }
}

fn describe(label: &Label<'_>) -> QuarantineEntry {
    QuarantineEntry {
        name: String::new(),
        path: label.path.clone(),
        key: label.key.clone(),
        why: label.why.to_owned(),
        kind: Kind::File,
        size: 0,
        kept: 0,
        digest: label.digest.cloned(),
        left: None,
    }
}

fn moved(from: &Spot, size: u64, entry: &mut QuarantineEntry) -> Content {
    entry.size = size;
    entry.left = Some(from.path().to_string_lossy().into_owned());
    Content::Moved
}

fn names(key: &Key, path: &RelPath) -> impl Iterator<Item = String> {
    let first = format!("{}-{}", safe_name(key.as_str()), safe_name(path.file_name()));
    (1..=NAMES_MAX).map(move |n| if n == 1 { first.clone() } else { format!("{first}-{n}") })
}
