//! What differs between two trees, or between a tree and the private index. It looks at no work tree.

use super::tree::File;
use super::{Call, GitError, Repo, names};
use agency_protocols::model::{Change, CommitId, RelPath, TreeId};
use std::collections::BTreeSet;
use std::path::Path;

/// A path that holds something else, or nothing, on one of two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) path: RelPath,
    pub(super) from: Option<File>,
    pub(super) to: Option<File>,
}

impl Difference {
    pub(super) fn change(&self) -> Change {
        Change { path: self.path.clone(), to: self.to.clone(), new: self.from.is_none() }
    }
}

/// Ids and modes only: no drivers, no renames, and a submodule counts whatever the configuration says of it.
const PLAIN: [&str; 5] =
    ["-z", "--raw", "--no-renames", "--no-ext-diff", "--ignore-submodules=none"];

const PATCH: [&str; 6] = [
    "--no-color",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=none",
    "--src-prefix=a/",
];

impl Repo {
    pub async fn diff(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Change>, GitError> {
        let call = Call::local("diff-tree").arg("-r").args(PLAIN).arg("--end-of-options");
        let call = call.arg(names::object(from.as_str())?).arg(names::object(to.as_str())?);
        let found = parse("diff-tree", &self.git(call).await?.stdout)?;
        Ok(found.iter().map(Difference::change).collect())
    }

    /// The change as people read it. `None`: it is longer than `limit` bytes. No filter, driver or conversion of the repository runs.
    pub async fn patch(
        &self,
        from: &TreeId,
        to: &TreeId,
        limit: u64,
    ) -> Result<Option<String>, GitError> {
        let call = Call::local("diff-tree").arg("-r").arg("-p").args(PATCH).arg("--end-of-options");
        let call = call.arg(names::object(from.as_str())?).arg(names::object(to.as_str())?);
        match self.git(call.stdout_max(limit)).await {
            Ok(output) => Ok(Some(String::from_utf8_lossy(&output.stdout).into_owned())),
            Err(GitError::TooMuch { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every file that a commit changed which `to` has and `from` has not, also where a later commit undid it. A merge counts with
    /// what differs from all its parents; what it brought in counts with the commits that it brought in.
    pub async fn touched(&self, from: &CommitId, to: &CommitId) -> Result<Vec<RelPath>, GitError> {
        let call = Call::local("log")
            .args(["-z", "--name-only", "--format=", "--diff-merges=combined", "--no-renames"])
            .args(["--no-ext-diff", "--ignore-submodules=none", "--no-show-signature", "--root"])
            .arg(names::object(to.as_str())?)
            .arg(format!("^{}", names::object(from.as_str())?))
            .arg("--");
        let output = self.git(call).await?.stdout;
        let paths = output.split(|&byte| byte == 0).filter(|path| !path.is_empty());
        let paths: BTreeSet<RelPath> = paths.map(names::rel_path).collect::<Result<_, _>>()?;
        Ok(paths.into_iter().collect())
    }

    /// From a tree or commit to what an index file holds.
    pub(super) async fn diff_index(
        &self,
        from: &str,
        index: &Path,
    ) -> Result<Vec<Difference>, GitError> {
        let call = Call::local("diff-index").arg("--cached").args(PLAIN).arg("--end-of-options");
        let call = call.arg(names::object(from)?).env("GIT_INDEX_FILE", index);
        parse("diff-index", &self.git(call).await?.stdout)
    }
}

/// Records of the form `:oldmode newmode oldid newid status NUL path NUL`.
fn parse(verb: &'static str, output: &[u8]) -> Result<Vec<Difference>, GitError> {
    let mut fields = output.split(|&byte| byte == 0);
    let mut found = Vec::new();
    while let Some(record) = fields.next().filter(|record| !record.is_empty()) {
        let odd = || GitError::odd_output(verb, record);
        let path = names::rel_path(fields.next().ok_or_else(odd)?)?;
        let record = std::str::from_utf8(record).map_err(|_| odd())?;
        let record = record.strip_prefix(':').ok_or_else(odd)?;
        let [old_mode, mode, old, object, _] = record.split(' ').collect::<Vec<_>>()[..] else {
            return Err(odd());
        };
        let side =
            |mode: &str, id: &str| (mode != NO_MODE).then(|| (mode.to_owned(), id.to_owned()));
        found.push(Difference { path, from: side(old_mode, old), to: side(mode, object) });
    }
    Ok(found)
}

/// The mode of a side that does not exist.
const NO_MODE: &str = "000000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_changes_and_half_a_record_is_refused() {
        let raw = b":000000 100755 00 ab A\0a b\0:100644 000000 cd 00 D\0gone\0";
        let found = parse("diff-tree", raw).unwrap();
        let changes: Vec<_> = found.iter().map(Difference::change).collect();
        let added = Some(("100755".to_owned(), "ab".to_owned()));
        assert_eq!(changes[0].path.as_str(), "a b");
        assert_eq!((&changes[0].to, changes[0].new), (&added, true));
        assert_eq!((&changes[1].to, changes[1].new), (&None, false));
        assert_eq!(found[1].from, Some(("100644".to_owned(), "cd".to_owned())));
        assert!(parse("diff-tree", b":000000 100755 00 ab A").is_err());
        assert!(parse("diff-tree", b"warning\0x\0").is_err());
    }
}
