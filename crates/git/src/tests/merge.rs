//! Worktrees, merges and refs against real git.

use super::{Owner, date, paths};
use crate::{MergeWish, Merged, Merging, RefMoved, Repo};
use agency_protocols::model::{CommitId, MergeStyle, PlannedCommit};
use std::fs;
use std::path::PathBuf;

/// A worktree of ours on `task`, with one commit that changes `a.txt`.
struct Task {
    owner: Owner,
    repo: Repo,
    dir: PathBuf,
    base: CommitId,
    tip: CommitId,
}

async fn task() -> Task {
    let owner = Owner::with_commit();
    let repo = owner.open().await;
    let (dir, base) = (owner.dir.path().join("trees/t1"), owner.head());
    repo.add_worktree(&dir, "task", &base).await.unwrap();
    fs::write(dir.join("a.txt"), "built\n").unwrap();
    fs::write(dir.join("new.txt"), "new\n").unwrap();
    owner.git_in(&dir, &["add", "--all"]);
    owner.git_in(&dir, &["commit", "--quiet", "-m", "build"]);
    let tip = CommitId::new(owner.git(&["rev-parse", "task"]));
    Task { owner, repo, dir, base, tip }
}

impl Task {
    async fn plan(&self, style: MergeStyle) -> Merging {
        let onto = self.owner.head();
        let wish = MergeWish {
            target: "main",
            onto: &onto,
            theirs: &self.tip,
            style,
            message: "Merge the task",
            date: date(),
            keep: None,
        };
        self.repo.plan_merge(&wish).await.unwrap()
    }

    async fn planned(&self, style: MergeStyle) -> PlannedCommit {
        match self.plan(style).await {
            Merging::Planned(planned) => planned,
            other => panic!("{other:?}"),
        }
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.owner.at(path)).unwrap()
    }
}

// covers: AG-14
#[tokio::test]
async fn a_worktree_is_made_once_and_made_whole_after_a_crash() {
    let task = task().await;
    fs::write(task.dir.join("half.txt"), "unfinished\n").unwrap();
    task.repo.add_worktree(&task.dir, "task", &task.base).await.unwrap();
    assert!(task.dir.join("half.txt").exists(), "one that is there is left alone");
    let made = task.owner.git(&["rev-parse", "--git-common-dir"]);
    let index = task.owner.at(&made).join("worktrees/t1/index");
    fs::remove_file(&index).unwrap();
    fs::remove_file(task.dir.join("a.txt")).unwrap();
    task.repo.add_worktree(&task.dir, "task", &task.base).await.unwrap();
    assert_eq!(fs::read_to_string(task.dir.join("a.txt")).unwrap(), "built\n");
    assert_eq!(task.owner.git_in(&task.dir, &["status", "--porcelain"]), "");
}

// covers: AG-14
#[tokio::test]
async fn a_dropped_worktree_leaves_its_branch() {
    let task = task().await;
    task.repo.drop_worktree(&task.dir).await.unwrap();
    task.repo.drop_worktree(&task.dir).await.unwrap();
    assert!(!task.dir.exists());
    assert_eq!(task.owner.git(&["worktree", "list"]).lines().count(), 1);
    assert_eq!(task.owner.git(&["rev-parse", "task"]), task.tip.as_str());
    task.repo.add_worktree(&task.dir, "task", &task.base).await.unwrap();
    assert_eq!(fs::read_to_string(task.dir.join("new.txt")).unwrap(), "new\n");
}

// covers: AG-14
#[tokio::test]
async fn each_style_moves_the_checked_out_branch_with_its_files() {
    for style in [MergeStyle::Squash, MergeStyle::Merge, MergeStyle::FastForward] {
        let task = task().await;
        let planned = task.planned(style).await;
        assert_eq!(paths(&planned.changes), ["a.txt", "new.txt"]);
        assert_eq!(planned, task.planned(style).await, "the same wish, the same id");
        assert_eq!(task.repo.merge(&planned).await.unwrap(), Merged::Done);
        assert_eq!(
            (task.read("a.txt").as_str(), task.read("new.txt").as_str()),
            ("built\n", "new\n")
        );
        assert_eq!((task.owner.status(), task.owner.head()), (String::new(), planned.id.clone()));
        let parents = task.owner.git(&["log", "-1", "--format=%P"]).split(' ').count();
        assert_eq!(parents, if style == MergeStyle::Merge { 2 } else { 1 });
        assert_eq!(task.repo.merge(&planned).await.unwrap(), Merged::Already);
        task.owner.git(&["fsck", "--strict"]);
    }
}

// covers: AG-14
#[tokio::test]
async fn files_that_the_owner_is_working_on_are_waited_for() {
    let task = task().await;
    let planned = task.planned(MergeStyle::Squash).await;
    task.owner.write("dir/b.txt", "mine, elsewhere\n");
    task.owner.write("a.txt", "mine, unfinished\n");
    assert!(matches!(task.repo.merge(&planned).await.unwrap(), Merged::Busy { .. }));
    assert_eq!(
        (task.owner.head(), task.read("a.txt").as_str()),
        (task.base.clone(), "mine, unfinished\n")
    );
    task.owner.write("a.txt", "a\n");
    task.owner.write("new.txt", "not known to git\n");
    assert!(matches!(task.repo.merge(&planned).await.unwrap(), Merged::Busy { .. }));
    assert_eq!(task.read("new.txt"), "not known to git\n");
    fs::remove_file(task.owner.at("new.txt")).unwrap();
    assert_eq!(task.repo.merge(&planned).await.unwrap(), Merged::Done);
    assert_eq!(task.read("dir/b.txt"), "mine, elsewhere\n");
    assert_eq!(task.owner.status(), " M dir/b.txt");
}

// covers: AG-14
#[tokio::test]
async fn a_target_that_moved_a_conflict_and_a_target_that_is_elsewhere() {
    let task = task().await;
    let planned = task.planned(MergeStyle::Squash).await;
    task.owner.write("a.txt", "the owner's\n");
    task.owner.git(&["commit", "--quiet", "-am", "meanwhile"]);
    let moved = task.repo.merge(&planned).await.unwrap();
    assert_eq!(moved, Merged::Moved { found: Some(task.owner.head()) });
    let Merging::Conflict(files) = task.plan(MergeStyle::Squash).await else {
        panic!("no conflict")
    };
    assert_eq!(files.iter().map(|file| file.as_str()).collect::<Vec<_>>(), ["a.txt"]);
    assert_eq!(task.plan(MergeStyle::FastForward).await, Merging::NoFastForward);
    assert_eq!(task.read("a.txt"), "the owner's\n");
    task.owner.git(&["switch", "--quiet", "-c", "apart", task.base.as_str()]);
    let other = task.owner.dir.path().join("owners");
    task.owner.git(&["branch", "--quiet", "-f", "main", task.base.as_str()]);
    task.owner.git(&["worktree", "add", "--quiet", other.to_str().unwrap(), "main"]);
    let busy = task.repo.merge(&planned).await.unwrap();
    assert!(matches!(&busy, Merged::Busy { said } if said.contains("owners")), "{busy:?}");
}

// covers: DM-06
#[tokio::test]
async fn a_crash_between_the_ref_and_the_files_is_finished() {
    let task = task().await;
    let planned = task.planned(MergeStyle::Squash).await;
    task.owner.git(&["update-ref", "refs/heads/main", planned.id.as_str()]);
    assert_eq!(task.read("a.txt"), "a\n");
    assert_eq!(task.repo.merge(&planned).await.unwrap(), Merged::Already);
    assert_eq!((task.read("a.txt").as_str(), task.owner.status()), ("built\n", String::new()));
}

#[tokio::test]
async fn refs_move_only_from_where_they_are_thought_to_be() {
    let task = task().await;
    let (base, tip) = (Some(&task.base), Some(&task.tip));
    let name = "refs/agency/backup/task";
    assert_eq!(task.repo.move_ref(name, None, tip).await.unwrap(), RefMoved::Done);
    assert_eq!(task.repo.move_ref(name, None, tip).await.unwrap(), RefMoved::Done);
    assert_eq!(task.repo.ref_tip(name).await.unwrap().as_ref(), tip);
    let found = tip.cloned();
    assert_eq!(task.repo.move_ref(name, base, None).await.unwrap(), RefMoved::Elsewhere { found });
    assert_eq!(task.repo.move_ref(name, tip, None).await.unwrap(), RefMoved::Done);
    assert_eq!(task.repo.ref_tip(name).await.unwrap(), None);
    for bad in ["HEAD", "refs/heads/../x", "refs/other/x", "--stdin"] {
        assert!(task.repo.move_ref(bad, None, tip).await.is_err(), "{bad}");
    }
}

// covers: LG-07
#[tokio::test]
async fn a_range_lists_its_commits_from_the_oldest() {
    let task = task().await;
    fs::write(task.dir.join("a.txt"), "again\n").unwrap();
    task.owner.git_in(&task.dir, &["commit", "--quiet", "-am", "fix: ümlaut"]);
    let tip = CommitId::new(task.owner.git(&["rev-parse", "task"]));
    let seen = task.repo.range(Some(&task.base), &tip).await.unwrap();
    let subjects: Vec<_> = seen.iter().map(|commit| commit.subject.as_str()).collect();
    assert_eq!(subjects, ["build", "fix: ümlaut"]);
    assert_eq!(
        (seen[0].parents.clone(), seen[1].id.clone()),
        (vec![task.base.clone()], tip.clone())
    );
    assert_eq!((seen[0].author.as_str(), seen[0].email.as_str()), ("Owner", "owner@example.org"));
    assert_eq!(task.repo.range(None, &tip).await.unwrap().len(), 3);
    assert!(task.repo.range(Some(&tip), &task.base).await.unwrap().is_empty());
}

// covers: LP-30
#[tokio::test]
async fn both_sides_of_files_come_in_one_answer() {
    let task = task().await;
    let to = task.repo.ask_tree(&task.tip).await;
    let paths = ["a.txt", "new.txt", "gone", "dir", "x blob 3"].map(super::path);
    let sides = task.repo.sides(Some(&task.base), &to, &paths).await.unwrap();
    let text = |side: &Option<agency_protocols::model::Bytes>| {
        side.as_ref().map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
    };
    let shown: Vec<_> = sides.iter().map(|side| (text(&side.before), text(&side.after))).collect();
    let some = |text: &str| Some(text.to_owned());
    let none = (None, None);
    let wanted =
        [(some("a\n"), some("built\n")), (None, some("new\n")), none.clone(), none.clone(), none];
    assert_eq!(shown, wanted);
    assert_eq!(text(&task.repo.sides(None, &to, &paths[..1]).await.unwrap()[0].before), None);
}

// covers: AG-14
#[tokio::test]
async fn a_merge_that_waits_for_the_owner_leaves_their_index_alone() {
    let owner = Owner::with_commit();
    owner.git(&["checkout", "--quiet", "-b", "work"]);
    owner.write("a.txt", "theirs\n");
    owner.git(&["commit", "--quiet", "-a", "-m", "work"]);
    owner.git(&["checkout", "--quiet", "main"]);
    owner.write("a.txt", "half an edit\n");
    let repo = owner.open().await;
    let (onto, theirs) = (owner.head(), CommitId::new(owner.git(&["rev-parse", "work"])));
    let wish = MergeWish {
        target: "main",
        onto: &onto,
        theirs: &theirs,
        style: MergeStyle::Squash,
        message: "m",
        date: date(),
        keep: None,
    };
    let Merging::Planned(planned) = repo.plan_merge(&wish).await.unwrap() else {
        panic!("there is no conflict between the commits")
    };
    let before = fs::metadata(owner.at(".git/index")).unwrap().modified().unwrap();
    assert!(matches!(repo.merge(&planned).await.unwrap(), Merged::Busy { .. }));
    assert_eq!(fs::metadata(owner.at(".git/index")).unwrap().modified().unwrap(), before);
    owner.git(&["checkout", "--quiet", "--", "a.txt"]);
    assert_eq!(repo.merge(&planned).await.unwrap(), Merged::Done);
    assert_eq!(owner.status(), "");
    assert_eq!(fs::read_to_string(owner.at("a.txt")).unwrap(), "theirs\n");
}
