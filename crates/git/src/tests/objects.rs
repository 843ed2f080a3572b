//! Trees, blobs and commits that we make ourselves are the very ones that git would make.

use super::{Owner, date, path, paths};
use crate::objects::{Kind, Objects};
use crate::{ObjectFormat, Repo};
use agency_protocols::model::CommitId;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

impl Owner {
    /// The tree of everything that lies here, as git itself sees it. From an index without entries, so that every file is read.
    pub(super) fn tree(&self) -> String {
        let index = self.at(".git/index-of-the-test");
        fs::remove_file(&index).ok();
        let git = |args: &[&str]| {
            let mut command = std::process::Command::new("git");
            command.args(args).current_dir(&self.root).env_clear().envs(self.env());
            let output = command.env("GIT_INDEX_FILE", &index).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
        };
        git(&["add", "--all"]);
        git(&["write-tree"])
    }

    fn remove(&self, path: &str) {
        let at = self.at(path);
        if at.is_dir() {
            fs::remove_dir_all(at).unwrap()
        } else {
            fs::remove_file(at).ok().unwrap_or(())
        }
    }
}

/// Names that sort differently as file and as folder, at several depths.
const NAMES: [&str; 8] = ["a", "a.b", "a-b", "a/b", "a/b/c", "a0", "ä ö/x", "z/y/x/w"];

fn put(owner: &Owner, name: &str, text: &str) {
    for (at, _) in name.match_indices('/') {
        if owner.at(&name[..at]).is_file() {
            owner.remove(&name[..at]);
        }
    }
    owner.remove(name);
    owner.write(name, text);
}

fn play(owner: &Owner, deeds: &[(usize, Option<u8>)]) {
    for (name, text) in deeds {
        match text {
            Some(text) => put(owner, NAMES[*name], &format!("{text}\n")),
            None => owner.remove(NAMES[*name]),
        }
    }
}

fn deeds() -> impl Strategy<Value = Vec<(usize, Option<u8>)>> {
    prop::collection::vec((0..NAMES.len(), prop::option::weighted(0.7, any::<u8>())), 0..12)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

async fn check(owner: &Owner, repo: &Repo) {
    let parent = owner.head();
    let snapshot = repo.snapshot("now", Some(&repo.ask_tree(&parent).await)).await.unwrap();
    assert_eq!(snapshot.tree.as_str(), owner.tree());
    let planned = repo.plan("main", Some(&parent), &snapshot.changed, &[], "m", date()).await;
    let planned = planned.unwrap();
    assert_eq!(planned.tree, snapshot.tree, "what differs from the parent, on the parent");
    assert_eq!(paths(&planned.changes), paths(&snapshot.changed));
    repo.commit(&planned).await.unwrap();
    assert_eq!((owner.head(), owner.status()), (planned.id, String::new()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..Default::default() })]

    /// Files become folders and folders files; what is packed is found too.
    // covers: LP-19
    #[test]
    fn our_trees_are_gits_own(first in deeds(), then in deeds(), last in deeds(), sha256: bool) {
        block_on(async {
            let format = if sha256 { "--object-format=sha256" } else { "--object-format=sha1" };
            let owner = Owner::with_format(format).and_commit();
            let repo = owner.open().await;
            play(&owner, &first);
            check(&owner, &repo).await;
            owner.git(&["gc", "--quiet"]);
            for deeds in [then, last] {
                play(&owner, &deeds);
                check(&owner, &repo).await;
            }
            owner.git(&["fsck", "--strict"]);
        });
    }
}

#[tokio::test]
async fn a_file_in_the_place_of_a_folder_takes_all_of_it_along() {
    let owner = Owner::with_commit();
    owner.write("dir/c.txt", "c\n");
    owner.git(&["add", "--all"]);
    owner.git(&["commit", "--quiet", "-m", "two in a folder"]);
    let repo = owner.open().await;
    let ours = [(path("dir"), b"a file\n".to_vec())];
    let planned = repo.plan("main", Some(&owner.head()), &[], &ours, "m", date()).await.unwrap();
    assert_eq!(owner.git(&["ls-tree", "--name-only", planned.tree.as_str()]), "a.txt\ndir");
    assert_eq!(owner.git(&["cat-file", "-p", &format!("{}:dir", planned.id)]), "a file");
}

fn objects(owner: &Owner) -> Objects {
    Objects::new(owner.at(".git/objects"), ObjectFormat::Sha1)
}

#[test]
fn an_object_is_as_git_would_have_made_it() {
    let owner = Owner::new();
    fs::set_permissions(owner.at(".git/objects"), fs::Permissions::from_mode(0o2770)).unwrap();
    let id = objects(&owner).write(Kind::Blob, b"text\n").unwrap();
    owner.write("file", "text\n");
    assert_eq!(id, owner.git(&["hash-object", "file"]));
    assert_eq!(owner.git(&["cat-file", "blob", &id]), "text");
    let mode = |path: String| owner.at(&path).metadata().unwrap().permissions().mode() & 0o7777;
    let folder = format!(".git/objects/{}", &id[..2]);
    assert_eq!(mode(format!("{folder}/{}", &id[2..])), 0o440, "as open as its folder");
    assert_eq!(mode(folder), 0o2770);
    assert_eq!(objects(&owner).read(Kind::Blob, &id).unwrap(), b"text\n");
    assert_eq!(objects(&owner).read(Kind::Tree, &id), None, "of another kind");
}

#[test]
fn small_or_large_git_reads_the_bytes_that_we_wrote() {
    let owner = Owner::new();
    for length in [0, 1, 100, 4060, 4070, 4080, 4090, 70_000] {
        let bytes: Vec<u8> = (0..length).map(|at: u32| (at * 7 % 251) as u8).collect();
        let id = objects(&owner).write(Kind::Blob, &bytes).unwrap();
        assert_eq!(objects(&owner).id(Kind::Blob, &bytes), id);
        assert_eq!(objects(&owner).read(Kind::Blob, &id), Some(bytes));
        assert_eq!(owner.git(&["cat-file", "-s", &id]), length.to_string());
    }
    owner.git(&["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn what_a_power_failure_left_empty_is_written_again() {
    let owner = Owner::new();
    let id = objects(&owner).write(Kind::Blob, b"text\n").unwrap();
    let file = owner.at(&format!(".git/objects/{}/{}", &id[..2], &id[2..]));
    fs::remove_file(&file).unwrap();
    fs::write(&file, "").unwrap();
    objects(&owner).write(Kind::Blob, b"text\n").unwrap();
    assert_eq!(owner.git(&["cat-file", "blob", &id]), "text");
}

// covers: DM-04
#[test]
fn an_object_that_is_not_what_its_name_says_is_not_believed() {
    let owner = Owner::new();
    let store = objects(&owner);
    let (one, other) =
        (store.write(Kind::Blob, b"1").unwrap(), store.write(Kind::Blob, b"2").unwrap());
    let file = |id: &str| owner.at(&format!(".git/objects/{}/{}", &id[..2], &id[2..]));
    fs::rename(file(&other), file(&one)).unwrap();
    assert_eq!(store.read(Kind::Blob, &one), None, "forged");
    fs::remove_file(file(&one)).unwrap();
    nix::unistd::mkfifo(&file(&one), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(store.read(Kind::Blob, &one), None, "a pipe must not hang us");
    fs::remove_file(file(&one)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", file(&one)).unwrap();
    assert_eq!(store.read(Kind::Blob, &one), None, "a link");
}

#[tokio::test]
async fn the_tree_of_a_packed_commit_is_found_too() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let wanted = owner.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(repo.tree_of(&owner.head()).await.unwrap().as_str(), wanted);
    owner.git(&["gc", "--quiet"]);
    assert_eq!(repo.tree_of(&owner.head()).await.unwrap().as_str(), wanted);
    assert!(repo.tree_of(&CommitId::new("0".repeat(40))).await.is_err());
}
