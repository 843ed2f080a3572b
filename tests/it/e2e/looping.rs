//! The loop from end to end with the real daemon.

use super::stage::{FLAG, HONEST, STATE, Stage};
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
    let sandboxed = ["AGENCY_RUN_FOLDER", "TMPDIR"];
    let listed = [&ours[..], &shells, &sandboxed].concat();
    assert!(names.iter().all(|name| listed.contains(name)), "{names:?}");
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

/// Each thing that an agent may do to the history, once; afterwards it is honest.
const GIT_ACTS: [&str; 6] = [
    "git checkout -q -b agents-own",
    "git checkout -q --detach",
    "git add -A && git commit -q -m mine",
    "git commit -q --amend -m mine",
    "echo more >> README.md && git stash -q",
    "git tag mine",
];

// Six repositories, because each act needs a daemon of its own.
// covers: LP-20
#[test]
fn what_an_agent_does_to_the_history_holds_once_and_the_named_command_works() {
    std::thread::scope(|scope| {
        for act in GIT_ACTS {
            scope.spawn(move || one_git_act(act));
        }
    });
}

fn one_git_act(act: &str) {
    let once = format!(
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com\n\
         if [ ! -f \"$HOME/did\" ]; then touch \"$HOME/did\"; {act}; fi\n{HONEST}"
    );
    let stage = Stage::new(&once);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the hold", || stage.escalation("LP-20"));
    let held = || stage.json(&["status", "--json"])["repos"][0]["held"] == true;
    stage.wait("the status", || held().then_some(()));
    let open = stage.json(&["escalations", "--json"]);
    let open = open.as_array().unwrap().iter();
    let critical: Vec<_> = open.filter(|one| one["severity"] == "critical").collect();
    assert_eq!(critical.len(), 1, "{act}: {critical:?}");
    if act.starts_with("git checkout") {
        // Nothing is written while HEAD is elsewhere, and `resume` names the way back.
        let refused = stage.agency(&["resume"]);
        assert!(refused.err.contains("git switch main"), "{act}: {}", refused.err);
        stage.git(&["switch", "-q", "main"]);
    } else {
        stage.wait("the id in the state file", || {
            (stage.state()["escalations"][0] == told["id"]).then_some(())
        });
    }
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    assert_eq!(stage.state()["escalations"], json!([]), "{act}");
    assert_eq!(daemon.stop(), 0);
}

// covers: DM-12
#[test]
fn a_loop_begins_with_the_committed_settings_of_its_repository() {
    let stage = Stage::new(HONEST);
    stage.write("agency.yaml", "loop: { gates: [\"touch \\\"$HOME/gate-ran\\\"\"] }\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "-q", "-m", "settings"]);
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert!(stage.at("home/gate-ran").exists(), "the committed gate ran");
}

// covers: DM-12
#[test]
fn settings_that_are_not_committed_do_not_count_and_wrong_ones_refuse() {
    let stage = Stage::new(HONEST);
    stage.write("agency.yaml", "loop: { gates: [\"false\"] }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let other = Stage::new(HONEST);
    other.write("agency.yaml", "loop: { gatez: [] }\n");
    other.git(&["add", "-A"]);
    other.git(&["commit", "-q", "-m", "settings"]);
    let said = other.agency(&["loop", "init", "--steps", "1"]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("gatez"), "{}", said.err);
}

// covers: LP-35, LP-36
#[test]
fn a_loop_of_other_scripts_is_adopted_changed_and_ended() {
    let stage = Stage::new("sleep 1000");
    let theirs = r#"{"currentStep": "1", "currentRound": 1, "phase": "review", "status": "proposed",
        "activeAgent": "codex", "stepsComplete": [], "history": [], "escalations": [],
        "lastUpdated": "2026-01-01T00:00:00Z"}"#;
    stage.write(STATE, theirs);
    let refused = stage.agency(&["adopt"]);
    assert!(refused.code != 0 && refused.err.contains("--steps 1,"), "{}", refused.err);
    stage.ok(&["adopt", "--steps", "1,2"]);
    assert_eq!(stage.state()["phase"], "review");
    assert_eq!(stage.state()["steps"], json!(["1", "2"]));
    stage.ok(&["loop", "steps", "add", "3"]);
    stage.ok(&["loop", "end", "--reason", "enough"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete");
    assert_eq!(
        stage.transitions(),
        ["Review loop: Step 1 steps-added", "Review loop: Step 1 ended"]
    );
}

/// Fails after it wrote its review file, until the test makes it honest.
const DRAFTS_THEN_FAILS: &str =
    "[ -f \"$HOME/honest\" ] || { echo draft > ENG_REVIEW_RESPONSE.md; exit 7; }\n";

// covers: LP-19, LP-26, DM-15
#[test]
fn an_inject_without_a_daemon_after_a_run_has_ended_goes_on_from_there() {
    let stage = Stage::new(&format!("[ -f \"$HOME/honest\" ] || exit 7\n{HONEST}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the agent to fail three times", || stage.escalation("SU-06"));
    assert_eq!(daemon.stop(), 0);
    std::fs::write(stage.at("home/honest"), "").unwrap();
    let words = ["--phase", "execute", "--turn", "claude-code", "--reason", "agreed by phone"];
    let said = stage.ok(&[&["loop", "inject", "--step", "1"][..], &words].concat());
    assert!(said.contains("agreed by phone"), "{said}");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(
        stage.transitions(),
        [
            "Review loop: Step 1 injected",
            "Review loop: Step 1 executed",
            "Review loop: Step 1 advanced",
        ]
    );
    assert_eq!(stage.state()["escalations"], json!([]));
}

// covers: LP-19, LP-23
#[test]
fn an_agents_own_uncommitted_review_file_does_not_hold_the_loop_after_restore() {
    let stage = Stage::new(&format!("{DRAFTS_THEN_FAILS}{HONEST}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the agent to fail three times", || stage.escalation("SU-06"));
    stage.wait("the id of the open escalation in the state file", || {
        (stage.state()["escalations"] == json!([told["id"]])).then_some(())
    });
    std::fs::write(stage.at("home/honest"), "").unwrap();
    stage.ok(&["loop", "restore"]);
    stage.wait_for_phase("complete");
    assert!(stage.escalation("LP-19").is_none(), "the draft is the agent's own work");
    assert_eq!(stage.state()["escalations"], json!([]));
    assert_eq!(daemon.stop(), 0);
}

// covers: LP-19, LP-35
#[test]
fn an_agents_own_uncommitted_review_file_does_not_hold_the_loop_after_adopt() {
    let stage = Stage::new(HONEST);
    let theirs = r#"{"currentStep": "1", "currentRound": 1, "phase": "propose", "status": "starting",
        "activeAgent": "claude-code", "stepsComplete": [], "history": [], "escalations": [],
        "lastUpdated": "2026-01-01T00:00:00Z"}"#;
    stage.write(STATE, theirs);
    stage.write("ENG_REVIEW_RESPONSE.md", "draft\n");
    stage.ok(&["adopt", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete");
    assert!(stage.escalation("LP-19").is_none(), "the draft is the agent's own work");
}

/// Waits in its first turn until the test has edited a file, as an owner may.
const WAITS_FOR_THE_OWNER: &str =
    "touch \"$HOME/at-work\"; while [ ! -f \"$HOME/edited\" ]; do sleep 0.05; done\n";

// covers: LP-31
#[test]
fn what_the_owner_edits_during_a_proposal_is_put_back_and_the_named_command_gets_it_again() {
    let stage = Stage::new(&format!("{WAITS_FOR_THE_OWNER}{HONEST}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the agent", || stage.at("home/at-work").exists().then_some(()));
    stage.write("README.md", "edited by the owner\n");
    stage.write("it's new.txt", "made by the owner\n");
    std::fs::write(stage.at("home/edited"), "").unwrap();
    let told = stage.wait("the message", || stage.escalation("LP-31"));
    stage.wait_for_phase("complete");
    assert_eq!(daemon.stop(), 0);
    assert_ne!(stage.read("README.md").unwrap(), "edited by the owner\n");
    let did = told["did"].as_str().unwrap();
    assert!(did.contains("are kept in `refs/agency/put-back/"), "{told}");
    assert!(told["summary"].as_str().unwrap().contains("`README.md`"), "{told}");
    let command = told["resolve"].as_str().unwrap();
    let mut shell = std::process::Command::new("sh");
    let status = shell.args(["-c", command]).current_dir(stage.repo()).status().unwrap();
    assert!(status.success(), "{command}");
    assert_eq!(stage.read("README.md").unwrap(), "edited by the owner\n");
    assert_eq!(stage.read("it's new.txt").unwrap(), "made by the owner\n");
}

// covers: LP-31
#[test]
fn what_cannot_be_put_back_holds_and_resume_accepts_it() {
    let once = "if [ ! -f \"$HOME/did\" ]; then touch \"$HOME/did\"; ln -s README.md link.md; fi\n";
    let stage = Stage::new(&format!("{once}{HONEST}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the hold", || stage.escalation("LP-31"));
    let said = told["summary"].as_str().unwrap();
    assert!(said.contains("`link.md`, which agency cannot put back"), "{told}");
    assert!(told["wont"].as_str().unwrap().contains("resume accepts"), "{told}");
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    assert!(stage.git(&["ls-files"]).contains("link.md"), "the owner kept it");
    assert_eq!(daemon.stop(), 0);
}

/// The example of spec 1 §3, word for word. Its `[...]` is not JSON.
const MANDATES: &str = include_str!("../../spec/loop-mandates.json");

// covers: LP-12, LP-29
#[test]
fn the_specs_mandates_hold_until_the_dots_are_filled_in() {
    let stage = Stage::new(HONEST);
    stage.write("owner-mandates.json", MANDATES);
    stage.ok(&["loop", "init", "--steps", "6.5"]);
    let daemon = stage.start();
    let told = stage.wait("the hold", || stage.escalation("LP-29"));
    assert!(told["summary"].as_str().unwrap().contains("owner-mandates.json"), "{told}");
    stage.write("owner-mandates.json", MANDATES.replace("[...]", "[]"));
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    assert_eq!(daemon.stop(), 0);
}
