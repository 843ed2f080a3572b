//! What an agent may plant in a repository, and a git that never ends.

use super::{Owner, plan_all};
use crate::git::{GitError, Options, Pushed, Repo};
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const HOOKS: &[&str] = &[
    "pre-commit",
    "post-commit",
    "commit-msg",
    "reference-transaction",
    "post-index-change",
    "pre-push",
    "post-checkout",
    "pre-auto-gc",
    "push-to-checkout",
    "fsmonitor-watchman",
];

/// Everything that leaves a file behind when it runs.
fn plant(owner: &Owner, trap: &Path) {
    let script = format!("#!/bin/sh\necho \"$0\" >> '{}'\n", trap.display());
    for hook in HOOKS {
        owner.script(&format!(".git/hooks/{hook}"), &script);
        owner.script(&format!(".githooks/{hook}"), &script);
    }
    owner.script(".githooks/any", &script);
    let any = owner.at(".githooks/any").display().to_string();
    for key in [
        "core.fsmonitor",
        "diff.external",
        "core.editor",
        "core.pager",
        "gpg.program",
        "core.askPass",
    ] {
        owner.git(&["config", key, &any]);
    }
    owner.git(&["config", "core.hooksPath", ".githooks"]);
    owner.git(&["config", "commit.gpgSign", "true"]);
    owner.git(&["config", "push.gpgSign", "if-asked"]);
    owner.git(&["config", "core.worktree", owner.dir.path().to_str().unwrap()]);
}

#[tokio::test]
async fn nothing_that_was_planted_runs() {
    // covers: SE-01
    let owner = Owner::with_commit();
    owner.git(&["init", "--quiet", "--bare", "../bare.git"]);
    owner.git(&["remote", "add", "hub", "../bare.git"]);
    let repo = owner.open().await;
    let trap = owner.dir.path().join("trap");
    plant(&owner, &trap);
    owner.write("a.txt", "more\n");
    let planned = plan_all(&repo, &[]).await;
    repo.commit(&planned).await.unwrap();
    assert!(repo.contains("main", planned.parent.as_ref().unwrap()).await.unwrap());
    assert_eq!(repo.push("main", &planned.id).await.unwrap(), Pushed::Done);
    let ran = fs::read_to_string(&trap).unwrap_or_default();
    assert_eq!(ran, "", "planted programs ran");
    let taken = planned.changes.iter().any(|change| change.path.as_str() == "a.txt");
    assert!(taken, "a planted core.worktree must not lead elsewhere");
}

#[test]
fn the_trap_itself_works() {
    let owner = Owner::with_commit();
    let trap = owner.dir.path().join("trap");
    plant(&owner, &trap);
    owner.git(&["config", "--unset", "core.worktree"]);
    owner.git(&["config", "--unset", "commit.gpgSign"]);
    owner.git(&["commit", "--quiet", "--allow-empty", "-m", "by plain git"]);
    let ran = fs::read_to_string(&trap).unwrap();
    for program in ["post-commit", "reference-transaction", "any"] {
        assert!(ran.contains(program), "{program} is not in {ran}");
    }
}

#[tokio::test]
async fn a_planted_replacement_does_not_change_what_a_commit_holds() {
    // covers: SE-01
    let owner = Owner::with_commit();
    let honest = owner.head();
    owner.write("a.txt", "forged\n");
    owner.git(&["commit", "--quiet", "--all", "-m", "forged"]);
    let forged = owner.head();
    owner.git(&["reset", "--quiet", "--hard", honest.as_str()]);
    owner.git(&["replace", honest.as_str(), forged.as_str()]);
    let repo = owner.open().await;
    let file = repo.file_at(&honest, &super::path("a.txt"), 100).await.unwrap();
    assert_eq!(file.as_deref(), Some(b"a\n".as_slice()));
}

#[tokio::test]
async fn the_owners_filters_still_work() {
    // covers: SE-01
    let owner = Owner::with_commit();
    owner.git(&["config", "filter.upper.clean", "tr a-z A-Z"]);
    owner.write(".gitattributes", "*.up filter=upper\n");
    owner.write("x.up", "large\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    let file = repo.file_at(&planned.id, &super::path("x.up"), 100).await.unwrap();
    assert_eq!(file.as_deref(), Some(b"LARGE\n".as_slice()));
}

/// Options under which `git` is a script of ours from now on, once the repository is open.
async fn with_fake_git(owner: &Owner, body: &str, deadline: Duration) -> (Repo, Options) {
    let bin = owner.dir.path().join("bin");
    let real = find_git();
    owner
        .script("../bin/git", &format!("#!/bin/sh\n[ -e ../armed ] || exec {real} \"$@\"\n{body}"));
    let mut options = Options { deadline, ..owner.options() };
    let path = std::env::join_paths([bin, "/usr/bin".into(), "/bin".into()]).unwrap();
    options.env.retain(|(name, _)| name != "PATH");
    options.env.push((OsString::from("PATH"), path));
    let repo = Repo::open_with(&owner.root, options.clone()).await.unwrap().unwrap();
    owner.write("../armed", "");
    (repo, options)
}

fn find_git() -> String {
    let path = std::env::var_os("PATH").unwrap();
    let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
    git.unwrap().display().to_string()
}

fn alive(pid: &str) -> bool {
    // A zombie that nobody reaps is as dead as it gets.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_git_that_hangs_is_ended_with_its_children() {
    // covers: SE-01
    let owner = Owner::with_commit();
    let body = "sleep 1000 & echo $! > ../child\nwait\n";
    let (repo, _) = with_fake_git(&owner, body, Duration::from_millis(500)).await;
    let started = Instant::now();
    let ended = repo.snapshot("end", None).await;
    assert!(matches!(ended, Err(GitError::TimedOut { .. })), "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
    let child = fs::read_to_string(owner.at("../child")).unwrap();
    let give_up = Instant::now() + Duration::from_secs(10);
    while alive(child.trim()) {
        assert!(Instant::now() < give_up, "the child {child} outlives its git");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_git_that_ignores_a_polite_end_is_killed() {
    let owner = Owner::with_commit();
    let body = "trap '' TERM\necho $$ > ../child\nwhile :; do sleep 0.1; done\n";
    let (repo, _) = with_fake_git(&owner, body, Duration::from_millis(300)).await;
    let ended = repo.snapshot("end", None).await;
    assert!(matches!(ended, Err(GitError::TimedOut { .. })), "{ended:?}");
    assert!(!alive(fs::read_to_string(owner.at("../child")).unwrap().trim()));
}

#[tokio::test]
async fn endless_output_is_cut_off() {
    let owner = Owner::with_commit();
    let (repo, _) = with_fake_git(&owner, "exec cat /dev/zero\n", Duration::from_secs(60)).await;
    let head = owner.head();
    let cut = repo.file_at(&head, &super::path("a.txt"), 1024).await;
    assert!(matches!(cut, Err(GitError::TooMuch { .. })), "{cut:?}");
}

#[tokio::test]
async fn git_sees_only_the_listed_environment() {
    // covers: SE-01
    let owner = Owner::with_commit();
    let (_, mut options) = with_fake_git(&owner, "env > ../seen\n", Duration::from_secs(10)).await;
    for (name, value) in
        [("GIT_DIR", "/x"), ("TOKEN", "x"), ("SSH_AUTH_SOCK", "/s"), ("LD_PRELOAD", "")]
    {
        options.env.push((name.into(), value.into()));
    }
    let opened = Repo::open_with(&owner.root, options).await;
    assert!(opened.is_err(), "the fake answers nothing");
    let seen = fs::read_to_string(owner.at("../seen")).unwrap();
    let has = |name: &str| seen.lines().any(|line| line.starts_with(&format!("{name}=")));
    assert!(has("HOME") && has("PATH") && seen.contains("GIT_TERMINAL_PROMPT=0"));
    assert!(
        !has("GIT_DIR") && !has("TOKEN") && !has("SSH_AUTH_SOCK") && !has("LD_PRELOAD"),
        "{seen}"
    );
}

#[tokio::test]
async fn without_git_there_is_an_error_that_says_so() {
    let owner = Owner::with_commit();
    let env = vec![("PATH".into(), "relative:/nonexistent".into())];
    let opened = Repo::open_with(&owner.root, Options { env, ..owner.options() }).await;
    assert!(matches!(opened, Err(GitError::Missing)));
}
