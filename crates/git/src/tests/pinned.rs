//! What the owner trusted goes on working: harmless settings, filters, includes, and the way back by trusting anew.

use super::{Owner, path, plan_all};
use crate::{GitError, Pushed};
use std::fs;

fn changes(error: GitError) -> Vec<String> {
    match error {
        GitError::Held { changes } => changes,
        other => panic!("{other}"),
    }
}

// covers: SE-01
#[tokio::test]
async fn harmless_settings_never_hold() {
    let owner = Owner::with_commit();
    owner.git(&["init", "--quiet", "--bare", "../bare.git"]);
    owner.git(&["remote", "add", "hub", "../bare.git"]);
    let repo = owner.open().await;
    let settings = [
        ("user.name", "Somebody"),
        ("user.email", "somebody@example.org"),
        ("user.signingKey", "K"),
        ("branch.main.remote", "hub"),
        ("branch.main.merge", "refs/heads/main"),
        ("branch.main.rebase", "true"),
        ("branch.x.vscode-merge-base", "origin/main"),
        ("branch.x.description", "words"),
        ("color.ui", "always"),
        ("color.diff.meta", "red"),
        ("core.autocrlf", "input"),
        ("core.filemode", "true"),
        ("core.quotePath", "false"),
        ("remote.hub.fetch", "+refs/heads/*:refs/remotes/hub/*"),
        ("remote.hub.gh-resolved", "base"),
        ("pull.rebase", "true"),
        ("push.default", "current"),
        ("rebase.autoStash", "true"),
        ("merge.conflictStyle", "zdiff3"),
        ("diff.algorithm", "histogram"),
        ("advice.detachedHead", "false"),
        ("gc.auto", "0"),
        ("rerere.enabled", "true"),
        ("log.date", "iso"),
        ("lfs.repositoryformatversion", "0"),
    ];
    for (key, value) in settings {
        owner.git(&["config", key, value]);
        repo.check().unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    owner.write(".gitattributes", "*.png binary\n* text=auto\n");
    owner.write(".git/info/attributes", "*.sh text eol=lf\n");
    owner.write(".git/info/exclude", "*.log\n");
    owner.write(".git/hooks/pre-commit.sample", "#!/bin/sh\n");
    owner.git(&["branch", "another"]);
    owner.git(&["tag", "v1"]);
    owner.git(&["pack-refs", "--all"]);
    owner.write("a.txt", "more\n");
    let planned = plan_all(&repo, &[]).await;
    repo.commit(&planned).await.unwrap();
    assert_eq!(repo.push("main", &planned.id).await.unwrap(), Pushed::Done);
}

// covers: SE-01
#[tokio::test]
async fn a_hold_names_file_and_setting_and_ends_when_it_is_trusted_or_put_back() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let config = fs::read(owner.at(".git/config")).unwrap();
    owner.git(&["config", "core.fsmonitor", "/tmp/evil"]);
    owner.script(".git/hooks/pre-push", "#!/bin/sh\n");
    let said = changes(repo.snapshot("s", None).await.unwrap_err());
    assert_eq!(said[0], "`.git/config`: `core.fsmonitor` was not there, is `/tmp/evil`");
    assert!(said[1].starts_with("`.git/hooks/pre-push` was not there, is `a file of"), "{said:?}");
    fs::write(owner.at(".git/config"), &config).unwrap();
    fs::remove_file(owner.at(".git/hooks/pre-push")).unwrap();
    repo.snapshot("s", None).await.unwrap();
    owner.git(&["config", "alias.st", "status"]);
    assert!(repo.snapshot("s", None).await.is_err());
    repo.pin_anew().unwrap();
    repo.snapshot("s", None).await.unwrap();
    owner.git(&["config", "--unset", "alias.st"]);
    let said = changes(repo.snapshot("s", None).await.unwrap_err());
    assert_eq!(said, ["`.git/config`: `alias.st` was `status`, is gone"]);
}

// covers: SE-01
#[tokio::test]
async fn the_owners_filters_still_work() {
    let owner = Owner::with_commit();
    owner.git(&["config", "filter.upper.clean", "tr a-z A-Z"]);
    owner.write(".gitattributes", "*.up filter=upper\n");
    owner.write("x.up", "large\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    let file = repo.file_at(&planned.id, &path("x.up"), 100).await.unwrap();
    assert_eq!(file.as_deref(), Some(b"LARGE\n".as_slice()));
}

/// As much of git-lfs as a commit needs: a pointer instead of the contents, which are kept in the repository.
const LFS: &str = r#"#!/bin/sh
[ "$1" = clean ] || exit 1
store="$(git rev-parse --git-common-dir)/lfs/objects"
mkdir -p "$store" && cat > "$store/new"
sum=$(sha256sum < "$store/new"); sum=${sum%% *}
size=$(wc -c < "$store/new")
mv "$store/new" "$store/$sum"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$sum" "$size"
"#;

fn with_lfs(owner: &Owner) -> crate::Options {
    owner.script("../usr/git-lfs", LFS);
    fs::create_dir_all(owner.at("../first")).unwrap();
    let mut options = owner.options();
    let (_, old) = options.env.iter().find(|(name, _)| name == "PATH").cloned().unwrap();
    let dirs = ["first", "usr"].map(|dir| owner.dir.path().join(dir));
    let path = std::env::join_paths(dirs.into_iter().chain(std::env::split_paths(&old))).unwrap();
    options.env.retain(|(name, _)| name != "PATH");
    options.env.push(("PATH".into(), path));
    options
}

// covers: SE-01
#[tokio::test]
async fn a_file_under_lfs_is_committed_as_a_pointer_by_the_pinned_program() {
    for place in ["local", "global"] {
        let owner = Owner::with_commit();
        let mut options = with_lfs(&owner);
        let settings = "[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n";
        if place == "local" {
            let config = fs::read_to_string(owner.at(".git/config")).unwrap();
            owner.write(".git/config", &format!("{config}{settings}"));
        } else {
            owner.write("../gitconfig", settings);
            options.env.retain(|(name, _)| name != "GIT_CONFIG_GLOBAL");
            options
                .env
                .push(("GIT_CONFIG_GLOBAL".into(), owner.dir.path().join("gitconfig").into()));
        }
        let repo = owner.open_with(&owner.root, options).await;
        // A namesake where PATH looks first, and a file that an agent newly puts under LFS.
        owner.script("../first/git-lfs", "#!/bin/sh\ntouch ../ran\nexec cat\n");
        owner.write(".gitattributes", "*.bin filter=lfs\n");
        owner.write("x.bin", "large\n");
        let planned = plan_all(&repo, &[]).await;
        let file = repo.file_at(&planned.id, &path("x.bin"), 1000).await.unwrap().unwrap();
        let text = String::from_utf8(file).unwrap();
        assert!(
            text.starts_with("version https://git-lfs") && text.contains("size 6"),
            "{place}: {text}"
        );
        assert!(!owner.at("../ran").exists(), "{place}: the namesake ran");
        let kept: Vec<_> = fs::read_dir(owner.at(".git/lfs/objects")).unwrap().flatten().collect();
        assert_eq!(kept.len(), 1, "{place}: the contents are in the owner's own store");
    }
}

// covers: SE-01
#[tokio::test]
async fn the_owners_includes_count_and_are_followed() {
    let owner = Owner::with_commit();
    owner.write("../home.inc", "[filter \"upper\"]\n\tclean = tr a-z A-Z\n[user]\n\tname = A\n");
    owner.write(".git/near.inc", "[include]\n\tpath = ../../home.inc\n");
    owner.git(&["config", "include.path", "missing.inc"]);
    let here = format!("includeIf.gitdir:{}/.path", owner.root.display());
    owner.git(&["config", &here, "near.inc"]);
    owner.write(".gitattributes", "*.up filter=upper\n");
    owner.write("x.up", "large\n");
    let repo = owner.open().await;
    let planned = plan_all(&repo, &[]).await;
    let file = repo.file_at(&planned.id, &path("x.up"), 100).await.unwrap();
    assert_eq!(file.as_deref(), Some(b"LARGE\n".as_slice()));
    owner.write("../home.inc", "[filter \"upper\"]\n\tclean = tr a-z A-Z\n[user]\n\tname = B\n");
    repo.check().unwrap();
    owner.write(".git/missing.inc", "[core]\n\tfsmonitor = x\n");
    let said = changes(repo.check().unwrap_err());
    assert_eq!(said, ["`.git/missing.inc`: `core.fsmonitor` was not there, is `x`"]);
}

// covers: SE-01
#[tokio::test]
async fn a_branch_that_is_sent_to_another_of_the_owners_remotes_holds_its_push_only() {
    let owner = Owner::with_commit();
    for name in ["private", "public"] {
        owner.git(&["init", "--quiet", "--bare", &format!("../{name}.git")]);
        owner.git(&["remote", "add", name, &format!("../{name}.git")]);
    }
    owner.git(&["config", "branch.main.remote", "private"]);
    let repo = owner.open().await;
    owner.git(&["config", "branch.main.pushRemote", "public"]);
    repo.snapshot("s", None).await.unwrap();
    let said = changes(repo.push("main", &owner.head()).await.unwrap_err());
    assert!(said[0].contains("`private`") && said[0].contains("`public`"), "{said:?}");
    repo.pin_anew().unwrap();
    assert_eq!(repo.push("main", &owner.head()).await.unwrap(), Pushed::Done);
}

// covers: SE-01
#[tokio::test]
async fn what_cannot_be_read_holds_and_says_so() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let config = fs::read_to_string(owner.at(".git/config")).unwrap();
    owner.write(".git/config", &format!("{config}[core\n"));
    let said = changes(repo.check().unwrap_err());
    assert!(said[0].starts_with("`.git/config`: line"), "{said:?}");
    owner.write(".git/config", &"#".repeat(2 << 20));
    assert!(changes(repo.check().unwrap_err())[0].contains("cannot be read"));
    fs::remove_file(owner.at(".git/config")).unwrap();
    nix::unistd::mkfifo(&owner.at(".git/config"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(
        changes(repo.check().unwrap_err())[0].contains("cannot be read"),
        "nobody waits for a writer"
    );
    fs::remove_file(owner.at(".git/config")).unwrap();
    owner.write(".git/config", &format!("{config}[include]\n\tpath = config\n"));
    assert!(changes(repo.check().unwrap_err())[0].contains("too deeply"));
}

// covers: SE-01
#[tokio::test]
async fn another_work_tree_of_the_repository_is_held_with_it() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    owner.git(&["worktree", "add", "--quiet", "../beside", "-b", "side"]);
    let root = owner.at("../beside");
    let beside = repo.beside(&root).await.unwrap().unwrap();
    fs::write(root.join("new.txt"), "new\n").unwrap();
    let snapshot = beside.snapshot("beside", None).await.unwrap();
    assert_eq!(snapshot.dirty, [path("new.txt")]);
    let own = owner.at(".git/worktrees/beside/config.worktree");
    fs::write(&own, "[core]\n\tfsmonitor = x\n").unwrap();
    let said = changes(beside.snapshot("beside", None).await.unwrap_err());
    assert_eq!(
        said,
        ["`.git/worktrees/beside/config.worktree`: `core.fsmonitor` was not there, is `x`"]
    );
    fs::remove_file(&own).unwrap();
    owner.git(&["config", "core.fsmonitor", "x"]);
    assert!(beside.snapshot("beside", None).await.is_err());
    owner.git(&["init", "--quiet", "../evil"]);
    fs::write(root.join(".git"), format!("gitdir: {}\n", owner.at("../evil/.git").display()))
        .unwrap();
    let said = changes(repo.beside(&root).await.err().unwrap());
    assert!(said[0].contains("another repository"), "{said:?}");
}

// covers: SE-01
#[tokio::test]
async fn what_lfs_keeps_is_sent_before_a_push_as_the_owners_hook_would() {
    let owner = Owner::with_commit();
    owner.git(&["init", "--quiet", "--bare", "../bare.git"]);
    owner.git(&["remote", "add", "hub", "../bare.git"]);
    let options = with_lfs(&owner);
    owner.script(
        "../usr/git-lfs",
        "#!/bin/sh\necho \"$@\" >> ../sent; cat >> ../sent; [ ! -e ../down ]\n",
    );
    owner.script(".git/hooks/pre-push", "#!/bin/sh\ngit lfs pre-push \"$@\"\n");
    let repo = owner.open_with(&owner.root, options).await;
    let head = owner.head();
    owner.write("../down", "");
    let failed = repo.push("main", &head).await.unwrap();
    assert!(matches!(failed, Pushed::Failed { .. }), "no pointer without its contents: {failed:?}");
    assert!(!owner.at("../bare.git/refs/heads/main").exists());
    fs::remove_file(owner.at("../down")).unwrap();
    fs::remove_file(owner.at("../sent")).unwrap();
    assert_eq!(repo.push("main", &head).await.unwrap(), Pushed::Done);
    let line = format!("refs/heads/main {head} refs/heads/main {}", "0".repeat(40));
    assert_eq!(
        fs::read_to_string(owner.at("../sent")).unwrap(),
        format!("pre-push hub ../bare.git\n{line}\n")
    );
}

// covers: SE-01
#[tokio::test]
async fn settings_in_another_alphabet_and_of_submodules_do_no_harm() {
    let owner = Owner::with_commit();
    let mut config = fs::read(owner.at(".git/config")).unwrap();
    config.extend(b"[user]\n\tname = J\xfcrgen\n[include]\n\tpath = %(prefix)/etc/none\n");
    fs::write(owner.at(".git/config"), &config).unwrap();
    owner.write(".git/modules/lib/HEAD", "ref: refs/heads/main\n");
    owner.write(".git/modules/lib/config", "[remote \"origin\"]\n\turl = u\n");
    let repo = owner.open().await;
    owner.write(
        ".git/modules/lib/config",
        "[remote \"origin\"]\n\turl = u\n[branch \"main\"]\n\tremote = origin\n",
    );
    repo.check().unwrap();
    assert_eq!(repo.push("main", &owner.head()).await.unwrap(), Pushed::NoRemote);
    owner.write(".git/modules/lib/config", "[remote \"origin\"]\n\turl = elsewhere\n");
    let said = changes(repo.check().unwrap_err());
    assert_eq!(said, ["`.git/modules/lib/config`: `remote.origin.url` was `u`, is `elsewhere`"]);
}

// covers: SE-01
#[tokio::test]
async fn a_flood_of_plants_is_told_in_few_words() {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let many: String = (0..2000).map(|n| format!("[alias]\n\ta{n} = x\n")).collect();
    let config = fs::read_to_string(owner.at(".git/config")).unwrap();
    owner.write(".git/config", &format!("{config}{many}"));
    let said = changes(repo.check().unwrap_err());
    assert_eq!((said.len(), said.last().unwrap().as_str()), (51, "and 1950 more"));
}

// covers: SE-01
#[tokio::test]
async fn only_what_our_git_may_start_is_looked_up_in_the_tree() {
    let owner = Owner::with_commit();
    owner.write("tools/x", "one");
    owner.write(".git/hooks/post-merge", &"x".repeat(9 << 20));
    owner.git(&["config", "alias.x", "!sh tools/x"]);
    owner.git(&["config", "filter.x.clean", "sh tools/y"]);
    let repo = owner.open().await;
    owner.write("tools/x", "two");
    repo.check().unwrap();
    owner.write("tools/y", "planted later");
    let said = changes(repo.check().unwrap_err());
    assert!(said.len() == 1 && said[0].starts_with("`tools/y` was not there"), "{said:?}");
}
