//! Records of an outbox that are lost or cannot be read: their bytes are kept aside, and the owner is told (ES-02). It guesses
//! nothing about what they said.

use super::outbox::{is_id, read};
use crate::model::{Cause, Escalation, RuleId, Severity};
use std::fs;
use std::path::{Path, PathBuf};

const ASIDE: &str = "damaged";

/// What became of a record's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Unreadable,
    /// It was removed, and the daemon wrote it again.
    PutBack,
}

/// Files with a record's name that hold no record. One that cannot be opened may be well on a better day.
pub(super) fn find(outbox: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(outbox).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| is_damaged(path)).collect()
}

pub(super) fn is_damaged(file: &Path) -> bool {
    let stem = file.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"));
    stem.is_some_and(is_id) && read(file).is_none() && fs::read(file).is_ok()
}

/// Moves a file into `damaged/` and says where it lies now. `None`: it is gone, or stays where it is.
pub(super) fn set_aside(file: &Path) -> Option<PathBuf> {
    let aside = file.parent()?.join(ASIDE);
    crate::store::private_dir(&aside).ok()?;
    let name = file.file_name()?.to_str()?;
    let mut names = (1..).map(|n| if n == 1 { name.to_owned() } else { format!("{name}.{n}") });
    let kept = names.find_map(|name| Some(aside.join(name)).filter(|path| !path.exists()))?;
    fs::rename(file, &kept).ok()?;
    tracing::error!(file = %file.display(), kept = %kept.display(), "a record of the outbox cannot be read");
    Some(kept)
}

/// `file`: where the bytes lie now.
pub(super) fn escalation(file: &Path, loss: Loss) -> Escalation {
    let path = file.display();
    let (summary, what, did) = match loss {
        Loss::Unreadable => (
            format!("a message in the outbox cannot be read: `{path}`"),
            format!(
                "`{path}` is not a record of agency. It may have been a message that never reached you."
            ),
            "The daemon moved the file there and kept its bytes. What is still wrong is shown by `agency status`.",
        ),
        Loss::PutBack => (
            format!("a message was removed from the outbox: `{path}`"),
            format!("Another program removed `{path}`, an open message to you."),
            "The daemon wrote the message again from memory.",
        ),
    };
    Escalation {
        cause: Cause {
            protocol: "agency".to_owned(),
            rule: RuleId::new("ES-02"),
            subject: path.to_string(),
            epoch: 0,
        },
        severity: Severity::Warning,
        holds: false,
        summary,
        what,
        did: did.to_owned(),
        wont: "The daemon does not guess what a damaged message said.".to_owned(),
        resolve: "agency status (shows what is held now; `agency ack ID` closes this)".to_owned(),
        options: Vec::new(),
        evidence: vec![path.to_string()],
        everywhere: false,
    }
}
