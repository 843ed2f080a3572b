//! Each real CLI audits a task of a real board under the real daemon: started read-only, judged by what it says last.

use super::home::settled;
use super::provider::Provider;
use super::room::search_path;
use crate::board::running::{CONFIG, board_with, log, task, work};
use crate::board::status;
use agency::config::Profile;
use agency::run::profile::{find, word};
use std::fs;

fn play(profile: Profile) {
    let path = search_path();
    if find(profile, &path).is_none() {
        return; // the tests of the profiles say that it is not installed
    }
    let stage = board_with(CONFIG);
    let (id, file) = task(&stage, "plain", &[]);
    let verdict = format!(
        "I looked at it.\n\n```markdown\n---\ntask_id: {id}\nagent: looker\nverdict: PASS\nfindings: []\n---\n\nGood.\n```\n"
    );
    let mut provider = Provider::saying(&stage.at(""), &verdict);
    let stage = settled(stage, provider.port(), &path);
    let agents = fs::read_to_string(stage.at("agency.yaml")).unwrap();
    let looker = format!("  looker: {{ profile: {}, retries: 0, timeout: 50s }}\n", word(profile));
    let agents =
        agents.replace("board: { auditor: codex", &format!("{looker}board: {{ auditor: looker"));
    fs::write(stage.at("agency.yaml"), agents).unwrap();
    work(&stage);
    assert_eq!(status(&stage, &file), "DONE", "{}", log(&stage));
}

// covers: AG-10, AG-34
#[test]
fn claude_audits() {
    play(Profile::Claude);
}

#[test]
fn codex_audits() {
    play(Profile::Codex);
}

#[test]
fn gemini_audits() {
    play(Profile::Gemini);
}

#[test]
fn aider_audits() {
    play(Profile::Aider);
}
