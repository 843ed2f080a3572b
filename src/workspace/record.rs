//! What the workspace writes into its journal, and how it reads it again. The journal itself knows no kinds.

use super::Pause;
use crate::clock;
use crate::git::Pin;
use crate::model::{Command, Decision, Failure, Key, Keyed, RunId, TreeRef};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "kebab-case")]
pub(super) enum Entry {
    /// A daemon or a command began to work on this journal.
    Opened {
        version: String,
        pid: u32,
        /// Between two opens with the same one the machine was not down.
        #[serde(default)]
        boot: String,
    },
    Decided {
        protocol: String,
        decision: Decision,
    },
    Done {
        key: Key,
    },
    Failed {
        key: Key,
        failure: Failure,
    },
    Leased {
        protocol: String,
        tree: TreeRef,
        key: Key,
    },
    /// The files of all effects that were done up to this record are on disk.
    Settled {
        upto: u64,
    },
    /// Somebody gave a command: who, what and why.
    Asked {
        command: Command,
    },
    /// A look at everything came through as far as here.
    Proved {},
    /// The end of a run is known for good.
    Ran {
        run: RunId,
        outcome: String,
    },
    /// The repository's own settings count as this digest says.
    Trusted {
        digest: Option<String>,
        by: String,
    },
    /// What git runs, includes and obeys here counts as it was then (SE-01).
    Pinned {
        pin: Pin,
        by: String,
    },
    /// No run is started until `Unpaused`.
    Paused(Pause),
    Unpaused {
        by: String,
    },
    Snapshot(Snapshot),
}

/// Everything that the journal before it said and that still counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) protocols: BTreeMap<String, Remembered>,
    pub(super) leases: Vec<(TreeRef, String)>,
    /// Runs that were started and whose end is not known.
    #[serde(default)]
    pub(super) running: Vec<RunId>,
    #[serde(default)]
    pub(super) pin: Option<Pin>,
    #[serde(default)]
    pub(super) pause: Option<Pause>,
    /// The numbers of the last requests, oldest first.
    #[serde(default)]
    pub(super) requests: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Remembered {
    pub(super) memory: BTreeMap<String, Value>,
    /// Effects that are journalled and not finished.
    pub(super) open: Vec<Keyed>,
}

/// `{"kind":"done","body":{…}}`. Kind and body are parts of that text, which is written once.
pub(super) struct EntryText(String);

impl EntryText {
    pub(super) fn split(&self) -> (&str, &str) {
        let inner = self.0.strip_prefix(r#"{"kind":""#).and_then(|text| text.strip_suffix('}'));
        let parts = inner.and_then(|text| text.split_once(r#"","body":"#));
        parts.expect("BUG: an entry has a kind and a body")
    }
}

impl Entry {
    pub(super) fn opened() -> Self {
        let (version, pid) = (env!("CARGO_PKG_VERSION").to_owned(), std::process::id());
        Self::Opened { version, pid, boot: clock::boot_id() }
    }

    /// As the journal takes it.
    pub(super) fn text(&self) -> EntryText {
        EntryText(serde_json::to_string(self).expect("BUG: an entry is plain data"))
    }

    pub(super) fn join(kind: &str, body: &Value) -> Result<Self, serde_json::Error> {
        Self::deserialize(serde_json::json!({ "kind": kind, "body": body }))
    }
}
