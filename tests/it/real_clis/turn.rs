//! Each real CLI plays one turn of a real review loop under the real daemon: started by its profile, judged by its flag.

use super::home::settled;
use super::provider::Provider;
use super::room::search_path;
use crate::e2e::stage::{FLAG, Stage};
use agency::config::Profile;
use agency::run::profile::{find, word};
use std::fs;

fn play(profile: Profile) {
    let path = search_path();
    if find(profile, &path).is_none() {
        return; // the tests of the profiles say that it is not installed
    }
    let stage = Stage::new("exit 9");
    // A minute ahead: the flag's time is fixed before the CLI starts, and two minutes are allowed.
    let now = chrono::Utc::now() + chrono::TimeDelta::seconds(60);
    let flag = serde_json::json!({"agent": "claude-code", "step": "1", "status": "proposed", "nextAgent": "codex",
        "timestamp": now});
    let mut provider = Provider::writing(&stage.at(""), "", FLAG, &flag.to_string());
    let stage = settled(stage, provider.port(), &path);
    let builder = format!("{{ profile: {}, retries: 0, timeout: 50s }}", word(profile));
    let text = format!(
        "agents:\n  claude-code: {builder}\n  codex: {{ command: [\"false\"], retries: 0 }}\n"
    );
    fs::write(stage.at("agency.yaml"), text).unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("its transition", || {
        (stage.transitions() == ["Review loop: Step 1 proposed"]).then_some(())
    });
    let runs = stage.json(&["runs", "--json"]);
    assert_eq!(
        (&runs[0]["outcome"], &runs[0]["agent"]),
        (&"ok".into(), &"claude-code".into()),
        "{runs}"
    );
    assert!(runs[0]["input_tokens"].as_u64().is_some_and(|tokens| tokens > 0), "{runs}");
    drop(daemon);
}

// covers: SU-01, SU-05, SU-07, LP-01
#[test]
fn claude_plays_a_turn() {
    play(Profile::Claude);
}

#[test]
fn codex_plays_a_turn() {
    play(Profile::Codex);
}

#[test]
fn gemini_plays_a_turn() {
    play(Profile::Gemini);
}

#[test]
fn aider_plays_a_turn() {
    play(Profile::Aider);
}
