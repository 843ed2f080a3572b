//! The payload of each type of message. It is free (spec 4): a key that we know is checked only where it is present.
//! Whether a commit or a file exists is asked elsewhere.

use super::json::{Fields, show};
use super::table::{Kind, MessageResult, Priority};
use crate::model::{RelPath, clip};
use serde_json::{Map, Value};

const NAME: &str = "payload";

/// What a payload says, as far as we act on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The spec of the payload, else the one of the context.
    Task {
        spec: String,
    },
    Review {
        commit: Option<String>,
    },
    Fix,
    Rereview {
        commits: Vec<String>,
        iteration: Option<u32>,
    },
    /// `said`: `None` where it only signals the end of a phase.
    Completion {
        said: Option<MessageResult>,
        commit: Option<String>,
    },
    Escalation {
        reason: String,
        details: String,
        options: Vec<String>,
        blocking: bool,
    },
    Answer,
}

impl Payload {
    /// The result that it says, if it is one.
    pub fn said(&self) -> Option<MessageResult> {
        if let Self::Completion { said, .. } = self { *said } else { None }
    }

    /// The spec that it hands on for work, if it does.
    pub fn task(&self) -> Option<&str> {
        if let Self::Task { spec } = self { Some(spec) } else { None }
    }

    /// Commits that its sender claims to have made, in its own words.
    pub fn commits(&self) -> Vec<&str> {
        match self {
            Self::Review { commit } | Self::Completion { commit, .. } => {
                commit.iter().map(String::as_str).collect()
            }
            Self::Rereview { commits, .. } => commits.iter().map(String::as_str).collect(),
            Self::Task { .. } | Self::Fix | Self::Escalation { .. } | Self::Answer => Vec::new(),
        }
    }
}

/// `fallback` is the spec of the context.
pub(super) fn parse(
    fields: &mut Fields<'_>,
    kind: Kind,
    it: &Map<String, Value>,
    fallback: &str,
) -> Option<Payload> {
    priority(fields, it);
    let spec = path(fields, it, "spec");
    for name in ["issues", "issues_fixed", "files_changed", "tests_added"] {
        amount(fields, it, name);
    }
    let commit = text(fields, it, "commit");
    match kind {
        Kind::TaskHandoff => {
            Some(Payload::Task { spec: spec.unwrap_or_else(|| fallback.to_owned()) })
        }
        Kind::ReviewRequest => Some(Payload::Review { commit }),
        Kind::FixRequest => Some(Payload::Fix),
        Kind::RereviewRequest => Some(rereview(fields, it, commit)),
        Kind::Completion => {
            let said = match it.get("status") {
                None | Some(Value::Null) => None,
                Some(_) => {
                    fields.word(NAME, it, "status", MessageResult::parse, &MessageResult::list())
                }
            };
            Some(Payload::Completion { said, commit })
        }
        Kind::Escalation => Some(escalation(fields, it)),
        Kind::Answer => {
            text(fields, it, "answer");
            text(fields, it, "in_reply_to");
            Some(Payload::Answer)
        }
    }
}

fn rereview(fields: &mut Fields<'_>, it: &Map<String, Value>, commit: Option<String>) -> Payload {
    let mut commits: Vec<String> = commit.into_iter().collect();
    commits.extend(texts(fields, it, "commits"));
    let iteration = it.get("iteration").filter(|value| !value.is_null()).and_then(|value| {
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        if number.is_none() {
            fields.refuse("iteration", show("payload.iteration", value), "a whole number from 1");
        }
        number
    });
    Payload::Rereview { commits, iteration }
}

/// SPEC GAP: an escalation that does not say whether it blocks does: a person must look before the work goes on.
fn escalation(fields: &mut Fields<'_>, it: &Map<String, Value>) -> Payload {
    let reason = text(fields, it, "reason").unwrap_or_else(|| "no reason given".to_owned());
    let details = text(fields, it, "details").unwrap_or_else(|| "no details given".to_owned());
    let options = texts(fields, it, "options");
    let blocking = match it.get("blocking") {
        None | Some(Value::Null) => true,
        Some(Value::Bool(blocking)) => *blocking,
        Some(other) => {
            fields.refuse("blocking", show("payload.blocking", other), "true or false");
            true
        }
    };
    Payload::Escalation { reason, details, options, blocking }
}

/// A text that may be missing; an empty one says nothing.
fn text(fields: &mut Fields<'_>, it: &Map<String, Value>, name: &str) -> Option<String> {
    match it.get(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Some(other) => {
            let wanted = format!("`payload.{name}` as a text");
            fields.refuse(name, show(&format!("payload.{name}"), other), &wanted);
            None
        }
    }
}

fn texts(fields: &mut Fields<'_>, it: &Map<String, Value>, name: &str) -> Vec<String> {
    let entries = match it.get(name) {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::Array(entries)) => {
            entries.iter().map(|entry| entry.as_str().map(str::to_owned)).collect()
        }
        Some(_) => None,
    };
    if entries.is_none() {
        let found = show(&format!("payload.{name}"), it.get(name).unwrap_or(&Value::Null));
        fields.refuse(name, found, &format!("`payload.{name}` as a list of texts"));
    }
    entries.unwrap_or_default()
}

fn path(fields: &mut Fields<'_>, it: &Map<String, Value>, name: &str) -> Option<String> {
    let text = text(fields, it, name)?;
    if RelPath::new(text.as_str()).is_err() {
        let found = format!("`payload.{name}` = {}", clip(&text, 60));
        fields.refuse(name, found, "a path inside the repository");
        return None;
    }
    Some(text)
}

fn priority(fields: &mut Fields<'_>, it: &Map<String, Value>) {
    if it.get("priority").is_some_and(|value| !value.is_null()) {
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
