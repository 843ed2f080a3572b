//! An index that we read and write is the one that git reads and writes.

use super::{Edits, Index, IndexEntry, Stat};
use crate::ObjectFormat;
use std::path::Path;
use std::process::Command;

fn git(dir: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=O", "-c", "user.email=o@example.org"]).args(args);
    command.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Files whose names end at every place of the padding, in folders whose trees git remembers.
fn repository(format: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "--quiet", &format!("--object-format={format}")]);
    for length in 1..=20 {
        let folder = dir.path().join(format!("d{}/e", length % 3));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("f".repeat(length)), length.to_string()).unwrap();
    }
    git(dir.path(), &["add", "--all"]);
    git(dir.path(), &["commit", "--quiet", "-m", "first"]);
    dir
}

fn read(dir: &Path) -> Vec<u8> {
    std::fs::read(dir.join(".git/index")).unwrap()
}

#[test]
fn what_git_wrote_comes_out_as_it_went_in() {
    for (format, name) in [(ObjectFormat::Sha1, "sha1"), (ObjectFormat::Sha256, "sha256")] {
        let dir = repository(name);
        let bytes = read(dir.path());
        let index = Index::parse(&bytes, format).unwrap();
        assert_eq!(index.entries().len(), 20);
        assert!(index.folders.is_some(), "git remembers its trees");
        assert_eq!(index.to_bytes(format, true), bytes);
    }
}

#[test]
fn an_edit_is_what_git_would_have_made_of_it() {
    let dir = repository("sha1");
    let mut index = Index::parse(&read(dir.path()), ObjectFormat::Sha1).unwrap();
    let blob = git(dir.path(), &["rev-parse", "HEAD:d0/e/fff"]).trim().to_owned();
    let entry = IndexEntry::of(&("100755".to_owned(), blob.clone())).unwrap();
    let put = ["d1", "d0/e/fff/below", "new"].map(|path| (path.to_owned(), Some(entry.clone())));
    let mut edits: Edits = put.into();
    edits.insert("d2/e/ff".to_owned(), None);
    edits.insert("never/there".to_owned(), None);
    index.edit(edits);
    let ours = index.to_bytes(ObjectFormat::Sha1, true);
    let info = |path: &str| format!("100755,{blob},{path}");
    for path in ["d1", "d0/e/fff/below", "new"] {
        git(dir.path(), &["update-index", "--add", "--replace", "--cacheinfo", &info(path)]);
    }
    git(dir.path(), &["update-index", "--force-remove", "d2/e/ff"]);
    let theirs = git(dir.path(), &["ls-files", "--stage"]);
    std::fs::write(dir.path().join(".git/index"), ours).unwrap();
    assert_eq!(git(dir.path(), &["ls-files", "--stage"]), theirs);
    let tree = git(dir.path(), &["write-tree"]);
    git(dir.path(), &["read-tree", tree.trim()]);
    assert_eq!(git(dir.path(), &["write-tree"]), tree, "no tree that it remembers is an old one");
}

#[test]
fn many_edits_come_out_as_each_of_them_alone() {
    let dir = repository("sha1");
    let before = Index::parse(&read(dir.path()), ObjectFormat::Sha1).unwrap();
    let entry = before.entries()[0].1.clone();
    let path = |number: usize| format!("d{}/e/{}", number % 4, "f".repeat(number % 30));
    let edit = |number| (path(number), (number % 3 != 0).then(|| entry.clone()));
    let edits: Edits = (1..60).map(edit).collect();
    assert!(edits.len() > super::FEW);
    let (mut at_once, mut one_by_one) = (before.clone(), before);
    at_once.edit(edits.clone());
    edits.into_iter().for_each(|edit| one_by_one.edit([edit].into()));
    assert_eq!(at_once, one_by_one);
}

#[test]
fn new_stamps_leave_the_trees_above_as_they_are() {
    let dir = repository("sha1");
    let before = Index::parse(&read(dir.path()), ObjectFormat::Sha1).unwrap();
    let mut index = before.clone();
    let (path, entry) = before.entries()[0].clone();
    index.edit([(path, Some(IndexEntry { stat: Stat::default(), ..entry }))].into());
    assert_eq!(index.folders, before.folders);
    assert_ne!(index, before);
}

#[test]
fn what_is_not_plain_or_not_whole_is_left_to_git() {
    let format = ObjectFormat::Sha1;
    let dir = repository("sha1");
    let bytes = read(dir.path());
    for cut in [0, 11, 12, 60, bytes.len() / 2, bytes.len() - 1] {
        assert_eq!(Index::parse(&bytes[..cut], format), None, "{cut}");
    }
    let mut flipped = bytes.clone();
    flipped[20] ^= 1;
    assert_eq!(Index::parse(&flipped, format), None, "the sum is wrong");
    std::fs::write(dir.path().join("meant"), "x").unwrap();
    for odd in [
        &["update-index", "--index-version", "4"][..],
        &["update-index", "--index-version", "2"],
        &["add", "--intent-to-add", "meant"],
        &["rm", "--quiet", "--cached", "--force", "meant"],
        &["update-index", "--untracked-cache"],
    ] {
        git(dir.path(), odd);
        let plain = odd.iter().any(|word| *word == "rm" || *word == "2");
        assert_eq!(Index::parse(&read(dir.path()), format).is_some(), plain, "{odd:?}");
    }
}

#[test]
fn what_git_was_told_not_to_look_at_is_known_and_looked_at() {
    let format = ObjectFormat::Sha1;
    for hide in ["--assume-unchanged", "--skip-worktree"] {
        let dir = repository("sha1");
        let before = Index::parse(&read(dir.path()), format).unwrap();
        git(dir.path(), &["update-index", hide, "d0/e/fff"]);
        let mut index = Index::parse(&read(dir.path()), format).unwrap();
        assert!(index.hides() && !before.hides(), "{hide}");
        index.reveal();
        assert!(!index.hides());
        assert_eq!(index.get("d0/e/fff").unwrap().stat, Stat::default());
        assert_eq!(index.get("d1/e/f"), before.get("d1/e/f"), "the others stay as they are");
    }
}

#[test]
fn stamps_that_somebody_else_wrote_are_not_believed() {
    let dir = repository("sha1");
    let ours = Index::parse(&read(dir.path()), ObjectFormat::Sha1).unwrap();
    let mut theirs = ours.clone();
    let (path, entry) = ours.entries()[3].clone();
    let forged = IndexEntry { stat: Stat { size: 99, ..entry.stat }, ..entry };
    theirs.edit([(path.clone(), Some(forged.clone())), ("new".to_owned(), Some(forged))].into());
    theirs.believe_only(&ours);
    for path in [path.as_str(), "new"] {
        assert_eq!(theirs.get(path).unwrap().stat, Stat::default());
    }
    assert_eq!(theirs.get(&ours.entries()[4].0), Some(&ours.entries()[4].1));
}
