//! The folder of one run: its files, its lock, and how they are written. It decides nothing about the run.

use crate::exit::ExitRecord;
use crate::run_file::RunFile;
use crate::tree::ProcessId;
use crate::usage::UsageFile;
use agency_host::clock::wall;
use agency_host::read::open_plain;
use agency_protocols::model::{Digest, SAID_MAX, Timestamp};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The largest of our own JSON files that is read: `run.json` may hold a whole prompt in its argv.
const JSON_MAX: u64 = 4 * 1024 * 1024;
const JSON_USUAL: usize = 4 * 1024;

/// The folder of the next run, made before it is known. No run is called so.
pub const AHEAD: &str = ".next";

/// The name of the mark on a run that exited with 0 and left nothing of what was expected; also that outcome's word.
pub const NO_ARTIFACT: &str = "no-artifact";

/// What an agent is told; empty for a command of the owner's.
pub const PROMPT: &str = "prompt.md";

/// What is to be run. Without it a folder is no run.
pub const INTENT: &str = "run.json";

/// The mark of a run that somebody was started for.
pub const STARTED: &str = "started";

/// Whose lock is the run's.
const ALIVE: &str = "alive";

/// How it ended.
pub const EXIT: &str = "exit.json";

/// What its output said.
pub const USAGE: &str = "usage.json";

/// Files of the owner's tools that it changed.
pub const CHANGED: &str = "changed.json";

/// The mark of a run whose end is known for good.
pub const SEEN: &str = "seen";

/// The last message of an agent that may not write, as it said it.
const SAID: &str = "said.md";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(PathBuf);

/// The text of `alive`: who holds the lock. For people, and for signals that are checked against the start time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    pub shim: ProcessId,
    pub child: Option<ProcessId>,
    pub at: Timestamp,
    /// Pids and start times mean nothing after a reboot.
    pub boot: String,
}

/// `stop.json`: somebody wants the run to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    pub why: String,
    pub grace_s: u64,
}

/// The run's lock, held. A copy that a fork made cannot keep it: dropping unlocks, not only closes.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file right after this frees the lock as well.
        self.0.unlock().ok();
    }
}

impl Lock {
    /// Later texts are longer than earlier ones, so a reader never sees a mix.
    pub fn write(&self, alive: &Alive) -> io::Result<()> {
        let text = serde_json::to_vec(alive)?;
        self.0.write_all_at(&text, 0)?;
        self.0.set_len(text.len() as u64)
    }

    /// What the holder touches to show that it is not stuck: the time of the text.
    pub fn beat(&self) -> io::Result<File> {
        self.0.try_clone()
    }
}

impl Folder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn prompt(&self) -> PathBuf {
        self.0.join(PROMPT)
    }

    /// The newest output; what came before it is in the same name with `.1`.
    pub fn stdout(&self) -> PathBuf {
        self.0.join("stdout.log")
    }

    pub fn stderr(&self) -> PathBuf {
        self.0.join("stderr.log")
    }

    pub fn intent(&self) -> io::Result<RunFile> {
        self.read(INTENT)
    }

    /// How the run ended, once it has.
    pub fn exit(&self) -> Option<io::Result<ExitRecord>> {
        found(self.read(EXIT))
    }

    /// What its output said, as far as the daemon has read it.
    pub fn usage(&self) -> Option<UsageFile> {
        self.read(USAGE).ok()
    }

    pub fn changed(&self) -> Vec<String> {
        self.read(CHANGED).unwrap_or_default()
    }

    /// The last message of a run that could not write, once it has ended.
    pub fn said(&self) -> Option<String> {
        let mut text = String::new();
        let most = SAID_MAX as u64;
        open_plain(&self.0.join(SAID)).ok()?.take(most).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// As [`Self::publish_json_lazily`]: it can be read from the output again.
    pub fn keep_said(&self, text: &str) -> io::Result<()> {
        self.publish(SAID, text.as_bytes())
    }

    pub fn stop(&self) -> Option<io::Result<Stop>> {
        found(self.read("stop.json"))
    }

    pub fn alive(&self) -> Option<Alive> {
        self.read(ALIVE).ok()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.join(name).symlink_metadata().is_ok()
    }

    /// A shim was started for it, whatever became of that.
    pub fn was_started(&self) -> bool {
        self.has(STARTED) || self.0.join(ALIVE).metadata().is_ok_and(|meta| meta.len() > 0)
    }

    /// Its end was known for good before that. The mark of this is the last thing that came into the folder, or nearly.
    pub fn was_done_with_before(&self, before: Timestamp) -> bool {
        self.stood_before(before) && self.has(SEEN)
    }

    /// Nothing came or went here since then.
    pub fn stood_before(&self, before: Timestamp) -> bool {
        let changed = self.0.symlink_metadata().and_then(|meta| meta.modified());
        changed.is_ok_and(|at| Timestamp::from(at) < before)
    }

    pub fn last_beat(&self) -> Option<SystemTime> {
        self.0.join(ALIVE).metadata().and_then(|meta| meta.modified()).ok()
    }

    /// Where the shim's own complaints go.
    pub fn complaints(&self) -> io::Result<File> {
        private().append(true).create(true).open(self.0.join("shim.log"))
    }

    /// `None` while somebody else holds it.
    pub fn try_lock(&self) -> io::Result<Option<Lock>> {
        let path = self.0.join(ALIVE);
        let file = private().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }

    /// For a run that is not known yet: the folder, with what every run has in it, still empty and under its first name.
    pub fn make_ahead(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let files = [PROMPT, INTENT, STARTED, EXIT].map(temporary);
        files.iter().map(String::as_str).chain([ALIVE]).try_for_each(|name| {
            private().append(true).create(true).open(self.0.join(name)).map(drop)
        })
    }

    /// For every reader whole or not at all, and on disk before this returns.
    pub fn publish_json(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.publish(name, &json(value)?)?;
        File::open(self.0.join(name))?.sync_all()?;
        File::open(&self.0)?.sync_all()
    }

    /// For every reader whole or not at all. A power failure soon after may take it, which nobody who waits for it minds:
    /// - an intent is in the journal, and what is missing or cannot be read of it is written again (`LocalExecutor`);
    /// - a record of an end that nobody has journalled: the run is lost then, as if the power had failed a moment earlier.
    ///   A run's own files are no more on disk than its record, so believing that record would be wrong;
    /// - what the output said can be read from it again.
    pub fn publish_json_lazily(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        self.publish(name, &json(value)?)
    }

    /// As [`Self::publish_json_lazily`]; the digest of what was written.
    pub fn publish_record(&self, record: &ExitRecord) -> io::Result<Digest> {
        let bytes = json(record)?;
        self.publish(EXIT, &bytes)?;
        Ok(Digest::of(&bytes))
    }

    /// The digest of the record that is there.
    pub fn record_digest(&self) -> Option<Digest> {
        let mut bytes = Vec::with_capacity(JSON_USUAL);
        let file = open_plain(&self.0.join(EXIT)).ok()?;
        file.take(JSON_MAX).read_to_end(&mut bytes).ok()?;
        Some(Digest::of(&bytes))
    }

    /// A file that is not what its writer left: kept under another name, so that it counts for nothing.
    pub fn set_aside(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.0.join(format!("forged-{}-{name}", wall().timestamp_millis()));
        std::fs::rename(self.0.join(name), &path)?;
        Ok(path)
    }

    /// As [`Self::publish_json_lazily`].
    pub fn publish(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.0.join(temporary(name));
        let mut file = private().write(true).create(true).truncate(false).open(&temporary)?;
        // One that was made ahead is empty. To cut what is empty already would have ext4 bring the bytes to disk at the close.
        if file.metadata()?.len() > 0 {
            file.set_len(0)?;
        }
        file.write_all(bytes)?;
        std::fs::rename(&temporary, self.0.join(name))
    }

    /// What tells how it ended and what it cost.
    pub fn records(&self) -> [PathBuf; 2] {
        [EXIT, USAGE].map(|name| self.0.join(name))
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        let mut text = Vec::with_capacity(JSON_USUAL);
        open_plain(&self.0.join(name))?.take(JSON_MAX).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

fn temporary(name: &str) -> String {
    format!("{name}.tmp")
}

fn json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    Ok(text)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

fn found<T>(read: io::Result<T>) -> Option<io::Result<T>> {
    match read {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => None,
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_has_one_holder_and_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let held = folder.try_lock().unwrap().expect("nobody holds it yet");
        assert!(folder.try_lock().unwrap().is_none());
        drop(held);
        assert!(folder.try_lock().unwrap().is_some());
        assert!(!folder.was_started(), "a probe of the lock must not look like a start");
    }

    #[test]
    fn what_is_not_there_is_told_from_what_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        assert!(folder.exit().is_none());
        folder.publish("exit.json", b"{ half").unwrap();
        assert!(folder.exit().unwrap().is_err());
        nix::unistd::mkfifo(&dir.path().join("stop.json"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(folder.stop().unwrap().is_err(), "a pipe must not hang the reader");
    }

    #[test]
    fn a_published_file_replaces_the_old_one_whole() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path());
        let stop = |why: &str| Stop { why: why.to_owned(), grace_s: 1 };
        folder.publish_json("stop.json", &stop("a much longer first reason")).unwrap();
        folder.publish_json("stop.json", &stop("second")).unwrap();
        assert_eq!(folder.stop().unwrap().unwrap(), stop("second"));
        assert!(!folder.has("stop.json.tmp"));
    }
}
