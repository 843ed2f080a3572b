//! The files of a board as people and agents write them, well formed but for what a test says. It judges nothing.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(crate) const DAY: &str = "2026-01-01";
pub(crate) const MANIFEST: &str = r#"{
  "protocol": "agency/1.0",
  "project": "shop",
  "created_at": "2026-01-01T00:00:00+00:00",
  "license_mode": "community",
  "orchestrator": "other",
  "builders": ["claude-code", "codex", "alice"],
  "task_id_strategy": "sequential",
  "defaults": { "dod_profile": "auto", "timezone": "UTC" }
}
"#;
pub(crate) const PROFILE: &str =
    "name: tiny\ndescription: one check\ncommands:\n  - \"test ! -e broken\"\n";

/// Changes of a document: a field's text as YAML, or `null` to leave it out.
pub(crate) type Set = BTreeMap<String, Option<String>>;

/// A task file.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) assignee: String,
    pub(crate) status: String,
    pub(crate) depends_on: Vec<String>,
    pub(crate) set: Set,
    /// Where it lies, when that is not where it belongs.
    pub(crate) path: Option<String>,
}

impl Default for Task {
    fn default() -> Self {
        Self {
            id: "T0001".to_owned(),
            assignee: "claude-code".to_owned(),
            status: "NEW".to_owned(),
            depends_on: Vec::new(),
            set: Set::new(),
            path: None,
        }
    }
}

impl Task {
    pub(crate) fn path(&self) -> String {
        let place = || format!(".kodingx/inbox/{}/{DAY}/{}-0900-do-it.md", self.assignee, self.id);
        self.path.clone().unwrap_or_else(place)
    }

    pub(crate) fn text(&self) -> String {
        let scope = "{ must_touch: [], may_touch: [\"work/**\", broken], must_not_touch: [\"work/secret/**\"] }";
        let depends_on = format!("[{}]", self.depends_on.join(", "));
        let fields = [
            ("id", self.id.as_str()),
            ("title", "Do it"),
            ("priority", "P2"),
            ("status", &self.status),
            ("assignee", &self.assignee),
            ("created_at", "2026-01-01T00:00:00Z"),
            ("dod_profile", "tiny"),
            ("scope", scope),
            ("depends_on", &depends_on),
            ("acceptance", "[it works]"),
        ];
        document(&fields, &self.set, "## Problem\nIt does not work yet.\n")
    }
}

/// What a builder or an auditor writes.
#[derive(Deserialize, Clone, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Answer {
    pub(crate) set: Set,
    pub(crate) body: String,
    /// Only so many bytes of it.
    pub(crate) cut: Option<usize>,
    /// Written elsewhere than it was asked for.
    pub(crate) path: Option<String>,
    /// Not such a document at all.
    pub(crate) text: Option<String>,
}

impl Answer {
    pub(crate) fn report(&self, path: &str) -> String {
        let (agent, id) = names(path);
        let fields = [
            ("task_id", id),
            ("agent", agent),
            ("status", "READY_FOR_REVIEW"),
            ("started_at", "2026-01-01T09:00:00Z"),
            ("finished_at", "2026-01-01T09:30:00Z"),
            ("changes", "{ files_modified: [] }"),
            ("commands_run", "[]"),
            ("verification", "{ dod_passed: true }"),
            ("risks", "[]"),
        ];
        self.written(&fields)
    }

    pub(crate) fn audit(&self, path: &str) -> String {
        let (agent, id) = names(path);
        self.written(&[("task_id", id), ("agent", agent), ("verdict", "PASS"), ("findings", "[]")])
    }

    fn written(&self, fields: &[(&str, &str)]) -> String {
        let mut text = self.text.clone().unwrap_or_else(|| document(fields, &self.set, &self.body));
        text.truncate(self.cut.unwrap_or(text.len()));
        text
    }
}

/// The agent's folder and the task's id of `.kodingx/outbox/{agent}/{day}/{id}-…`.
fn names(path: &str) -> (&str, &str) {
    let mut parts = path.split('/').skip(2);
    let agent = parts.next().unwrap_or_default();
    let file = parts.nth(1).unwrap_or_default();
    (agent, file.split('-').next().unwrap_or_default())
}

fn document(fields: &[(&str, &str)], set: &Set, body: &str) -> String {
    let mut text = String::from("---\n");
    let known: Vec<&str> = fields.iter().map(|(key, _)| *key).collect();
    for (key, value) in fields {
        match set.get(*key) {
            Some(Some(other)) => writeln!(text, "{key}: {other}").unwrap(),
            Some(None) => {}
            None => writeln!(text, "{key}: {value}").unwrap(),
        }
    }
    for (key, value) in set.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        writeln!(text, "{key}: {}", value.as_deref().unwrap_or_default()).unwrap();
    }
    text + "---\n\n" + body
}

/// Where a prompt asks for an answer: the last path in backticks with this ending.
pub(crate) fn asked_for(prompt: &str, ending: &str) -> Option<String> {
    let mut words = prompt.split('`').filter(|word| word.starts_with(".kodingx/outbox/"));
    // Later ones may be quoted: what an earlier try wrote elsewhere.
    words.find(|word| word.ends_with(ending)).map(str::to_owned)
}
