//! Each real CLI audits a task of a real board under the real daemon: started read-only, judged by what it says last.

use super::home::settled;
use super::provider::Provider;
use super::room::{Ports, place, search_path};
use crate::stage::Stage;
use agency::config::Profile;
use agency::run::profile::word;
use std::fs;
use std::path::Path;

const AGENT: &str = include_str!("../agents/board.sh");
const CONFIG: &str = "board: { auditor: codex, disk_floor: 1MiB }\n";
/// What every task of these boards has.
pub(super) const TASK: [&str; 8] =
    ["task", "new", "--title", "plain", "--dod-profile", "tiny", "--may-touch", "work/**"];

/// A board with two builders and a check that passes, committed.
pub(super) fn begin_board(stage: &Stage, dir: &Path) {
    let words = ["init", "--orchestrator", "other", "--builders", "claude-code,codex"];
    let said = stage.agency_in(dir, &words);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    let profile = "name: tiny\ndescription: one check\ncommands: [\"true\"]\n";
    fs::write(dir.join(".kodingx/dod/profiles/tiny.yml"), profile).unwrap();
    stage.git_in(dir, &["add", "-A"]);
    stage.git_in(dir, &["commit", "--quiet", "-m", "a board"]);
}

// covers: AG-10, AG-34
pub(crate) fn play(profile: Profile) {
    let path = search_path();
    let stage = Stage::within(place(), AGENT);
    stage.configure(CONFIG);
    begin_board(&stage, &stage.repo());
    let made = stage.json(&[&TASK[..], &["--assignee", "claude-code", "--json"]].concat());
    let id = made["id"].as_str().unwrap();
    let verdict = format!(
        "I looked at it.\n\n```markdown\n---\ntask_id: {id}\nagent: looker\nverdict: PASS\nfindings: []\n---\n\nGood.\n```\n"
    );
    let mut provider = Provider::saying(&stage.at(""), &verdict);
    let stage = settled(stage, Ports::one(provider.port()), &path);
    let agents = fs::read_to_string(stage.at("agency.yaml")).unwrap();
    let looker = format!("  looker: {{ profile: {}, retries: 0, timeout: 50s }}\n", word(profile));
    let agents =
        agents.replace("board: { auditor: codex", &format!("{looker}board: {{ auditor: looker"));
    fs::write(stage.at("agency.yaml"), agents).unwrap();
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    let tasks = stage.json(&["task", "list", "--json"]);
    assert_eq!(tasks[0]["status"], "DONE", "{tasks}\n{}", stage.daemon_log());
}
