//! The Agency board on real files: documents as the spec writes them, the command line as a team uses it.

mod counting;
mod demo;
mod documents;
mod fuzz;
mod guarding;
mod ids;
mod importing;
mod keeping;
mod languages;
mod moving;
mod records;
pub(crate) mod running;
mod setup;
mod shared;
mod speaking;
mod spec;
mod styles;
pub(crate) mod terminal;
mod told;
mod verifying;

use crate::e2e::stage::Stage;
use std::path::PathBuf;

/// A repository with a board, committed by its owner.
pub(crate) fn board() -> Stage {
    let stage = Stage::new("exit 0");
    stage.ok(&[
        "init",
        "--orchestrator",
        "other",
        "--builders",
        "claude-code,codex,alice",
        "--timezone",
        "Europe/Zurich",
    ]);
    stage.write(
        ".kodingx/dod/profiles/tiny.yml",
        "name: tiny\ndescription: one check\ncommands:\n  - \"test ! -e broken\"\n",
    );
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "a board"]);
    stage
}

/// Makes a task and returns its file.
pub(crate) fn task(stage: &Stage, more: &[&str]) -> PathBuf {
    let mut words =
        [&["task", "new", "--title", "Do it", "--assignee", "alice", "--json"], more].concat();
    if !more.contains(&"--dod-profile") {
        words.extend(["--dod-profile", "tiny"]);
    }
    let made = stage.json(&words);
    PathBuf::from(made["path"].as_str().unwrap())
}

/// Writes a report of alice's for a task file.
pub(crate) fn report(stage: &Stage, task: &std::path::Path, status: &str, more: &str) -> String {
    let stem = task.file_stem().unwrap().to_str().unwrap();
    let id = stem.split('-').next().unwrap();
    let date = task.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let path = format!(".kodingx/outbox/alice/{date}/{stem}-report.md");
    stage.write(&path, format!(
        "---\ntask_id: {id}\nagent: alice\nstatus: {status}\nstarted_at: 2026-01-31T16:12:00+01:00\n\
         finished_at: 2026-01-31T16:45:00+01:00\nchanges:\n  files_modified: [a.txt]\ncommands_run: []\n\
         verification:\n  dod_passed: true\nrisks: []\n{more}---\n\n## Summary\nDone.\n"
    ));
    path
}

/// The `status:` of a task file.
pub(crate) fn status(stage: &Stage, task: &std::path::Path) -> String {
    let text = stage.read(task.to_str().unwrap()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("status: ")).unwrap();
    line.to_owned()
}
