//! What this repository looks like to people: a small file that readers read. Nothing depends on it.

use super::Workspace;
use crate::clock;
use crate::model::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RepoStatus {
    pub path: PathBuf,
    pub held: bool,
    /// Why nothing happens here at all.
    #[serde(default)]
    pub closed: Option<String>,
    pub protocols: Vec<ProtocolStatus>,
    #[serde(default)]
    pub notes: Vec<String>,
    /// The process that wrote this.
    #[serde(default)]
    pub pid: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProtocolStatus {
    pub name: String,
    pub summary: String,
    #[serde(default)]
    pub held: Option<String>,
    #[serde(default)]
    pub detail: Value,
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
        std::fs::write(&temporary, text)?;
        std::fs::rename(temporary, folder.join("status.json"))
    }
}

impl Workspace {
    pub(super) fn write_status(&mut self) {
        let text = serde_json::to_vec_pretty(&self.status()).expect("BUG: a status is plain data");
        let digest = Digest::of(&text);
        if self.written_status.as_ref() != Some(&digest) {
            let written = RepoStatus::write_text(&text, &self.hands.places.folder);
            self.written_status = written.is_ok().then_some(digest);
            self.note_state_dir(written);
        }
    }

    pub(crate) fn status(&self) -> RepoStatus {
        let now = clock::now();
        let protocols: Vec<_> = self
            .slots
            .iter()
            .map(|slot| {
                let status = slot.protocol.status(now);
                let stuck = self.stuck.condition(slot.name()).map(|held| held.reason());
                let (summary, held, detail) =
                    (status.summary, stuck.or(status.held), status.detail);
                ProtocolStatus { name: slot.name().to_owned(), summary, held, detail }
            })
            .collect();
        RepoStatus {
            path: self.hands.places.root.clone(),
            held: self.closed.is_some() || protocols.iter().any(|status| status.held.is_some()),
            closed: self.closed.clone(),
            protocols,
            notes: self.notes.clone(),
            pid: std::process::id(),
        }
    }
}
