//! Gates that are real processes, with the real daemon.

use super::stage::{HONEST, Stage};
use crate::board::terminal::Terminal;
use serde_json::Value;

/// The builder's first try leaves work that the gate does not like.
const LEARNS: &str = r#"
    if [ "$AGENCY_PHASE" = execute ] && ! [ -f "$HOME/told" ]; then touch "$HOME/told"; echo broken > bad.txt; fi
    if [ "$AGENCY_PHASE" = execute ] && grep -q "bad-found" "$HOME/prompt-of-$AGENCY_RUN"; then rm -f bad.txt; fi
"#;

fn learner() -> String {
    format!("printf '%s' \"$1\" > \"$HOME/prompt-of-$AGENCY_RUN\"\n{LEARNS}\n{HONEST}")
}

/// The usual agents, with the prompt as their argument.
fn configure(stage: &Stage, more: &str) {
    let script = stage.at("agent.sh");
    let agent = format!(
        "{{ command: [sh, {}, \"{{prompt}}\"], retries: 0, backoff: 100ms }}",
        script.display()
    );
    let text = format!("agents:\n  claude-code: {agent}\n  codex: {agent}\n{more}");
    stage.set_config(&text);
}

fn gates_run(stage: &Stage) -> Vec<(String, String)> {
    let runs = stage.json(&["runs", "--all", "--json"]);
    let gates = runs.as_array().unwrap().iter().filter(|run| run["role"] == "gate").cloned();
    let text = |run: &Value, name: &str| run[name].as_str().unwrap_or_default().to_owned();
    let mut gates: Vec<_> = gates
        .map(|run| (text(&run, "started_at"), text(&run, "phase") + " " + &text(&run, "outcome")))
        .collect();
    gates.sort();
    gates
}

// covers: LP-22, SU-11
#[test]
fn a_failing_gate_refuses_and_its_output_reaches_the_next_prompt() {
    let stage = Stage::new(&learner());
    configure(
        &stage,
        "loop: { gates: [\"test -z \\\"$AGENCY_WEBHOOK_SECRET\\\"\", \"if [ -f bad.txt ]; then printf %s-%s bad found; exit 3; fi\"] }\n",
    );
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete");
    let outcomes: Vec<_> = gates_run(&stage).into_iter().map(|(_, how)| how).collect();
    let before = ["propose ok", "propose ok"];
    let wanted =
        ["execute ok", "execute failed", "execute ok", "execute ok", "verify ok", "verify ok"];
    assert_eq!(outcomes[..2], before, "checked before the first agent");
    assert_eq!(outcomes[2..], wanted, "executed refused, accepted, and checked again in verify");
    assert_eq!(
        stage.git(&["ls-files", "bad.txt"]),
        "",
        "what the gate refused was never committed"
    );
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
}

// covers: LP-30, LP-22
#[test]
fn an_agent_that_loosens_the_gate_reaches_its_owner_and_nothing_else() {
    let loosens =
        format!("if [ \"$AGENCY_PHASE\" = execute ]; then echo 'exit 0' > check.sh; fi\n{HONEST}");
    let stage = Stage::new(&loosens);
    stage.write("check.sh", "test ! -e bad.txt\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "the owner's gate"]);
    stage.configure("loop: { gates: [\"sh check.sh\"] }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the owner to be told", || stage.escalation("LP-30"));
    assert!(told["summary"].as_str().unwrap().contains("check.sh"), "{told}");
    assert_eq!(stage.state()["phase"], "execute", "no transition");
    let ran: Vec<_> = gates_run(&stage).into_iter().map(|(_, how)| how).collect();
    assert_eq!(ran, ["propose ok"], "a gate that was tampered with is not even run");
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    assert_eq!(daemon.stop(), 0);
}

// covers: LP-33, SU-11
#[test]
fn a_gate_that_fails_before_the_first_agent_is_held_and_can_be_accepted() {
    let stage = Stage::new(HONEST);
    stage.configure("loop: { gates: [\"echo too-old; test -e mended\", \"true\"] }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the owner to be told", || stage.escalation("LP-33"));
    assert!(told.to_string().contains("too-old"), "the output is shown: {told}");
    assert!(told.to_string().contains("--accept-gate"), "the choices are named: {told}");
    assert!(stage.started().is_empty(), "no agent works before that");
    let wrong = stage.agency(&["resume", "--accept-gate", "true"]);
    assert!(wrong.code != 0 && wrong.err.contains("test -e mended"), "{}", wrong.err);
    stage.ok(&["resume", "--accept-gate", "echo too-old; test -e mended"]);
    stage.wait_for_phase("complete");
    let status = stage.json(&["status", "--json"]);
    let accepted = &status["repos"][0]["protocols"][0]["detail"]["accepted_gates"];
    assert_eq!(accepted[0], "echo too-old; test -e mended", "{status}");
    assert_eq!(daemon.stop(), 0);
}

// covers: LP-33
#[test]
fn the_gates_before_the_first_agent_are_shown_and_run_once_for_a_commit() {
    let stage = Stage::new(HONEST);
    stage.configure("loop: { gates: [\"echo one\", \"echo two\"] }\n");
    std::fs::write(stage.at("home/slow"), "60").unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let pid = stage.wait("the first agent's process", || {
        let runs = stage.json(&["runs", "--json"]);
        runs.as_array()?.iter().find(|run| run["agent"] == "claude-code")?["pid"].as_i64()
    });
    daemon.kill();
    std::fs::remove_file(stage.at("home/slow")).unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    let mut terminal = Terminal::open(&stage, &["run", "--once"]);
    terminal.wait("claude-code: executed accepted (RL4)");
    terminal.wait("runs `echo two`");
    let (code, shown) = terminal.end();
    assert_eq!(code, 0, "{shown}");
    let before = gates_run(&stage).into_iter().filter(|(_, how)| how == "propose ok").count();
    assert_eq!(before, 2, "each gate once on the base commit, also after the restart");
}

// covers: LP-33
#[test]
fn the_gates_before_the_first_agent_are_named_on_a_terminal_as_they_run() {
    let stage = Stage::new(HONEST);
    stage.configure("loop: { gates: [\"echo too-old; false\"] }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let mut terminal = Terminal::open(&stage, &["run", "--once"]);
    terminal.wait("runs `echo too-old; false`");
    terminal.wait("HELD: before the first agent");
    let (code, shown) = terminal.end();
    assert!(code == 1 && !shown.contains("claude-code works"), "{shown}");
}

// covers: LP-33, DM-09
#[test]
fn resume_right_after_a_config_edit_goes_by_the_new_gates() {
    let stage = Stage::new(HONEST);
    stage.configure("loop: { gates: [\"false\"] }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the owner to be told", || stage.escalation("LP-33"));
    stage.configure("loop: { gates: [\"true\"] }\n");
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    let failed = gates_run(&stage).into_iter().filter(|(_, how)| how.ends_with("failed")).count();
    assert_eq!(failed, 1, "the old gate is not run again");
    assert_eq!(daemon.stop(), 0);
}
