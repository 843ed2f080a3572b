//! The whole loop with the real binary, real git and real processes: what `agency demo ledger` leaves behind.

use super::Desk;
use std::process::Command;

// covers: LG-03, LG-04, LG-06, LG-07, LG-08, LG-11, LG-12, LG-13
#[test]
fn the_demo_builds_five_features_and_leaves_a_true_ledger() {
    let desk = Desk::new();
    let output = desk.command(&["demo", "ledger"]).env("TMPDIR", desk.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let row = |id: &str| said.matches(&format!(" accepted ({id}), ")).count();
    assert_eq!(
        (row("LD2"), row("LD3"), row("LD5"), row("LD9"), row("LD10"), row("LD11")),
        (6, 5, 2, 1, 2, 1),
        "{said}"
    );
    let demo = std::fs::read_dir(desk.path()).unwrap().map(|entry| entry.unwrap().path());
    let repo = demo.into_iter().find(|path| path.join("shop").exists()).unwrap().join("shop");
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).current_dir(&repo).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let dir = repo.to_str().unwrap();
    assert!(desk.ok(&["check", dir]).contains("nothing is wrong"));
    assert!(desk.ok(&["features", "-d", dir, "stats"]).contains("Total: 5/5 (100%)"));
    assert_eq!(git(&["status", "--porcelain"]), "", "the owner's tree followed the branch");
    let branches =
        git(&["for-each-ref", "--format=%(refname)", "refs/heads", "refs/agency/ledger"]);
    let branches: Vec<_> = branches.lines().collect();
    assert!(
        branches.len() == 2 && branches[0].starts_with("refs/agency/ledger/rejected/"),
        "{branches:?}"
    );
    // Every commit that the ledger names exists, is what it says, and lies in the range of its session.
    let text = std::fs::read_to_string(repo.join("progress.json")).unwrap();
    let progress: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut recorded = 0;
    for session in progress["sessions"].as_array().unwrap() {
        let commits = session["commits"].as_array().unwrap();
        let (from, to) = (&session["commit_range"]["from"], &session["commit_range"]["to"]);
        if commits.is_empty() {
            continue;
        }
        let range = format!("{}..{}", from.as_str().unwrap(), to.as_str().unwrap());
        let wanted: String = git(&["log", "--reverse", "--format=%h %s", "--abbrev=7", &range]);
        let found: String = commits
            .iter()
            .map(|commit| {
                format!(
                    "{} {}\n",
                    commit["hash"].as_str().unwrap(),
                    commit["message"].as_str().unwrap()
                )
            })
            .collect();
        assert_eq!(found, wanted, "{session}");
        recorded += commits.len();
    }
    assert_eq!(recorded, 1 + 6 * 2 + 2);
    let text = std::fs::read_to_string(repo.join("reviews.json")).unwrap();
    let reviews: serde_json::Value = serde_json::from_str(&text).unwrap();
    for fix in reviews["fixes"].as_array().unwrap() {
        let merge = fix["merge_commit"].as_str().unwrap();
        assert_eq!(git(&["log", "-1", "--format=%s", merge]), "Merge feature/f002-login (F002)\n");
    }
}
