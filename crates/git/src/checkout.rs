//! Where a checkout stands: branch, head, and what is under way. Usually read from files, without a git process.

use super::refs::{Found, read_text};
use super::{Call, GitError, Repo, names};
use agency_host::clock;
use agency_host::read::Stamp;
use agency_protocols::model::{Busy, Checkout, CommitId, Timestamp};
use chrono::TimeDelta;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

/// What lies in the git directory while something is under way. A rebase first: it uses the others' files.
const SIGNS: &[(&str, Busy)] = &[
    ("rebase-merge", Busy::Rebase),
    ("rebase-apply", Busy::Rebase),
    ("MERGE_HEAD", Busy::Merge),
    ("CHERRY_PICK_HEAD", Busy::CherryPick),
    ("REVERT_HEAD", Busy::Revert),
    ("BISECT_LOG", Busy::Bisect),
    ("index.lock", Busy::IndexLock),
    ("HEAD.lock", Busy::HeadLock),
];

/// Branch and head commit.
type HeadState = (Option<String>, Option<CommitId>);

/// What the files of HEAD said, and how these stood then.
pub(super) struct HeadSeen {
    files: Vec<(Option<Stamp>, PathBuf)>,
    stand: HeadState,
}

impl HeadSeen {
    fn stands(&self) -> bool {
        self.files.iter().all(|(then, path)| stamp(path) == *then)
    }
}

pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    path.metadata().ok().map(|meta| Stamp::of(&meta))
}

pub(super) fn is_old(stamp: Option<Stamp>, now: Timestamp) -> bool {
    let times = stamp.map(|stamp| [stamp.mtime_ns, stamp.ctime_ns]);
    let second = TimeDelta::seconds(1).num_nanoseconds().unwrap_or(i64::MAX);
    let settled = |at: &i64| is_settled(at.div_euclid(second), at.rem_euclid(second), now);
    times.is_none_or(|times| times.iter().all(settled))
}

/// A file that changed at this time cannot change again without another time. The coarsest clocks of file systems count in two
/// seconds; one that counts parts of a second counts at least hundredths.
pub(super) fn is_settled(seconds: i64, part_ns: i64, now: Timestamp) -> bool {
    let tick_ms = if part_ns == 0 { 2_000 } else { 50 };
    let at_ms = seconds.saturating_mul(1_000).saturating_add(part_ns / 1_000_000);
    now.timestamp_millis().saturating_sub(at_ms) > tick_ms
}

impl Repo {
    pub async fn checkout(&self) -> Result<Checkout, GitError> {
        let (branch, head) = match self.head_now() {
            Some(stand) => stand,
            None => self.ask_head().await?,
        };
        let locked = || self.locked(branch.as_deref()?);
        let (busy, busy_since) = self.busy().or_else(locked).unzip();
        Ok(Checkout { branch, head, busy, busy_since })
    }

    /// Outside of the folder whose stamp says that all is calm.
    fn locked(&self, branch: &str) -> Option<(Busy, Timestamp)> {
        let name = names::branch_ref(branch).ok()?;
        let lock = self.0.common_dir.join(format!("{name}.lock"));
        Some((Busy::BranchLock, lock.symlink_metadata().ok()?.modified().ok()?.into()))
    }

    /// What is under way, and since when.
    fn busy(&self) -> Option<(Busy, Timestamp)> {
        let (dir, now) = (stamp(&self.0.git_dir), clock::now().wall);
        let mut calm = self.0.calm.lock().unwrap_or_else(PoisonError::into_inner);
        if dir.is_some() && *calm == dir {
            return None;
        }
        let since = |name: &str| self.0.git_dir.join(name).symlink_metadata()?.modified();
        let found = SIGNS.iter().find_map(|(name, busy)| Some((*busy, since(name).ok()?.into())));
        // A sign that comes changes the folder, unless that is so young that its stamp may stand.
        *calm = dir.filter(|_| found.is_none() && is_old(dir, now));
        found
    }

    /// As long as the files stand as they were read, what they say stands too. To open them is an event for whoever
    /// watches their folder, and idle repositories are looked at again and again.
    fn head_now(&self) -> Option<HeadState> {
        let mut seen = self.0.head.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = seen.as_ref().filter(|known| known.stands()) {
            return Some(known.stand.clone());
        }
        let before = clock::now().wall;
        let files = |branch: Option<&str>| {
            let name = branch.map(|branch| self.0.common_dir.join(format!("refs/heads/{branch}")));
            let fixed = [self.0.git_dir.join("HEAD"), self.0.common_dir.join("packed-refs")];
            fixed.into_iter().chain(name).map(|path| (stamp(&path), path)).collect::<Vec<_>>()
        };
        *seen = None;
        let first = self.read_head()?;
        let files = files(first.0.as_deref());
        // Read after the stamps were taken, and not so young that a change could leave them as they are.
        let stand = self.read_head()?;
        if stand.0 == first.0 && files.iter().all(|(stamp, _)| is_old(*stamp, before)) {
            *seen = Some(HeadSeen { files, stand: stand.clone() });
        }
        Some(stand)
    }

    /// `None` when the files do not say it plainly.
    fn read_head(&self) -> Option<HeadState> {
        if self.has_reftable() {
            return None;
        }
        let text = read_text(&self.0.git_dir.join("HEAD"), 4096).ok()??;
        let text = text.trim_end();
        let Some(branch) = text.strip_prefix("ref: refs/heads/") else {
            return names::is_object(text).then(|| (None, Some(CommitId::new(text))));
        };
        match self.find_ref(&names::branch_ref(branch).ok()?) {
            Found::Commit(id) => Some((Some(branch.to_owned()), Some(id))),
            Found::Absent => Some((Some(branch.to_owned()), None)),
            Found::Odd => None,
        }
    }

    async fn ask_head(&self) -> Result<(Option<String>, Option<CommitId>), GitError> {
        let call = Call::local("symbolic-ref").args(["--quiet", "HEAD"]).fine(&[0, 1]);
        let output = self.git(call).await?;
        let line = output.line("symbolic-ref")?;
        let branch = line.strip_prefix("refs/heads/").map(str::to_owned);
        Ok((branch, self.ask_commit("HEAD").await?))
    }
}
