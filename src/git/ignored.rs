//! What the owner keeps out of git. A file that git follows already is not ignored, whatever the patterns say.

use super::{Call, GitError, Repo, names};
use crate::model::RelPath;

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
}
