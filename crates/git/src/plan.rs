//! Builds a commit that no branch knows yet: parent's tree, plus files from a snapshot, plus our own.
//! It touches neither HEAD, a branch, an index nor the work tree.

use super::Author;
use super::command::IDENTITY;
use super::commit::commit_object;
use super::objects::Kind;
use super::tree::Edits;
use super::tree_edit::edit;
use super::{GitError, Repo, names};
use agency_protocols::model::{Change, CommitId, PlannedCommit, RelPath, Timestamp, TreeId};

impl Repo {
    /// The same inputs give the same id. `write` wins over `take` where both name a path. `changes` of the
    /// result leaves out what the parent holds already.
    pub async fn plan(
        &self,
        branch: &str,
        parent: Option<&CommitId>,
        take: &[Change],
        write: &[(RelPath, Vec<u8>)],
        message: &str,
        date: Timestamp,
    ) -> Result<PlannedCommit, GitError> {
        self.plan_by(None, branch, parent, take, write, message, date).await
    }

    /// The same with another author than us; the committer is always us.
    #[expect(clippy::too_many_arguments, reason = "a commit has as many parts")]
    pub async fn plan_by(
        &self,
        author: Option<&Author>,
        branch: &str,
        parent: Option<&CommitId>,
        take: &[Change],
        write: &[(RelPath, Vec<u8>)],
        message: &str,
        date: Timestamp,
    ) -> Result<PlannedCommit, GitError> {
        let kept = names::planned_ref(branch)?;
        if message.contains('\0') {
            return Err(GitError::BadName {
                found: message.replace('\0', " "),
                wanted: "a message",
            });
        }
        let edits = self.edits(take, write)?;
        let base = match parent {
            Some(parent) => Some(self.tree_of(parent).await?),
            None => None,
        };
        let grown = self.tree_edit(base.as_ref(), &edits).await?;
        let held = edits.into_iter().zip(grown.held);
        let changed = held.filter(|((_, to), from)| from != to);
        let change =
            |((path, to), from): ((_, _), Option<_>)| Change { path, to, new: from.is_none() };
        let mut planned = PlannedCommit {
            id: CommitId::new(self.0.format.zeros()),
            tree: grown.tree,
            branch: branch.to_owned(),
            parent: parent.cloned(),
            merged: None,
            author: author.map(ToString::to_string),
            message: message.to_owned(),
            date,
            changes: changed.map(change).collect(),
        };
        let id = self.write_object(Kind::Commit, commit_object(&planned).as_bytes())?;
        self.keep(&kept, &TreeId::new(id.as_str())).await?;
        planned.id = CommitId::new(id);
        self.0.recent.lock().await.planned(&planned.id, write);
        Ok(planned)
    }

    /// `write` wins over `take`. Our own files are plain files.
    fn edits(&self, take: &[Change], write: &[(RelPath, Vec<u8>)]) -> Result<Edits, GitError> {
        let mut edits = take.iter().map(edit).collect::<Result<Edits, _>>()?;
        for (path, bytes) in write {
            let path = names::tree_path(path)?.clone();
            let object = self.write_object(Kind::Blob, bytes)?;
            edits.insert(path, Some(("100644".to_owned(), object)));
        }
        Ok(edits)
    }
}

/// Who and when, as it stands in the commit. `None`: we ourselves.
pub(super) fn signature(author: Option<&str>, date: Timestamp) -> String {
    let ours = format!("{} <{}>", IDENTITY.0, IDENTITY.1);
    format!("{} {} +0000", author.unwrap_or(&ours), date.timestamp())
}

/// The message as it stands in the commit.
pub(super) fn message_text(message: &str) -> String {
    format!("{}\n", message.trim_end_matches('\n'))
}
