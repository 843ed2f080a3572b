//! Repositories that are moved, copied, cloned, shared and taken to other machines. Real folders, no git needed.

use super::*;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

struct World {
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn state(&self) -> StateDir {
        StateDir::at(&self.path("state")).unwrap()
    }

    /// A folder that looks like a repository.
    fn repo(&self, name: &str) -> PathBuf {
        let root = self.path(name);
        fs::create_dir_all(root.join(".git")).unwrap();
        root
    }

    fn open(&self, name: &str) -> (Repository, Origin) {
        open(&self.path(name), &self.state()).unwrap()
    }

    /// Opens and adopts; leaves a mark in its state.
    fn adopted(&self, name: &str) -> Places {
        self.repo(name);
        let (mut repository, origin) = self.open(name);
        assert_eq!(origin, Origin::New);
        repository.adopt(now()).unwrap();
        fs::create_dir(repository.places().journal()).unwrap();
        repository.places().clone()
    }

    fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).unwrap();
    }
}

fn open(root: &Path, state: &StateDir) -> Result<(Repository, Origin), RepositoryError> {
    Repository::open(root, Some(&root.join(".git")), state, now())
}

fn look(root: &Path, state: &StateDir) -> Option<Places> {
    Repository::look(root, Some(&root.join(".git")), state).unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

// covers: DM-07, DM-13
#[test]
fn daemons_with_different_state_dirs_exclude_each_other() {
    let world = World::new();
    let root = world.repo("shop");
    let (first, _) = world.open("shop");
    let other = StateDir::at(&world.path("other-state")).unwrap();
    let RepositoryError::Busy { holder, .. } = open(&root, &other).unwrap_err() else {
        panic!("must be busy");
    };
    let state = world.path("state");
    for words in [&format!("pid {}", std::process::id()), state.to_str().unwrap(), "2026-01-01"] {
        assert!(holder.contains(words), "{words} is missing in {holder}");
    }
    assert!(look(&root, &world.state()).is_some(), "readers need no lock");
    drop(first);
    assert_eq!(open(&root, &other).unwrap().1, Origin::New, "the other state dir knows nothing");
}

// covers: DM-13
#[test]
fn it_stays_unknown_until_somebody_adopts_it() {
    let world = World::new();
    world.repo("shop");
    for _ in 0..2 {
        let (repository, origin) = world.open("shop");
        assert_eq!((&origin, repository.origin()), (&Origin::New, &Origin::New));
    }
    let (mut repository, _) = world.open("shop");
    repository.adopt(now()).unwrap();
    let places = repository.places().clone();
    assert_eq!(repository.origin(), &Origin::Known);
    drop(repository);
    let (repository, origin) = world.open("shop");
    assert_eq!((origin, repository.places()), (Origin::Known, &places));
    let name = places.folder.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("shop-{}", &places.id.hex()[..8]));
}

// covers: DM-13
#[test]
fn a_moved_folder_keeps_identity_and_state() {
    let world = World::new();
    let before = world.adopted("shop");
    world.rename("shop", "store");
    let seen = look(&world.path("store"), &world.state()).unwrap();
    assert_eq!((seen.id, &seen.folder), (before.id, &before.folder), "readers find it at once");
    let (repository, origin) = world.open("store");
    assert_eq!(origin, Origin::Moved { from: world.path("shop") });
    assert_eq!(repository.places().folder, before.folder, "the folder keeps its name");
    assert!(repository.places().journal().is_dir());
    drop(repository);
    assert_eq!(world.open("store").1, Origin::Known);
    let known = repositories(&world.state()).unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!((&known[0].path, known[0].id), (&world.path("store"), before.id));
}

// covers: DM-13
#[test]
fn another_repository_at_the_old_place_does_not_make_it_a_copy() {
    let world = World::new();
    world.adopted("shop");
    world.rename("shop", "store");
    world.repo("shop");
    assert_eq!(world.open("shop").1, Origin::New);
    assert_eq!(world.open("store").1, Origin::Moved { from: world.path("shop") });
}

// covers: DM-13
#[test]
fn a_copy_is_found_held_apart_and_gets_its_own_id() {
    let world = World::new();
    let original = world.adopted("shop");
    world.copy("shop", "copy");
    assert_eq!(look(&world.path("copy"), &world.state()), None);
    let (mut copy, origin) = world.open("copy");
    assert_eq!(origin, Origin::Copied { original: world.path("shop") });
    assert_ne!(copy.places().folder, original.folder);
    assert!(!copy.places().journal().exists(), "nothing of the original's state is used");
    fs::write(copy.places().events(), "held").unwrap();
    let held = copy.places().clone();
    assert_eq!(look(&world.path("copy"), &world.state()), Some(held));
    assert_eq!(repositories(&world.state()).unwrap().len(), 2);

    copy.adopt(now()).unwrap();
    assert_ne!(copy.places().id, original.id);
    assert_eq!(fs::read_to_string(copy.places().events()).unwrap(), "held");
    let adopted = copy.places().clone();
    drop(copy);
    let (copy, origin) = world.open("copy");
    assert_eq!((origin, copy.places()), (Origin::Known, &adopted));
    let (first, origin) = world.open("shop");
    assert_eq!((origin, first.places()), (Origin::Known, &original));
}

// covers: DM-13
#[test]
fn a_copy_of_something_unadopted_does_not_share_its_state() {
    let world = World::new();
    world.repo("shop");
    let first = world.open("shop").0;
    world.copy("shop", "copy");
    let (copy, origin) = world.open("copy");
    assert_eq!(origin, Origin::Copied { original: world.path("shop") });
    assert_ne!(copy.places().folder, first.places().folder);
}

#[test]
fn a_copy_whose_original_is_gone_has_moved() {
    let world = World::new();
    let original = world.adopted("shop");
    world.copy("shop", "copy");
    drop(world.open("copy"));
    fs::remove_dir_all(world.path("shop")).unwrap();
    let (repository, origin) = world.open("copy");
    assert_eq!(origin, Origin::Moved { from: world.path("shop") });
    assert_eq!(repository.places().folder, original.folder);
    let known = repositories(&world.state()).unwrap();
    assert_eq!(known.len(), 1, "the place where it waited is not a second repository");
}

// covers: DM-13
#[test]
fn a_clone_has_no_id_and_is_new() {
    let world = World::new();
    let original = world.adopted("shop");
    world.repo("clone");
    assert_eq!(look(&world.path("clone"), &world.state()), None);
    assert!(!world.path("clone/.git/agency").exists(), "looking writes nothing");
    let (clone, origin) = world.open("clone");
    assert_eq!(origin, Origin::New);
    assert_ne!(clone.places().id, original.id);
}

// covers: DM-13
#[test]
fn state_of_another_machine_is_held_until_adopted() {
    let world = World::new();
    let places = world.adopted("shop");
    let path = places.folder.join("repo.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["host"] = "0123456789ab".into();
    json["host_name"] = "old-box".into();
    fs::write(&path, json.to_string()).unwrap();
    for _ in 0..2 {
        assert_eq!(world.open("shop").1, Origin::OtherHost { host: "old-box".to_owned() });
    }
    world.open("shop").0.adopt(now()).unwrap();
    let (repository, origin) = world.open("shop");
    assert_eq!((origin, repository.places()), (Origin::Known, &places));
}

#[test]
fn worktrees_share_one_identity() {
    let world = World::new();
    let main = world.adopted("shop");
    let tree = world.path("tree");
    fs::create_dir(&tree).unwrap();
    let git = world.path("shop/.git");
    let (linked, origin) = Repository::open(&tree, Some(&git), &world.state(), now()).unwrap();
    assert_eq!((origin, linked.places().id), (Origin::Known, main.id));
    assert!(matches!(open(&main.root, &world.state()), Err(RepositoryError::Busy { .. })));
}

#[test]
fn without_git_the_identity_lies_in_the_folder() {
    let world = World::new();
    let root = world.path("plain");
    fs::create_dir(&root).unwrap();
    let (repository, origin) = Repository::open(&root, None, &world.state(), now()).unwrap();
    assert_eq!(origin, Origin::New);
    let id = fs::read_to_string(root.join(".agency/id")).unwrap();
    assert_eq!(id.trim(), repository.places().id.to_string());
}

// covers: DM-06, DM-07
#[test]
fn what_a_killed_daemon_leaves_for_a_moment_is_waited_for() {
    let world = World::new();
    let root = world.repo("shop");
    drop(world.open("shop"));
    let mut child = Command::new("true").spawn().unwrap();
    let (pid, host) = (child.id(), Host::this().name);
    child.wait().unwrap();
    let path = root.join(".git/agency/lock");
    let words = |pid: u32| format!("pid {pid} on {host}, state dir /x, since 2026-01-01T00:00:00Z");
    let held = |words: &str| match Lock::try_acquire(&path, words).unwrap() {
        Acquired::Held(lock) => lock,
        Acquired::Busy { holder } => panic!("held by {holder}"),
    };
    // As a child between its fork and its exec holds it.
    let left = held(&words(pid));
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let child = std::thread::spawn(move || {
        receiver.recv_timeout(Duration::from_millis(100)).ok();
        drop(left);
    });
    drop(world.open("shop"));
    drop(sender);
    child.join().unwrap();
    let _alive = held(&words(std::process::id()));
    assert!(open(&root, &world.state()).is_err(), "the living one keeps it");
}

#[test]
fn a_removed_lock_shows() {
    let world = World::new();
    let root = world.repo("shop");
    let (repository, _) = world.open("shop");
    assert!(repository.is_ours());
    fs::remove_file(root.join(".git/agency/lock")).unwrap();
    assert!(!repository.is_ours());
}

#[test]
fn ids_that_begin_alike_get_folders_of_their_own() {
    let world = World::new();
    let names = ["a/shop", "b/shop", "c/shop"];
    for (name, digit) in names.iter().zip(1..) {
        let folder = world.repo(name).join(".git/agency");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("id"), format!("aaaaaaaa-0000-4000-8000-00000000000{digit}"))
            .unwrap();
    }
    let folder = |name: &&str| world.open(name).0.places().folder.clone();
    let folders: Vec<PathBuf> = names.iter().map(folder).collect();
    let distinct: BTreeSet<&PathBuf> = folders.iter().collect();
    assert_eq!(distinct.len(), 3);
    assert_eq!(names.iter().map(folder).collect::<Vec<_>>(), folders, "found again");
    assert_eq!(repositories(&world.state()).unwrap().len(), 3);
}

#[test]
fn a_broken_or_newer_record_is_named() {
    let world = World::new();
    let places = world.adopted("shop");
    let path = places.folder.join("repo.json");
    for (text, words) in [("{ torn", "is not a record"), (r#"{"version":2}"#, "newer agency")] {
        fs::write(&path, text).unwrap();
        let error = open(&places.root, &world.state()).unwrap_err().to_string();
        assert!(error.contains("repo.json") && error.contains(words), "{error}");
        assert_eq!(repositories(&world.state()).unwrap(), [], "others can still be listed");
    }
}

#[test]
fn a_path_that_json_cannot_hold_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    let world = World::new();
    let root = world.path("x").with_file_name(std::ffi::OsStr::from_bytes(b"sh\xffp"));
    fs::create_dir_all(root.join(".git")).unwrap();
    let error = open(&root, &world.state()).unwrap_err();
    assert!(error.to_string().contains("repo.json"), "{error}");
}
