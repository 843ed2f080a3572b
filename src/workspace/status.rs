//! What this repository looks like to people: a small file that readers read. Nothing depends on it.

use super::stuck::RESOLVE;
use super::{Pause, Workspace};
use crate::clock;
use crate::model::{Condition, Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A status takes up whole blocks of the disk, with room for a sentence more: it is overwritten where the disk is full.
const BLOCK: usize = 4096;
const SPARE: usize = 1024;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepoStatus {
    pub path: PathBuf,
    pub held: bool,
    /// Why nothing happens here at all.
    #[serde(default)]
    pub closed: Option<String>,
    /// The owner lets no run start here.
    #[serde(default)]
    pub paused: Option<Pause>,
    pub protocols: Vec<ProtocolStatus>,
    #[serde(default)]
    pub notes: Vec<String>,
    /// Agents that cannot be started because their programs are not there, each with the fix.
    #[serde(default)]
    pub missing: Vec<String>,
    /// The process that wrote this.
    #[serde(default)]
    pub pid: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProtocolStatus {
    pub name: String,
    #[serde(default)]
    pub condition: ConditionStatus,
    pub summary: String,
    #[serde(default)]
    pub held: Option<String>,
    #[serde(default)]
    pub detail: Value,
}

/// A condition as views show it (DM-16, DESIGN §10).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionStatus {
    pub kind: Kind,
    pub reason: String,
    /// When a wait ends by itself, if that is known.
    pub until: Option<Timestamp>,
    pub run: Option<String>,
    /// The command that ends it, where only the owner can.
    pub resolve: Option<String>,
    /// Of the run: who works on what, since when.
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    pub task: Option<String>,
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// As the run's own files say; added by whoever reads them.
    #[serde(default)]
    pub last_output: Option<Timestamp>,
    #[serde(default)]
    pub trouble: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Working,
    Waiting,
    Held,
    Frozen,
    Idle,
    Done,
}

impl Kind {
    pub const ALL: [Self; 6] =
        [Self::Working, Self::Waiting, Self::Held, Self::Frozen, Self::Idle, Self::Done];

    pub fn word(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Frozen => "frozen",
            Self::Idle => "idle",
            Self::Done => "done",
        }
    }

    /// The owner must act before anything happens.
    pub fn needs_owner(self) -> bool {
        matches!(self, Self::Held | Self::Frozen)
    }

    fn of(condition: &Condition) -> Self {
        match condition {
            Condition::Working(_) => Self::Working,
            Condition::Waiting(_) => Self::Waiting,
            Condition::Held { .. } => Self::Held,
            Condition::Frozen { .. } => Self::Frozen,
            Condition::Idle { .. } => Self::Idle,
            Condition::Done { .. } => Self::Done,
        }
    }
}

impl From<&Condition> for ConditionStatus {
    fn from(condition: &Condition) -> Self {
        let run = condition.run();
        Self {
            reason: condition.reason(),
            until: condition.until(),
            run: run.map(|run| run.run.to_string()),
            resolve: condition.resolve().map(str::to_owned),
            agent: run.map(|run| run.agent.clone()),
            task: run.map(|run| run.task.clone()),
            since: run.and_then(|run| run.since),
            last_output: None,
            trouble: run.and_then(|run| run.trouble.clone()),
            kind: Kind::of(condition),
        }
    }
}

impl Default for ConditionStatus {
    /// For what an older daemon wrote.
    fn default() -> Self {
        Self::from(&Condition::waits_for("no daemon of this version has looked yet"))
    }
}

impl RepoStatus {
    /// `None` when the repository was never at work here.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join("status.json")).ok()?).ok()
    }

    /// Lost with a crash and written again by the next daemon: no need to sync it.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        Self::write_text(&serde_json::to_vec_pretty(self)?, folder)
    }

    fn write_text(text: &[u8], folder: &Path) -> std::io::Result<()> {
        let temporary = folder.join("status.json.tmp");
        let mut text = text.to_vec();
        let room = (text.len() + SPARE).next_multiple_of(BLOCK);
        text.resize(room, b' ');
        let mut file = OpenOptions::new();
        file.write(true).create(true).truncate(true).mode(0o600);
        file.open(&temporary)?.write_all(&text)?;
        std::fs::rename(temporary, folder.join("status.json"))
    }

    /// Over the old text, which has its room on the disk: for a disk that gives no more. A reader may see half of it.
    fn overwrite(&self, folder: &Path) -> std::io::Result<()> {
        let file = OpenOptions::new().write(true).open(folder.join("status.json"))?;
        let room = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        let mut text = serde_json::to_vec_pretty(self)?;
        if text.len() > room {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        text.resize(room, b' ');
        file.write_all_at(&text, 0)
    }
}

impl Workspace {
    pub(super) fn write_status(&mut self) {
        self.look_for_programs();
        let status = self.status();
        self.tell_frozen(&status.protocols);
        let text = serde_json::to_vec_pretty(&status).expect("BUG: a status is plain data");
        let digest = Digest::of(&text);
        if self.written_status.as_ref() != Some(&digest) {
            let written = RepoStatus::write_text(&text, &self.runner.places.folder);
            self.written_status = written.is_ok().then_some(digest);
            if let Err(error) = &written {
                self.show_full_disk(status, error);
            }
            self.note_state_dir(written);
        }
    }

    /// What happens here cannot be recorded, which is what people must see now.
    fn show_full_disk(&self, mut status: RepoStatus, error: &std::io::Error) {
        let folder = &self.runner.places.folder;
        let why = format!("`{}` cannot be written: {error}; {RESOLVE}", folder.display());
        status.held = true;
        status.notes.insert(0, why);
        if let Err(error) = status.overwrite(folder) {
            tracing::warn!(%error, "the status that people see is an old one");
        }
    }

    pub(crate) fn status(&self) -> RepoStatus {
        let now = clock::now();
        let conditions = self.conditions(now);
        let protocols: Vec<_> = self
            .slots
            .iter()
            .zip(&conditions)
            .map(|(slot, (name, condition))| {
                let status = slot.protocol.status(now);
                let (summary, held, detail) = (status.summary, status.held, status.detail);
                let (name, condition) = ((*name).to_owned(), self.shown(condition));
                ProtocolStatus { name, condition, summary, held, detail }
            })
            .collect();
        let waits = conditions.iter().any(|(_, condition)| condition.needs_owner());
        RepoStatus {
            path: self.runner.places.root.clone(),
            held: self.closed.is_some() || waits,
            closed: self.closed.clone(),
            paused: self.pause.clone(),
            protocols,
            notes: self.notes.clone(),
            missing: self.programs.missing.clone(),
            pid: std::process::id(),
        }
    }
}
