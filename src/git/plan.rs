//! Builds a commit that no branch knows yet, in one process: parent's tree, plus files from a snapshot, plus our own.
//! It touches neither HEAD, a branch, an index nor the work tree.

use super::Author;
use super::command::{IDENTITY, Output};
use super::error::clipped;
use super::{Call, GitError, Repo, names};
use crate::model::{Change, CommitId, PlannedCommit, RelPath, Timestamp, TreeId};
use std::collections::BTreeMap;

/// What a path is to hold.
enum Content<'a> {
    Gone,
    Object(&'a str, &'a str),
    Bytes(&'a [u8]),
}

type Edits<'a> = BTreeMap<&'a RelPath, Content<'a>>;

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
        let parent_id = parent.map(|parent| names::object(parent.as_str())).transpose()?;
        let edits = edits(take, write)?;
        let author = author.map(ToString::to_string);
        let header = commit_header(&kept, author.as_deref(), parent_id, message, date)?;
        let call = Call::local("fast-import").args(["--quiet", "--force", "--date-format=raw"]);
        let call = call.stdin(stream(&edits, parent_id, &header)).fine(&[0, 1, 128]);
        let output = self.git(call).await?;
        if output.code != 0 {
            return Err(self.import_failed(&output));
        }
        let mut answers = Answers::new(&output)?;
        let changes = changes(&edits, parent_id.is_some(), &mut answers)?;
        let id = CommitId::new(names::object(answers.next()?)?);
        let tree = answers.entry()?.ok_or_else(|| answers.odd())?.1;
        self.0.recent.lock().await.planned(&id, write);
        Ok(PlannedCommit {
            id,
            tree: TreeId::new(names::object(&tree)?),
            branch: branch.to_owned(),
            parent: parent.cloned(),
            merged: None,
            author,
            message: message.to_owned(),
            date,
            changes,
        })
    }

    /// It leaves a crash report in the git directory, and retries must not pile them up.
    fn import_failed(&self, output: &Output) -> GitError {
        let report = self.0.git_dir.join(format!("fast_import_crash_{}", output.pid));
        drop(std::fs::remove_file(report));
        let said = clipped(&output.stderr);
        GitError::Refused { verb: "fast-import", code: Some(output.code), said }
    }
}

fn edits<'a>(take: &'a [Change], write: &'a [(RelPath, Vec<u8>)]) -> Result<Edits<'a>, GitError> {
    let mut edits = Edits::new();
    for change in take {
        let content = match &change.to {
            Some((mode, object)) => {
                Content::Object(names::file_mode(mode)?, names::object(object)?)
            }
            None => Content::Gone,
        };
        edits.insert(names::tree_path(&change.path)?, content);
    }
    for (path, bytes) in write {
        edits.insert(names::tree_path(path)?, Content::Bytes(bytes));
    }
    Ok(edits)
}

/// Who and when, in the form that commits and fast-import share. `None`: we ourselves.
pub(super) fn signature(author: Option<&str>, date: Timestamp) -> String {
    let ours = format!("{} <{}>", IDENTITY.0, IDENTITY.1);
    format!("{} {} +0000", author.unwrap_or(&ours), date.timestamp())
}

/// The message as it stands in the commit.
pub(super) fn message_text(message: &str) -> String {
    format!("{}\n", message.trim_end_matches('\n'))
}

fn commit_header(
    kept: &str,
    author: Option<&str>,
    parent: Option<&str>,
    message: &str,
    date: Timestamp,
) -> Result<String, GitError> {
    if message.contains('\0') {
        return Err(GitError::BadName { found: message.replace('\0', " "), wanted: "a message" });
    }
    let (by, signature) = (signature(author, date), signature(None, date));
    let message = message_text(message);
    let length = message.len();
    let from = parent.map_or(String::new(), |parent| format!("from {parent}\n"));
    let who = format!("author {by}\ncommitter {signature}");
    Ok(format!("commit {kept}\nmark :1\n{who}\ndata {length}\n{message}\n{from}"))
}

/// Commands for fast-import. It answers each `get-mark` and `ls` with one line, in order.
fn stream(edits: &Edits<'_>, parent: Option<&str>, header: &str) -> Vec<u8> {
    let mut stream = b"feature done\n".to_vec();
    for (mark, (path, content)) in (2..).zip(edits) {
        if let Content::Bytes(bytes) = content {
            stream.extend(format!("blob\nmark :{mark}\ndata {}\n", bytes.len()).bytes());
            stream.extend(*bytes);
            stream.extend(format!("\nget-mark :{mark}\n").bytes());
        }
        if let Some(parent) = parent {
            stream.extend(format!("ls {parent} {}\n", quoted(path)).bytes());
        }
    }
    stream.extend(header.bytes());
    // Deletions first: a file may make room for a folder of its name.
    for (path, _) in edits.iter().filter(|(_, content)| matches!(content, Content::Gone)) {
        stream.extend(format!("D {}\n", quoted(path)).bytes());
    }
    for (mark, (path, content)) in (2..).zip(edits) {
        let path = quoted(path);
        let line = match content {
            Content::Gone => continue,
            Content::Object(mode, object) => format!("M {mode} {object} {path}\n"),
            Content::Bytes(_) => format!("M {WRITTEN_MODE} :{mark} {path}\n"),
        };
        stream.extend(line.bytes());
    }
    stream.extend(b"get-mark :1\nls :1 \"\"\ndone\n");
    stream
}

/// Our own files are plain files.
const WRITTEN_MODE: &str = "100644";

/// Quoted always, so that no name can be read as anything else. Line breaks cannot occur in a `RelPath`.
fn quoted(path: &RelPath) -> String {
    format!("\"{}\"", path.as_str().replace('\\', "\\\\").replace('"', "\\\""))
}

fn changes(
    edits: &Edits<'_>,
    has_parent: bool,
    answers: &mut Answers<'_>,
) -> Result<Vec<Change>, GitError> {
    let mut changes = Vec::new();
    for (path, content) in edits {
        let to = match content {
            Content::Gone => None,
            Content::Object(mode, object) => Some(((*mode).to_owned(), (*object).to_owned())),
            Content::Bytes(_) => Some((WRITTEN_MODE.to_owned(), answers.next()?.to_owned())),
        };
        let from = if has_parent { answers.entry()? } else { None };
        // A folder of that name is not the file.
        let from = from.filter(|(mode, _)| mode != "040000");
        if from != to {
            changes.push(Change { path: (*path).clone(), to, new: from.is_none() });
        }
    }
    Ok(changes)
}

/// The lines that fast-import answered with.
struct Answers<'a> {
    text: &'a str,
    lines: std::str::Lines<'a>,
}

impl<'a> Answers<'a> {
    fn new(output: &'a Output) -> Result<Self, GitError> {
        let text = std::str::from_utf8(&output.stdout)
            .map_err(|_| GitError::odd_output("fast-import", &output.stdout))?;
        Ok(Self { text, lines: text.lines() })
    }

    fn odd(&self) -> GitError {
        GitError::odd_output("fast-import", self.text.as_bytes())
    }

    fn next(&mut self) -> Result<&'a str, GitError> {
        self.lines.next().ok_or_else(|| self.odd())
    }

    /// `mode type id TAB path`, or `missing path`.
    fn entry(&mut self) -> Result<Option<(String, String)>, GitError> {
        let line = self.next()?;
        if line.starts_with("missing ") {
            return Ok(None);
        }
        let entry = line.split_once('\t').map_or(line, |(entry, _)| entry);
        let [mode, _, id] = entry.split(' ').collect::<Vec<_>>()[..] else {
            return Err(self.odd());
        };
        Ok(Some((mode.to_owned(), id.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_so_that_they_stay_names() {
        assert_eq!(quoted(&RelPath::fixed("a\"b\\c d")), r#""a\"b\\c d""#);
    }

    #[test]
    fn a_message_ends_in_one_line_break() {
        assert_eq!(message_text("a"), "a\n");
        assert_eq!(message_text("a\n\nb\n\n"), "a\n\nb\n");
    }
}
