//! The whole history of a few files, in a handful of calls however long it is. It changes nothing.

use super::history::{Batch, SIDE_MAX, SIDES_MAX, commit_seen};
use super::{Call, GitError, Repo, names};
use agency_protocols::model::{BlobId, CommitId, Touch, Touched};
use std::collections::{BTreeMap, BTreeSet};

/// How many files are asked for at a time.
const CHUNK: usize = 200;

impl Repo {
    /// The commits on the first-parent line of HEAD that changed one of these files or folders, the oldest first.
    pub async fn touches(&self, paths: &[&str]) -> Result<Vec<Touch>, GitError> {
        let Some(head) = self.checkout().await?.head else { return Ok(Vec::new()) };
        let list = Call::local("rev-list")
            .args(["--reverse", "--first-parent", "--no-commit-header", "--encoding=UTF-8"])
            .arg("--format=%H%x00%P%x00%an%x00%ae%x00%ct%x00%s")
            .args([names::object(head.as_str())?, "--"]);
        let output = self.git(named(list, paths)).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let odd = |line: &str| GitError::odd_output("rev-list", line.as_bytes());
        let commits = text.lines().map(|line| commit_seen(line).ok_or_else(|| odd(line)));
        let commits: Vec<_> = commits.collect::<Result<_, _>>()?;
        let question = |commit: &agency_protocols::model::CommitSeen| {
            let parent = commit.parents.first().map_or("", CommitId::as_str);
            format!("{} {parent}", commit.id).trim_end().to_owned() + "\n"
        };
        let questions: String = commits.iter().map(question).collect();
        let diff = Call::local("diff-tree")
            .args(["--stdin", "--root", "-r", "-z", "--raw", "--no-abbrev"])
            .args(["--no-renames", "--no-ext-diff", "--ignore-submodules=none", "--"]);
        let output = self.git(named(diff, paths).stdin(questions.into_bytes())).await?;
        let mut changes = parse(&output.stdout)?;
        let touch = |commit: agency_protocols::model::CommitSeen| {
            let changes = changes.remove(commit.id.as_str()).unwrap_or_default();
            Touch { commit, changes }
        };
        Ok(commits.into_iter().map(touch).collect())
    }

    /// The commits that HEAD has on top of this one.
    pub async fn since(&self, commit: &str) -> Result<Option<BTreeSet<CommitId>>, GitError> {
        let fits =
            (4..=64).contains(&commit.len()) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !fits {
            return Ok(None);
        }
        let find = Call::local("rev-parse").args(["--verify", "--quiet", "--end-of-options"]);
        let found = self.git(find.arg(format!("{commit}^{{commit}}")).fine(&[0, 1, 128])).await?;
        if found.code != 0 {
            return Ok(None);
        }
        let base = names::object(found.line("rev-parse")?)?.to_owned();
        let list = Call::local("rev-list").arg("HEAD").arg(format!("^{base}"));
        let output = self.git(list).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Some(text.lines().map(CommitId::new).collect()))
    }

    /// The bytes of these files; those larger than a mebibyte are left out.
    pub async fn blobs(
        &self,
        ids: &BTreeSet<BlobId>,
    ) -> Result<BTreeMap<BlobId, Vec<u8>>, GitError> {
        let mut found = BTreeMap::new();
        let small = self.small(ids).await?;
        for chunk in small.chunks(CHUNK) {
            let call = Call::local("cat-file").arg("--batch").stdin(lines(chunk.iter())?);
            let output = self.git(call.stdout_max(SIDES_MAX)).await?.stdout;
            let mut answers = Batch(&output);
            for id in chunk {
                if let Some(bytes) = answers.next()? {
                    found.insert(id.clone(), bytes);
                }
            }
        }
        Ok(found)
    }

    async fn small(&self, ids: &BTreeSet<BlobId>) -> Result<Vec<BlobId>, GitError> {
        let call = Call::local("cat-file").arg("--batch-check").stdin(lines(ids.iter())?);
        let output = self.git(call).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let small = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
            [id, "blob", size] if size.parse().is_ok_and(|size: usize| size <= SIDE_MAX) => {
                Some(BlobId::new(id))
            }
            _ => None,
        };
        Ok(text.lines().filter_map(small).collect())
    }
}

fn named(call: Call, paths: &[&str]) -> Call {
    paths.iter().fold(call, |call, path| call.arg(path)).env("GIT_LITERAL_PATHSPECS", "1")
}

fn lines<'a>(ids: impl Iterator<Item = &'a BlobId>) -> Result<Vec<u8>, GitError> {
    let mut text = String::new();
    for id in ids {
        text.push_str(names::object(id.as_str())?);
        text.push('\n');
    }
    Ok(text.into_bytes())
}

/// `commit NUL`, then records of the form `:oldmode newmode oldid newid status NUL path NUL`.
fn parse(output: &[u8]) -> Result<BTreeMap<String, Vec<Touched>>, GitError> {
    let mut fields = output.split(|&byte| byte == 0);
    let mut all: BTreeMap<String, Vec<Touched>> = BTreeMap::new();
    let mut commit = String::new();
    while let Some(field) = fields.next().filter(|field| !field.is_empty()) {
        let odd = || GitError::odd_output("diff-tree", field);
        let text = std::str::from_utf8(field).map_err(|_| odd())?;
        let Some(record) = text.strip_prefix(':') else {
            names::object(text).map_err(|_| odd())?.clone_into(&mut commit);
            continue;
        };
        let path = fields.next().ok_or_else(odd)?;
        let [old_mode, mode, old, new, _] = record.split(' ').collect::<Vec<_>>()[..] else {
            return Err(odd());
        };
        let side = |mode: &str, id: &str| mode.starts_with("100").then(|| BlobId::new(id));
        // A name that we could not name in return is nobody's protocol file.
        if let Ok(path) = names::rel_path(path) {
            let touched = Touched { path, before: side(old_mode, old), after: side(mode, new) };
            all.entry(commit.clone()).or_default().push(touched);
        }
    }
    Ok(all)
}
