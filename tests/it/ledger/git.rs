//! What the commands take from git instead of from anybody's word, and the scripts that call us.

use super::{Desk, FEATURES};
use std::process::Command;

fn git(desk: &Desk, words: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=O", "-c", "user.email=o@example.com"])
        .args(words)
        .current_dir(desk.path())
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

// covers: LG-12, LG-13
#[test]
fn head_and_the_commits_of_fixes_are_gits_not_the_agents() {
    let desk = Desk::new();
    git(&desk, &["init", "-q", "-b", "main"]);
    desk.ok(&["progress", "init", "-n", "Shop", "-c", "1"]);
    assert_eq!(desk.json("progress.json")["status"]["head_commit"], serde_json::Value::Null);
    git(&desk, &["commit", "-q", "--allow-empty", "-m", "first"]);
    let head = git(&desk, &["rev-parse", "HEAD"]);
    let in_worktree = desk.at("tree");
    git(&desk, &["worktree", "add", "-q", "-b", "feature/x", in_worktree.to_str().unwrap()]);
    git(&desk, &["pack-refs", "--all"]);
    for dir in [".", "tree"] {
        drop(std::fs::copy(desk.at("progress.json"), desk.at("tree/progress.json")));
        desk.ok(&[
            "progress",
            "-d",
            dir,
            "update-status",
            "--phase",
            "REVIEW",
            "--branch",
            "master",
        ]);
        let status = &desk.json(&format!("{dir}/progress.json"))["status"];
        assert_eq!(status["head_commit"], head[..7]);
        assert_eq!(status["current_branch"], serde_json::Value::Null);
    }
    desk.ok(&["reviews", "init"]);
    let issue = r#"{"major": [{"description": "x"}]}"#;
    desk.ok(&[
        "reviews",
        "add-review",
        "-a",
        "REVIEW",
        "--feature-id",
        "F001",
        "-b",
        "b",
        "-v",
        "REQUEST_CHANGES",
        "-s",
        "s",
        "--issues",
        issue,
    ]);
    let fix = |commit: &str| format!(r#"[{{"issue_id": "R1-M1", "commit": "{commit}"}}]"#);
    let words = |fixed: &str| {
        ["reviews", "add-fix", "-r", "1", "-b", "b", "--issues-fixed", fixed].map(str::to_owned)
    };
    let invented = words(&fix("abc1234"));
    let said = desk.fails(1, &invented.each_ref().map(String::as_str));
    assert!(said.contains("no commit abc1234") && said.contains("LG-12"), "{said}");
    desk.ok(&words(&fix(&head[..8])).each_ref().map(String::as_str));
    git(&desk, &["gc", "-q"]);
    desk.ok(&words(&fix(&head)).each_ref().map(String::as_str));
    desk.fails(1, &invented.each_ref().map(String::as_str));
    desk.ok(&["reviews", "mark-merged", "1"]);
    assert_eq!(desk.json("reviews.json")["fixes"][0]["merge_commit"], head[..7]);
}

// covers: LG-03
#[test]
fn the_scripts_call_us_with_the_same_words() {
    let desk = Desk::new();
    desk.write("feature_list.json", FEATURES);
    desk.ok(&["ledger", "scripts"]);
    let script = |words: &[&str]| {
        Command::new("python3")
            .args(words)
            .current_dir(desk.path())
            .env("PATH", "/usr/bin:/bin")
            .output()
            .unwrap()
    };
    let next = script(&["scripts/features.py", "next"]);
    assert_eq!(String::from_utf8(next.stdout).unwrap(), desk.ok(&["features", "next"]));
    let missing = script(&["scripts/progress.py", "get-status"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(missing.stderr).unwrap(),
        "ERROR: progress.json does not exist.\n"
    );
    desk.ok(&["ledger", "scripts"]);
    desk.write("scripts/reviews.py", "print('mine')\n");
    assert!(desk.fails(1, &["ledger", "scripts"]).contains("not ours"));
    assert_eq!(desk.read("scripts/reviews.py"), "print('mine')\n");
    desk.ok(&["ledger", "scripts", "--force"]);
    assert_eq!(
        desk.read("scripts/reviews.py.old-1"),
        "print('mine')\n",
        "what is replaced is kept"
    );
}
