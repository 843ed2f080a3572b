//! The task document (spec 2 §6): bytes → task or every problem with its line; a new task → bytes; one value changed, the rest kept.

use super::front::{self, Fields};
use super::names::{DocumentKind, DocumentPath, TaskId, Zone, is_agent, same_agent};
use super::scope::Scope;
use super::table::Status;
use crate::model::yaml::{Kind, quote};
use crate::model::{Digest, Rejection, RelPath, clip};
use chrono::{DateTime, FixedOffset};
use std::fmt::Write as _;

const RULE: &str = "AG-06";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    P0,
    P1,
    P2,
    P3,
}

impl Priority {
    pub const ALL: [Self; 4] = [Self::P0, Self::P1, Self::P2, Self::P3];

    pub fn word(self) -> &'static str {
        match self {
            Self::P0 => "P0",
            Self::P1 => "P1",
            Self::P2 => "P2",
            Self::P3 => "P3",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| priority.word() == word)
    }
}

/// A task as its file says it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub title: String,
    pub priority: Priority,
    pub status: Status,
    pub assignee: String,
    pub created_at: DateTime<FixedOffset>,
    pub dod_profile: String,
    pub scope: Scope,
    pub labels: Vec<String>,
    pub depends_on: Vec<TaskId>,
    pub context_files: Vec<String>,
    pub acceptance: Vec<String>,
    pub constraints: Vec<String>,
    /// Ids of RISKS.md (§21.2).
    pub risks: Vec<String>,
    /// Elsewhere (§22.5, §22.6), as written.
    pub refs: Vec<(String, String)>,
    /// The task that this one puts right (AG-09).
    pub parent: Option<TaskId>,
    /// Its assignee is a person, whom no configuration needs to name (AG-37).
    pub person: bool,
    pub body: String,
}

/// What a new task says; the rest is made.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub title: String,
    pub priority: Priority,
    pub assignee: String,
    /// The assignee is a person (AG-37).
    pub person: bool,
    pub status: Status,
    pub dod_profile: String,
    pub scope: Scope,
    pub labels: Vec<String>,
    pub depends_on: Vec<TaskId>,
    pub context_files: Vec<String>,
    pub acceptance: Vec<String>,
    pub constraints: Vec<String>,
    pub risks: Vec<String>,
    pub refs: Vec<(String, String)>,
    pub parent: Option<TaskId>,
    pub problem: String,
    pub notes: String,
}

/// Reads a task; `path` says which id and assignee it must have.
pub fn parse(bytes: &[u8], path: &RelPath) -> Result<Task, Vec<Rejection>> {
    parse_in(bytes, path, Zone::UTC)
}

/// Times without a zone are in the board's.
pub fn parse_in(bytes: &[u8], path: &RelPath, zone: Zone) -> Result<Task, Vec<Rejection>> {
    let digest = Digest::of(bytes);
    let front =
        front::read(bytes, RULE, path).map_err(|problem| vec![problem.with_digest(&digest)])?;
    let mut fields = Fields::new(RULE, path, &front.root, 1);
    let id = fields.one_of("id", "an id such as T0001", TaskId::parse);
    let title = fields.text("title");
    let priority = fields.one_of("priority", "P0, P1, P2 or P3", Priority::parse);
    let status = fields.one_of("status", Status::WORDS, Status::parse);
    let assignee = fields.one_of("assignee", "an agent's name", agent);
    let created_at = fields.time("created_at", zone);
    let dod_profile = fields.text("dod_profile");
    let scope = Scope::read(&mut fields, &front.root);
    let labels = fields.list("labels");
    let depends_on = fields.list_that("depends_on", "ids such as T0001", TaskId::parse);
    let context_files = fields.list_that("context_files", "paths inside the repository", |text| {
        RelPath::new(text).ok().map(String::from)
    });
    let acceptance = fields.list("acceptance");
    let constraints = fields.list("constraints");
    let risks = fields.list_that("risks", "ids such as R-001", risk_id);
    let parent = fields.optional("remediates", "an id such as T0001", TaskId::parse);
    let person = fields.optional("person", "true or false", |text| text.parse::<bool>().ok());
    check_place(&mut fields, path, id.as_ref(), assignee.as_deref());
    let refs = front.root.get("external_refs");
    if let Some(odd) = refs.filter(|node| !matches!(node.kind, Kind::Map(_) | Kind::Null)) {
        let wanted = "names and values, such as jira: PROJ-456";
        fields.refuse(odd.line, format!("external_refs: {}", odd.words()), wanted);
    }
    if id.is_some() && depends_on.iter().any(|other| Some(other) == id.as_ref()) {
        fields.refuse_at("depends_on", "the task itself", "other tasks");
    }
    fields.finish(&digest)?;
    let whole = (id, title, priority, status, assignee, created_at, dod_profile, scope);
    let (
        Some(id),
        Some(title),
        Some(priority),
        Some(status),
        Some(assignee),
        Some(created_at),
        Some(dod_profile),
        Some(scope),
    ) = whole
    else {
        unreachable!("BUG: a field that is missing is a problem")
    };
    let (refs, body) = (references(&front), front.body.to_owned());
    Ok(Task {
        id,
        title,
        priority,
        status,
        assignee,
        created_at,
        dod_profile,
        scope,
        labels,
        depends_on,
        context_files,
        acceptance,
        constraints,
        risks,
        refs,
        parent,
        person: person.unwrap_or(false),
        body,
    })
}

fn agent(name: &str) -> Option<String> {
    is_agent(name).then(|| name.to_owned())
}

pub(super) fn risk_id(text: &str) -> Option<String> {
    let digits = text.strip_prefix("R-")?;
    let fits = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    fits.then(|| text.to_owned())
}

/// AG-06: the id is the file's, the assignee is the folder's.
fn check_place(
    fields: &mut Fields<'_>,
    path: &RelPath,
    id: Option<&TaskId>,
    assignee: Option<&str>,
) {
    match DocumentPath::parse(path.as_str()).filter(|place| place.kind == DocumentKind::Task) {
        None => {
            let wanted = ".kodingx/inbox/{agent}/{YYYY-MM-DD}/T{ID}-{HHMM}-{slug}.md";
            fields.refuse(0, format!("the path `{}`", clip(path.as_str(), 160)), wanted);
        }
        Some(place) => {
            if id.is_some_and(|id| *id != place.id) {
                let wanted = format!("the file's `{}`", place.id);
                fields.refuse_at("id", "another id than the file name's", &wanted);
            }
            if assignee.is_some_and(|assignee| !same_agent(assignee, &place.agent)) {
                let wanted = format!("the folder's `{}`", place.agent);
                fields.refuse_at("assignee", "another agent than the folder's", &wanted);
            }
        }
    }
}

const REFERENCES: [&str; 7] = ["issue", "github_issue", "jira", "linear", "pr", "notion", "url"];

/// `external_refs`, and the top-level names of §22.5; an unquoted `#123` is a comment to YAML and still counts.
fn references(front: &front::Front<'_>) -> Vec<(String, String)> {
    let top = match &front.root.kind {
        Kind::Map(entries) => entries.as_slice(),
        Kind::Null | Kind::Scalar { .. } | Kind::List(_) => &[],
    };
    let nested = match front.root.get("external_refs").map(|node| &node.kind) {
        Some(Kind::Map(entries)) => entries.as_slice(),
        _ => &[],
    };
    let top = top.iter().filter(|entry| REFERENCES.contains(&entry.key.as_str()));
    top.chain(nested)
        .filter_map(|entry| {
            let value = match entry.value.text() {
                Some(text) => text.to_owned(),
                None => front.raw_value(entry.line).filter(|raw| raw.starts_with('#'))?.to_owned(),
            };
            Some((entry.key.clone(), clip(&value, 200)))
        })
        .collect()
}

/// The same document with another status, and no other byte changed.
pub fn with_status(bytes: &[u8], path: &RelPath, status: Status) -> Result<Vec<u8>, Rejection> {
    let front = front::read(bytes, RULE, path)?;
    let text = front.with("status", status.word());
    text.map(String::into_bytes)
        .ok_or_else(|| Rejection::new(RULE, path, "no `status`", Status::WORDS))
}

impl NewTask {
    pub fn render(&self, id: &TaskId, created_at: &str) -> String {
        let mut text = String::from("---\n");
        let mut line = |key: &str, value: &str| {
            writeln!(text, "{key}: {value}").expect("writing to a String cannot fail");
        };
        line("id", id.as_str());
        line("title", &quote(&self.title));
        line("priority", self.priority.word());
        line("status", self.status.word());
        line("assignee", &self.assignee);
        if self.person {
            line("person", "true");
        }
        line("created_at", created_at);
        line("dod_profile", &quote(&self.dod_profile));
        if let Some(parent) = &self.parent {
            line("remediates", parent.as_str());
        }
        text.push_str("scope:\n");
        for (key, patterns) in KEYS.iter().zip([
            &self.scope.must_touch,
            &self.scope.may_touch,
            &self.scope.must_not_touch,
        ]) {
            list(&mut text, "  ", key, patterns);
        }
        list(&mut text, "", "acceptance", &self.acceptance);
        list(&mut text, "", "constraints", &self.constraints);
        list(&mut text, "", "context_files", &self.context_files);
        list(&mut text, "", "labels", &self.labels);
        let ids: Vec<String> = self.depends_on.iter().map(ToString::to_string).collect();
        list(&mut text, "", "depends_on", &ids);
        list(&mut text, "", "risks", &self.risks);
        if !self.refs.is_empty() {
            text.push_str("external_refs:\n");
            for (name, value) in &self.refs {
                writeln!(text, "  {name}: {}", quote(value))
                    .expect("writing to a String cannot fail");
            }
        }
        text.push_str("---\n\n");
        text + &self.body()
    }

    fn body(&self) -> String {
        let or = |text: &str, other: &str| {
            let text = text.trim();
            if text.is_empty() { other.to_owned() } else { defused(text) }
        };
        let outcome: String =
            self.acceptance.iter().map(|line| format!("- {}\n", clip(line, 2000))).collect();
        let outcome = or(&outcome, "(what holds when it is done)");
        format!(
            "## Problem\n{}\n\n## Expected Outcome\n{outcome}\n\n## Notes\n{}\n",
            or(&self.problem, &self.title),
            or(&self.notes, "(edge cases, hints)")
        )
    }
}

const KEYS: [&str; 3] = ["must_touch", "may_touch", "must_not_touch"];

/// Imported text must not end the frontmatter of whoever quotes it; control characters go.
fn defused(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

fn list(text: &mut String, indent: &str, key: &str, items: &[String]) {
    if items.is_empty() {
        text.push_str(&format!("{indent}{key}: []\n"));
        return;
    }
    text.push_str(&format!("{indent}{key}:\n"));
    for item in items {
        text.push_str(&format!("{indent}  - {}\n", quote(item)));
    }
}
