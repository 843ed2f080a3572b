//! Each real CLI plays one turn of a real review loop under the real daemon: started by its profile, judged by its flag.

use super::home::settled;
use super::provider::Provider;
use super::room::{Ports, place, search_path};
use crate::stage::{FLAG, Stage};
use agency::config::Profile;
use agency::run::profile::word;
use std::fs;

// covers: SU-01, SU-05, SU-07, LP-01
pub(crate) fn play(profile: Profile) {
    let path = search_path();
    let stage = Stage::within(place(), "exit 9");
    // A minute ahead: the flag's time is fixed before the CLI starts, and two minutes are allowed.
    let now = chrono::Utc::now() + chrono::TimeDelta::seconds(60);
    let flag = serde_json::json!({"agent": "claude-code", "step": "1", "status": "proposed", "nextAgent": "codex",
        "timestamp": now});
    let mut provider = Provider::writing(&stage.at(""), "", FLAG, &flag.to_string());
    let stage = settled(stage, Ports::one(provider.port()), &path);
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
