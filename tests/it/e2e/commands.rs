//! Commands with and without a daemon, exit codes, locks, identity.

use super::stage::{HONEST, STATE, Stage};
use agency::store::lock::{Acquired, Lock};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Holds a repository as another agency would.
fn hold(repo: &Path) -> Lock {
    match Lock::try_acquire(&repo.join(".git/agency/lock"), "somebody else").unwrap() {
        Acquired::Held(lock) => lock,
        Acquired::Busy { holder } => panic!("held by {holder}"),
    }
}

// covers: DM-07
#[test]
fn a_second_daemon_says_who_holds_the_repository() {
    let stage = Stage::new("sleep 1000");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the first daemon", || stage.json(&["runs", "--json"]).get(0).cloned());
    let second = stage.agency(&["run"]);
    assert_eq!(second.code, 75, "{}", second.err);
    assert!(second.err.contains(&daemon.pid().to_string()), "it names the holder: {}", second.err);
    drop(daemon);
}

// covers: DM-07
#[test]
fn what_another_holds_is_tried_again_while_there_is_other_work() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let free = stage.at("free");
    stage.git_in(&stage.at(""), &["init", "--quiet", "free"]);
    let held = hold(&stage.repo());
    let repo = stage.repo();
    let daemon = stage.start_with(&[repo.to_str().unwrap(), free.to_str().unwrap()]);
    stage.wait("the word of it", || {
        let log = stage.daemon_log();
        (log.contains("another agency daemon has") && log.contains("tried again")).then_some(())
    });
    assert!(stage.started().is_empty(), "nothing is started in what another holds");
    drop(held);
    stage.wait_for_phase("complete");
    assert_eq!(daemon.stop(), 0);
}

// covers: DM-07, DM-15
#[test]
fn a_command_waits_for_whoever_has_the_repository_for_a_moment() {
    let stage = Stage::new(HONEST);
    let ready = stage.agency(&["resume"]);
    assert_eq!(ready.code, 1, "{}", ready.err);
    let held = hold(&stage.repo());
    let mut init = stage.program();
    init.args(["loop", "init", "--steps", "1"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut init = init.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(init.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("waiting: ") && said.contains("held by somebody else"), "{said}");
    drop(held);
    assert!(init.wait().unwrap().success());
    assert_eq!(stage.state()["steps"], serde_json::json!(["1"]));
}

// covers: DM-15, LP-24
#[test]
fn commands_work_without_a_daemon_and_with_one() {
    let stage = Stage::new("exit 3");
    stage.configure_agents("retries: 0", "");
    let refused = stage.agency(&["loop", "init", "--steps", "1,1"]);
    assert!(refused.err.starts_with("error: step `1` is there twice\n"), "{}", refused.err);
    assert!(refused.code == 1 && refused.err.contains("agency loop init --help"));
    assert_eq!(stage.agency(&["loop", "init"]).code, 2);
    stage.write("PLAN.md", "# Plan\n\n## Step 1: model\n\n## Step 11b\n");
    assert!(stage.ok(&["loop", "init", "--plan", "PLAN.md"]).contains("begins at step `1`"));
    assert_eq!(stage.state()["steps"], serde_json::json!(["1", "11b"]));
    let again = stage.agency(&["loop", "init", "--steps", "9"]);
    assert!(again.code == 1 && again.err.contains("under way"), "{}", again.err);
    assert_eq!(stage.agency(&["resume"]).code, 1, "nothing is held yet");
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SU-06"));
    assert!(stage.ok(&["resume"]).contains("resumed"), "through the daemon");
    stage.wait("the next hold", || {
        let all = stage.json(&["escalations", "--json"]);
        let holds = all.as_array().unwrap().iter().filter(|one| one["rule"] == "SU-06");
        (holds.count() == 2).then_some(())
    });
    assert_eq!(daemon.stop(), 0);
    assert!(stage.ok(&["resume"]).contains("resumed"), "and without it");
    assert!(stage.escalation("LP-11").is_none(), "our own writes are no tampering");
}

// covers: DM-13
#[test]
fn a_clone_is_held_until_it_is_adopted() {
    let stage = Stage::new(HONEST);
    std::fs::write(stage.at("home/slow"), "0.3").unwrap();
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    let daemon = stage.start();
    stage.wait_for_phase("execute");
    // The third run outlives the daemon; its start must not be counted as a start in the clone.
    stage.wait("the third start", || (stage.started().len() >= 3).then_some(()));
    daemon.kill();
    stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", "clone"]);
    let clone = stage.at("clone");
    let before = stage.started().len();
    let once = stage.agency_in(&clone, &["run", "--once"]);
    assert_eq!(once.code, 1, "it is held: {}", once.err);
    assert_eq!(stage.started().len(), before, "nothing is started in an unknown clone");
    let status = stage.agency_in(&clone, &["--repo", ".", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status["repos"][0]["held"], true, "{status}");
    let resumed = stage.agency_in(&clone, &["resume"]);
    assert!(resumed.code == 1 && resumed.err.contains("agency adopt"), "{}", resumed.err);
    let adopted = stage.agency_in(&clone, &["adopt"]);
    assert_eq!(adopted.code, 0, "{}", adopted.err);
    let once = stage.agency_in(&clone, &["run", "--once"]);
    assert_eq!(once.code, 0, "{}", once.err);
    let state = std::fs::read_to_string(clone.join(STATE)).unwrap();
    assert!(state.contains("\"complete\""), "{state}");
}

// covers: DM-13
#[test]
fn a_moved_repository_goes_on_and_a_copy_does_not() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let copy = stage.at("copy");
    let copied =
        std::process::Command::new("cp").arg("-a").arg(stage.repo()).arg(&copy).status().unwrap();
    assert!(copied.success());
    assert_eq!(stage.agency_in(&copy, &["run", "--once"]).code, 1);
    assert!(stage.started().is_empty(), "a copy is nobody's until it is adopted");
    std::fs::rename(stage.repo(), stage.at("moved")).unwrap();
    let moved = stage.agency_in(&stage.at("moved"), &["run", "--once"]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    assert_eq!(stage.started().len(), 4, "the moved one is known and ends its loop");
    let adopted = stage.agency_in(&copy, &["adopt"]);
    assert_eq!(adopted.code, 0, "{}", adopted.err);
    assert_eq!(stage.agency_in(&copy, &["run", "--once"]).code, 0);
    assert_eq!(stage.started().len(), 8);
    std::fs::rename(stage.at("moved"), stage.repo()).unwrap();
}

// covers: SE-04
#[test]
fn an_agent_cannot_use_the_owners_verbs() {
    let program = env!("CARGO_BIN_EXE_agency");
    let stage = Stage::new(&format!(
        "env -i PATH=\"$PATH\" HOME=\"$HOME\" AGENCY_STATE_DIR=\"$HOME/../state\" {program} resume \
         > \"$HOME/said\" 2>&1; echo $? > \"$HOME/code\"; exit 1"
    ));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SU-06"));
    assert_eq!(std::fs::read_to_string(stage.at("home/code")).unwrap().trim(), "1");
    let said = std::fs::read_to_string(stage.at("home/said")).unwrap();
    assert!(said.contains("agents may not do this"), "{said}");
    drop(daemon);
}

// covers: OP-05
#[test]
fn wrong_words_are_told_apart_from_findings() {
    let stage = Stage::new("exit 0");
    for (words, code) in [
        (&["fly"][..], 2),
        (&["run", "--onse"], 2),
        (&["explain", "LP-99"], 2),
        (&["explain", "lp-06"], 0),
        (&["explain", "RL3"], 0),
        (&["protocol", "show", "loop", "--mermaid"], 0),
        (&["protocol", "show", "poker"], 2),
        (&["logs", "nothing"], 2),
        (&["check"], 0),
        (&["--version"], 0),
    ] {
        let said = stage.agency(words);
        assert_eq!(said.code, code, "agency {words:?}: {}{}", said.out, said.err);
    }
    std::fs::write(stage.at("agency.yaml"), "agants: {}\nloop: { settle: soon }\n").unwrap();
    let said = stage.agency(&["run", "--once"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("did you mean `agents`") && said.err.contains("loop.settle"),
        "all at once: {}",
        said.err
    );
}

// covers: DM-12
#[test]
fn init_and_install_trust_the_committed_settings_of_the_repository() {
    for verb in ["init", "install"] {
        let stage = Stage::new("exit 0");
        stage.write("agency.yaml", "board: { merge: merge }\n");
        stage.git(&["add", "-A"]);
        stage.git(&["commit", "-q", "-m", "settings"]);
        stage.ok(&[verb, "--orchestrator", "other", "--builders", "codex"]);
        let notes = stage.json(&["status", "--json"])["repos"][0]["notes"].to_string();
        assert!(!notes.contains("not trusted"), "{verb}: {notes}");
    }
}

// covers: DM-12
#[test]
fn the_repositorys_own_settings_count_only_as_trusted() {
    let stage = Stage::new("exit 1");
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage.write("agency.yaml", "loop: { max_rejections: 1 }\n");
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "its agent fails, so it is held");
    let notes = stage.json(&["status", "--json"])["repos"][0]["notes"].to_string();
    assert!(notes.contains("not trusted"), "{notes}");
    stage.ok(&["trust"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 1);
    let notes = stage.json(&["status", "--json"])["repos"][0]["notes"].to_string();
    assert!(!notes.contains("not trusted"), "{notes}");
    stage.write("agency.yaml", "agents: {}\n");
    let refused = stage.agency(&["trust"]);
    assert!(
        refused.code == 1 && refused.err.contains("only the owner's config"),
        "{}",
        refused.err
    );
}
