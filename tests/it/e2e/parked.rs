//! Loops that stand still where a test wants them to: an agent that waits at a gate, or one that failed and is parked.

use super::stage::{FLAG, HONEST, Stage};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::PathBuf;

/// Waits while `wait-<phase>` lies in its home, fails while `fail-<phase>` does, and is honest otherwise.
pub(super) fn gated() -> String {
    let gate = r#"
while [ -e "$HOME/wait-$AGENCY_PHASE" ]; do sleep 0.02; done
if [ -e "$HOME/fail-$AGENCY_PHASE" ]; then exit 1; fi
"#;
    format!("{gate}{HONEST}")
}

/// After a failure an agent is parked for an hour, and refusals are counted without an end.
pub(super) fn park_for_long(stage: &Stage) {
    let script = stage.at("agent.sh");
    let agent = format!("{{ command: [sh, {}], retries: 2, backoff: 1h }}", script.display());
    let text = format!(
        "agents:\n  claude-code: {agent}\n  codex: {agent}\nloop: {{ max_rejections: 100, settle: 300ms }}\n"
    );
    stage.set_config(&text);
}

/// A loop of one step whose agent fails in `phase`.
pub(super) fn parked_in(phase: &str) -> Stage {
    let stage = Stage::new(&gated());
    park_for_long(&stage);
    mark(&stage, &format!("fail-{phase}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

pub(super) fn mark(stage: &Stage, name: &str) {
    fs::write(stage.at("home").join(name), "").unwrap();
}

pub(super) fn unmark(stage: &Stage, name: &str) {
    fs::remove_file(stage.at("home").join(name)).unwrap();
}

pub(super) fn detail(stage: &Stage) -> Value {
    stage.json(&["status", "--json"])["repos"][0]["protocols"][0].clone()
}

/// No run is alive, nothing is held, time alone changes nothing for an hour.
pub(super) fn wait_until_parked(stage: &Stage, phase: &str) {
    stage.wait(&format!("a parked agent in {phase}"), || {
        let loop_now = detail(stage);
        let parked = loop_now["summary"].as_str()?.contains("next try ");
        (parked && loop_now["detail"]["phase"] == phase).then_some(())
    });
}

pub(super) fn wait_for_a_run(stage: &Stage, phase: &str) {
    stage.wait(&format!("a run in {phase}"), || {
        let runs = stage.json(&["runs", "--json"]);
        let alive =
            |run: &&Value| run["phase"] == phase && run["state"] == "running" && run["pid"] != 0;
        runs.as_array()?.iter().find(alive).map(drop)
    });
}

/// What a person would write into the flag.
pub(super) fn flag(agent: &str, status: &str) -> String {
    let next = if agent == "codex" { "claude-code" } else { "codex" };
    json!({"agent": agent, "step": "1", "status": status, "nextAgent": next,
        "timestamp": chrono::Utc::now()})
    .to_string()
}

/// Written beside and moved in.
pub(super) fn put_flag(stage: &Stage, text: &str) {
    stage.write(".flag-in-work", text);
    fs::rename(stage.repo().join(".flag-in-work"), stage.repo().join(FLAG)).unwrap();
}

/// A command makes the daemon look at everything; the second answer proves that it has acted on it.
pub(super) fn let_it_look(stage: &Stage) {
    for _ in 0..2 {
        assert_eq!(stage.agency(&["resume"]).code, 1, "nothing is held");
    }
}

pub(super) fn all_of(stage: &Stage, rule: &str) -> Vec<Value> {
    let all = stage.json(&["escalations", "--json"]);
    all.as_array().unwrap().iter().filter(|one| one["rule"] == rule).cloned().collect()
}

/// Rule ids of all refusals that the journal knows, oldest first.
pub(super) fn refusals(stage: &Stage) -> Vec<String> {
    let journal = stage.json(&["journal", "--json", "-n", "100000"]);
    let decided = journal.as_array().unwrap().iter().filter(|line| line["kind"] == "decided");
    let rejections = decided.flat_map(|line| {
        line["body"]["decision"]["rejections"].as_array().cloned().unwrap_or_default()
    });
    rejections.map(|rejection| rejection["rule"].as_str().unwrap().to_owned()).collect()
}

/// Every file that our quarantine holds, without its notes; the beginning of a giant.
pub(super) fn quarantined(stage: &Stage) -> Vec<Vec<u8>> {
    let folders = fs::read_dir(stage.at("state")).unwrap().flatten();
    let files = folders.flat_map(|folder| fs::read_dir(folder.path().join("quarantine"))).flatten();
    // `<key>-.agent-status.json` is a kept file, the same with `.json` added its note.
    let is_note = |file: &PathBuf| {
        file.extension().is_some_and(|end| end == "json") && file.with_extension("").exists()
    };
    let kept =
        files.flatten().map(|file| file.path()).filter(|file| file.is_file() && !is_note(file));
    kept.map(|file| {
        let mut bytes = Vec::new();
        File::open(file).unwrap().take(2 << 20).read_to_end(&mut bytes).unwrap();
        bytes
    })
    .collect()
}
