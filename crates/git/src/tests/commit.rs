//! Planned commits: what goes in, what stays out, and what happens the second time.

use super::{Owner, date, path, paths, plan_all};
use crate::{Committed, GitError};
use agency_protocols::model::{Change, CommitId};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const DONE: Committed = Committed::Done { index_stale: false };
const ALREADY: Committed = Committed::Already { index_stale: false };

#[tokio::test]
async fn a_commit_holds_the_run_and_our_files_and_nothing_of_the_owners() {
    // covers: LP-19
    let owner = Owner::with_commit();
    owner.write("staged.txt", "staged\n");
    owner.git(&["add", "staged.txt"]);
    owner.write("dir/b.txt", "half an edit\n");
    owner.write(".env", "SECRET=1\n");
    let repo = owner.open().await;
    let start = repo.snapshot("start", None).await.unwrap();

    owner.write("a.txt", "by the agent\n");
    owner.write("made.txt", "by the agent\n");
    let end = repo.snapshot("end", Some(&start.tree)).await.unwrap();
    owner.write("STATE.md", "ours\n");
    let ours = [(path("STATE.md"), b"ours\n".to_vec())];
    let parent = owner.head();
    let planned =
        repo.plan("main", Some(&parent), &end.changed, &ours, "one\n\ntwo", date()).await.unwrap();
    assert_eq!(owner.head(), parent, "planning moves nothing");
    assert_eq!(paths(&planned.changes), ["STATE.md", "a.txt", "made.txt"]);

    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(owner.head(), planned.id);
    assert_eq!(owner.git(&["rev-parse", "HEAD^{tree}"]), planned.tree.as_str());
    let files = owner.git(&["diff", "--name-only", "HEAD^", "HEAD"]);
    assert_eq!(files, "STATE.md\na.txt\nmade.txt");
    assert_eq!(owner.status(), " M dir/b.txt\nA  staged.txt\n?? .env");
    assert_eq!(fs::read_to_string(owner.at("dir/b.txt")).unwrap(), "half an edit\n");
    let by = owner.git(&["log", "-1", "--format=%an <%ae> %at|%cn <%ce> %ct|%B"]);
    let who = "agency <agency@localhost> 1700000000";
    assert_eq!(by, format!("{who}|{who}|one\n\ntwo"));
    assert_eq!(owner.git(&["for-each-ref", "refs/agency/planned"]), "");
    owner.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn the_same_inputs_give_the_same_id() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let first = plan_all(&repo, &[]).await;
    assert_eq!(plan_all(&repo, &[]).await, first);
    let other = plan_all(&repo, &[(path("b"), b"b".to_vec())]).await;
    assert_ne!(other.id, first.id);
}

#[tokio::test]
async fn committing_twice_is_committing_once() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(repo.commit(&planned).await.unwrap(), ALREADY);
    owner.git(&["commit", "--quiet", "--allow-empty", "-m", "on top"]);
    let top = owner.head();
    assert_eq!(repo.commit(&planned).await.unwrap(), ALREADY);
    assert_eq!(owner.head(), top);
    assert_eq!(owner.status(), "");
}

#[tokio::test]
async fn a_branch_that_moved_is_left_where_it_is() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    owner.git(&["commit", "--quiet", "--allow-empty", "-m", "somebody else"]);
    let found = owner.head();
    let moved = repo.commit(&planned).await.unwrap();
    assert_eq!(moved, Committed::Moved { found: Some(found.clone()) });
    assert_eq!(owner.head(), found);
    assert_eq!(owner.status(), " M a.txt");
}

#[tokio::test]
async fn a_crash_before_the_index_was_told_is_made_good() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    owner.write("staged.txt", "mine\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[(path("staged.txt"), b"ours\n".to_vec())]).await;
    owner.git(&["update-ref", "refs/heads/main", planned.id.as_str()]);
    owner.git(&["add", "staged.txt"]);
    assert_eq!(owner.status(), "MM a.txt\nM  staged.txt", "this is what the crash leaves");
    assert_eq!(repo.commit(&planned).await.unwrap(), ALREADY);
    assert_eq!(owner.status(), "M  staged.txt", "what was staged since stays staged");
}

#[tokio::test]
async fn a_lost_commit_object_is_made_again_with_the_same_id() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    let (dir, file) = planned.id.as_str().split_at(2);
    fs::remove_file(owner.at(&format!(".git/objects/{dir}/{file}"))).unwrap();
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(owner.head(), planned.id);
    owner.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn a_lost_tree_is_an_error_and_moves_nothing() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    for id in [planned.id.as_str(), planned.tree.as_str()] {
        let (dir, file) = id.split_at(2);
        fs::remove_file(owner.at(&format!(".git/objects/{dir}/{file}"))).unwrap();
    }
    let parent = owner.head();
    assert!(matches!(repo.commit(&planned).await, Err(GitError::Refused { .. })));
    assert_eq!(owner.head(), parent);
}

#[tokio::test]
async fn somebodys_index_lock_delays_the_index_and_not_the_commit() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    owner.write(".git/index.lock", "");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    assert_eq!(repo.commit(&planned).await.unwrap(), Committed::Done { index_stale: true });
    assert_eq!(owner.head(), planned.id);
    assert!(
        owner.at(".git/index.lock").exists(),
        "a lock of somebody else's is not ours to remove"
    );
    fs::remove_file(owner.at(".git/index.lock")).unwrap();
    assert_eq!(repo.commit(&planned).await.unwrap(), ALREADY);
    assert_eq!(owner.status(), "");
}

#[tokio::test]
async fn the_first_commit_of_a_branch_has_no_parent() {
    let owner = Owner::new();
    owner.write("a", "a\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    assert_eq!(planned.parent, None);
    assert!(planned.changes.iter().all(|change| change.new));
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(owner.git(&["rev-list", "--count", "HEAD"]), "1");
    assert_eq!(owner.status(), "");
    assert_eq!(repo.commit(&planned).await.unwrap(), ALREADY);
}

#[tokio::test]
async fn any_file_name_goes_in_as_it_is() {
    let owner = Owner::with_commit();
    let names =
        ["-rf", "a b", "q\"uo\\te", "t\tab", "übung/日本.txt", "'", "$(x)", ":(top)x", "*", " "];
    for name in names {
        owner.write(name, name);
    }
    let ours = [(path("our \"own\".md"), b"ours".to_vec())];
    owner.write("our \"own\".md", "ours");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &ours).await;
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(owner.status(), "");
    for name in names {
        let file = repo.file_at(&planned.id, &path(name), 100).await.unwrap();
        assert_eq!(file.as_deref(), Some(name.as_bytes()), "{name:?}");
    }
}

#[tokio::test]
async fn modes_links_deletions_and_files_that_become_folders() {
    let owner = Owner::with_commit();
    fs::set_permissions(owner.at("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(owner.at("dir")).unwrap();
    owner.write("dir", "now a file\n");
    std::os::unix::fs::symlink("a.txt", owner.at("link")).unwrap();
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(owner.status(), "");
    let tree = owner.git(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "HEAD"]);
    assert_eq!(tree, "100755 a.txt\n100644 dir\n120000 link");

    fs::remove_file(owner.at("dir")).unwrap();
    owner.write("dir/again", "a folder again\n");
    fs::remove_file(owner.at("link")).unwrap();
    fs::remove_file(owner.at("a.txt")).unwrap();
    let planned = plan_all(&repo, &[]).await;
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(owner.git(&["ls-tree", "-r", "--name-only", "HEAD"]), "dir/again");
    assert_eq!(owner.status(), "");
}

#[tokio::test]
async fn a_submodule_is_committed_as_a_link() {
    let owner = Owner::with_commit();
    let source = owner.dir.path().join("source");
    fs::create_dir(&source).unwrap();
    owner.git_in(&source, &["init", "--quiet"]);
    owner.git_in(&source, &["commit", "--quiet", "--allow-empty", "-m", "s"]);
    owner.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        "../source",
        "sub",
    ]);
    owner.git(&["commit", "--quiet", "-m", "sub"]);
    owner.git_in(&owner.at("sub"), &["commit", "--quiet", "--allow-empty", "-m", "moved"]);
    owner.write("sub/dirt", "not ours\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    assert_eq!(paths(&planned.changes), ["sub"]);
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    let at = owner.git_in(&owner.at("sub"), &["rev-parse", "HEAD"]);
    assert_eq!(owner.git(&["rev-parse", "HEAD:sub"]), at);
}

#[tokio::test]
async fn what_the_parent_holds_already_is_no_change() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let parent = owner.head();
    let gone = Change { path: path("never"), to: None, new: false };
    let ours = [(path("a.txt"), b"a\n".to_vec()), (path("dir/c"), b"c".to_vec())];
    let planned = repo.plan("main", Some(&parent), &[gone], &ours, "m", date()).await.unwrap();
    assert_eq!(paths(&planned.changes), ["dir/c"]);
    assert!(planned.changes[0].new);
}

#[tokio::test]
async fn our_own_bytes_win_over_what_was_taken() {
    let owner = Owner::with_commit();
    owner.write("STATE.md", "forged\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[(path("STATE.md"), b"ours\n".to_vec())]).await;
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(owner.git(&["show", "HEAD:STATE.md"]), "ours");
    assert_eq!(owner.status(), " M STATE.md");
}

#[tokio::test]
async fn a_branch_that_is_not_checked_out_leaves_the_index_alone() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    owner.git(&["checkout", "--quiet", "--detach"]);
    let index = fs::read(owner.at(".git/index")).unwrap();
    assert_eq!(repo.commit(&planned).await.unwrap(), DONE);
    assert_eq!(fs::read(owner.at(".git/index")).unwrap(), index);
    assert_eq!(owner.git(&["rev-parse", "main"]), planned.id.as_str());
}

#[tokio::test]
async fn what_cannot_be_planned_is_refused_without_a_trace() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let head = owner.head();
    let before = fs::read_dir(owner.at(".git")).unwrap().count();
    let missing = CommitId::new("ab".repeat(20));
    let option = CommitId::new("--all");
    let hidden = [(path(".git/config"), b"[core]".to_vec())];
    let forged = Change {
        path: path("x"),
        to: Some(("100644".to_owned(), "x\nreset refs/heads/main".to_owned())),
        new: true,
    };
    assert!(repo.plan("main", Some(&missing), &[], &[], "m", date()).await.is_err());
    assert!(repo.plan("main", Some(&option), &[], &[], "m", date()).await.is_err());
    assert!(repo.plan("a\nb", Some(&head), &[], &[], "m", date()).await.is_err());
    assert!(repo.plan("main", Some(&head), &[], &hidden, "m", date()).await.is_err());
    assert!(repo.plan("main", Some(&head), &[forged], &[], "m", date()).await.is_err());
    assert!(repo.plan("main", Some(&head), &[], &[], "m\0", date()).await.is_err());
    assert_eq!(fs::read_dir(owner.at(".git")).unwrap().count(), before, "no crash report is left");
}

#[tokio::test]
async fn a_branch_that_cannot_be_moved_leaves_the_index_as_it_is() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    let index = || fs::read(owner.at(".git/index")).unwrap();
    let before = index();
    // The object is gone, and with it the reason to touch anything.
    let (dir, file) = planned.tree.as_str().split_at(2);
    fs::remove_file(owner.at(&format!(".git/objects/{dir}/{file}"))).unwrap();
    let (dir, file) = planned.id.as_str().split_at(2);
    fs::remove_file(owner.at(&format!(".git/objects/{dir}/{file}"))).unwrap();
    assert!(matches!(repo.commit(&planned).await, Err(GitError::Refused { .. })));
    assert_eq!(index(), before);
    assert!(!owner.at(".git/index.lock").exists());
    assert_eq!(owner.status(), " M a.txt");
}
