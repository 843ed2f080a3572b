//! Which parts of the git directory work in a tree is said to write.

use super::Owner;
use crate::{GitWrites, Repo};
use std::fs;

async fn open(owner: &Owner) -> Repo {
    let repo = Repo::open(&owner.root).await.unwrap().unwrap();
    repo.guard(owner.dir.path().join("vault"), None).unwrap();
    repo
}

// covers: SE-06
#[tokio::test]
async fn a_worktree_writes_its_own_folder_its_branches_folder_and_objects() {
    let owner = Owner::with_commit();
    let repo = open(&owner).await;
    let base = repo.checkout().await.unwrap().head.unwrap();
    let dir = owner.dir.path().canonicalize().unwrap().join("trees/T1");
    repo.add_worktree(&dir, "agency/T1", &base).await.unwrap();
    let common = repo.common_dir();
    let writes = repo.writes_of(&dir);
    let beside = [common.join("refs/heads/agency"), common.join("logs/refs/heads/agency")];
    let own = common.join("worktrees/T1");
    let mut wanted = vec![own.clone(), common.join("objects"), common.join("lfs")];
    wanted.extend(beside.clone());
    assert_eq!(writes, GitWrites { folders: wanted, make: beside.to_vec() });

    fs::write(own.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    assert!(repo.writes_of(&dir).make.is_empty(), "every branch would be open");
    fs::write(own.join("HEAD"), "ref: refs/heads/../../hooks/x\n").unwrap();
    assert!(repo.writes_of(&dir).make.is_empty());
    fs::write(dir.join(".git"), format!("gitdir: {}\n", common.display())).unwrap();
    assert_eq!(repo.writes_of(&dir), GitWrites::default(), "another way than git made it");
}

// covers: SE-06
#[tokio::test]
async fn the_owners_tree_has_it_inside() {
    let owner = Owner::with_commit();
    let repo = open(&owner).await;
    assert_eq!(repo.writes_of(repo.root()), GitWrites::default());
}
