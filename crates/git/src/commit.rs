//! Puts a planned commit on its branch, once, and tells the owner's index about exactly its files.
//! It writes no file of the work tree and never moves a branch that is not where the plan expects it.

use super::objects::Kind;
use super::owner_index::Told;
use super::plan::{message_text, signature};
use super::snapshot::Seed;
use super::{Call, GitError, Repo, names};
use agency_protocols::model::{Change, CommitId, PlannedCommit};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often we look whether the owner's `index.lock` is gone.
const LOCK_LOOK: Duration = Duration::from_millis(20);

/// What became of a planned commit.
///
/// `index_stale`: the owner's index was locked for too long, so `git status` shows the commit's files as staged
/// the other way round until it is refreshed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    Done {
        index_stale: bool,
    },
    /// The branch contained it before.
    Already {
        index_stale: bool,
    },
    /// The branch is elsewhere, or gone; nothing was changed.
    Moved {
        found: Option<CommitId>,
    },
}

/// What became of the owner's index.
#[derive(Clone, Copy)]
enum Refreshed {
    Done,
    /// And it is known which one it was and which it is.
    Known {
        was: Seed,
        is: Seed,
    },
    /// It was locked all the time.
    Stale,
}

impl Refreshed {
    fn is_stale(self) -> bool {
        matches!(self, Self::Stale)
    }
}

impl Repo {
    /// Doing it again changes nothing more, and finishes what a crash cut short.
    pub async fn commit(&self, planned: &PlannedCommit) -> Result<Committed, GitError> {
        let found = self.tip(&planned.branch).await?;
        if found != planned.parent {
            return self.not_at_parent(planned, found).await;
        }
        if let Err(error) = self.move_branch(planned).await {
            let found = self.tip(&planned.branch).await?;
            if found != planned.parent {
                return self.not_at_parent(planned, found).await;
            }
            if !matches!(error, GitError::Refused { .. }) {
                return Err(error);
            }
            self.make_again(planned).await?;
            self.move_branch(planned).await?;
        }
        let refreshed = self.refresh_index(&planned.branch, &planned.changes).await?;
        let mut recent = self.0.recent.lock().await;
        recent.committed(planned);
        if let Refreshed::Known { was, is } = refreshed {
            recent.reseeded(was, is);
        }
        Ok(Committed::Done { index_stale: refreshed.is_stale() })
    }

    async fn not_at_parent(
        &self,
        planned: &PlannedCommit,
        found: Option<CommitId>,
    ) -> Result<Committed, GitError> {
        if !self.contains(&planned.branch, &planned.id).await? {
            return Ok(Committed::Moved { found });
        }
        // Commits on top of ours are somebody else's, and so is the index since.
        let index_stale = if found.as_ref() == Some(&planned.id) {
            let missed = self.missed_in_index(planned).await?;
            self.refresh_index(&planned.branch, &missed).await?.is_stale()
        } else {
            false
        };
        Ok(Committed::Already { index_stale })
    }

    /// Compare-and-swap of the branch; the plan's own ref has done its work then.
    pub(super) async fn move_branch(&self, planned: &PlannedCommit) -> Result<(), GitError> {
        self.guarded()?.check()?;
        let branch = names::branch_ref(&planned.branch)?;
        let kept = names::planned_ref(&planned.branch)?;
        if self.swap_branch(planned) {
            // One that the owner packed meanwhile only keeps what the branch keeps as well.
            std::fs::remove_file(self.0.common_dir.join(kept)).ok();
            return Ok(());
        }
        let id = names::object(planned.id.as_str())?;
        let zeros = self.0.format.zeros();
        let parent = planned.parent.as_ref().map_or(zeros.as_str(), CommitId::as_str);
        let lines = format!("update {branch} {id} {}\ndelete {kept}\n", names::object(parent)?);
        let call = Call::local("update-ref").args(["-m", "agency: commit", "--stdin"]);
        self.git(call.stdin(lines.into_bytes())).await.map(drop)
    }

    /// Writes the commit object once more, after a clean-up took it, and makes sure that nothing below it is gone.
    async fn make_again(&self, planned: &PlannedCommit) -> Result<(), GitError> {
        let found = self.write_object(Kind::Commit, commit_object(planned).as_bytes())?;
        if found != planned.id.as_str() {
            return Err(GitError::OtherId { planned: planned.id.to_string(), found });
        }
        let call = Call::local("rev-list").args(["--objects", "--quiet", &found]);
        let parent = planned.parent.iter().map(|parent| format!("^{parent}"));
        self.git(parent.fold(call, Call::arg)).await.map(drop)
    }

    /// Those changes of which the index still holds the parent's side. Others were staged since, by somebody.
    pub(super) async fn missed_in_index(
        &self,
        planned: &PlannedCommit,
    ) -> Result<Vec<Change>, GitError> {
        let parent = self.object_of(planned.parent.as_ref());
        let touched = self.diff_index(parent, &self.owners_index()).await?;
        let touched: BTreeSet<_> = touched.into_iter().map(|found| found.path).collect();
        let changes = planned.changes.iter();
        Ok(changes.filter(|change| !touched.contains(&change.path)).cloned().collect())
    }

    async fn refresh_index(&self, branch: &str, changes: &[Change]) -> Result<Refreshed, GitError> {
        if changes.is_empty() || self.checkout().await?.branch.as_deref() != Some(branch) {
            return Ok(Refreshed::Done);
        }
        let give_up = Instant::now() + self.0.git.index_wait();
        loop {
            match self.tell_index(changes)? {
                Told::Done { was, is: Some(is) } => return Ok(Refreshed::Known { was, is }),
                Told::Done { is: None, .. } => return Ok(Refreshed::Done),
                Told::NotPlain => match self.update_index(changes).await {
                    // Somebody was faster at the lock.
                    Err(GitError::Refused { said, .. }) if said.contains("index.lock") => {}
                    done => return done.map(|()| Refreshed::Done),
                },
                Told::Locked => {}
            }
            if Instant::now() >= give_up {
                return Ok(Refreshed::Stale);
            }
            sleep(LOCK_LOOK).await;
        }
    }

    async fn update_index(&self, changes: &[Change]) -> Result<(), GitError> {
        let zeros = self.0.format.zeros();
        let mut lines = Vec::new();
        for change in changes {
            let (mode, object) = match &change.to {
                Some((mode, object)) => (names::file_mode(mode)?, names::object(object)?),
                None => ("0", zeros.as_str()),
            };
            lines.extend(format!("{mode} {object}\t{}\0", change.path).bytes());
        }
        let call = Call::local("update-index").args(["-z", "--index-info"]);
        self.git(call.stdin(lines)).await.map(drop)
    }
}

/// The very bytes of the commit.
pub(super) fn commit_object(planned: &PlannedCommit) -> String {
    let parents = planned.parent.iter().chain(&planned.merged);
    let parent: String = parents.map(|id| format!("parent {id}\n")).collect();
    let (tree, message) = (&planned.tree, message_text(&planned.message));
    let author = signature(planned.author.as_deref(), planned.date);
    let committer = signature(None, planned.date);
    format!("tree {tree}\n{parent}author {author}\ncommitter {committer}\n\n{message}")
}
