//! Where a checkout stands: branch, head, and what is under way. Usually read from files, without a git process.

use super::refs::{Found, read_text};
use super::{Call, GitError, Repo, names};
use crate::model::{Busy, Checkout, CommitId, Timestamp};

/// What lies in the git directory while something is under way. A rebase first: it uses the others' files.
const SIGNS: &[(&str, Busy)] = &[
    ("rebase-merge", Busy::Rebase),
    ("rebase-apply", Busy::Rebase),
    ("MERGE_HEAD", Busy::Merge),
    ("CHERRY_PICK_HEAD", Busy::CherryPick),
    ("REVERT_HEAD", Busy::Revert),
    ("BISECT_LOG", Busy::Bisect),
    ("index.lock", Busy::IndexLock),
];

impl Repo {
    pub async fn checkout(&self) -> Result<Checkout, GitError> {
        let (branch, head) = match self.read_head() {
            Some(stand) => stand,
            None => self.ask_head().await?,
        };
        let (busy, busy_since) = self.busy().unzip();
        Ok(Checkout { branch, head, busy, busy_since })
    }

    /// What is under way, and since when.
    fn busy(&self) -> Option<(Busy, Timestamp)> {
        let since = |name: &str| self.0.git_dir.join(name).symlink_metadata()?.modified();
        SIGNS.iter().find_map(|(name, busy)| Some((*busy, since(name).ok()?.into())))
    }

    /// `None` when the files do not say it plainly.
    fn read_head(&self) -> Option<(Option<String>, Option<CommitId>)> {
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
