//! Files that have the name of a ledger file and hold something else (LG-02). While there is one, the loop waits and nothing is
//! written. This file only finds and describes them.

use super::docs::{Docs, FILES};
use super::hold::notice;
use super::{FEATURES, Ledger, PROGRESS, REVIEWS};
use crate::engine::Notice;
use crate::model::{Bytes, CommitId, FileState, Rejection, RelPath};

/// One refused file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Foreign {
    problem: Rejection,
    /// Distinguishes one version of the file from the next.
    version: String,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    OwnersTree,
    Commit { branch: String, commit: CommitId },
}

/// The first file in the owner's tree that is there and is not the ledger's: of another shape, not JSON, or not a plain file.
pub(super) fn in_tree(ledger: &Ledger) -> Option<Foreign> {
    // During a merge or rebase of the owner's the files hold conflict markers.
    if ledger.index.checkout.as_ref().is_some_and(|checkout| checkout.busy.is_some()) {
        return None;
    }
    FILES.into_iter().find_map(|name| {
        let (problem, version) = match ledger.index.file(name)? {
            FileState::Absent => return None,
            FileState::Whole(file) => {
                let bytes = Bytes(file.bytes.to_vec());
                (problem_of(name, &bytes)?, file.digest.short().to_owned())
            }
            FileState::Unreadable(odd) => {
                let file = RelPath::fixed(name);
                (Rejection::new("DM-04", &file, odd.found.clone(), &odd.wanted), odd.found.clone())
            }
        };
        Some(Foreign { problem, version, place: Place::OwnersTree })
    })
}

/// A file that is there and was not read yet: it is empty or stops in the middle. It may be somebody's, so nothing starts beside it.
pub(super) fn unread(ledger: &Ledger) -> Option<&'static str> {
    FILES.into_iter().find(|name| !ledger.index.was_read(name))
}

/// How the owner goes on with `command`.
pub(super) fn unread_refusal(name: &str, command: &str) -> String {
    format!(
        "`{name}` is empty or stops in the middle. agency leaves it alone. Complete it or move it away, then: {command} (LG-02)"
    )
}

/// The same for the files of a commit of the main branch.
pub(super) fn in_commit(
    ledger: &Ledger,
    commit: &CommitId,
    problems: &[Rejection],
) -> Option<Foreign> {
    let place = Place::Commit { branch: ledger.main().to_owned(), commit: commit.clone() };
    let problem = problems.first()?.clone();
    Some(Foreign { problem, version: commit.to_string(), place })
}

fn problem_of(name: &str, bytes: &Bytes) -> Option<Rejection> {
    let (docs, problems) = alone(name, bytes);
    problems.into_iter().next().or_else(|| docs.features?.unusable())
}

/// One document by itself.
pub(super) fn alone(name: &str, bytes: &Bytes) -> (Docs, Vec<Rejection>) {
    let only = |wanted: &str| Some(bytes).filter(|_| name == wanted);
    Docs::read([only(PROGRESS), only(REVIEWS), only(FEATURES)])
}

impl Foreign {
    /// What is wrong, where, and how the owner goes on with `command`.
    pub(super) fn refusal(&self, command: &str) -> String {
        let Rejection { file, found, wanted, .. } = &self.problem;
        let wanted = wanted.trim_end_matches("; this file is left alone");
        format!(
            "{}: {found}; wanted {wanted}. agency leaves it alone. {}: {command} ({})",
            self.sentence(),
            self.remedy(file),
            self.problem.rule
        )
    }

    /// For `agency status`.
    pub(super) fn sentence(&self) -> String {
        let file = &self.problem.file;
        // Of another shape, or the ledger's with a mistake in it.
        let what = if self.problem.rule.as_str() == "LG-02" {
            "is not a ledger file"
        } else {
            "cannot be used"
        };
        match &self.place {
            Place::OwnersTree => format!("`{file}` {what}"),
            Place::Commit { branch, .. } => format!("`{file}` on `{branch}` {what}"),
        }
    }

    /// What is wrong and where.
    pub(super) fn found(&self) -> String {
        format!("{}: {}", self.sentence(), self.problem.found)
    }

    /// What the owner does before they use `command`.
    pub(super) fn way_out(&self, command: &str) -> String {
        format!("{}: {command}", self.remedy(&self.problem.file))
    }

    fn remedy(&self, file: &RelPath) -> String {
        match &self.place {
            Place::OwnersTree if self.problem.rule.as_str() == "LG-17" => {
                format!(
                    "Correct it (`agency ledger adopt` writes ids that are missing) or move it away (git mv {file} old-{file}), then"
                )
            }
            Place::OwnersTree => {
                format!("Move it away (git mv {file} old-{file}, or mv) or correct it, then")
            }
            Place::Commit { branch, .. } => {
                format!("Commit its removal or a corrected file on `{branch}`, then")
            }
        }
    }

    /// Stops the loop: nothing is written beside a file that was refused.
    pub(super) fn reason(&self) -> Notice {
        let file = &self.problem.file;
        let mut reason = notice("LG-02", format!("{file} {}", self.version), self.found());
        reason.did = "The ledger's loop is held. No file was changed.".to_owned();
        reason.wont = format!(
            "agency never writes, replaces, commits or removes a file that it refused. {}: agency resume",
            self.remedy(file)
        );
        reason.evidence = vec![self.problem.to_string()];
        reason
    }
}
