//! A look that is spared must say what the look itself would have said.

use super::{Owner, date, path};
use crate::{Committed, Repo};
use agency_protocols::model::{RelPath, Snapshot};
use std::fs;
use std::time::SystemTime;

const DONE: Committed = Committed::Done { index_stale: false };

fn ours() -> [(RelPath, Vec<u8>); 1] {
    [(path("STATE.md"), b"ours\n".to_vec())]
}

/// An agent's work, our own file, and the commit of both.
async fn turn(owner: &Owner, repo: &Repo) {
    owner.write("a.txt", "by the agent\n");
    owner.write("flag", "mine\n");
    let end = repo.snapshot("end", None).await.unwrap();
    let take: Vec<_> = changed_since_head(&end, repo).await;
    let parent = owner.head();
    let planned = repo.plan("main", Some(&parent), &take, &ours(), "m", date()).await.unwrap();
    owner.write("STATE.md", "ours\n");
    fs::remove_file(owner.at("flag")).unwrap();
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
}

async fn changed_since_head(end: &Snapshot, repo: &Repo) -> Vec<agency_protocols::model::Change> {
    let head = repo.ask_tree(end.checkout.head.as_ref().unwrap()).await;
    let changes = repo.diff(&head, &end.tree).await.unwrap();
    changes.into_iter().filter(|change| change.path.as_str() == "a.txt").collect()
}

fn index_time(repo: &Repo) -> SystemTime {
    fs::metadata(repo.private_file("index")).unwrap().modified().unwrap()
}

/// The same question to somebody who remembers nothing.
async fn looked_anew(owner: &Owner) -> Snapshot {
    owner.open().await.snapshot("anew", None).await.unwrap()
}

#[tokio::test]
async fn after_a_commit_of_everything_the_tree_is_the_commits() {
    // covers: LP-19
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    turn(&owner, &repo).await;
    let before = index_time(&repo);
    let start = repo.snapshot("start", None).await.unwrap();
    assert_eq!(index_time(&repo), before, "nothing was looked at");
    owner.write("made.txt", "by the next agent\n");
    let end = repo.snapshot("end", Some(&start.tree)).await.unwrap();
    assert_eq!(super::paths(&end.changed), ["made.txt"]);
    assert_eq!(end.dirty, [path("made.txt")]);
    fs::remove_file(owner.at("made.txt")).unwrap();
    assert_eq!(looked_anew(&owner).await, start);
}

#[tokio::test]
async fn what_the_commit_left_out_is_looked_at() {
    // covers: LP-19
    for spoil in [
        |owner: &Owner| owner.write("STATE.md", "not ours\n"),
        |owner: &Owner| owner.write("flag", "again\n"),
        |owner: &Owner| fs::remove_file(owner.at("STATE.md")).unwrap(),
    ] {
        let owner = Owner::with_commit();
        let repo = owner.open().await;
        turn(&owner, &repo).await;
        spoil(&owner);
        let start = repo.snapshot("start", None).await.unwrap();
        assert_eq!(start.dirty.len(), 1, "{:?}", start.dirty);
        assert_eq!(looked_anew(&owner).await, start);
    }
}

#[tokio::test]
async fn half_an_edit_of_the_owners_stays_dirty_after_our_commit() {
    // covers: LP-19
    let owner = Owner::with_commit();
    owner.write("dir/b.txt", "half an edit\n");
    let repo = owner.open().await;
    turn(&owner, &repo).await;
    let start = repo.snapshot("start", None).await.unwrap();
    assert_eq!(start.dirty, [path("dir/b.txt")]);
}

#[tokio::test]
async fn a_commit_of_somebody_else_in_between_is_seen() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    turn(&owner, &repo).await;
    owner.write("late.txt", "x\n");
    owner.git(&["add", "late.txt"]);
    owner.git(&["commit", "--quiet", "-m", "the owner's"]);
    owner.write("later.txt", "x\n");
    let start = repo.snapshot("start", None).await.unwrap();
    assert_eq!(start.dirty, [path("later.txt")]);
}
