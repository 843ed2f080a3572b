//! A git that hangs, floods or is missing, and what it may see. What agents plant is in `planted.rs`.

use super::Owner;
use crate::{GitError, Options, Repo};
use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

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
    let repo = owner.open_with(&owner.root, options.clone()).await;
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
