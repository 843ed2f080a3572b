//! The payload of each type of message. It checks shapes; whether a commit or a file exists is asked elsewhere.

use super::json::{Fields, show};
use super::table::{Kind, Priority, Said};
use crate::model::{RelPath, clip};
use serde_json::{Map, Value};

const NAME: &str = "payload";

/// What a payload says, as far as we act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    Task { spec: String },
    Review { commit: String },
    Fix { issues: usize },
    Rereview { commits: Vec<String>, iteration: Option<u32> },
    Completion { said: Said, spec: Option<String>, commit: Option<String> },
    Escalation { reason: String, details: String, options: Vec<String>, blocking: bool },
    Answer { text: String, asked: String },
}

impl Payload {
    /// The result that it says, if it is one.
    pub fn said(&self) -> Option<Said> {
        if let Self::Completion { said, .. } = self { Some(*said) } else { None }
    }

    /// The spec that it hands on for work, if it does.
    pub fn task(&self) -> Option<&str> {
        if let Self::Task { spec } = self { Some(spec) } else { None }
    }

    /// Commits that its sender claims to have made.
    pub fn commits(&self) -> Vec<&str> {
        match self {
            Self::Review { commit } | Self::Completion { commit: Some(commit), .. } => vec![commit],
            Self::Rereview { commits, .. } => commits.iter().map(String::as_str).collect(),
            Self::Task { .. }
            | Self::Fix { .. }
            | Self::Completion { .. }
            | Self::Escalation { .. }
            | Self::Answer { .. } => Vec::new(),
        }
    }
}

pub(super) fn parse(
    fields: &mut Fields<'_>,
    kind: Kind,
    it: &Map<String, Value>,
) -> Option<Payload> {
    match kind {
        Kind::TaskHandoff => task(fields, it),
        Kind::ReviewRequest => review(fields, it),
        Kind::FixRequest => fix(fields, it),
        Kind::RereviewRequest => rereview(fields, it),
        Kind::Completion => completion(fields, it),
        Kind::Escalation => escalation(fields, it),
        Kind::Answer => Some(Payload::Answer {
            text: fields.text(NAME, it, "answer")?,
            asked: fields.text(NAME, it, "in_reply_to")?,
        }),
    }
}

fn task(fields: &mut Fields<'_>, it: &Map<String, Value>) -> Option<Payload> {
    let spec = path(fields, it, "spec");
    priority(fields, it);
    Some(Payload::Task { spec: spec? })
}

fn review(fields: &mut Fields<'_>, it: &Map<String, Value>) -> Option<Payload> {
    let spec = path(fields, it, "spec");
    let commit = fields.text(NAME, it, "commit").and_then(|text| commit_id(fields, "commit", text));
    amount(fields, it, "files_changed");
    amount(fields, it, "tests_added");
    spec?;
    Some(Payload::Review { commit: commit? })
}

fn fix(fields: &mut Fields<'_>, it: &Map<String, Value>) -> Option<Payload> {
    let issues = list(fields, it, "issues");
    priority(fields, it);
    Some(Payload::Fix { issues: issues? })
}

fn rereview(fields: &mut Fields<'_>, it: &Map<String, Value>) -> Option<Payload> {
    match it.get("issues_fixed") {
        Some(Value::Number(_) | Value::Array(_)) => {}
        Some(other) => {
            fields.refuse(
                "issues_fixed",
                show("payload.issues_fixed", other),
                "a number or a list",
            );
        }
        None => fields.refuse(NAME, "no `payload.issues_fixed`", "a number or a list"),
    }
    let some = list(fields, it, "commits");
    let mut commits = Vec::new();
    for value in it.get("commits").and_then(Value::as_array).into_iter().flatten() {
        match value.as_str() {
            Some(text) => commits.extend(commit_id(fields, "commits", text.to_owned())),
            None => fields.refuse("commits", show("payload.commits", value), "commit ids as texts"),
        }
    }
    let iteration = it.get("iteration").map(|value| {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        if number.is_none() {
            fields.refuse("iteration", show("payload.iteration", value), "a whole number from 1");
        }
        number
    });
    some?;
    Some(Payload::Rereview { commits, iteration: iteration.flatten() })
}

fn completion(fields: &mut Fields<'_>, it: &Map<String, Value>) -> Option<Payload> {
    let said = fields.word(NAME, it, "status", Said::parse, &Said::list());
    let spec = it.get("spec").map(|_| path(fields, it, "spec"));
    let commit = it.get("commit").and_then(|_| fields.text(NAME, it, "commit"));
    let commit = commit.and_then(|text| commit_id(fields, "commit", text));
    amount(fields, it, "issues");
    Some(Payload::Completion { said: said?, spec: spec.flatten(), commit })
}

fn escalation(fields: &mut Fields<'_>, it: &Map<String, Value>) -> Option<Payload> {
    let reason = fields.text(NAME, it, "reason");
    let details = fields.text(NAME, it, "details");
    let options = match it.get("options") {
        None => Some(Vec::new()),
        Some(Value::Array(options)) => {
            options.iter().map(|option| option.as_str().map(str::to_owned)).collect()
        }
        Some(_) => None,
    };
    if options.is_none() {
        let found = show("payload.options", it.get("options").unwrap_or(&Value::Null));
        fields.refuse("options", found, "a list of texts");
    }
    let blocking = match it.get("blocking") {
        Some(Value::Bool(blocking)) => Some(*blocking),
        Some(other) => {
            fields.refuse("blocking", show("payload.blocking", other), "true or false");
            None
        }
        None => {
            fields.refuse(NAME, "no `payload.blocking`", "`payload.blocking` as true or false");
            None
        }
    };
    Some(Payload::Escalation {
        reason: reason?,
        details: details?,
        options: options?,
        blocking: blocking?,
    })
}

fn path(fields: &mut Fields<'_>, it: &Map<String, Value>, name: &str) -> Option<String> {
    let text = fields.text(NAME, it, name)?;
    if RelPath::new(text.as_str()).is_err() {
        let found = format!("`payload.{name}` = {}", clip(&text, 60));
        fields.refuse(name, found, "a path inside the repository");
        return None;
    }
    Some(text)
}

fn commit_id(fields: &mut Fields<'_>, name: &str, text: String) -> Option<String> {
    let hex = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    if hex && (7..=64).contains(&text.len()) {
        return Some(text);
    }
    let found = format!("`payload.{name}` = {}", clip(&text, 60));
    fields.refuse(name, found, "a commit id: 7 to 64 hex digits");
    None
}

fn priority(fields: &mut Fields<'_>, it: &Map<String, Value>) {
    if it.contains_key("priority") {
        fields.word(NAME, it, "priority", Priority::parse, &Priority::list());
    }
}

/// SPEC GAP: the spec shows counts (`issues: 2`) and lists of the same thing; both are fine.
fn amount(fields: &mut Fields<'_>, it: &Map<String, Value>, name: &str) {
    match it.get(name) {
        None | Some(Value::Null | Value::Array(_) | Value::Bool(_)) => {}
        Some(Value::Number(number)) if number.is_u64() => {}
        Some(other) => {
            fields.refuse(name, show(&format!("payload.{name}"), other), "a number or a list");
        }
    }
}

/// How many entries a list has that must have one.
fn list(fields: &mut Fields<'_>, it: &Map<String, Value>, name: &str) -> Option<usize> {
    let wanted = format!("`payload.{name}` as a list with at least one entry");
    match it.get(name) {
        Some(Value::Array(entries)) if !entries.is_empty() => return Some(entries.len()),
        Some(other) => fields.refuse(name, show(&format!("payload.{name}"), other), &wanted),
        None => fields.refuse(NAME, format!("no `payload.{name}`"), &wanted),
    }
    None
}
