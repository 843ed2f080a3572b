//! Gates that are real processes, with the real daemon.

use super::stage::{HONEST, Stage};
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
    std::fs::write(stage.at("agency.yaml"), text).unwrap();
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
    let wanted =
        ["execute ok", "execute failed", "execute ok", "execute ok", "verify ok", "verify ok"];
    assert_eq!(outcomes, wanted, "executed refused, accepted, and checked again in verify");
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
    stage.write("check.sh", "exit 1\n");
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "the owner's gate"]);
    stage.configure("loop: { gates: [\"sh check.sh\"] }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the owner to be told", || stage.escalation("LP-30"));
    assert!(told["summary"].as_str().unwrap().contains("check.sh"), "{told}");
    assert_eq!(stage.state()["phase"], "execute", "no transition");
    assert!(gates_run(&stage).is_empty(), "a gate that was tampered with is not even run");
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    assert_eq!(daemon.stop(), 0);
}
