//! Verify artifacts in the owner's tree that are not as we wrote them (AG-11). What is kept of each is its digest; it decides nothing.

use super::super::artifact::{self, Artifact};
use super::super::names::TaskId;
use super::{Bytes, Index};
use crate::model::{Digest, Fact, Query, RelPath};

impl Index {
    /// An artifact was written, changed or removed.
    pub(super) fn file_artifact(&mut self, path: &RelPath, there: Option<&Bytes>) {
        self.forget_artifact(path);
        let Some(file) = there.filter(|file| file.odd.is_none()) else { return };
        let Some(id) = self.claimed(path, &file.bytes) else { return };
        self.claimed_for.insert(path.clone(), id.clone());
        self.claims.entry(id.clone()).or_default().insert(path.clone(), file.digest.clone());
        self.assess_artifacts(&id);
        // A second look at the same bytes needs no second answer.
        let head = self.checkout.as_ref().and_then(|checkout| checkout.head.as_ref());
        let answered = self.answers.iter().any(|(_, query, fact)| {
            let is_at_head = matches!(query, Query::FileAt { commit, .. } if Some(commit) == head);
            is_at_head && is_committed(query, fact, path, &file.digest)
        });
        if answered {
            self.forget_artifact(path);
        }
    }

    /// We wrote there or took it away: the next look says what lies there now.
    pub(super) fn forget_artifact(&mut self, path: &RelPath) {
        self.forged_artifacts.remove(path);
        let Some(id) = self.claimed_for.remove(path) else { return };
        if let Some(claims) = self.claims.get_mut(&id) {
            claims.remove(path);
            if claims.is_empty() {
                self.claims.remove(&id);
            }
        }
    }

    /// The task whose verify an artifact claims to be: one that would allow DONE, or that lies where we wrote one.
    fn claimed(&self, path: &RelPath, bytes: &[u8]) -> Option<TaskId> {
        let found = serde_json::from_slice::<Artifact>(bytes).ok();
        if let Some(found) = found.filter(Artifact::allows_done) {
            return Some(found.task_id);
        }
        let id = artifact::task_of(path)?;
        self.written_artifact(&id, path).map(|_| id)
    }

    /// The digest of the artifact of a task that we wrote at this path.
    pub(in crate::protocol::board) fn written_artifact(
        &self,
        id: &TaskId,
        path: &RelPath,
    ) -> Option<&Digest> {
        let known = self.memory.tasks.get(id)?;
        let last = known.verified.as_ref().map(|by| &by.artifact).filter(|last| last.path == *path);
        last.map(|last| &last.digest).or_else(|| known.papers.get(path))
    }

    /// Only tasks that we have moved: what came with a board that the owner adopted is theirs to vouch for.
    pub(super) fn assess_artifacts(&mut self, id: &TaskId) {
        let Some(claims) = self.claims.get(id) else { return };
        let is_ours = |path: &RelPath, digest: &Digest| {
            let at = artifact::task_of(path);
            let mut ids = [Some(id), at.as_ref()].into_iter().flatten();
            ids.any(|id| self.written_artifact(id, path) == Some(digest))
        };
        let known = self.memory.tasks.contains_key(id);
        let forged: Vec<(RelPath, bool)> = claims
            .iter()
            .map(|(path, digest)| (path.clone(), known && !is_ours(path, digest)))
            .collect();
        for (path, is_forged) in forged {
            if is_forged {
                self.forged_artifacts.insert(path, id.clone());
            } else {
                self.forged_artifacts.remove(&path);
            }
        }
    }

    /// The first artifact that is not as we wrote it, its task and its digest.
    pub(in crate::protocol::board) fn forged_artifact(
        &self,
    ) -> Option<(&RelPath, &TaskId, &Digest)> {
        let (path, id) = self.forged_artifacts.first_key_value()?;
        Some((path, id, self.claims.get(id)?.get(path)?))
    }

    /// An artifact whose very bytes somebody committed is a colleague's: it never counts, and it stays.
    pub(super) fn note_committed(&mut self, query: &Query, fact: &Fact) {
        let Query::FileAt { path, .. } = query else { return };
        let Some(id) = self.forged_artifacts.get(path) else { return };
        let there = self.claims.get(id).and_then(|claims| claims.get(path));
        if there.is_some_and(|digest| is_committed(query, fact, path, digest)) {
            self.forget_artifact(path);
        }
    }
}

/// Git answered that these very bytes are committed at this path.
fn is_committed(query: &Query, fact: &Fact, path: &RelPath, digest: &Digest) -> bool {
    let (Query::FileAt { path: asked, .. }, Fact::File(Some(bytes))) = (query, fact) else {
        return false;
    };
    asked == path && Digest::of(&bytes.0) == *digest
}
