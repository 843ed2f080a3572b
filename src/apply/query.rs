//! Answers questions about the repository. An answer that cannot be had is an answer too: `Unknown`, with the reason.

use super::{ApplyError, EffectRunner, chain, passing};
use crate::clock;
use crate::git::{GitError, MergeWish, Merging, Repo};
use crate::model::{Bytes, Digest, Fact, FileState, Query, RelPath, TreeRef};
use crate::read::{self, Stamp};
use crate::store::SEEN_MAX;

impl EffectRunner {
    /// An error is trouble of the machine that may pass; every other failure is part of the answer.
    pub(super) async fn answer(&self, query: &Query) -> Result<Fact, ApplyError> {
        Ok(match query {
            Query::Lines { path } => Fact::Lines(self.bytes_of(path)?.map(|bytes| lines(&bytes))),
            Query::Digest { path } => Fact::Digest(self.bytes_of(path)?.map(|b| Digest::of(&b))),
            Query::Snapshot { tree, .. } => match self.repo_of(tree).await {
                Ok(Some(repo)) => known(ask(&repo, query).await)?,
                Ok(None) => Fact::NoGit,
                Err(ApplyError::Git(error)) => known(Err(error))?,
                Err(error) => return Err(error),
            },
            Query::Read { tree, path } => Fact::File(self.bytes_in(tree, path)?.map(Bytes)),
            Query::Stamp { tree, path } => Fact::Digest(self.stamp_in(tree, path)),
            Query::Plan { .. }
            | Query::Merge { .. }
            | Query::Ignored { .. }
            | Query::Tip { .. }
            | Query::Branches { .. }
            | Query::Touched { .. }
            | Query::Range { .. }
            | Query::Sides { .. }
            | Query::Contains { .. }
            | Query::Diff { .. }
            | Query::Named { .. }
            | Query::FileAt { .. } => match &self.git {
                Some(repo) => known(ask(repo, query).await)?,
                None => Fact::NoGit,
            },
        })
    }

    /// By what the file system notes about a plain file; one that no safe read accepts has no stamp.
    fn stamp_in(&self, tree: &TreeRef, path: &RelPath) -> Option<Digest> {
        let reading = read::read(&self.enter(tree).ok()?, path, SEEN_MAX, clock::now()).ok()?;
        let Stamp { dev, ino, size, mtime_ns, ctime_ns } = reading.stamp?;
        Some(Digest::of(format!("{dev} {ino} {size} {mtime_ns} {ctime_ns}").as_bytes()))
    }

    fn bytes_of(&self, path: &RelPath) -> Result<Option<Vec<u8>>, ApplyError> {
        self.bytes_in(&TreeRef::Main, path)
    }

    fn bytes_in(&self, tree: &TreeRef, path: &RelPath) -> Result<Option<Vec<u8>>, ApplyError> {
        match read::read(&self.enter(tree)?, path, SEEN_MAX, clock::now()) {
            Ok(reading) => Ok(match reading.state {
                FileState::Whole(file) => Some(file.bytes.to_vec()),
                FileState::Absent | FileState::Unreadable(_) => None,
            }),
            // A read that failed does not show that the file is absent.
            Err(source) if passing::may_pass(&source) => {
                Err(ApplyError::Read { path: path.clone(), source })
            }
            Err(_) => Ok(None),
        }
    }
}

async fn ask(repo: &Repo, query: &Query) -> Result<Fact, GitError> {
    Ok(match query {
        Query::Snapshot { label, since, .. } => {
            Fact::Snapshot(repo.snapshot(label, since.as_ref()).await?)
        }
        Query::Plan { branch, parent, take, write, message, date } => {
            let write: Vec<_> =
                write.iter().map(|(path, bytes)| (path.clone(), bytes.0.clone())).collect();
            let parent = parent.as_ref();
            Fact::Planned(repo.plan(branch, parent, take, &write, message, *date).await?)
        }
        Query::Merge { target, onto, theirs, style, message, date, keep } => {
            let (style, date, keep) = (*style, *date, keep.as_ref());
            let wish = MergeWish { target, onto, theirs, style, message, date, keep };
            match repo.plan_merge(&wish).await? {
                Merging::Planned(planned) => Fact::Planned(planned),
                Merging::Conflict(paths) => Fact::Conflict(paths),
                Merging::NoFastForward => Fact::No,
            }
        }
        Query::Ignored { paths } => Fact::Paths(repo.ignored(paths).await?),
        Query::Tip { name } => Fact::Tip(repo.ref_tip(name).await?),
        Query::Branches { name } => Fact::Branches(repo.branches(name).await?),
        Query::Touched { from, to } => Fact::Paths(repo.touched(from, to).await?),
        Query::Sides { from, to, paths } => {
            Fact::Sides(repo.sides(from.as_ref(), to, paths).await?)
        }
        Query::Range { from, to } => Fact::Commits(repo.range(from.as_ref(), to).await?),
        Query::Contains { branch, commit } => {
            if repo.contains(branch, commit).await? {
                Fact::Yes
            } else {
                Fact::No
            }
        }
        Query::Diff { from, to } => Fact::Changes(repo.diff(from, to).await?),
        Query::FileAt { commit, path } => {
            Fact::File(repo.file_at(commit, path, SEEN_MAX).await?.map(Bytes))
        }
        Query::Named { commit, names } => Fact::Paths(repo.files_named(commit, names).await?),
        Query::Lines { .. } | Query::Digest { .. } | Query::Read { .. } | Query::Stamp { .. } => {
            Fact::NoGit
        }
    })
}

fn known(answer: Result<Fact, GitError>) -> Result<Fact, ApplyError> {
    match answer {
        Ok(fact) => Ok(fact),
        Err(GitError::Held { changes }) => Ok(Fact::GitHeld(changes.join("\n"))),
        Err(error) if passing::may_pass(&error) => Err(error.into()),
        Err(error) => Ok(Fact::Unknown(chain(&error))),
    }
}

/// As an editor counts them: a last line without an end is a line.
fn lines(bytes: &[u8]) -> u64 {
    let ends = bytes.iter().filter(|&&byte| byte == b'\n').count() as u64;
    ends + u64::from(bytes.last().is_some_and(|&last| last != b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_an_editor_does() {
        for (text, count) in [("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n\n", 2)] {
            assert_eq!(lines(text.as_bytes()), count, "{text:?}");
        }
    }
}
