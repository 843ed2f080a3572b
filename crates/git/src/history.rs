//! Questions about commits that exist. It changes nothing.

use super::{Call, GitError, Repo, names};
use agency_protocols::model::{Bytes, CommitId, CommitSeen, RelPath, Sides, TreeId};
use chrono::DateTime;

/// Room for the line that `cat-file --batch` writes before a file's bytes.
const HEADER_MAX: u64 = 256;

/// What of a file is compared, and of all of them together.
pub(super) const SIDE_MAX: usize = 1 << 20;
pub(super) const SIDES_MAX: u64 = 256 << 20;

/// Nobody's run makes more commits than this.
const RANGE_MAX: usize = 10_000;

impl Repo {
    /// The e-mail address that the owner's own commits carry, if they have set one.
    pub async fn owner_email(&self) -> Result<Option<String>, GitError> {
        let call = Call::local("config").args(["--get", "user.email"]).fine(&[0, 1]);
        let output = self.git(call).await?;
        let email = output.line("config")?.trim();
        Ok((!email.is_empty()).then(|| email.to_owned()))
    }

    /// Is `commit` in the history of `branch`? One of them missing is a no.
    pub async fn contains(&self, branch: &str, commit: &CommitId) -> Result<bool, GitError> {
        let commit = names::object(commit.as_str())?;
        match self.tip(branch).await? {
            None => Ok(false),
            Some(tip) if tip.as_str() == commit => Ok(true),
            Some(tip) => self.is_ancestor(commit, tip.as_str()).await,
        }
    }

    pub(super) async fn is_ancestor(&self, older: &str, newer: &str) -> Result<bool, GitError> {
        let call = Call::local("merge-base").args(["--is-ancestor", older, newer]).fine(&[0, 1]);
        match self.git(call).await {
            Ok(output) => Ok(output.code == 0),
            Err(GitError::Refused { .. }) if !self.has_object(older).await? => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn has_object(&self, id: &str) -> Result<bool, GitError> {
        let output = self.git(Call::local("cat-file").args(["-e", id]).fine(&[0, 1, 128])).await?;
        Ok(output.code == 0)
    }

    /// The commits that `to` has and `from` has not, the oldest first; at most 10,000 of them.
    pub async fn range(
        &self,
        from: Option<&CommitId>,
        to: &CommitId,
    ) -> Result<Vec<CommitSeen>, GitError> {
        let call = Call::local("rev-list")
            .args(["--reverse", "--topo-order", "--no-commit-header", "--encoding=UTF-8"])
            .arg(format!("--max-count={RANGE_MAX}"))
            .arg("--format=%H%x00%P%x00%an%x00%ae%x00%ct%x00%s")
            .arg(names::object(to.as_str())?);
        let from = from.map(|from| names::object(from.as_str())).transpose()?;
        let output =
            self.git(from.iter().fold(call, |call, from| call.arg(format!("^{from}")))).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let odd = |line: &str| GitError::odd_output("rev-list", line.as_bytes());
        text.lines().map(|line| commit_seen(line).ok_or_else(|| odd(line))).collect()
    }

    /// Files before and after a change. One that is larger than a mebibyte counts as not there.
    pub async fn sides(
        &self,
        from: Option<&CommitId>,
        to: &TreeId,
        paths: &[RelPath],
    ) -> Result<Vec<Sides>, GitError> {
        let to = names::object(to.as_str())?;
        let from = from.map_or(Ok(self.0.format.empty_tree()), |id| names::object(id.as_str()))?;
        let ask = |path: &RelPath| format!("{from}:{path}\n{to}:{path}\n");
        let questions: String = paths.iter().map(ask).collect();
        let call = Call::local("cat-file").arg("--batch").stdin(questions.into_bytes());
        let mut answers = Batch(&self.git(call.stdout_max(SIDES_MAX)).await?.stdout[..]);
        let side = |path: &RelPath| {
            let (before, after) = (answers.next()?.map(Bytes), answers.next()?.map(Bytes));
            Ok(Sides { path: path.clone(), before, after })
        };
        paths.iter().map(side).collect()
    }

    /// The bytes of a file in a commit, `None` if it is not there. More than `limit` bytes are an error.
    pub async fn file_at(
        &self,
        commit: &CommitId,
        path: &RelPath,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, GitError> {
        let question = format!("{}:{path}\n", names::object(commit.as_str())?);
        let call = Call::local("cat-file").arg("--batch").stdin(question.into_bytes());
        let call = call.stdout_max(limit.saturating_add(HEADER_MAX + path.as_str().len() as u64));
        let mut bytes = self.git(call).await?.stdout;
        let odd = || GitError::odd_output("cat-file", b"no header line");
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(odd)?;
        let header = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let [_, "blob", size] = header.split(' ').collect::<Vec<_>>()[..] else {
            return Ok(None);
        };
        let size: usize = size.parse().map_err(|_| odd())?;
        if size as u64 > limit {
            return Err(GitError::TooMuch { verb: "cat-file", limit });
        }
        drop(bytes.drain(..=end));
        bytes.truncate(size);
        Ok(Some(bytes))
    }
}

pub(super) fn commit_seen(line: &str) -> Option<CommitSeen> {
    let [id, parents, author, email, date, subject] = line.split('\0').collect::<Vec<_>>()[..]
    else {
        return None;
    };
    Some(CommitSeen {
        id: CommitId::new(names::object(id).ok()?),
        parents: parents.split_whitespace().map(CommitId::new).collect(),
        author: author.to_owned(),
        email: email.to_owned(),
        date: DateTime::from_timestamp(date.parse().ok()?, 0)?,
        subject: subject.to_owned(),
    })
}

/// Answers of `cat-file --batch`, one after the other.
pub(super) struct Batch<'a>(pub(super) &'a [u8]);

impl Batch<'_> {
    /// `None`: not there, not a file, or too large.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, GitError> {
        let odd = || GitError::odd_output("cat-file", b"an answer is cut off");
        let end = self.0.iter().position(|&byte| byte == b'\n').ok_or_else(odd)?;
        let (header, rest) = (String::from_utf8_lossy(&self.0[..end]), &self.0[end + 1..]);
        let [_, kind, size] = header.split(' ').collect::<Vec<_>>()[..] else {
            self.0 = rest;
            return Ok(None);
        };
        let Ok(size) = size.parse::<usize>() else {
            self.0 = rest;
            return Ok(None);
        };
        let bytes = rest.get(..size).ok_or_else(odd)?;
        self.0 = rest.get(size + 1..).ok_or_else(odd)?;
        Ok((kind == "blob" && size <= SIDE_MAX).then(|| bytes.to_vec()))
    }
}
