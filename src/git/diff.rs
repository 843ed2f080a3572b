//! What differs between two trees, or between a tree and the private index. It looks at no work tree.

use super::{Call, GitError, Repo, names};
use crate::model::{Change, TreeId};
use std::path::Path;

/// Ids and modes only: no drivers, no renames, and a submodule counts whatever the configuration says of it.
const PLAIN: [&str; 5] =
    ["-z", "--raw", "--no-renames", "--no-ext-diff", "--ignore-submodules=none"];

impl Repo {
    pub async fn diff(&self, from: &TreeId, to: &TreeId) -> Result<Vec<Change>, GitError> {
        let call = Call::local("diff-tree").arg("-r").args(PLAIN).arg("--end-of-options");
        let call = call.arg(names::object(from.as_str())?).arg(names::object(to.as_str())?);
        parse("diff-tree", &self.git(call).await?.stdout)
    }

    /// From a tree or commit to what an index file holds.
    pub(super) async fn diff_index(
        &self,
        from: &str,
        index: &Path,
    ) -> Result<Vec<Change>, GitError> {
        let call = Call::local("diff-index").arg("--cached").args(PLAIN).arg("--end-of-options");
        let call = call.arg(names::object(from)?).env("GIT_INDEX_FILE", index);
        parse("diff-index", &self.git(call).await?.stdout)
    }
}

/// Records of the form `:oldmode newmode oldid newid status NUL path NUL`.
fn parse(verb: &'static str, output: &[u8]) -> Result<Vec<Change>, GitError> {
    let mut fields = output.split(|&byte| byte == 0);
    let mut changes = Vec::new();
    while let Some(record) = fields.next().filter(|record| !record.is_empty()) {
        let odd = || GitError::odd_output(verb, record);
        let path = names::rel_path(fields.next().ok_or_else(odd)?)?;
        let record = std::str::from_utf8(record).map_err(|_| odd())?;
        let record = record.strip_prefix(':').ok_or_else(odd)?;
        let [from_mode, mode, _, object, _] = record.split(' ').collect::<Vec<_>>()[..] else {
            return Err(odd());
        };
        let to = (mode != NO_MODE).then(|| (mode.to_owned(), object.to_owned()));
        changes.push(Change { path, to, new: from_mode == NO_MODE });
    }
    Ok(changes)
}

/// The mode of a side that does not exist.
const NO_MODE: &str = "000000";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_become_changes_and_half_a_record_is_refused() {
        let raw = b":000000 100755 00 ab A\0a b\0:100644 000000 cd 00 D\0gone\0";
        let changes = parse("diff-tree", raw).unwrap();
        let added = Some(("100755".to_owned(), "ab".to_owned()));
        assert_eq!(changes[0].path.as_str(), "a b");
        assert_eq!((&changes[0].to, changes[0].new), (&added, true));
        assert_eq!((&changes[1].to, changes[1].new), (&None, false));
        assert!(parse("diff-tree", b":000000 100755 00 ab A").is_err());
        assert!(parse("diff-tree", b"warning\0x\0").is_err());
    }
}
