//! Where a checkout stands, in every state that git can leave it in.

use super::{Owner, date, path, plan_all};
use crate::{Committed, Repo};
use agency_protocols::model::{Busy, CommitId};
use std::fs;

#[tokio::test]
async fn only_the_top_of_a_work_tree_opens() {
    let owner = Owner::with_commit();
    let open = async |dir: &str| Repo::open_with(&owner.at(dir), owner.options()).await.unwrap();
    assert!(open("").await.is_some());
    assert!(open("dir").await.is_none(), "a folder inside is not the top");
    fs::create_dir_all(owner.at("plain/.git")).unwrap();
    assert!(
        open("plain").await.is_none(),
        "a folder that only looks like one must not open its parent"
    );
    let outside = tempfile::tempdir().unwrap();
    assert!(Repo::open_with(outside.path(), owner.options()).await.unwrap().is_none());
}

#[tokio::test]
async fn the_work_folder_lies_in_the_common_git_directory() {
    let owner = Owner::with_commit();
    let dir = owner.open().await.work_dir().unwrap();
    assert!(dir.is_dir());
    assert_eq!(dir, owner.root.canonicalize().unwrap().join(".git/agency"));
}

#[tokio::test]
async fn branch_and_head_are_read_from_files() {
    let owner = Owner::new();
    let repo = owner.open().await;
    let unborn = repo.checkout().await.unwrap();
    assert_eq!((unborn.branch.as_deref(), unborn.head, unborn.busy), (Some("main"), None, None));

    owner.write("a", "a");
    owner.git(&["add", "a"]);
    owner.git(&["commit", "--quiet", "-m", "a"]);
    owner.git(&["checkout", "--quiet", "-b", "feat/x"]);
    let loose = repo.checkout().await.unwrap();
    assert_eq!((loose.branch.as_deref(), loose.head), (Some("feat/x"), Some(owner.head())));

    owner.git(&["pack-refs", "--all"]);
    assert!(
        !owner.at(".git/refs/heads/feat/x").exists(),
        "the ref must be packed for this to mean anything"
    );
    let packed = repo.checkout().await.unwrap();
    assert_eq!((packed.branch.as_deref(), packed.head), (Some("feat/x"), Some(owner.head())));

    owner.git(&["checkout", "--quiet", "--detach"]);
    let detached = repo.checkout().await.unwrap();
    assert_eq!((detached.branch, detached.head), (None, Some(owner.head())));
}

#[tokio::test]
async fn a_branch_that_is_a_symbolic_ref_is_left_to_git() {
    let owner = Owner::with_commit();
    owner.git(&["symbolic-ref", "refs/heads/alias", "refs/heads/main"]);
    owner.git(&["symbolic-ref", "HEAD", "refs/heads/alias"]);
    let checkout = owner.open().await.checkout().await.unwrap();
    assert_eq!(checkout.head, Some(owner.head()));
}

#[tokio::test]
async fn tables_instead_of_ref_files_are_left_to_git() {
    let owner = Owner::with_format("--ref-format=reftable").and_commit();
    let repo = owner.open().await;
    let checkout = repo.checkout().await.unwrap();
    assert_eq!((checkout.branch.as_deref(), checkout.head), (Some("main"), Some(owner.head())));
    let before = repo.snapshot("start", None).await.unwrap();
    owner.git(&["tag", "planted"]);
    let after = repo.snapshot("start", None).await.unwrap();
    assert_ne!(before.refs, after.refs);
    owner.write("a.txt", "more\n");
    let planned = plan_all(&repo, &[]).await;
    assert_eq!(repo.commit(&planned).await.unwrap(), Committed::Done { index_stale: false });
    assert_eq!(owner.head(), planned.id);
}

#[tokio::test]
async fn repositories_with_long_ids_work_from_their_first_commit_on() {
    let owner = Owner::with_format("--object-format=sha256");
    let repo = owner.open().await;
    for text in ["one", "two"] {
        owner.write("a.txt", text);
        let planned = plan_all(&repo, &[]).await;
        assert_eq!(planned.id.as_str().len(), 64);
        assert_eq!(repo.commit(&planned).await.unwrap(), Committed::Done { index_stale: false });
        assert_eq!((owner.head(), owner.status().as_str()), (planned.id, ""));
    }
}

#[tokio::test]
async fn what_is_under_way_is_seen() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let signs = [
        ("MERGE_HEAD", Busy::Merge),
        ("CHERRY_PICK_HEAD", Busy::CherryPick),
        ("REVERT_HEAD", Busy::Revert),
        ("BISECT_LOG", Busy::Bisect),
        ("index.lock", Busy::IndexLock),
        ("HEAD.lock", Busy::HeadLock),
        ("refs/heads/main.lock", Busy::BranchLock),
        ("rebase-merge/done", Busy::Rebase),
        ("rebase-apply/next", Busy::Rebase),
    ];
    for (file, busy) in signs {
        let file = format!(".git/{file}");
        owner.write(&file, "");
        assert_eq!(repo.checkout().await.unwrap().busy, Some(busy), "{file}");
        fs::remove_file(owner.at(&file)).unwrap();
        if let Some((dir, _)) = file.split_once("/next").or(file.split_once("/done")) {
            fs::remove_dir(owner.at(dir)).unwrap();
        }
    }
    assert_eq!(repo.checkout().await.unwrap().busy, None);
}

#[tokio::test]
async fn a_linked_work_tree_is_a_tree_of_its_own() {
    let owner = Owner::with_commit();
    owner.git(&["worktree", "add", "--quiet", "-b", "side", "../side"]);
    let side = owner.dir.path().join("side");
    let repo = owner.open_at(&side).await;
    assert_eq!(repo.common_dir(), owner.root.canonicalize().unwrap().join(".git"));
    assert_ne!(repo.git_dir(), repo.common_dir());
    let both = [repo.common_dir().to_owned(), repo.git_dir().to_owned()];
    assert_eq!(repo.dirs_of(&side.canonicalize().unwrap()), both);
    assert_eq!(repo.dirs_of(&owner.root), both[..1]);
    fs::write(side.join("new.txt"), "new\n").unwrap();
    let snapshot = repo.snapshot("end", None).await.unwrap();
    assert_eq!(snapshot.checkout.branch.as_deref(), Some("side"));
    assert_eq!(snapshot.dirty, [path("new.txt")]);
    let since = repo.ask_tree(&owner.head()).await;
    let take = repo.diff(&since, &snapshot.tree).await.unwrap();
    let parent = owner.head();
    let planned = repo.plan("side", Some(&parent), &take, &[], "m", date()).await.unwrap();
    assert_eq!(repo.commit(&planned).await.unwrap(), Committed::Done { index_stale: false });
    assert_eq!(owner.git_in(&side, &["status", "--porcelain"]), "");
    assert_eq!(owner.head(), parent, "the owner's own branch must stay");
}

#[tokio::test]
async fn history_and_files_of_commits_can_be_asked_for() {
    let owner = Owner::with_commit();
    let first = owner.head();
    owner.git(&["commit", "--quiet", "--allow-empty", "-m", "second"]);
    owner.git(&["branch", "old", first.as_str()]);
    let repo = owner.open().await;
    let missing = CommitId::new("ab".repeat(20));
    assert!(repo.contains("main", &first).await.unwrap());
    assert!(repo.contains("main", &owner.head()).await.unwrap());
    assert!(!repo.contains("old", &owner.head()).await.unwrap());
    assert!(!repo.contains("nowhere", &first).await.unwrap());
    assert!(!repo.contains("main", &missing).await.unwrap());
    assert!(repo.contains("--all", &first).await.is_err());
    assert!(repo.contains("main", &CommitId::new("--all")).await.is_err());

    let file = repo.file_at(&first, &path("dir/b.txt"), 100).await.unwrap();
    assert_eq!(file.as_deref(), Some(b"b\n".as_slice()));
    assert_eq!(repo.file_at(&first, &path("nothing"), 100).await.unwrap(), None);
    assert_eq!(repo.file_at(&first, &path("dir"), 100).await.unwrap(), None);
    assert_eq!(repo.file_at(&missing, &path("a.txt"), 100).await.unwrap(), None);
    assert!(repo.file_at(&first, &path("a.txt"), 1).await.is_err(), "two bytes are more than one");
}
