//! Trouble of an agent's provider, end to end: a fake `claude` that writes what the real one writes, and then hangs.

use super::stage::{HONEST, Stage};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s-1"}"#;

/// While `cloudy` lies in its home it says this line four times and hangs; then it is honest.
fn with_claude(trouble: &str) -> Stage {
    let stage = Stage::new(HONEST);
    let script = format!(
        "#!/bin/sh\nif [ -e \"$HOME/cloudy\" ]; then\n  rm \"$HOME/cloudy\"\n  echo '{INIT}'\n  \
         for n in 1 2 3 4; do echo '{trouble}'; done\n  exec sleep 300\nfi\n{HONEST}\n"
    );
    fs::create_dir_all(stage.at("bin")).unwrap();
    let claude = stage.at("bin/claude");
    fs::write(&claude, script).unwrap();
    fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(stage.at("home/cloudy"), "").unwrap();
    let (agent, path) = (stage.at("agent.sh"), std::env::var("PATH").unwrap());
    let text = format!(
        "agents:\n  claude-code: {{ profile: claude, retries: 0, backoff: 100ms }}\n  \
         codex: {{ command: [sh, {}] }}\n",
        agent.display()
    );
    stage.set_config(&text);
    let path = format!("{}:{path}", stage.at("bin").display());
    let stage = stage.with_env("PATH", &path);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

fn outcomes(stage: &Stage) -> Vec<String> {
    let runs = stage.json(&["runs", "--json"]);
    let outcomes = runs.as_array().unwrap().iter().map(|run| run["outcome"].to_string());
    outcomes.collect()
}

/// One second passes between the two tries: the shortest pause.
// covers: SU-09
#[test]
fn an_overloaded_provider_costs_no_try_and_the_work_goes_on_by_itself() {
    let busy = r#"{"type":"system","subtype":"api_retry","error_status":529,"error":"overloaded"}"#;
    let stage = with_claude(busy);
    let daemon = stage.start();
    stage.wait_for_phase("complete");
    assert_eq!(outcomes(&stage)[0], "\"provider\"");
    assert!(stage.escalation("SU-09").is_none(), "a short outage is not told");
    assert!(stage.escalation("SU-06").is_none(), "no try was spent");
    daemon.stop();
}

// covers: SU-10
#[test]
fn a_failed_sign_in_asks_at_once_with_the_way_out() {
    let auth = r#"{"type":"system","subtype":"api_retry","error_status":401,"error":"authentication_failed"}"#;
    let stage = with_claude(auth);
    let daemon = stage.start();
    let told = stage.wait("the question", || stage.escalation("SU-10"));
    let asks = "claude-code cannot sign in (401). Check ANTHROPIC_API_KEY or run \"claude\" once, then: agency resume";
    assert_eq!(told["summary"], asks);
    assert_eq!(outcomes(&stage), ["\"auth\""]);
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    daemon.stop();
}
