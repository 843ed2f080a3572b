//! A work tree that we take in ourselves is taken in as git would have done it, and what only git can do is left to git.

use super::{Owner, date, path, paths, plan_all};
use crate::index::{Index, IndexEntry, Stat};
use crate::patterns::Patterns;
use crate::{Committed, Repo};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

impl Repo {
    /// Whether the tree as it is now needs no git.
    async fn is_plain(&self) -> bool {
        let mut recent = self.0.recent.lock().await;
        let checkout = self.checkout().await.unwrap();
        let index = self.private_index(false).unwrap();
        self.stage_plain(&mut recent, &index, checkout.head.as_ref()).await.unwrap().is_some()
    }
}

/// The snapshot of now is git's own tree, also when somebody looks who remembers nothing.
async fn agrees(owner: &Owner, repo: &Repo, plain: bool, why: &str) {
    assert_eq!(repo.is_plain().await, plain, "{why}");
    let wanted = owner.tree();
    assert_eq!(repo.snapshot("now", None).await.unwrap().tree.as_str(), wanted, "{why}");
    let anew = owner.open().await.snapshot("anew", None).await.unwrap();
    assert_eq!(anew.tree.as_str(), wanted, "{why}, by somebody who remembers nothing");
}

/// What somebody does, and the words for it.
type Deed = (&'static str, fn(&Owner));

// covers: LP-19
#[tokio::test]
async fn whatever_becomes_of_a_file_is_seen() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let deeds: [Deed; 10] = [
        ("nothing", |_| {}),
        ("changed", |owner| owner.write("a.txt", "b\n")),
        ("as long as before, and with its time set back", |owner| {
            let time = fs::metadata(owner.at("a.txt")).unwrap().modified().unwrap();
            owner.write("a.txt", "c\n");
            fs::File::open(owner.at("a.txt")).unwrap().set_modified(time).unwrap();
        }),
        ("executable", |owner| {
            fs::set_permissions(owner.at("a.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("new, in a new folder", |owner| owner.write("new/deep/n.txt", "n\n")),
        ("a link", |owner| symlink("nowhere", owner.at("link")).unwrap()),
        ("a folder in the place of a file", |owner| {
            fs::remove_file(owner.at("a.txt")).unwrap();
            owner.write("a.txt/inside", "x\n");
        }),
        ("a link in the place of a folder", |owner| {
            fs::rename(owner.at("dir"), owner.at("elsewhere")).unwrap();
            symlink("elsewhere", owner.at("dir")).unwrap();
        }),
        ("a pipe beside it all", |owner| {
            nix::unistd::mkfifo(&owner.at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }),
        ("gone", |owner| fs::remove_dir_all(owner.at("new")).unwrap()),
    ];
    for (what, deed) in deeds {
        deed(&owner);
        agrees(&owner, &repo, true, what).await;
    }
}

#[tokio::test]
async fn what_is_ignored_stays_out_and_a_new_list_counts_at_once() {
    let owner = Owner::with_commit();
    owner.write("built/x.o", "x");
    owner.write("x.log", "x");
    owner.write("dir/y.log", "x");
    let repo = owner.open().await;
    let deeds: [Deed; 8] = [
        ("no list", |_| {}),
        ("a list", |owner| owner.write(".gitignore", "*.log\nbuilt/\n")),
        ("a longer list", |owner| owner.write(".gitignore", "*.log\nbuilt/\n:odd\n[x]y\n")),
        ("names that look like patterns", |owner| {
            owner.write(":odd", "x");
            owner.write("xy", "x");
            owner.write("*", "x");
        }),
        ("a list further down that takes something back", |owner| {
            owner.write("dir/.gitignore", "!y.log\n");
        }),
        ("the owner's own list", |owner| owner.write(".git/info/exclude", "secret*\n")),
        ("what it means", |owner| owner.write("dir/secret.txt", "x")),
        ("no list again", |owner| {
            fs::remove_file(owner.at(".gitignore")).unwrap();
            fs::remove_file(owner.at(":odd")).unwrap();
        }),
    ];
    for (what, deed) in deeds {
        deed(&owner);
        agrees(&owner, &repo, true, what).await;
    }
}

#[tokio::test]
async fn what_is_only_ignored_by_the_owners_settings_stays_out() {
    let owner = Owner::with_commit();
    fs::write(owner.dir.path().join("my-ignores"), "*.swp\n").unwrap();
    owner.git(&["config", "core.excludesFile", "~/my-ignores"]);
    owner.write("a.swp", "x");
    let repo = owner.open().await;
    agrees(&owner, &repo, true, "a list of the owner's").await;
    assert_eq!(repo.snapshot("now", None).await.unwrap().dirty, []);
    fs::write(owner.dir.path().join("my-ignores"), "# nothing\n").unwrap();
    agrees(&owner, &repo, true, "the list is empty now").await;
}

#[tokio::test]
async fn what_only_git_can_do_is_left_to_git() {
    let cases: [Deed; 9] = [
        ("line ends by an attribute", |owner| {
            owner.write(".gitattributes", "* text=auto\n");
            owner.write("crlf.txt", "a\r\nb\r\n");
        }),
        ("an id by an attribute", |owner| {
            owner.write("dir/.gitattributes", "*.txt ident\n");
            owner.write("dir/b.txt", "$Id: old $\n");
        }),
        ("line ends by a setting", |owner| {
            owner.git(&["config", "core.autocrlf", "input"]);
            owner.write("crlf.txt", "a\r\n");
        }),
        ("another encoding", |owner| {
            owner.write(".gitattributes", "*.txt working-tree-encoding=UTF-16LE\n");
            fs::write(owner.at("u.txt"), b"h\0i\0").unwrap();
            fs::remove_file(owner.at("a.txt")).unwrap();
            fs::remove_file(owner.at("dir/b.txt")).unwrap();
        }),
        ("a repository inside", |owner| {
            owner.git(&["init", "--quiet", "inner"]);
            let inner = owner.at("inner");
            owner.git_in(&inner, &["commit", "--quiet", "--allow-empty", "-m", "inner"]);
        }),
        ("modes that do not count", |owner| {
            owner.git(&["config", "core.fileMode", "false"]);
            owner.write("a.txt", "changed\n");
        }),
        ("an index of another form", |owner| {
            drop(owner.git(&["update-index", "--index-version", "4"]));
        }),
        ("a large file", |owner| {
            let file = fs::File::create(owner.at("large")).unwrap();
            file.set_len(17 << 20).unwrap();
        }),
        ("a setting that leads somewhere", |owner| {
            owner.git(&["config", "core.excludesFile", "relative"]);
            owner.write("relative", "x\n");
        }),
    ];
    for (what, prepare) in cases {
        let owner = Owner::with_commit();
        prepare(&owner);
        let repo = owner.open().await;
        agrees(&owner, &repo, false, what).await;
    }
}

#[tokio::test]
async fn attributes_that_change_nothing_are_no_hindrance() {
    let owner = Owner::with_commit();
    owner.git(&["config", "core.autocrlf", "input"]);
    owner.write(".gitattributes", "*.md diff=markdown\n*.txt text eol=lf\n*.png binary\n");
    owner.write("new.txt", "plain\n");
    let repo = owner.open().await;
    agrees(&owner, &repo, true, "no line end to convert").await;
    repo.snapshot("now", None).await.unwrap();
    fs::remove_file(owner.at(".gitattributes")).unwrap();
    assert!(!repo.is_plain().await, "our own index still has what the list said");
    agrees(&owner, &repo, true, "the owner's never had it").await;
}

/// Names that git's own rules keep out of a tree, or that look like it.
#[tokio::test]
async fn a_name_that_git_might_refuse_is_git_to_judge() {
    for (name, plain) in [
        ("git~1", false),
        (".gitx", true),
        ("a:b", false),
        ("back\\slash", false),
        (".github/x", true),
    ] {
        let owner = Owner::with_commit();
        owner.write(name, "x\n");
        let repo = owner.open().await;
        assert_eq!(repo.is_plain().await, plain, "{name}");
    }
}

/// With and without a need for git.
fn owners() -> [Owner; 2] {
    let by_git = Owner::with_commit();
    by_git.write(".gitattributes", "*.bin filter=none\n");
    by_git.git(&["add", ".gitattributes"]);
    by_git.git(&["commit", "--quiet", "-m", "attributes"]);
    [Owner::with_commit(), by_git]
}

// covers: LP-19, LP-30
#[tokio::test]
async fn what_an_agent_tells_git_not_to_look_at_is_looked_at() {
    for owner in owners() {
        for hide in ["--assume-unchanged", "--skip-worktree"] {
            let repo = owner.open().await;
            let start = repo.snapshot("start", None).await.unwrap();
            owner.git(&["update-index", hide, "a.txt"]);
            owner.write("a.txt", "weaker\n");
            let end = repo.snapshot("end", Some(&start.tree)).await.unwrap();
            assert_eq!(paths(&end.changed), ["a.txt"], "{hide}");
            owner.git(&["update-index", &hide.replacen("--", "--no-", 1), "a.txt"]);
            owner.git(&["checkout", "--quiet", "a.txt"]);
        }
    }
}

/// A file's new stamps beside its old bytes: to whoever believes them nothing changed.
fn forge(index: &Path, file: &Path) {
    let format = crate::ObjectFormat::Sha1;
    let mut forged = Index::parse(&fs::read(index).unwrap(), format).unwrap();
    let name = file.file_name().unwrap().to_str().unwrap();
    let meta = fs::metadata(file).unwrap();
    let known = forged.get(name).unwrap();
    let time = |seconds: i64, part: i64| (seconds as u32, part as u32);
    let stat = Stat {
        ctime: time(meta.ctime(), meta.ctime_nsec()),
        mtime: time(meta.mtime(), meta.mtime_nsec()),
        ino: meta.ino() as u32,
        size: meta.len() as u32,
        ..known.stat
    };
    let entry = IndexEntry::new(stat, known.mode, known.id);
    forged.edit([(name.to_owned(), Some(entry))].into());
    fs::write(index, forged.to_bytes(format, true)).unwrap();
    let later = SystemTime::now() + Duration::from_secs(60);
    fs::File::options().write(true).open(index).unwrap().set_modified(later).unwrap();
}

// covers: LP-19, LP-30
#[tokio::test]
async fn stamps_that_an_agent_forged_hide_nothing() {
    for whose in ["the owner's", "ours"] {
        let owner = Owner::with_commit();
        let repo = owner.open().await;
        let start = repo.snapshot("start", None).await.unwrap();
        owner.write("a.txt", "weaker\n");
        let index =
            if whose == "ours" { repo.private_file("index") } else { owner.at(".git/index") };
        forge(&index, &owner.at("a.txt"));
        if whose != "ours" {
            assert_eq!(owner.status(), "", "git itself is deceived");
        }
        let end = repo.snapshot("end", Some(&start.tree)).await.unwrap();
        assert_eq!(paths(&end.changed), ["a.txt"], "{whose}");
    }
}

// covers: LP-19, LP-20
#[tokio::test]
async fn turn_after_turn_the_index_and_the_head_are_as_git_has_them() {
    let owner = Owner::with_commit();
    owner.write(".gitignore", "STATE.md\n");
    owner.write("mine.txt", "the owner's, not committed\n");
    let repo = owner.open().await;
    for turn in 0..4 {
        let before = repo.snapshot("start", None).await.unwrap();
        owner.write("a.txt", &format!("turn {turn}\n"));
        owner.write(&format!("made/{turn}.txt"), "by the agent\n");
        if turn == 2 {
            fs::remove_file(owner.at("made/0.txt")).unwrap();
        }
        let end = repo.snapshot("end", Some(&before.tree)).await.unwrap();
        assert_eq!(end.changed, repo.diff(&before.tree, &end.tree).await.unwrap());
        // Our own file is tracked although it is ignored.
        let state = format!("state {turn}\n");
        let ours = [(path("STATE.md"), state.clone().into_bytes())];
        let head = owner.head();
        let planned =
            repo.plan("main", Some(&head), &end.changed, &ours, "m", date()).await.unwrap();
        owner.write("STATE.md", &state);
        let done = Committed::Done { index_stale: false };
        assert_eq!(repo.commit(&planned).await.unwrap(), done);
        assert_eq!(owner.status(), "?? .gitignore\n?? mine.txt", "turn {turn}");
        assert_eq!(owner.git(&["write-tree"]), planned.tree.as_str());
        assert!(repo.is_plain().await);
    }
    owner.git(&["fsck", "--strict"]);
}

#[tokio::test]
async fn somebody_elses_lock_on_the_branch_is_waited_for() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    owner.write(".git/refs/heads/main.lock", "");
    assert!(!repo.swap_branch(&planned));
    assert!(owner.at(".git/refs/heads/main.lock").exists(), "it is theirs");
    fs::remove_file(owner.at(".git/refs/heads/main.lock")).unwrap();
    assert!(repo.swap_branch(&planned));
    assert_eq!(owner.head(), planned.id);
    assert!(!repo.swap_branch(&planned), "it is not at the parent any more");
}

// covers: DM-06
#[tokio::test]
async fn a_lock_on_the_branch_that_a_kill_left_is_known_again() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    // As it lies there when both logs have their line already.
    owner.write(".git/refs/heads/main.lock", &format!("{}\n", planned.id));
    let (from, to) = (planned.parent.clone().unwrap(), &planned.id);
    for log in ["logs/HEAD", "logs/refs/heads/main"] {
        let file = owner.at(&format!(".git/{log}"));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}{from} {to} agency <agency@localhost> 1 +0000\tx\n"))
            .unwrap();
    }
    repo.commit(&planned).await.unwrap();
    assert_eq!((owner.head(), owner.status()), (planned.id, String::new()));
    assert!(!owner.at(".git/refs/heads/main.lock").exists());
    for of in ["HEAD", "main"] {
        assert_eq!(owner.git(&["reflog", "show", of]).lines().count(), 2, "one line each");
    }
}

#[tokio::test]
async fn the_logs_say_what_git_would_say() {
    let owner = Owner::with_commit();
    owner.write("a.txt", "more\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    assert!(repo.swap_branch(&planned));
    let wanted = format!("{} agency <agency@localhost> agency: commit", planned.id);
    for of in ["HEAD", "main"] {
        let log = owner.git(&["reflog", "show", "-1", "--format=%H %gn <%ge> %gs", of]);
        assert_eq!(log, wanted);
    }
}

// covers: DM-06
#[tokio::test]
async fn a_lock_on_the_index_that_a_kill_left_is_taken_away_and_no_other() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    owner.write(".git/agency/snapshot-1.held", "half an index");
    fs::hard_link(owner.at(".git/agency/snapshot-1.held"), owner.at(".git/index.lock")).unwrap();
    repo.clear_left_lock();
    assert!(!owner.at(".git/index.lock").exists());
    owner.write(".git/index.lock", "the owner's");
    repo.clear_left_lock();
    assert!(owner.at(".git/index.lock").exists());
    assert_eq!(
        owner.open().await.checkout().await.unwrap().busy,
        Some(agency_protocols::model::Busy::IndexLock)
    );
}

#[tokio::test]
async fn the_owners_index_keeps_its_rights_and_what_they_staged() {
    let owner = Owner::with_commit();
    owner.write("staged.txt", "staged\n");
    owner.git(&["add", "staged.txt"]);
    let index = owner.at(".git/index");
    fs::set_permissions(&index, fs::Permissions::from_mode(0o664)).unwrap();
    let repo = owner.open().await;
    let start = repo.snapshot("start", None).await.unwrap();
    owner.write("a.txt", "by the agent\n");
    let end = repo.snapshot("end", Some(&start.tree)).await.unwrap();
    assert_eq!(paths(&end.changed), ["a.txt"]);
    let head = owner.head();
    let planned = repo.plan("main", Some(&head), &end.changed, &[], "m", date()).await.unwrap();
    repo.commit(&planned).await.unwrap();
    assert_eq!(fs::metadata(&index).unwrap().permissions().mode() & 0o777, 0o664);
    assert_eq!(owner.status(), "A  staged.txt");
    assert!(!owner.at(".git/index.lock").exists());
}

/// What git ignores of these names by this list.
fn ignored(dir: &Path, list: &str, names: &[String]) -> Vec<String> {
    fs::write(dir.join(".gitignore"), list).unwrap();
    let mut child = Command::new("git")
        .args(["check-ignore", "-z", "--stdin", "--no-index"])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = names.iter().map(|name| format!("{name}\0")).collect();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    /// Whatever a list says: what git ignores by it, it may match.
    #[test]
    fn no_name_that_git_ignores_passes_as_free(
        lines in prop::collection::vec("[ab*?/!\\[\\]\\\\. ^-]{1,6}", 1..5),
        names in prop::collection::vec("[ab.]{1,3}(/[ab]{1,2}){0,2}", 1..12),
    ) {
        let inside = |name: &String| !name.split('/').any(|part| part.chars().all(|c| c == '.'));
        let names: Vec<String> = names.into_iter().filter(inside).collect();
        let dir = tempfile::tempdir().unwrap();
        let status = Command::new("git").args(["init", "--quiet"]).current_dir(dir.path()).status();
        prop_assert!(status.unwrap().success());
        let list = lines.join("\n");
        let patterns = Patterns::parse(list.as_bytes());
        for name in ignored(dir.path(), &list, &names) {
            prop_assert!(patterns.may_match(&name), "{list:?} ignores {name}");
        }
    }
}
