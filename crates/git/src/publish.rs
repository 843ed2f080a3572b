//! Commits that are shared: what the remote has now, who writes, and files as they were in commits. It touches no work tree;
//! building is `plan`'s work, sending is `push`'s.

use super::error::clipped;
use super::{Call, GitError, Repo, names};
use agency_protocols::model::{CommitId, RelPath};
use std::fmt;

/// Who a commit is by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    name: String,
    email: String,
}

impl Author {
    pub fn new(name: &str, email: &str) -> Self {
        let plain = |text: &str| -> String {
            let text: String =
                text.chars().filter(|c| !c.is_control() && !matches!(c, '<' | '>')).collect();
            text.trim().chars().take(200).collect()
        };
        Self { name: plain(name), email: plain(email) }
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} <{}>", self.name, self.email)
    }
}

/// What the remote's branch is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    At(CommitId),
    /// The remote has no such branch yet.
    Absent,
    NoRemote,
    Failed {
        said: String,
    },
}

/// A file in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub path: RelPath,
    pub object: String,
}

/// A commit on the first-parent line, and the files that it changed among those asked for; `None`: gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touching {
    pub id: CommitId,
    pub author: String,
    pub email: String,
    pub subject: String,
    pub files: Vec<(RelPath, Option<String>)>,
}

impl Repo {
    /// Whoever commits here by hand, as the owner's own configuration says.
    pub async fn owner(&self) -> Result<Option<Author>, GitError> {
        let (name, email) =
            tokio::try_join!(self.setting("user.name"), self.setting("user.email"))?;
        Ok(name.zip(email).map(|(name, email)| Author::new(&name, &email)))
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, GitError> {
        let output = self.git(Call::local("config").args(["--get", key]).fine(&[0, 1])).await?;
        (output.code == 0).then(|| output.line("config").map(str::to_owned)).transpose()
    }

    /// Looks at the remote's branch. No branch of the owner's moves, and no file of git's beside our own ref is written.
    pub async fn fetch(&self, branch: &str) -> Result<Fetched, GitError> {
        let (source, kept) = (names::branch_ref(branch)?, names::fetched_ref(branch)?);
        let Some(remote) = self.remote_of(branch).await? else { return Ok(Fetched::NoRemote) };
        let call = Call::network("fetch")
            .args(["--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"])
            .args(["--no-recurse-submodules", "--refmap=", "--"])
            .arg(&remote)
            .arg(format!("+{source}:{kept}"))
            .fine(&[0, 1, 128]);
        let output = match self.git(call).await {
            Err(error @ GitError::TimedOut { .. }) => {
                return Ok(Fetched::Failed { said: error.to_string() });
            }
            output => output?,
        };
        if output.code == 0 {
            return Ok(self.ref_tip(&kept).await?.map_or(Fetched::Absent, Fetched::At));
        }
        let said = clipped(&output.stderr);
        if said.contains("couldn't find remote ref") {
            return Ok(Fetched::Absent);
        }
        Ok(Fetched::Failed { said })
    }

    /// What planning and fetching kept for a branch is not needed any more.
    pub async fn forget_publishing(&self, branch: &str) -> Result<(), GitError> {
        let lines = format!(
            "delete {}\ndelete {}\n",
            names::planned_ref(branch)?,
            names::fetched_ref(branch)?
        );
        let call = Call::local("update-ref").arg("--stdin").stdin(lines.into_bytes());
        self.git(call).await.map(drop)
    }

    /// The plain files of a commit, of all below these paths; none given: of all.
    pub async fn files_in(
        &self,
        commit: &CommitId,
        below: &[String],
    ) -> Result<Vec<Blob>, GitError> {
        let call = Call::local("ls-tree").args(["-r", "-z", "--full-tree"]);
        let call = call.arg(names::object(commit.as_str())?).arg("--");
        let output = self.git(below.iter().fold(call, Call::arg)).await?;
        let records = output.stdout.split(|&byte| byte == 0).filter(|record| !record.is_empty());
        records.filter_map(|record| blob(record).transpose()).collect()
    }

    /// The bytes of objects, in order; together at most `limit`.
    pub async fn objects(&self, ids: &[String], limit: u64) -> Result<Vec<Vec<u8>>, GitError> {
        let mut lines = String::new();
        for id in ids {
            lines.push_str(names::object(id)?);
            lines.push('\n');
        }
        let call = Call::local("cat-file").arg("--batch").stdin(lines.into_bytes());
        let output =
            self.git(call.stdout_max(limit.saturating_add(200 * ids.len() as u64))).await?;
        unpack(&output.stdout, ids.len())
    }

    /// The commits of the first-parent line of `to` that change one of the files below these paths, oldest first.
    pub async fn touching(
        &self,
        to: &CommitId,
        below: &[String],
    ) -> Result<Vec<Touching>, GitError> {
        let call = Call::local("log")
            .args(["--reverse", "--first-parent", "-m", "--root", "--raw", "-z", "--no-renames"])
            .args(["--no-ext-diff", "--no-abbrev", "--encoding=UTF-8", "--no-show-signature"])
            .arg("--format=%x01%H%x02%an%x02%ae%x02%s%x02")
            .arg(names::object(to.as_str())?)
            .arg("--")
            .env("GIT_LITERAL_PATHSPECS", "1");
        let output = self.git(below.iter().fold(call, Call::arg)).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let odd = |part: &str| GitError::odd_output("log", part.as_bytes());
        let parts = text.split('\u{1}').skip(1);
        parts.map(|part| touching(part).ok_or_else(|| odd(part))).collect()
    }

    /// Is one commit in the history of another?
    pub async fn precedes(&self, older: &CommitId, newer: &CommitId) -> Result<bool, GitError> {
        self.is_ancestor(names::object(older.as_str())?, names::object(newer.as_str())?).await
    }
}

/// `mode type id TAB path`. Links and submodules are no files of ours.
fn blob(record: &[u8]) -> Result<Option<Blob>, GitError> {
    let odd = || GitError::odd_output("ls-tree", record);
    let tab = record.iter().position(|&byte| byte == b'\t').ok_or_else(odd)?;
    let entry = std::str::from_utf8(&record[..tab]).map_err(|_| odd())?;
    let [mode, _, object] = entry.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(odd());
    };
    if !matches!(mode, "100644" | "100755") {
        return Ok(None);
    }
    let Ok(path) = names::rel_path(&record[tab + 1..]) else { return Ok(None) };
    Ok(Some(Blob { path, object: names::object(object)?.to_owned() }))
}

/// `id type size LF bytes LF`, again and again.
fn unpack(mut bytes: &[u8], count: usize) -> Result<Vec<Vec<u8>>, GitError> {
    let mut objects = Vec::with_capacity(count);
    while objects.len() < count {
        let odd = || GitError::odd_output("cat-file", &bytes[..bytes.len().min(200)]);
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(odd)?;
        let head = std::str::from_utf8(&bytes[..end]).map_err(|_| odd())?;
        let size = head.rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
        let size = size.filter(|_| !head.ends_with("missing")).ok_or_else(odd)?;
        let object = bytes.get(end + 1..end + 1 + size).ok_or_else(odd)?;
        objects.push(object.to_vec());
        bytes = bytes.get(end + size + 2..).ok_or_else(odd)?;
    }
    Ok(objects)
}

fn touching(part: &str) -> Option<Touching> {
    let mut fields = part.splitn(5, '\u{2}');
    let id = CommitId::new(names::object(fields.next()?).ok()?);
    let [author, email, subject] =
        [fields.next()?, fields.next()?, fields.next()?].map(str::to_owned);
    let mut rest = fields.next()?.split('\0').map(|field| field.trim_start_matches('\n'));
    let mut files = Vec::new();
    while let Some(record) = rest.find(|field| field.starts_with(':')) {
        let [_, mode, _, object, _] = record.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let path = RelPath::new(rest.next()?).ok()?;
        let there = matches!(mode, "100644" | "100755");
        files.push((path, there.then(|| object.to_owned())));
    }
    Some(Touching { id, author, email, subject, files })
}
