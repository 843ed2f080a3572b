//! What a snapshot sees, and what it leaves alone.

use super::{Owner, path, paths};
use crate::GitError;
use agency_protocols::model::TreeId;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

#[tokio::test]
async fn a_snapshot_tells_dirty_from_changed() {
    // covers: LP-19
    let owner = Owner::with_commit();
    owner.write("owner.txt", "half done\n");
    let repo = owner.open().await;
    let start = repo.snapshot("start", None).await.unwrap();
    assert_eq!(start.dirty, [path("owner.txt")]);
    assert_eq!(start.changed, []);

    owner.write("a.txt", "changed\n");
    owner.write("new.txt", "new\n");
    fs::remove_file(owner.at("dir/b.txt")).unwrap();
    fs::set_permissions(owner.at("owner.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    let end = repo.snapshot("end", Some(&start.tree)).await.unwrap();
    assert_eq!(paths(&end.changed), ["a.txt", "dir/b.txt", "new.txt", "owner.txt"]);
    let new: Vec<bool> = end.changed.iter().map(|change| change.new).collect();
    assert_eq!(new, [false, false, true, false]);
    assert_eq!(end.changed[1].to, None);
    assert_eq!(end.changed[3].to.as_ref().unwrap().0, "100755");
    assert_eq!(end.changed, repo.diff(&start.tree, &end.tree).await.unwrap());
    assert_eq!(start.refs, end.refs);
}

#[tokio::test]
async fn the_owners_index_and_files_stay_as_they_are() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "staged\n");
    owner.git(&["add", "a.txt"]);
    owner.write("a.txt", "staged, then edited\n");
    let (index, status) = (fs::read(owner.at(".git/index")).unwrap(), owner.status());
    owner.write(".git/index.lock", "");
    let snapshot = owner.open().await.snapshot("end", None).await.unwrap();
    assert_eq!(snapshot.dirty, [path("a.txt")]);
    assert_eq!(fs::read(owner.at(".git/index")).unwrap(), index);
    fs::remove_file(owner.at(".git/index.lock")).unwrap();
    assert_eq!(owner.status(), status);
}

/// Found by killing the daemon at each of its calls.
#[tokio::test]
async fn a_lock_that_a_crash_left_on_our_own_ref_holds_nothing_up() {
    // covers: DM-06
    let owner = Owner::with_commit();
    owner.write(".git/refs/agency/snapshots/start.lock", "");
    let snapshot = owner.open().await.snapshot("start", None).await.unwrap();
    let kept = fs::read_to_string(owner.at(".git/refs/agency/snapshots/start")).unwrap();
    assert_eq!(kept.trim_end(), snapshot.tree.as_str());
}

#[tokio::test]
async fn ignored_files_stay_out_unless_they_are_tracked() {
    let owner = Owner::with_commit();
    owner.write(".gitignore", ".env\n*.log\n");
    owner.write(".env", "SECRET=1\n");
    owner.write("kept.log", "1\n");
    owner.git(&["add", "--force", "kept.log", ".gitignore"]);
    owner.git(&["commit", "--quiet", "-m", "second"]);
    let repo = owner.open().await;
    assert_eq!(repo.snapshot("end", None).await.unwrap().dirty, []);

    owner.write("late.log", "1\n");
    owner.git(&["add", "--force", "late.log"]);
    owner.git(&["rm", "--quiet", "--cached", "kept.log"]);
    owner.git(&["commit", "--quiet", "-m", "third"]);
    let later = repo.snapshot("end", None).await.unwrap();
    assert_eq!(later.dirty, [], "what the owner tracks now counts, not what they tracked at first");

    fs::remove_file(owner.at(".git/index")).unwrap();
    let without = repo.snapshot("end", None).await.unwrap();
    assert_eq!(without.tree, later.tree, "without an index the head says what is tracked");
}

fn private_index() -> String {
    format!(".git/agency/snapshot-{}.index", std::process::id())
}

#[tokio::test]
async fn what_a_killed_daemon_left_is_cleared_away() {
    let owner = Owner::with_commit();
    owner.write(".git/agency/snapshot-1.index", "half");
    owner.write(".git/agency/snapshot-1.index.lock", "half");
    owner.open().await.snapshot("a", None).await.unwrap();
    assert!(!owner.at(".git/agency/snapshot-1.index").exists());
    assert!(!owner.at(".git/agency/snapshot-1.index.lock").exists());
}

#[tokio::test]
async fn a_damaged_index_is_built_again() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let before = repo.snapshot("a", None).await.unwrap();
    owner.write(&private_index(), "garbage");
    owner.write(&format!("{}.lock", private_index()), "left by a kill");
    let after = repo.snapshot("a", None).await.unwrap();
    assert_eq!(before.tree, after.tree);
    owner.write(".git/index", "garbage");
    let after = repo.snapshot("a", None).await.unwrap();
    assert_eq!(before.tree, after.tree);
}

#[tokio::test]
async fn refs_of_others_count_and_ours_do_not() {
    // covers: LP-20
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let first = repo.snapshot("one", None).await.unwrap();
    let second = repo.snapshot("two", None).await.unwrap();
    assert_eq!(first.refs, second.refs, "our own refs must not count");
    owner.git(&["pack-refs", "--all"]);
    assert_eq!(repo.snapshot("two", None).await.unwrap().refs, first.refs, "packing is no change");
    owner.git(&["tag", "planted"]);
    let tagged = repo.snapshot("two", None).await.unwrap();
    assert_ne!(tagged.refs, first.refs);
    owner.git(&["tag", "--delete", "planted"]);
    assert_eq!(repo.snapshot("two", None).await.unwrap().refs, first.refs);
    owner.git(&["commit", "--quiet", "--allow-empty", "-m", "moved"]);
    assert_ne!(repo.snapshot("two", None).await.unwrap().refs, first.refs);
}

#[tokio::test]
async fn a_snapshot_survives_the_owners_clean_up() {
    let owner = Owner::with_commit();
    owner.write("new.txt", "only in the snapshot\n");
    let repo = owner.open().await;
    let snapshot = repo.snapshot("run-1", None).await.unwrap();
    fs::remove_file(owner.at("new.txt")).unwrap();
    fs::remove_file(owner.at(&private_index())).unwrap();
    owner.git(&["gc", "--quiet", "--prune=now"]);
    assert_eq!(owner.git(&["cat-file", "-t", snapshot.tree.as_str()]), "tree");
    assert_eq!(owner.git(&["show", &format!("{}:new.txt", snapshot.tree)]), "only in the snapshot");
    owner.write("new.txt", "other\n");
    let next = repo.snapshot("run-1", None).await.unwrap();
    let kept = owner.git(&["rev-parse", "refs/agency/snapshots/run-1"]);
    assert_eq!(kept, next.tree.as_str(), "a packed ref of the same label must give way");
}

#[tokio::test]
async fn repositories_inside_do_not_fail_it() {
    let owner = Owner::with_commit();
    owner.git(&["init", "--quiet", "unborn"]);
    owner.git(&["init", "--quiet", "inner"]);
    owner.git_in(&owner.at("inner"), &["commit", "--quiet", "--allow-empty", "-m", "inner"]);
    owner.write("new.txt", "new\n");
    let repo = owner.open().await;
    let start = repo.snapshot("end", None).await.unwrap();
    assert_eq!(start.dirty, [path("inner"), path("new.txt")]);
    owner.git_in(&owner.at("inner"), &["commit", "--quiet", "--allow-empty", "-m", "moved"]);
    let end = repo.snapshot("end", Some(&start.tree)).await.unwrap();
    assert_eq!(end.changed[0].to.as_ref().unwrap().0, "160000");
}

#[tokio::test]
async fn before_the_first_commit_everything_is_dirty() {
    let owner = Owner::new();
    let repo = owner.open().await;
    assert_eq!(repo.snapshot("end", None).await.unwrap().dirty, []);
    owner.write("a", "a");
    assert_eq!(repo.snapshot("end", None).await.unwrap().dirty, [path("a")]);
}

#[tokio::test]
async fn names_that_are_no_paths_of_ours_are_refused_by_name() {
    for name in [b"two\nlines".as_slice(), b"caf\xe9"] {
        let owner = Owner::with_commit();
        fs::write(owner.root.join(OsStr::from_bytes(name)), "x").unwrap();
        let refused = owner.open().await.snapshot("end", None).await;
        let Err(GitError::OddPath { path }) = refused else { panic!("{name:?}: {refused:?}") };
        assert!(path.starts_with("two") || path.starts_with("caf"), "{path}");
    }
}

#[tokio::test]
async fn labels_and_trees_from_outside_never_become_options() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    assert!(repo.snapshot("--stdin", None).await.is_err());
    assert!(repo.snapshot("../../heads/main", None).await.is_err());
    assert!(repo.snapshot("end", Some(&TreeId::new("--output=x"))).await.is_err());
    assert!(!owner.at("x").exists());
}
