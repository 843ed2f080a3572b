//! The board runs itself: builders in their own worktrees, an auditor, a verify of the merged tree, the merge; and what each of
//! them may not do.

use super::status;
use crate::e2e::stage::Stage;
use std::path::PathBuf;

const AGENT: &str = include_str!("../agents/board.sh");
const CONFIG: &str = "board: { auditor: codex, disk_floor: 1MiB }\nlimits: { parallel: 4, per_repo: 4, per_agent: 4 }\n";

fn board() -> Stage {
    let stage = Stage::new(AGENT);
    stage.configure(CONFIG);
    stage.ok(&["init", "--orchestrator", "other", "--builders", "claude-code,codex"]);
    let profile = "name: tiny\ndescription: one check\ncommands:\n  - \"test ! -e broken\"\n";
    stage.write(".kodingx/dod/profiles/tiny.yml", profile);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a board"]);
    stage
}

fn task(stage: &Stage, title: &str, more: &[&str]) -> (String, PathBuf) {
    let fixed = ["task", "new", "--title", title, "--assignee", "claude-code", "--json"];
    let scope = ["--dod-profile", "tiny", "--may-touch", "work/**", "--may-touch", "broken"];
    let words = [&fixed[..], &scope[..], more].concat();
    let made = stage.json(&words);
    let word = |name: &str| made[name].as_str().unwrap().to_owned();
    (word("id"), PathBuf::from(word("path")))
}

fn on_main(stage: &Stage, path: &str) -> Option<String> {
    let listed = stage.git(&["ls-tree", "-r", "--name-only", "main"]);
    listed.lines().any(|line| line == path).then(|| stage.git(&["show", &format!("main:{path}")]))
}

fn log(stage: &Stage) -> String {
    format!(
        "{}\n{}",
        stage.ok(&["escalations", "--all"]),
        stage.daemon_log().lines().rev().take(60).collect::<Vec<_>>().join("\n")
    )
}

// covers: AG-09, AG-10, AG-12, AG-13, AG-14, AG-27, AG-34
#[test]
fn tasks_are_built_audited_verified_and_merged() {
    let stage = board();
    let plain = task(&stage, "plain", &[]);
    let after = task(&stage, "after it", &["--depends-on", &plain.0]);
    let breach = task(&stage, "a breach of scope", &["--priority", "P0"]);
    let badly = task(&stage, "done badly", &[]);
    let breaks = task(&stage, "breaks the check", &[]);
    let blocked = task(&stage, "is blocked", &[]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", log(&stage));
    for (id, file) in [&plain, &after, &breach, &badly, &breaks] {
        assert_eq!(status(&stage, file), "DONE", "{id}: {}", log(&stage));
        assert!(on_main(&stage, &format!("work/{id}.txt")).is_some(), "{id} is merged");
        let artifact = format!(
            ".kodingx/verify/{}/{}.verify.json",
            file.parent().unwrap().file_name().unwrap().to_str().unwrap(),
            file.file_stem().unwrap().to_str().unwrap()
        );
        let artifact: serde_json::Value =
            serde_json::from_str(&stage.read(&artifact).unwrap()).unwrap();
        assert_eq!(
            (artifact["result"].as_str(), artifact["commands"][0]["exit_code"].as_i64()),
            (Some("pass"), Some(0))
        );
    }
    assert_eq!(status(&stage, &blocked.1), "BLOCKED");
    assert!(stage.escalation("AG-12").unwrap()["summary"].as_str().unwrap().contains("no access"));
    assert!(on_main(&stage, "outside.txt").is_none() && on_main(&stage, "broken").is_none());
    assert!(
        on_main(&stage, &format!("work/{}.txt", badly.0)).unwrap().contains("fixed"),
        "it came back from the auditor"
    );
    let merges = stage.git(&["log", "--format=%s", "--author=agency", "main"]);
    assert_eq!(merges.lines().count(), 5, "each once: {merges}");
    let runs: Vec<String> = stage.started();
    let of = |id: &str, role: &str| {
        runs.iter().filter(|line| line.ends_with(&format!("{role} {id}"))).count()
    };
    assert_eq!((of(&plain.0, "builder"), of(&plain.0, "auditor")), (1, 1));
    assert_eq!(
        (of(&breach.0, "builder"), of(&breach.0, "auditor")),
        (2, 1),
        "a breach never reaches the auditor"
    );
    assert_eq!((of(&badly.0, "builder"), of(&badly.0, "auditor")), (2, 2));
    assert_eq!((of(&breaks.0, "builder"), of(&breaks.0, "auditor")), (2, 2));
    let first =
        |id: &str| runs.iter().position(|line| line.ends_with(&format!("builder {id}"))).unwrap();
    let audited =
        runs.iter().position(|line| line.ends_with(&format!("auditor {}", plain.0))).unwrap();
    assert!(first(&after.0) > audited, "a dependency comes first: {runs:?}");
    assert!(
        stage.git(&["worktree", "list"]).lines().count() <= 2,
        "only the blocked one's tree is left"
    );
    stage.ok(&["task", "unblock", &blocked.0, "--reason", "granted"]);
    assert_eq!(stage.agency(&["check"]).code, 0, "{}", stage.agency(&["check"]).out);
}

// covers: AG-10, AG-34, AG-11, AG-07
#[test]
fn what_cannot_be_trusted_waits_for_the_owner() {
    let stage = board();
    let meddled = task(&stage, "meddled with", &[]);
    let silent = task(&stage, "silent", &[]);
    let (own, own_file) = {
        let made = stage.json(&[
            "task",
            "new",
            "--title",
            "by the auditor",
            "--assignee",
            "codex",
            "--dod-profile",
            "tiny",
            "--may-touch",
            "work/**",
            "--json",
        ]);
        (made["id"].as_str().unwrap().to_owned(), PathBuf::from(made["path"].as_str().unwrap()))
    };
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", log(&stage));
    assert!(stage.escalation("AG-34").unwrap()["summary"].as_str().unwrap().contains(&meddled.0));
    assert!(stage.escalation("AG-10").unwrap()["summary"].as_str().unwrap().contains(&own));
    assert!(stage.escalation("SU-06").unwrap()["summary"].as_str().unwrap().contains(&silent.0));
    assert_eq!(status(&stage, &silent.1), "BLOCKED", "no report is no success");
    assert_eq!(status(&stage, &own_file), "READY_FOR_REVIEW");
    assert_eq!(stage.git(&["log", "--format=%s", "main"]).lines().count(), 2, "nothing was merged");
    let done = stage.agency(&["task", "done", &meddled.0]);
    assert!(done.code == 1 && done.err.contains("AG-14"), "{}", done.err);
    stage.ok(&["task", "cancel", &meddled.0]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert!(
        !stage.git(&["worktree", "list"]).contains(&meddled.0),
        "its tree is gone, its branch stays"
    );
    assert!(stage.git(&["branch", "--list", "agency/*"]).contains(&meddled.0));
}

// covers: AG-14, DM-06, AG-09
#[test]
fn kills_of_the_daemon_lose_nothing_and_merge_nothing_twice() {
    let trials: usize =
        std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    let stage = board();
    std::fs::write(stage.at("home/slow"), "0.1").unwrap();
    let tasks: Vec<_> =
        (0..trials.min(20)).map(|n| task(&stage, &format!("number {n}"), &[])).collect();
    for round in 0..trials.min(20) {
        let daemon = stage.start();
        std::thread::sleep(std::time::Duration::from_millis(
            300 + u64::try_from(round * 137 % 700).unwrap(),
        ));
        daemon.kill();
    }
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", log(&stage));
    for (id, file) in &tasks {
        assert_eq!(status(&stage, file), "DONE", "{id}: {}", log(&stage));
        assert!(on_main(&stage, &format!("work/{id}.txt")).is_some(), "{id}");
    }
    let merges = stage.git(&["log", "--format=%s", "--author=agency", "main"]);
    assert_eq!(merges.lines().count(), tasks.len(), "every branch once: {merges}");
}
