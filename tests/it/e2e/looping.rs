//! The loop from end to end with the real daemon.

use super::stage::{FLAG, HONEST, Stage};
use serde_json::json;

// covers: LP-01, LP-16, LP-19, LP-24, DM-01, SU-01
#[test]
fn a_loop_runs_to_its_end_by_itself() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1,6.5"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete");
    assert_eq!(
        stage.transitions(),
        [
            "Review loop: Step 1 proposed",
            "Review loop: Step 1 approved",
            "Review loop: Step 1 executed",
            "Review loop: Step 1 advanced",
            "Review loop: Step 6.5 proposed",
            "Review loop: Step 6.5 approved",
            "Review loop: Step 6.5 executed",
            "Review loop: Step 6.5 advanced",
        ]
    );
    assert_eq!(
        stage.git(&["status", "--porcelain"]),
        "",
        "everything is committed, nothing is left"
    );
    assert!(!stage.repo().join(FLAG).exists());
    let archived = stage.git(&["ls-files", "reviews"]);
    assert!(archived.contains("reviews/ENG_REVIEW_RESPONSE-"), "{archived}");
    assert_eq!(stage.json(&["runs", "--json"]).as_array().unwrap().len(), 8);
    assert!(stage.ok(&["journal", "verify"]).starts_with("the journal is whole"));
    assert!(stage.escalation("LP-24").is_some(), "the owner is told that it is complete");
}

// covers: LP-03, LP-09, LP-10
#[test]
fn refused_flags_hold_the_loop_until_the_owner_resumes() {
    let liar = r#"
        echo x >> "$HOME/started"
        [ -f "$HOME/honest" ] && exec sh "$HOME/honest.sh"
        printf '{"agent":"%s","step":"99","status":"proposed","nextAgent":"codex","timestamp":"%s"}' \
          "$AGENCY_AGENT" "$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)" > .agent-status.json"#;
    let stage = Stage::new(liar);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("three refusals", || stage.escalation("LP-10"));
    assert!(told["summary"].as_str().unwrap().contains("step `99`"), "{told}");
    assert_eq!(stage.started().len(), 3, "one try and two more with the reason");
    assert_eq!(stage.json(&["status", "--json"])["repos"][0]["held"], true);
    assert!(!stage.repo().join(FLAG).exists(), "a refused flag does not stay");
    assert!(stage.transitions().is_empty());
    std::fs::write(stage.at("home/honest.sh"), HONEST).unwrap();
    std::fs::write(stage.at("home/honest"), "").unwrap();
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    assert_eq!(stage.escalation("LP-10").unwrap()["state"], "resolved");
    assert_eq!(daemon.stop(), 0);
}

// covers: LP-27
#[test]
fn a_run_that_does_not_exit_after_its_flag_is_stopped() {
    let stage = Stage::new(&format!("{HONEST}\nsleep 1000 &\nsleep 1000"));
    stage.configure("loop: { settle: 300ms }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait_for_phase("complete");
    let runs = stage.wait("the end of all runs", || {
        let runs = stage.json(&["runs", "--json"]);
        runs.as_array().unwrap().iter().all(|run| run["state"] == "ended").then_some(runs)
    });
    assert!(runs.as_array().unwrap().iter().all(|run| run["outcome"] == "stopped"), "{runs}");
    drop(daemon);
}

// covers: LP-27, DM-15
#[test]
fn a_flag_by_hand_is_judged_at_once() {
    let stage = Stage::new("exit 7");
    stage.configure("loop: { settle: 300ms }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the agent to fail three times", || stage.escalation("SU-06"));
    let flag = json!({"agent": "claude-code", "step": "1", "status": "proposed", "nextAgent": "codex",
        "timestamp": chrono::Utc::now()});
    stage.write(FLAG, flag.to_string());
    stage.ok(&["resume"]);
    stage.wait("the commit", || {
        (stage.transitions() == ["Review loop: Step 1 proposed"]).then_some(())
    });
    assert_eq!(stage.state()["phase"], "review");
    drop(daemon);
}

// covers: SU-01, SE-03
#[test]
fn an_agent_sees_the_listed_environment_and_no_shell_words() {
    let stage = Stage::new(&format!("env | sort > \"$HOME/env\"; pwd > \"$HOME/pwd\"\n{HONEST}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0);
    let env = std::fs::read_to_string(stage.at("home/env")).unwrap();
    let names: Vec<_> = env.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    let ours = [
        "AGENCY_AGENT",
        "AGENCY_PHASE",
        "AGENCY_PROTOCOL",
        "AGENCY_REPO",
        "AGENCY_ROLE",
        "AGENCY_RUN",
        "AGENCY_TASK",
        "HOME",
        "PATH",
        "USER",
    ];
    let shells = ["PWD", "OLDPWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| ours.contains(name) || shells.contains(name)), "{names:?}");
    assert!(ours.iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!(
        std::fs::read_to_string(stage.at("home/pwd")).unwrap().trim(),
        stage.repo().to_str().unwrap()
    );
}

// covers: LP-19
#[test]
fn a_push_follows_when_configured_and_is_never_forced() {
    let stage = Stage::new(HONEST);
    stage.git_in(&stage.at(""), &["init", "--quiet", "--bare", "remote.git"]);
    stage.git(&["remote", "add", "origin", stage.at("remote.git").to_str().unwrap()]);
    stage.configure("loop: { push: true }\n");
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    let there = stage.git_in(&stage.at("remote.git"), &["rev-parse", "main"]);
    assert_eq!(there, stage.git(&["rev-parse", "main"]));
}
