//! `agency verify`: what passes, what never passes, what the owner may override, and what is written about it.

use super::{board, report, task};
use crate::e2e::stage::Stage;
use serde_json::Value;

fn artifact(stage: &Stage) -> Value {
    let state = stage.read(".kodingx/STATE.md").unwrap();
    let line = state.lines().find_map(|line| line.trim().strip_prefix("artifact_path: ")).unwrap();
    serde_json::from_str(&stage.read(line.trim_matches('"')).unwrap()).unwrap()
}

fn artifacts(stage: &Stage) -> usize {
    crate::scenarios::files_below(&stage.repo().join(".kodingx/verify")).len()
}

// covers: AG-17, AG-31
#[test]
fn verify_runs_the_commands_and_writes_what_came_of_it() {
    let stage = board();
    let file = task(&stage, &[]);
    let said = stage.agency(&["verify", "--task", "T0001"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("[1/1] test ! -e broken") && said.out.contains("Result: PASS"),
        "{}{}",
        said.err,
        said.out
    );
    let found = artifact(&stage);
    assert_eq!(
        (found["result"].as_str(), found["dod_profile"].as_str()),
        (Some("pass"), Some("tiny"))
    );
    assert_eq!(found["commands"][0]["exit_code"], 0);
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let state = stage.read(".kodingx/STATE.md").unwrap();
    assert!(
        state.contains(&format!("/{stem}.verify.json")) && state.contains("result: \"pass\""),
        "{state}"
    );
    stage.write("broken", "");
    assert_eq!(stage.agency(&["verify", "--task", "T0001"]).code, 1);
    assert_eq!(artifact(&stage)["result"], "fail");
    assert_eq!(artifacts(&stage), 2, "the earlier one is kept");
    let before = artifacts(&stage);
    let unknown = stage.agency(&["verify", "--task", "T0099"]);
    assert!(unknown.code == 1 && unknown.err.contains("no task T0099"), "{}", unknown.err);
    assert_eq!(artifacts(&stage), before, "and writes nothing");
    assert_eq!(stage.json(&["runs", "--json"]).as_array().unwrap().len(), 0);
}

// covers: AG-31, AG-16
#[test]
fn nothing_never_passes() {
    let stage = board();
    task(&stage, &["--dod-profile", "auto"]);
    let auto = stage.agency(&["verify", "--task", "T0001"]);
    assert!(auto.code == 1 && auto.out.contains("`auto` found nothing"), "{}", auto.out);
    for (name, text, because) in [
        (
            "mac",
            "name: mac\ndescription: x\nplatform: darwin\ncommands: [\"true\"]\n",
            "is for darwin",
        ),
        ("empty", "name: empty\ndescription: x\ncommands: []\n", "no command"),
        ("gone", "", "there is no profile `gone`"),
        (
            "slow",
            "name: slow\ndescription: x\ncommands: [\"sleep 600\"]\n",
            "`sleep 600` was stopped after 1 s",
        ),
        (
            "orphan",
            "name: orphan\ndescription: x\ncommands: [\"setsid sleep 601 & exit 3\"]\n",
            "ended with exit code 3",
        ),
    ] {
        if !text.is_empty() {
            stage.write(&format!(".kodingx/dod/profiles/{name}.yml"), text);
        }
        let id = stage.json(&[
            "task",
            "new",
            "--title",
            name,
            "--assignee",
            "alice",
            "--dod-profile",
            name,
            "--json",
        ]);
        let said =
            stage.agency(&["verify", "--task", id["id"].as_str().unwrap(), "--timeout", "1s"]);
        assert!(
            said.code == 1 && format!("{}{}", said.out, said.err).contains(because),
            "{name}: {}{}",
            said.out,
            said.err
        );
    }
    let left = std::process::Command::new("pgrep").args(["-f", "^sleep 601$"]).output().unwrap();
    assert!(left.stdout.is_empty(), "no process of a command outlives it");
}

// covers: AG-18
#[test]
fn an_edited_gate_loosens_nothing_and_is_told() {
    let stage = board();
    let file = task(&stage, &[]);
    stage.write("broken", "");
    stage.write(
        ".kodingx/dod/profiles/tiny.yml",
        "name: tiny\ndescription: loose\ncommands: [\"true\"]\n",
    );
    let said = stage.agency(&["verify", "--task", "T0001"]);
    assert_eq!(said.code, 1, "the committed profile counts: {}", said.out);
    assert!(said.out.contains("differs from the last commit"), "{}", said.out);
    std::fs::remove_file(stage.repo().join("broken")).unwrap();
    assert_eq!(stage.agency(&["verify", "--task", "T0001"]).code, 0);
    assert!(
        artifact(&stage)["weakened"][0].as_str().unwrap().contains("tiny.yml"),
        "{}",
        artifact(&stage)
    );
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    stage.agency(&["verify", "--task", "T0001"]);
    let done = stage.agency(&["task", "done", "T0001"]);
    assert!(done.code == 1 && done.err.contains("loosens its own gates"), "{}", done.err);
}

// covers: AG-11
#[test]
fn a_forged_artifact_does_not_count() {
    let stage = board();
    let file = task(&stage, &[]);
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let date = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let forged = include_str!("../../spec/board-verify.json").replace("T0007", "T0001");
    stage.write(&format!(".kodingx/verify/{date}/{stem}.verify.json"), forged);
    let done = stage.agency(&["task", "done", "T0001"]);
    assert!(done.code == 1 && done.err.contains("somebody else wrote"), "{}", done.err);
}

// covers: AG-11
#[test]
fn a_forged_artifact_is_taken_away_and_told_and_a_committed_one_stays() {
    let stage = board();
    let file = task(&stage, &[]);
    stage.ok(&["task", "start", "T0001"]);
    let stem = file.file_stem().unwrap().to_str().unwrap();
    let date = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let path = format!(".kodingx/verify/{date}/{stem}.verify.json");
    let forged = include_str!("../../spec/board-verify.json").replace("T0007", "T0001");
    let colleagues = format!(".kodingx/verify/2026-01-01/{stem}.verify.json");
    stage.write(&colleagues, &forged);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a colleague's"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert_eq!(stage.read(&colleagues).as_ref(), Some(&forged), "it stays");
    assert_eq!(stage.escalation("AG-11"), None, "and nothing is said of it");
    stage.write(&path, &forged);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert_eq!(stage.read(&path), None, "it is taken away");
    let told = stage.escalation("AG-11").expect("the owner is told");
    assert!(told["summary"].as_str().unwrap().contains(&path), "{told}");
    assert!(told["resolve"].as_str().unwrap().contains("agency task show T0001"), "{told}");
    let folders = std::fs::read_dir(stage.at("state")).unwrap().flatten();
    let kept = folders
        .flat_map(|folder| crate::scenarios::files_below(&folder.path().join("quarantine")))
        .any(|(_, bytes)| bytes == forged.as_bytes());
    assert!(kept, "its bytes are kept");
    stage.write(&path, forged.replace("T0001", "T0099"));
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    assert!(stage.read(&path).is_some(), "an artifact of no task of ours");
}

// covers: AG-19
#[test]
fn an_override_needs_reason_and_follow_up_and_is_recorded() {
    let stage = board();
    let file = task(&stage, &[]);
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    stage.write("broken", "");
    stage.write(".kodingx/DECISIONS.md", "# Decisions\n\n### ADR-014: Before\n");
    assert_eq!(stage.agency(&["verify", "--task", "T0001", "--override"]).code, 2);
    assert_eq!(stage.agency(&["verify", "--task", "T0001", "--override", "--reason", "x"]).code, 2);
    let words = [
        "verify",
        "--task",
        "T0001",
        "--override",
        "--reason",
        "Hotfix INC-1234",
        "--followup",
        "T0002",
        "--approver",
        "john.doe@company.com",
    ];
    let missing = stage.agency(&words);
    assert!(missing.code == 1 && missing.err.contains("T0002"), "{}", missing.err);
    task(&stage, &[]);
    let said = stage.agency(&words);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let found = artifact(&stage);
    assert_eq!(found["result"], "fail", "the result stays what it is");
    assert_eq!(
        found["override"],
        serde_json::json!({"approved": true, "approver": "john.doe@company.com",
        "reason": "Hotfix INC-1234", "decision_ref": "ADR-015", "followup_task": "T0002"})
    );
    let decisions = stage.read(".kodingx/DECISIONS.md").unwrap();
    assert!(
        decisions.contains("### ADR-014: Before")
            && decisions.contains("### ADR-015: Override T0001"),
        "{decisions}"
    );
    assert!(
        stage
            .read(".kodingx/RISKS.md")
            .unwrap()
            .contains("### R-001: T0001 was accepted by override")
    );
    let all = stage.json(&["escalations", "--all", "--json"]).to_string();
    assert!(all.contains("SE-04"), "it is recorded: {all}");
    stage.ok(&["task", "done", "T0001"]);
    assert_eq!(stage.agency(&["check"]).code, 0, "{}", stage.agency(&["check"]).out);
}

// covers: AG-19
#[test]
fn the_approver_is_the_owners_git_address_unless_given() {
    let stage = board();
    task(&stage, &[]);
    task(&stage, &[]);
    stage.write("broken", "");
    let words = ["verify", "--task", "T0001", "--override", "--reason", "x", "--followup", "T0002"];
    assert!(stage.agency(&words).err.contains("approver"));
    stage.git(&["config", "user.email", "me@example.com"]);
    stage.ok(&words);
    assert_eq!(artifact(&stage)["override"]["approver"], "me@example.com");
}

// covers: AG-20
#[test]
fn linked_risks_keep_a_task_from_done() {
    let stage = board();
    let file = task(&stage, &["--risk", "R-004"]);
    let register = "### R-001: Migration\n**Priority:** P0 (Critical)\n**Status:** OPEN\n**Linked Tasks:** T0001\n\n\
        ### R-004: Small\n**Priority:** P2\n**Status:** MITIGATED\n**Linked Tasks:**\n";
    stage.write(".kodingx/RISKS.md", register);
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "risks"]);
    let said = stage.agency(&["verify", "--task", "T0001", "--check-risks"]);
    assert_eq!(said.code, 1);
    assert!(said.out.starts_with("⚠ Risk R-001 (P0 OPEN) is linked — task cannot be marked DONE\n✓ Risk R-004 (P2 MITIGATED) — OK\nResult: FAIL (blocking risk)\n"), "{}", said.out);
    assert_eq!(
        artifact(&stage)["risk_check"],
        serde_json::json!({"linked_risks": ["R-001", "R-004"], "blocking_risks": ["R-001"],
        "blocking_reason": "R-001 is P0 OPEN — resolve before DONE"})
    );
    // An agent that closes its own risk changes nothing; the owner's commit does.
    stage.write(".kodingx/RISKS.md", register.replace("OPEN", "CLOSED"));
    assert_eq!(stage.agency(&["verify", "--task", "T0001"]).code, 1);
    stage.write(".kodingx/RISKS.md", register.replace("P0 (Critical)", "P1 (High)"));
    stage.git(&["commit", "--quiet", "-am", "less"]);
    stage.ok(&["task", "start", "T0001"]);
    report(&stage, &file, "READY_FOR_REVIEW", "");
    assert_eq!(stage.agency(&["verify", "--task", "T0001"]).code, 0, "a P1 only warns");
    let done = stage.agency(&["task", "done", "T0001"]);
    assert!(done.code == 1 && done.err.contains("needs an override"), "{}", done.err);
    stage.write(".kodingx/RISKS.md", register.replace("OPEN", "MITIGATED"));
    stage.git(&["commit", "--quiet", "-am", "mitigated"]);
    stage.ok(&["verify", "--task", "T0001"]);
    stage.write(".kodingx/RISKS.md", register);
    stage.git(&["commit", "--quiet", "-am", "and it came back"]);
    let done = stage.agency(&["task", "done", "T0001"]);
    assert!(
        done.code == 1 && done.err.contains("R-001 is P0 OPEN"),
        "also without a new verify: {}",
        done.err
    );
}

// covers: AG-25
#[test]
fn an_orchestrator_that_builds_too_much_itself_is_told() {
    let stage = board();
    stage.ok(&["assign", "other", "--title", "by itself", "--dod-profile", "tiny"]);
    stage.write("a.txt", "one line\n");
    assert!(!stage.ok(&["verify", "--task", "T0001"]).contains("AG-25"));
    stage.write("a.txt", "line\n".repeat(201));
    assert!(stage.ok(&["verify", "--task", "T0001"]).contains("(AG-25)"));
    stage.write("a.txt", "one line\n");
    (0..6).for_each(|n| stage.write(&format!("b{n}"), "x\n"));
    assert!(stage.ok(&["verify", "--task", "T0001"]).contains("changed 7 files"));
}

// covers: AG-25
#[test]
fn what_the_orchestrator_committed_counts_too() {
    let stage = board();
    stage.ok(&["assign", "other", "--title", "by itself", "--dod-profile", "tiny"]);
    stage.ok(&["task", "start", "T0001"]);
    stage.write("a.txt", "line\n".repeat(201));
    stage.git(&["add", "a.txt"]);
    stage.git(&["commit", "--quiet", "-m", "by itself"]);
    assert!(stage.ok(&["verify", "--task", "T0001"]).contains("(AG-25)"));
}

// covers: AG-20
#[test]
fn an_open_p1_warns_and_an_open_p0_cannot_be_overridden() {
    let stage = board();
    let risk = |priority: &str| {
        let text = format!("# Risks\n\n### R-001: x\n**Priority:** {priority}\n**Status:** OPEN\n");
        stage.write(".kodingx/RISKS.md", text);
        stage.git(&["add", "-A"]);
        stage.git(&["commit", "--quiet", "-m", priority]);
    };
    risk("P1");
    task(&stage, &["--risk", "R-001"]);
    task(&stage, &[]);
    assert!(stage.ok(&["verify", "--task", "T0001"]).contains("Result: WARN"));
    let words = ["verify", "--task", "T0001", "--override", "--reason", "x", "--followup", "T0002"];
    let words = [&words[..], &["--approver", "me"]].concat();
    stage.ok(&words);
    let decisions = stage.read(".kodingx/DECISIONS.md").unwrap();
    assert!(decisions.contains("**Override Type:** Risk Acceptance"), "{decisions}");
    assert!(decisions.contains("although the P1 risk R-001 is OPEN"), "{decisions}");
    risk("P0");
    let said = stage.agency(&words);
    assert!(said.code == 1 && said.err.contains("cannot be overridden (AG-20)"), "{}", said.err);
}

// covers: AG-17, AG-19
#[test]
fn verify_says_the_same_to_machines() {
    let stage = board();
    task(&stage, &[]);
    task(&stage, &[]);
    let passed = stage.json(&["verify", "--task", "T0001", "--json"]);
    let path = passed["path"].as_str().unwrap();
    let lies: Value = serde_json::from_str(&stage.read(path).unwrap()).unwrap();
    assert_eq!((&passed["result"], &passed["objection"]), (&Value::from("pass"), &Value::Null));
    assert_eq!(passed["commands"], lies["commands"]);
    stage.write("broken", "");
    let said = stage.agency(&["verify", "--task", "T0001", "--json"]);
    let failed: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, failed["result"].as_str()), (1, Some("fail")));
    assert!(failed["objection"].as_str().unwrap().contains("exit code 1"), "{failed}");
    assert!(said.err.contains("[1/1]"), "how far it is goes to stderr: {}", said.err);
    let words = ["verify", "--task", "T0001", "--override", "--reason", "x", "--followup", "T0002"];
    let overruled = stage.json(&[&words[..], &["--approver", "me", "--json"]].concat());
    assert_eq!(overruled["override"]["decision_ref"], artifact(&stage)["override"]["decision_ref"]);
    assert_eq!((&overruled["result"], &overruled["objection"]), (&"fail".into(), &Value::Null));
    let unknown = stage.agency(&["verify", "--task", "T0099", "--json"]);
    assert!(unknown.code == 1 && unknown.out.is_empty(), "{}", unknown.out);
}
