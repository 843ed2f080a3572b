//! Sends a commit to the branch's remote, with the owner's own credentials. It never forces and never retries.

use super::error::clipped;
use super::{Call, GitError, Repo, names};
use agency_protocols::model::CommitId;
use std::collections::BTreeMap;

/// What the remote made of a push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed {
    Done,
    /// The remote's branch has commits that ours lacks.
    NotFastForward {
        said: String,
    },
    NoRemote,
    Failed {
        said: String,
    },
}

impl Repo {
    pub async fn push(&self, branch: &str, commit: &CommitId) -> Result<Pushed, GitError> {
        let target = names::branch_ref(branch)?;
        let commit = names::object(commit.as_str())?;
        let Some(remote) = self.remote_of(branch).await? else {
            return Ok(Pushed::NoRemote);
        };
        if let Some(failed) = self.send_lfs(&remote, &target, commit).await? {
            return Ok(failed);
        }
        let call = Call::network("push")
            .args([
                "--porcelain",
                "--no-force",
                "--no-follow-tags",
                "--recurse-submodules=no",
                "--",
            ])
            .arg(&remote)
            .arg(format!("{commit}:{target}"))
            .fine(&[0, 1, 128]);
        match self.git(call).await {
            Ok(output) => Ok(outcome(output.code, &output.stdout, &output.stderr)),
            Err(error @ GitError::TimedOut { .. }) => {
                Ok(Pushed::Failed { said: error.to_string() })
            }
            Err(error) => Err(error),
        }
    }

    /// What the owner's hook would do: contents first, so that no pointer arrives without them.
    async fn send_lfs(
        &self,
        remote: &str,
        target: &str,
        commit: &str,
    ) -> Result<Option<Pushed>, GitError> {
        if !self.guarded()?.sends_lfs() {
            return Ok(None);
        }
        let url = Call::local("remote").args(["get-url", "--push", "--", remote]);
        let url = self.git(url).await?.line("remote")?.to_owned();
        let line = format!("{target} {commit} {target} {}\n", self.0.format.zeros());
        let call = Call::network("lfs").args(["pre-push", remote, &url]);
        match self.git(call.stdin(line.into_bytes())).await {
            Ok(_) => Ok(None),
            Err(error @ (GitError::Refused { .. } | GitError::TimedOut { .. })) => {
                Ok(Some(Pushed::Failed { said: error.to_string() }))
            }
            Err(error) => Err(error),
        }
    }

    /// Where the owner's own `git push` would send the branch: what the branch says, else the only remote.
    pub(super) async fn remote_of(&self, branch: &str) -> Result<Option<String>, GitError> {
        let keys = r"^(branch\..*\.(push)?remote|remote\.(pushdefault|.*\.(push)?url))$";
        let call = Call::local("config").args(["-z", "--get-regexp", keys]).fine(&[0, 1]);
        let output = self.git(call).await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let settings: BTreeMap<&str, &str> =
            text.split('\0').filter_map(|setting| setting.split_once('\n')).collect();
        let (pinned, now) = self.guarded()?.branches();
        let trusted = as_trusted(&settings, &pinned, &now);
        let (here, there) = (choose(branch, &settings), choose(branch, &trusted));
        if here == there { Ok(here) } else { Err(elsewhere(branch, there, here)) }
    }
}

/// The same settings, with the branches' remotes as the owner trusted them.
fn as_trusted<'a>(
    settings: &BTreeMap<&'a str, &'a str>,
    pinned: &'a BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> BTreeMap<&'a str, &'a str> {
    let elsewhere = |key: &str| !now.contains_key(key);
    let settings = settings.iter().map(|(key, value)| (*key, *value));
    let settings = settings.filter(|(key, _)| elsewhere(key));
    settings.chain(pinned.iter().map(|(key, value)| (key.as_str(), value.as_str()))).collect()
}

/// A branch's settings never hold git, but they must not send its commits elsewhere.
fn elsewhere(branch: &str, was: Option<String>, is: Option<String>) -> GitError {
    let words =
        |remote: Option<String>| remote.map_or("nowhere".to_owned(), |r| format!("to `{r}`"));
    let (was, is) = (words(was), words(is));
    let change =
        format!("`.git/config`: `branch.{branch}` went {was} when it was pushed, goes {is}");
    GitError::Held { changes: vec![change] }
}

fn choose(branch: &str, settings: &BTreeMap<&str, &str>) -> Option<String> {
    let mut remotes: Vec<&str> = settings.keys().filter_map(|key| remote_name(key)).collect();
    remotes.sort_unstable();
    remotes.dedup();
    let wishes = [
        format!("branch.{branch}.pushremote"),
        "remote.pushdefault".to_owned(),
        format!("branch.{branch}.remote"),
    ];
    let wish = wishes.iter().find_map(|key| settings.get(key.as_str()).copied());
    match (wish, remotes.as_slice()) {
        // A bare address or `.` is not a remote that the owner set up for pushes.
        (Some(wish), remotes) => remotes.contains(&wish).then(|| wish.to_owned()),
        (None, [only]) => Some((*only).to_owned()),
        (None, _) => None,
    }
}

fn remote_name(key: &str) -> Option<&str> {
    let key = key.strip_prefix("remote.")?;
    key.strip_suffix(".url").or_else(|| key.strip_suffix(".pushurl"))
}

fn outcome(code: i32, stdout: &[u8], stderr: &[u8]) -> Pushed {
    if code == 0 {
        return Pushed::Done;
    }
    let said = clipped(&[stdout, b"\n".as_slice(), stderr].concat());
    let behind = ["(fetch first)", "(non-fast-forward)"].iter().any(|words| said.contains(words));
    if behind { Pushed::NotFastForward { said } } else { Pushed::Failed { said } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(settings: &[(&'static str, &'static str)]) -> Option<String> {
        choose("main", &settings.iter().copied().collect())
    }

    #[test]
    fn the_branch_chooses_its_remote_else_the_only_one_is_taken() {
        let origin = ("remote.origin.url", "u");
        let fork = ("remote.fork.url", "v");
        assert_eq!(chosen(&[origin]).as_deref(), Some("origin"));
        assert_eq!(chosen(&[origin, ("remote.origin.pushurl", "w")]).as_deref(), Some("origin"));
        assert_eq!(chosen(&[origin, fork]), None);
        assert_eq!(
            chosen(&[origin, fork, ("branch.main.remote", "fork")]).as_deref(),
            Some("fork")
        );
        let both =
            [origin, fork, ("branch.main.remote", "origin"), ("branch.main.pushremote", "fork")];
        assert_eq!(chosen(&both).as_deref(), Some("fork"));
        assert_eq!(chosen(&[origin, ("branch.main.remote", ".")]), None);
        assert_eq!(chosen(&[]), None);
    }
}
