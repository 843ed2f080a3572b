//! The wrapper against real git, in folders of its own. No network, no configuration of whoever runs the tests.

mod checkout;
mod commit;
mod hostile;
mod merge;
mod objects;
mod pinned;
mod plain;
mod planted;
mod push;
mod ranges;
mod recent;
mod sandbox;
mod snapshot;

use super::{Options, Repo};
use agency_protocols::model::{Change, PlannedCommit, RelPath, Timestamp};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A repository with an owner, in a folder that goes away with it.
struct Owner {
    dir: TempDir,
    root: PathBuf,
}

impl Owner {
    /// On `main`, before the first commit.
    fn new() -> Self {
        Self::with_format("--object-format=sha1")
    }

    fn with_format(format: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        fs::create_dir_all(&root).unwrap();
        let owner = Self { dir, root };
        owner.git(&["init", "--quiet", "--initial-branch=main", format]);
        owner
    }

    /// On `main`, with `a.txt` and `dir/b.txt` committed.
    fn with_commit() -> Self {
        Self::new().and_commit()
    }

    fn and_commit(self) -> Self {
        self.write("a.txt", "a\n");
        self.write("dir/b.txt", "b\n");
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "-m", "first"]);
        self
    }

    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let file = self.at(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Another process writes it: while one of ours has it open, a child that is forked by another test holds it too, and
    /// it cannot be started.
    fn script(&self, path: &str, text: &str) {
        let plain = format!("{path}.text");
        self.write(&plain, text);
        fs::set_permissions(self.at(&plain), fs::Permissions::from_mode(0o755)).unwrap();
        let copied = Command::new("cp").arg(self.at(&plain)).arg(self.at(path)).status();
        assert!(copied.unwrap().success());
        fs::remove_file(self.at(&plain)).unwrap();
    }

    /// The owner's own git, in the repository.
    fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.root, args)
    }

    fn git_in(&self, dir: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Owner", "-c", "user.email=owner@example.org"]).args(args);
        command.current_dir(dir).env_clear().envs(self.env());
        let output = command.output().unwrap();
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn env(&self) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
        let path = std::env::var_os("PATH").unwrap();
        vec![
            ("HOME".into(), self.dir.path().into()),
            ("PATH".into(), path),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ]
    }

    fn options(&self) -> Options {
        let index_wait = Duration::from_millis(60);
        Options { env: self.env(), index_wait, ..Options::from_env() }
    }

    async fn open(&self) -> Repo {
        self.open_at(&self.root).await
    }

    async fn open_at(&self, root: &Path) -> Repo {
        self.open_with(root, self.options()).await
    }

    /// At first sight: what is there now is trusted.
    async fn open_with(&self, root: &Path, options: Options) -> Repo {
        let repo = Repo::open_with(root, options).await.unwrap().expect("this is a work tree");
        let checked_git_dir =
            agency_protocols::model::Digest::of(root.as_os_str().as_encoded_bytes());
        repo.guard(self.dir.path().join("vaults").join(checked_git_dir.short()), None).unwrap();
        repo
    }

    fn head(&self) -> agency_protocols::model::CommitId {
        agency_protocols::model::CommitId::new(self.git(&["rev-parse", "HEAD"]))
    }

    fn status(&self) -> String {
        self.git(&["status", "--porcelain"])
    }
}

fn path(text: &str) -> RelPath {
    RelPath::new(text).unwrap()
}

fn paths(changes: &[Change]) -> Vec<&str> {
    changes.iter().map(|change| change.path.as_str()).collect()
}

fn date() -> Timestamp {
    Timestamp::from_timestamp(1_700_000_000, 0).unwrap()
}

/// A commit on `main` that takes everything that changed since HEAD.
async fn plan_all(repo: &Repo, write: &[(RelPath, Vec<u8>)]) -> PlannedCommit {
    let before = match repo.checkout().await.unwrap().head {
        Some(head) => repo.ask_tree(&head).await,
        None => agency_protocols::model::TreeId::new(repo.0.format.empty_tree()),
    };
    let snapshot = repo.snapshot("end", Some(&before)).await.unwrap();
    let parent = snapshot.checkout.head.as_ref();
    repo.plan("main", parent, &snapshot.changed, write, "Review loop: Step 1 ready", date())
        .await
        .unwrap()
}

impl Repo {
    /// Whether git may run here.
    fn check(&self) -> Result<(), super::GitError> {
        self.guarded()?.check().map(drop)
    }

    async fn ask_tree(
        &self,
        commit: &agency_protocols::model::CommitId,
    ) -> agency_protocols::model::TreeId {
        let call = super::Call::local("rev-parse").arg(format!("{commit}^{{tree}}"));
        let output = self.git(call).await.unwrap();
        agency_protocols::model::TreeId::new(output.line("rev-parse").unwrap())
    }
}
