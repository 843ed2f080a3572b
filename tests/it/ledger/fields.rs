//! LG-16 by hand: fields of the three files say what the specification says that they say.

use super::{Desk, FEATURES};
use serde_json::{Value, json};
use std::process::Command;

fn review(desk: &Desk, id: &str, verdict: &str, issues: &str) {
    let words = [
        "reviews",
        "add-review",
        "-a",
        "REVIEW",
        "--feature-id",
        id,
        "-b",
        "feature/x",
        "-v",
        verdict,
    ];
    desk.ok(&[&words[..], &["-s", "s", "--issues", issues]].concat());
}

/// Completed and passing.
fn counts(desk: &Desk) -> (Value, Value) {
    let status = &desk.json("progress.json")["status"];
    (status["features_completed"].clone(), status["features_passing"].clone())
}

// covers: LG-16
#[test]
fn completed_are_those_that_passed_review_and_passing_those_that_are_marked() {
    let desk = Desk::new();
    desk.write("feature_list.json", FEATURES);
    desk.ok(&["progress", "init"]);
    assert_eq!(desk.json("progress.json")["project"]["name"], "Shop", "as the list calls it");
    assert_eq!(desk.json("progress.json")["project"]["total_features"], 3);
    desk.ok(&["reviews", "init"]);
    desk.ok(&["features", "pass", "F002"]);
    assert_eq!(counts(&desk), (json!(0), json!(1)), "marked without a review");
    review(&desk, "F001", "PASS", "{}");
    assert_eq!(counts(&desk), (json!(1), json!(1)), "passed review, not marked yet");
    desk.ok(&["features", "pass", "F001"]);
    desk.ok(&["features", "fail", "F001", "--reason", "r"]);
    assert_eq!(counts(&desk), (json!(1), json!(1)), "it passed review once");
    review(&desk, "BUG-001", "PASS_WITH_COMMENTS", r#"{"minor": [{"description": "d"}]}"#);
    assert_eq!(counts(&desk), (json!(1), json!(1)), "comments alone let nothing through");
}

// covers: LG-16
#[test]
fn the_time_of_the_last_update_moves_with_every_change() {
    let desk = Desk::new();
    desk.write("feature_list.json", FEATURES);
    desk.ok(&["progress", "init"]);
    desk.ok(&["reviews", "init"]);
    let old = "2001-01-01T00:00:00Z";
    let changes: &[&[&str]] = &[
        &["features", "pass", "F001"],
        &["features", "fail", "F001", "--reason", "r"],
        &["features", "append", "--entries", "[{\"name\": \"n\"}]"],
        &["reviews", "add-review", "-a", "ARCHITECTURE", "-v", "PASS", "-s", "s"],
        &["progress", "update-status", "--phase", "FIX"],
    ];
    for words in changes {
        let mut progress = desk.json("progress.json");
        progress["status"]["updated_at"] = json!(old);
        desk.write("progress.json", &progress.to_string());
        desk.ok(words);
        assert_ne!(desk.json("progress.json")["status"]["updated_at"], old, "{words:?}");
    }
}

// covers: LG-16
#[test]
fn the_trigger_of_an_architecture_review_says_the_real_count() {
    let desk = Desk::new();
    let ids: Vec<String> = (1..=5).map(|n| format!("F00{n}")).collect();
    let list: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "name": "n", "passes": false})).collect();
    desk.write("feature_list.json", &json!(list).to_string());
    desk.ok(&["reviews", "init"]);
    let mut said = Vec::new();
    for id in &ids {
        review(&desk, id, "PASS", "{}");
        desk.ok(&["reviews", "add-review", "-a", "ARCHITECTURE", "-v", "PASS", "-s", "s"]);
        let last = desk.json("reviews.json")["reviews"].as_array().unwrap().last().unwrap().clone();
        said.push((last["trigger"].clone(), last["features_completed"].clone()));
    }
    assert_eq!(said[0], (json!("After 1 feature"), json!(1)));
    assert_eq!(said[2], (json!("After 3 features"), json!(3)));
    assert_eq!(said[4], (json!("Every 5 features"), json!(5)));
}

// covers: LG-16
#[test]
fn a_session_by_hand_takes_its_commits_from_git_and_moves_the_status() {
    let desk = Desk::new();
    let git = |words: &[&str]| {
        let output = Command::new("git")
            .args(["-c", "user.name=O", "-c", "user.email=o@example.com"])
            .args(words)
            .current_dir(desk.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["commit", "-q", "--allow-empty", "-m", "Set up"]);
    let base = git(&["rev-parse", "--short=7", "HEAD"]);
    git(&["checkout", "-q", "-b", "feature/health"]);
    git(&["commit", "-q", "--allow-empty", "-m", "Health check"]);
    git(&["commit", "-q", "--allow-empty", "-m", "Tests"]);
    let (first, last) =
        (git(&["rev-parse", "--short=7", "HEAD~1"]), git(&["rev-parse", "--short=7", "HEAD"]));
    desk.ok(&["progress", "init", "-n", "Shop", "-c", "1"]);
    let words = ["progress", "add-session", "-a", "IMPLEMENT", "-s", "s", "-o", "READY_FOR_REVIEW"];
    desk.ok(&[&words[..], &["--features", "F001", "--commit-from", &base]].concat());
    let progress = desk.json("progress.json");
    assert_eq!(
        progress["sessions"][0]["commits"],
        json!([{"hash": first, "message": "Health check"}, {"hash": last, "message": "Tests"}])
    );
    assert_eq!(progress["sessions"][0]["commit_range"], json!({"from": base, "to": last}));
    let status = |progress: &Value| {
        let status = &progress["status"];
        (
            status["current_phase"].clone(),
            status["current_feature"].clone(),
            status["current_branch"].clone(),
        )
    };
    assert_eq!(status(&progress), (json!("REVIEW"), json!("F001"), json!("feature/health")));
    desk.ok(&[
        "progress",
        "add-session",
        "-a",
        "REVIEW",
        "-s",
        "s",
        "-o",
        "SUCCESS",
        "--features",
        "F001",
    ]);
    assert_eq!(status(&desk.json("progress.json")), (json!("IMPLEMENT"), Value::Null, Value::Null));
}

// covers: LG-05, LG-08
#[test]
fn refusals_say_the_right_word_and_the_tiebreak_says_its_rule() {
    let desk = Desk::new();
    desk.write(
        "reviews.json",
        r#"{"reviews": [{"review_id": "1", "verdict": "PASS"}], "fixes": []}"#,
    );
    let said = desk.fails(1, &["reviews", "list"]);
    assert!(said.contains("review_id must be a number, found \"1\""), "{said}");
    std::fs::remove_file(desk.at("reviews.json")).unwrap();
    desk.ok(&["reviews", "init"]);
    review(&desk, "F001", "REQUEST_CHANGES", r#"{"major": [{"description": "d"}]}"#);
    (0..3).for_each(|_| drop(desk.ok(&["reviews", "add-fix", "-r", "1", "-b", "feature/x"])));
    let said = desk.ok(&["reviews", "get-fix-count", "F001"]);
    let wanted = "ERROR: Maximum fix attempts reached - Tiebreaker required\nonly minor issues left → PASS_WITH_COMMENTS, else REJECT\n";
    assert!(said.ends_with(wanted), "{said}");
}
