//! What the owner keeps out of git. A file that git follows already is not ignored, whatever the patterns say.

use super::{Call, GitError, Repo, names};
use agency_protocols::model::RelPath;
use std::collections::BTreeSet;

const HERE: &str = "./";

impl Repo {
    /// Those of these paths that are ignored.
    pub async fn ignored(&self, paths: &[RelPath]) -> Result<Vec<RelPath>, GitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let mut lines = Vec::new();
        for path in paths {
            lines.extend(names::tree_path(path)?.as_str().bytes());
            lines.push(0);
        }
        let call = Call::local("check-ignore").args(["-z", "--stdin"]).stdin(lines).fine(&[0, 1]);
        let output = self.git(call).await?;
        let found = output.stdout.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        found.map(names::rel_path).collect()
    }

    /// Those of these names that the patterns match, whatever git follows.
    pub(super) async fn matched<'a>(
        &self,
        paths: impl Iterator<Item = &'a str>,
    ) -> Result<BTreeSet<String>, GitError> {
        // A name that begins with a colon would be a pattern.
        let lines = paths.flat_map(|path| format!("{HERE}{path}\0").into_bytes()).collect();
        let call = Call::local("check-ignore").args(["-z", "--stdin", "--no-index"]);
        let output = self.git(call.stdin(lines).fine(&[0, 1])).await?;
        let found = output.stdout.split(|&byte| byte == 0).filter_map(|path| {
            let path = std::str::from_utf8(path).ok()?.strip_prefix(HERE)?;
            Some(path.to_owned())
        });
        Ok(found.collect())
    }
}
