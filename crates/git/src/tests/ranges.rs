//! What lies between two commits, and which branches have a name.

use super::Owner;
use agency_protocols::model::RelPath;

fn names(paths: &[RelPath]) -> Vec<&str> {
    paths.iter().map(RelPath::as_str).collect()
}

// covers: CD-30
#[tokio::test]
async fn a_file_that_was_committed_and_deleted_again_was_touched() {
    let owner = Owner::with_commit();
    let from = owner.head();
    owner.write("my key é.txt", "secret\n");
    owner.git(&["add", "--all"]);
    owner.git(&["commit", "--quiet", "-m", "with a key"]);
    owner.git(&["rm", "--quiet", "my key é.txt"]);
    owner.git(&["commit", "--quiet", "-m", "without"]);
    owner.git(&["checkout", "--quiet", "-b", "side", from.as_str()]);
    owner.write("side.txt", "s\n");
    owner.git(&["add", "--all"]);
    owner.git(&["commit", "--quiet", "-m", "beside"]);
    owner.git(&["merge", "--quiet", "--no-ff", "--no-commit", "main"]);
    owner.write("only in the merge.txt", "m\n");
    owner.git(&["add", "--all"]);
    owner.git(&["commit", "--quiet", "-m", "a merge with more"]);
    let repo = owner.open().await;
    let head = owner.head();
    let touched = repo.touched(&from, &head).await.unwrap();
    assert_eq!(names(&touched), ["my key é.txt", "only in the merge.txt", "side.txt"]);
    assert_eq!(names(&repo.touched(&head, &head).await.unwrap()), [""; 0]);
    // Settings of the owner's change nothing.
    owner.git(&["config", "log.diffMerges", "off"]);
    owner.git(&["config", "diff.renames", "copies"]);
    owner.git(&["config", "log.showSignature", "true"]);
    assert_eq!(repo.touched(&from, &head).await.unwrap(), touched);
}

// covers: CD-15
#[tokio::test]
async fn branches_of_a_name_are_the_local_one_and_those_of_each_remote() {
    let owner = Owner::with_commit();
    let first = owner.head();
    owner.git(&["branch", "build/A-1"]);
    owner.git(&["branch", "build/A-1x"]);
    owner.git(&["update-ref", "refs/remotes/hub/build/A-1", first.as_str()]);
    owner.git(&["update-ref", "refs/remotes/origin/build/A-1", first.as_str()]);
    owner.git(&["update-ref", "refs/remotes/origin/else/build/A-1", first.as_str()]);
    owner.git(&["update-ref", "refs/remotes/origin/build/A-1-more", first.as_str()]);
    let repo = owner.open().await;
    let found = repo.branches("build/A-1").await.unwrap();
    let names: Vec<_> = found.iter().map(|found| found.branch.as_str()).collect();
    assert_eq!(names, ["build/A-1", "hub/build/A-1", "origin/build/A-1"]);
    assert!(found.iter().all(|found| found.tip == first));
    assert!(repo.branches("build/A-2").await.unwrap().is_empty());
    assert!(repo.branches("../x").await.is_err());
}
