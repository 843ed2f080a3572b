//! Pushes to a bare repository beside the owner's.

use super::{Owner, plan_all};
use crate::Pushed;
use agency_protocols::model::CommitId;
use std::fs;

fn with_remote() -> Owner {
    let owner = Owner::with_commit();
    owner.git(&["init", "--quiet", "--bare", "../bare.git"]);
    owner.git(&["remote", "add", "hub", "../bare.git"]);
    owner
}

fn at_remote(owner: &Owner) -> CommitId {
    let bare = owner.dir.path().join("bare.git");
    CommitId::new(owner.git_in(&bare, &["rev-parse", "refs/heads/main"]))
}

#[tokio::test]
async fn a_commit_arrives_and_again_is_fine() {
    // covers: LP-19
    let owner = with_remote();
    let repo = owner.open().await;
    let config = fs::read(owner.at(".git/config")).unwrap();
    assert_eq!(repo.push("main", &owner.head()).await.unwrap(), Pushed::Done);
    owner.write("a.txt", "more\n");
    let planned = plan_all(&repo, &[]).await;
    repo.commit(&planned).await.unwrap();
    assert_eq!(repo.push("main", &planned.id).await.unwrap(), Pushed::Done);
    assert_eq!(repo.push("main", &planned.id).await.unwrap(), Pushed::Done);
    assert_eq!(at_remote(&owner), planned.id);
    assert_eq!(fs::read(owner.at(".git/config")).unwrap(), config);
}

#[tokio::test]
async fn what_is_no_fast_forward_is_never_forced() {
    // covers: LP-19
    let owner = with_remote();
    owner.git(&["config", "remote.hub.push", "+refs/heads/*:refs/heads/*"]);
    let repo = owner.open().await;
    let first = owner.head();
    owner.git(&["commit", "--quiet", "--allow-empty", "-m", "somebody else"]);
    let theirs = owner.head();
    owner.git(&["push", "--quiet", "hub", "main"]);
    owner.git(&["reset", "--quiet", "--hard", first.as_str()]);
    owner.git(&["commit", "--quiet", "--allow-empty", "-m", "ours"]);
    let pushed = repo.push("main", &owner.head()).await.unwrap();
    assert!(matches!(pushed, Pushed::NotFastForward { .. }), "{pushed:?}");
    assert_eq!(at_remote(&owner), theirs);
}

#[tokio::test]
async fn no_remote_and_a_broken_remote_are_told_apart() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    assert_eq!(repo.push("main", &owner.head()).await.unwrap(), Pushed::NoRemote);
    owner.git(&["remote", "add", "hub", "../not-there.git"]);
    let pushed = owner.open().await.push("main", &owner.head()).await.unwrap();
    assert!(matches!(&pushed, Pushed::Failed { said } if said.contains("not-there")), "{pushed:?}");
}

#[tokio::test]
async fn a_remote_that_refuses_is_a_failure_with_its_words() {
    let owner = with_remote();
    let hook = "../bare.git/hooks/pre-receive";
    owner.script(hook, "#!/bin/sh\necho not today >&2\nexit 1\n");
    let pushed = owner.open().await.push("main", &owner.head()).await.unwrap();
    assert!(matches!(&pushed, Pushed::Failed { said } if said.contains("not today")), "{pushed:?}");
}
