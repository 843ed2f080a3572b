//! Which names from outside may be put into a git command. It looks at text only, never at the repository.

use super::GitError;
use agency_protocols::model::RelPath;

/// A branch's full ref name.
pub(super) fn branch_ref(branch: &str) -> Result<String, GitError> {
    checked(branch, "a branch name", is_ref_tail).map(|branch| format!("refs/heads/{branch}"))
}

/// The ref that keeps a snapshot alive.
pub(super) fn snapshot_ref(label: &str) -> Result<String, GitError> {
    checked(label, "a snapshot's label", is_ref_tail)
        .map(|label| format!("refs/agency/snapshots/{label}"))
}

/// The ref that keeps a planned commit alive. Flat, so that the branches `a` and `a/b` of different days never
/// stand in each other's way.
pub(super) fn planned_ref(branch: &str) -> Result<String, GitError> {
    checked(branch, "a branch name", is_ref_tail).map(|branch| {
        format!("refs/agency/planned/{}", branch.replace('%', "%25").replace('/', "%2F"))
    })
}

/// A full ref name, of a branch, a tag, a remote's branch or of our own.
pub(super) fn any_ref(name: &str) -> Result<&str, GitError> {
    let kinds = ["refs/heads/", "refs/tags/", "refs/remotes/", "refs/agency/"];
    let holds =
        |name: &str| kinds.iter().any(|kind| name.strip_prefix(kind).is_some_and(is_ref_tail));
    checked(name, "a full ref name", holds)
}

/// Where a remote's branch is kept while we look at it.
pub(super) fn fetched_ref(branch: &str) -> Result<String, GitError> {
    planned_ref(branch).map(|name| name.replacen("planned", "fetched", 1))
}

pub(super) fn object(id: &str) -> Result<&str, GitError> {
    checked(id, "a full object id", is_object)
}

pub(super) fn is_object(id: &str) -> bool {
    matches!(id.len(), 40 | 64) && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

pub(super) fn file_mode(mode: &str) -> Result<&str, GitError> {
    checked(mode, "a file mode", |mode| matches!(mode, "100644" | "100755" | "120000" | "160000"))
}

/// A path as git printed it.
pub(super) fn rel_path(bytes: &[u8]) -> Result<RelPath, GitError> {
    let odd = || GitError::OddPath { path: super::error::clipped(bytes) };
    let text = std::str::from_utf8(bytes).map_err(|_| odd())?;
    RelPath::new(text).map_err(|_| odd())
}

/// A path that is about to go into a tree: git itself takes `.git` in some of its commands and not in others.
pub(super) fn tree_path(path: &RelPath) -> Result<&RelPath, GitError> {
    let reaches_in = path.as_str().split('/').any(|part| part.eq_ignore_ascii_case(".git"));
    if reaches_in { Err(GitError::OddPath { path: path.to_string() }) } else { Ok(path) }
}

/// The rules of `git check-ref-format`, and no leading dash.
pub(super) fn is_ref_tail(name: &str) -> bool {
    let bad = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    name.len() <= 200
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && name != "@"
        && !name.contains(bad)
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
}

fn checked<'a>(
    found: &'a str,
    wanted: &'static str,
    holds: impl Fn(&str) -> bool,
) -> Result<&'a str, GitError> {
    if holds(found) {
        Ok(found)
    } else {
        Err(GitError::BadName { found: super::error::clipped(found.as_bytes()), wanted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_git_would_take_pass() {
        for good in ["main", "feat/x-1", "a.b", "ümlaut", "100%"] {
            assert!(branch_ref(good).is_ok(), "{good:?} must pass");
        }
        let bad = [
            "", "-f", "a b", "a..b", "a/", "/a", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a.",
            "@", "a@{1}", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a\nb", "a\0b", "../x",
        ];
        for bad in bad {
            assert!(
                branch_ref(bad).is_err() && snapshot_ref(bad).is_err(),
                "{bad:?} must not pass"
            );
        }
    }

    #[test]
    fn an_id_is_full_lower_case_hex() {
        assert!(object(&"a1".repeat(20)).is_ok() && object(&"a1".repeat(32)).is_ok());
        for bad in ["", "abc", "HEAD", "--all", &"A1".repeat(20), &"a1".repeat(21)] {
            assert!(object(bad).is_err(), "{bad:?} must not pass");
        }
    }

    #[test]
    fn planned_refs_of_nested_branch_names_do_not_nest() {
        assert_eq!(planned_ref("a/b%").unwrap(), "refs/agency/planned/a%2Fb%25");
    }

    #[test]
    fn no_path_reaches_into_the_git_directory() {
        assert!(tree_path(&RelPath::fixed("a/.GIT/config")).is_err());
        assert!(tree_path(&RelPath::fixed(".gitignore")).is_ok());
    }
}
