//! What the shell tells the pure part about the world. Facts are never decisions.

use super::{BlobId, CommitId, Digest, Now, RelPath, Timestamp, TreeId};
use chrono::TimeDelta;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// One watched file as it was when we last looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSeen {
    pub path: RelPath,
    pub state: FileState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    Absent,
    /// Boxed, both: of the files that a protocol asks for most are absent, in every repository.
    Whole(Box<WholeFile>),
    Unreadable(Box<Unreadable>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WholeFile {
    pub bytes: Arc<[u8]>,
    pub digest: Digest,
    /// When the file was written, by its own stamp.
    pub written: Timestamp,
    /// When we first saw these bytes.
    pub seen: Now,
}

/// A file that no safe read accepts (DM-04): a link, a pipe, a device, a second name, too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What it is, such as `a symbolic link`.
    pub found: String,
    /// What it must be, such as `a plain file of at most 1048576 bytes`.
    pub wanted: String,
}

/// Where the owner's checkout stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkout {
    /// `None` while HEAD is detached.
    pub branch: Option<String>,
    /// `None` before the first commit.
    pub head: Option<CommitId>,
    pub busy: Option<Busy>,
    /// Since when, by the stamp of the file that says so.
    #[serde(default)]
    pub busy_since: Option<Timestamp>,
}

impl Checkout {
    /// Why `what`, which belongs to this branch, must wait; `None`: the branch is checked out and at rest (DESIGN §3, *away*).
    pub fn away_from(&self, branch: &str, what: &str) -> Option<String> {
        if let Some(busy) = self.busy {
            return Some(busy.words().to_owned());
        }
        match &self.branch {
            Some(here) if here == branch => None,
            Some(here) => Some(format!("HEAD is on `{here}`, {what} belongs to `{branch}`")),
            None => Some(format!("HEAD is detached, {what} belongs to `{branch}`")),
        }
    }

    /// How long what is under way must still last before it is worth a word; `None`: it is now, or nothing is.
    pub fn busy_left(&self, patience: Duration, now: Now) -> Option<Duration> {
        let since = self.busy_since.filter(|_| self.busy.is_some())?;
        let patience = TimeDelta::from_std(patience).unwrap_or(TimeDelta::MAX);
        let left = patience.checked_add(&(since - now.wall))?;
        // A stamp from far in the future would put it off for good.
        let lasts = left > TimeDelta::zero() && left - patience <= patience;
        left.to_std().ok().filter(|_| lasts)
    }

    /// A lock of git's lies there.
    pub fn is_locked(&self) -> bool {
        self.busy.is_some_and(Busy::is_lock)
    }
}

/// Something of the owner's is under way in the checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Busy {
    Merge,
    Rebase,
    CherryPick,
    Revert,
    Bisect,
    IndexLock,
    HeadLock,
    /// Of the branch that is checked out.
    BranchLock,
}

impl Busy {
    pub fn words(self) -> &'static str {
        match self {
            Self::Merge => "a merge is under way",
            Self::Rebase => "a rebase is under way",
            Self::CherryPick => "a cherry-pick is under way",
            Self::Revert => "a revert is under way",
            Self::Bisect => "a bisect is under way",
            Self::IndexLock => "`index.lock` lies in the git directory",
            Self::HeadLock => "`HEAD.lock` lies in the git directory",
            Self::BranchLock => {
                "the `.lock` of the branch lies in `refs/heads` of the git directory"
            }
        }
    }

    /// A file that every writing git has for a moment, and that a killed one leaves for good.
    pub fn is_lock(self) -> bool {
        match self {
            Self::IndexLock | Self::HeadLock | Self::BranchLock => true,
            Self::Merge | Self::Rebase | Self::CherryPick | Self::Revert | Self::Bisect => false,
        }
    }
}

/// A file that differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: RelPath,
    /// The new side as `mode object`, or `None` if the file is gone.
    pub to: Option<(String, String)>,
    /// The file is not in the older tree.
    pub new: bool,
}

/// A tree as it was at one moment, kept under `refs/agency/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub tree: TreeId,
    pub checkout: Checkout,
    /// What differs from HEAD: work of somebody's that is not committed yet.
    pub dirty: Vec<RelPath>,
    /// What differs from the snapshot that was named in the question.
    pub changed: Vec<Change>,
    /// Digest over every ref but ours.
    pub refs: Digest,
}

/// A commit that does not exist yet but whose id is known: parent, tree, message, identity and dates are fixed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedCommit {
    pub id: CommitId,
    pub tree: TreeId,
    pub branch: String,
    pub parent: Option<CommitId>,
    /// The second parent of a merge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<CommitId>,
    /// `name <e-mail>` of whoever wrote it, where that is not the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    pub message: String,
    pub date: Timestamp,
    /// What it changes against its parent.
    pub changes: Vec<Change>,
}

/// A commit that exists, as git shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitSeen {
    pub id: CommitId,
    pub parents: Vec<CommitId>,
    pub author: String,
    pub email: String,
    pub date: Timestamp,
    pub subject: String,
}

/// A branch as people name it (`build/A-1`, `origin/build/A-1`), and its newest commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BranchTip {
    pub branch: String,
    pub tip: CommitId,
}

/// A commit and what it did to the files that were asked about, against its first parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    pub commit: CommitSeen,
    pub changes: Vec<Touched>,
}

/// One file of a commit. A side that is not there, or is no plain file, is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    pub path: RelPath,
    pub before: Option<BlobId>,
    pub after: Option<BlobId>,
}

/// The answer to a question. Answers that a decision used are journalled with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fact {
    Snapshot(Snapshot),
    Planned(PlannedCommit),
    Yes,
    No,
    Digest(Option<Digest>),
    Lines(Option<u64>),
    File(Option<super::Bytes>),
    Changes(Vec<Change>),
    Paths(Vec<RelPath>),
    Tip(Option<CommitId>),
    /// The local branch first.
    Branches(Vec<BranchTip>),
    Sides(Vec<super::Sides>),
    Commits(Vec<CommitSeen>),
    /// Files that two sides changed in different ways.
    Conflict(Vec<RelPath>),
    /// The tree is not under git.
    NoGit,
    /// Git is not run here until the owner trusts what changed; each line says one change (SE-01).
    GitHeld(String),
    /// The question could not be answered; the words say why.
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Ticks;

    #[test]
    fn a_lock_is_waited_for_until_it_is_old_and_never_for_good() {
        let wall = Timestamp::UNIX_EPOCH + TimeDelta::days(1000);
        let left = |age: i64| {
            let busy_since = Some(wall - TimeDelta::seconds(age));
            let busy = Some(Busy::HeadLock);
            let checkout = Checkout { branch: None, head: None, busy, busy_since };
            let left = checkout.busy_left(Duration::from_secs(60), Now { wall, ticks: Ticks(0) });
            left.map(|left| left.as_secs())
        };
        assert_eq!([left(0), left(59), left(60), left(3600)], [Some(60), Some(1), None, None]);
        assert_eq!(left(-5), Some(65), "another machine's clock may be a little ahead");
        assert_eq!(left(-86_400 * 365), None, "a stamp that somebody set puts off nothing");
    }
}
