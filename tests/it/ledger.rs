//! The ledger's commands through the real binary, on real files: what they print, what they refuse, and many writers at once.

mod demo;
mod fields;
mod foreign;
mod git;
mod lists;
mod shapes;
mod sim;
mod spec;
mod writers;

use crate::scenarios::golden;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// An empty folder, and the commands run in it.
pub(super) struct Desk {
    dir: TempDir,
}

impl Desk {
    pub(super) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agency"));
        command.args(words).current_dir(self.dir.path());
        for name in ["AGENT_STATE_DIR", "AGENCY_PROTOCOL", "AGENCY_PHASE", "AGENCY_RUN"] {
            command.env_remove(name);
        }
        command
    }

    pub(super) fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Its standard output; it must succeed.
    pub(super) fn ok(&self, words: &[&str]) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Its standard error; it must end with this code.
    pub(super) fn fails(&self, code: i32, words: &[&str]) -> String {
        let output = self.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        said
    }

    pub(super) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    pub(super) fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }
}

pub(super) const FEATURES: &str = r#"{
  "project_name": "Shop",
  "total_features": 2,
  "total_bugs": 1,
  "features": [
    {"id": "F001", "name": "Health check", "description": "d", "priority": 1, "category": "api", "test_steps": ["GET /"], "passes": false, "team": "blue"},
    {"id": "F002", "name": "Login", "description": "d", "priority": 2, "category": "auth", "test_steps": [], "passes": false},
    {"id": "BUG-001", "name": "Crash", "type": "bug", "description": "d", "priority": 1, "category": "api", "test_steps": [], "passes": false}
  ]
}
"#;

/// A whole project by hand: every verb, with what it prints and how it ends.
const SESSION: &str = include_str!("ledger/session.txt");

// covers: LG-03, LG-05, LG-08, LG-10, LG-11, LG-13, LG-16
#[test]
fn a_whole_session_prints_what_prompts_in_the_wild_expect() {
    let desk = Desk::new();
    desk.write("feature_list.json", FEATURES);
    let mut transcript = String::new();
    for line in SESSION.lines().filter(|line| !line.is_empty()) {
        let words = split(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let output = desk.run(&words);
        transcript.push_str(&format!("$ agency {line}\n"));
        transcript.push_str(&mask(&String::from_utf8_lossy(&output.stdout)));
        for said in String::from_utf8_lossy(&output.stderr).lines() {
            transcript.push_str(&format!("! {}\n", mask(said)));
        }
        match output.status.code() {
            Some(0) => transcript.push('\n'),
            code => transcript.push_str(&format!("exit {}\n\n", code.unwrap())),
        }
    }
    golden("tests/it/ledger/transcript.txt", &transcript);
}

/// Words as a shell splits them, with single quotes only.
fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (at, part) in line.split('\'').enumerate() {
        if at % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// Times differ from run to run; their form does not.
fn mask(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("20").filter(|_| rest.len() >= 20) {
        let (before, from) = rest.split_at(at);
        masked.push_str(before);
        let stamp = from
            .get(..20)
            .filter(|stamp| agency::protocol::ledger::json::utc(stamp).as_deref() == Some(stamp));
        match stamp {
            Some("2025-01-29T08:00:00Z") | None => {
                masked.push_str(&from[..2]);
                rest = &from[2..];
            }
            Some(_) => {
                masked.push_str("<now>");
                rest = &from[20..];
            }
        }
    }
    masked + rest
}
