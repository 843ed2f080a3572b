//! One task's text → the typed task, and everything that is wrong with its fields, each with its line.
//! Rules about what a task may do are not here.

use super::task::{Artifact, Context, Glance, Note, Provenance, Review, Task, Transition};
use super::words::{Actor, Kind, Owner, Priority, State, Verdict, is_name};
use super::yaml::{self, Entry, Fault, Node};
use crate::model::Timestamp;

/// The longest summary (spec 3 §5).
pub const SUMMARY_MAX: usize = 120;

/// The task's own mapping in the text of one list item.
pub(super) fn mapping(text: &str) -> Result<Node, Fault> {
    let root = yaml::parse(text)?;
    let wanted = "a task: a mapping that begins with `- id:`";
    let yaml::Kind::List { mut items, .. } = root.kind else {
        return Err(Fault { line: root.line, found: root.words(), wanted });
    };
    match (items.pop(), items.is_empty()) {
        (Some(item), true) if item.entries().is_some() => Ok(item),
        (Some(item), true) => Err(Fault { line: item.line, found: item.words(), wanted }),
        _ => Err(Fault { line: root.line, found: "no single item".to_owned(), wanted }),
    }
}

/// Reads every field. Wrong ones are named in `faults` and have a default here; `None`: it is no mapping.
pub(super) fn read(node: &Node, faults: &mut Vec<Fault>) -> Option<Task> {
    let mut fields = Fields::new(node, faults)?;
    let task = Task {
        id: fields.needed("id", "a unique id such as `FEAT-101`", id).unwrap_or_default(),
        kind: fields.needed("type", "a type", |text| Some(Kind::read(text))).unwrap_or(Kind::Build),
        state: fields.needed("state", STATES, State::read).unwrap_or(State::Todo),
        owner: fields.needed("owner", OWNERS, Owner::read).unwrap_or(Owner::Unassigned),
        title: fields.needed("title", "a short title", title).unwrap_or_default(),
        description: fields.optional("description", "text", words),
        priority: fields
            .optional("priority", "critical, high, normal or low", Priority::read)
            .unwrap_or(Priority::Normal),
        depends_on: fields.texts("depends_on"),
        labels: fields.texts("labels"),
        acceptance: fields.texts("acceptance"),
        checklist: fields.texts("checklist"),
        derived_from: fields.optional("derived_from", "a task's id", words),
        context: fields.inner("context", context).unwrap_or_default(),
        claimed_at: fields.optional("claimed_at", TIME, time),
        execution_notes: fields.list("execution_notes", note),
        artifacts: fields.list("artifacts", artifact),
        human_review: fields.inner("human_review", review),
        completed_at: fields.optional("completed_at", TIME, time),
        blocked_reason: fields.optional("blocked_reason", "a reason", words),
        blocked_by: fields.optional("blocked_by", "a task's id", words),
        state_transitions: fields.list("state_transitions", transition),
        unknown: Vec::new(),
    };
    let unknown = fields.rest();
    Some(Task { unknown, ..task })
}

const STATES: &str = "todo, in_progress, to_be_tested, done, blocked or rejected";
const OWNERS: &str = "human, agent:<name> or unassigned";
const ACTORS: &str = "human or agent:<name>";
const TIME: &str = "a time as ISO-8601 with a zone, such as 2026-01-01T12:00:00Z";

/// A mapping whose fields are taken one by one; what is left is unknown.
struct Fields<'a> {
    line: u64,
    entries: Vec<&'a Entry>,
    faults: &'a mut Vec<Fault>,
}

impl<'a> Fields<'a> {
    fn new(node: &'a Node, faults: &'a mut Vec<Fault>) -> Option<Self> {
        let Some(entries) = node.entries() else {
            faults.push(Fault { line: node.line, found: node.words(), wanted: "a mapping" });
            return None;
        };
        Some(Self { line: node.line, entries: entries.iter().collect(), faults })
    }

    fn take(&mut self, key: &str) -> Option<&'a Entry> {
        let at = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(at))
    }

    fn fault(&mut self, line: u64, found: String, wanted: &'static str) {
        self.faults.push(Fault { line, found, wanted });
    }

    fn needed<T>(
        &mut self,
        key: &'static str,
        wanted: &'static str,
        read: fn(&str) -> Option<T>,
    ) -> Option<T> {
        if !self.entries.iter().any(|entry| entry.key == key) {
            self.fault(self.line, format!("no `{key}`"), wanted);
            return None;
        }
        self.scalar(key, wanted, read, Empty::Wrong)
    }

    fn optional<T>(
        &mut self,
        key: &str,
        wanted: &'static str,
        read: fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.scalar(key, wanted, read, Empty::Absent)
    }

    fn scalar<T>(
        &mut self,
        key: &str,
        wanted: &'static str,
        read: fn(&str) -> Option<T>,
        empty: Empty,
    ) -> Option<T> {
        let entry = self.take(key)?;
        if matches!(entry.value.kind, yaml::Kind::Null) && empty == Empty::Absent {
            return None;
        }
        let value = entry.value.text().and_then(read);
        if value.is_none() {
            self.fault(entry.line, format!("`{key}` is {}", entry.value.words()), wanted);
        }
        value
    }

    fn items(&mut self, key: &str) -> &'a [Node] {
        let Some(entry) = self.take(key) else { return &[] };
        match &entry.value.kind {
            yaml::Kind::Null => &[],
            yaml::Kind::List { items, .. } => items,
            yaml::Kind::Scalar { .. } | yaml::Kind::Map { .. } => {
                self.fault(entry.line, format!("`{key}` is {}", entry.value.words()), "a list");
                &[]
            }
        }
    }

    fn texts(&mut self, key: &'static str) -> Vec<String> {
        let mut texts = Vec::new();
        for item in self.items(key) {
            match &item.kind {
                yaml::Kind::Scalar { text, .. } => texts.push(text.clone()),
                yaml::Kind::Null | yaml::Kind::List { .. } | yaml::Kind::Map { .. } => {
                    self.fault(
                        item.line,
                        format!("an item of `{key}` is {}", item.words()),
                        "text",
                    );
                }
            }
        }
        texts
    }

    fn list<T>(&mut self, key: &str, read: fn(&mut Fields<'_>) -> Option<T>) -> Vec<T> {
        let items = self.items(key);
        items.iter().filter_map(|item| read(&mut Fields::new(item, self.faults)?)).collect()
    }

    fn inner<T>(&mut self, key: &str, read: fn(&mut Fields<'_>) -> Option<T>) -> Option<T> {
        let entry = self.take(key)?;
        if matches!(entry.value.kind, yaml::Kind::Null) {
            return None;
        }
        read(&mut Fields::new(&entry.value, self.faults)?)
    }

    fn rest(mut self) -> Vec<(String, yaml::Meaning)> {
        self.entries.sort_by_key(|entry| entry.line);
        self.entries.iter().map(|entry| (entry.key.clone(), entry.value.meaning())).collect()
    }
}

#[derive(PartialEq, Eq)]
enum Empty {
    Wrong,
    Absent,
}

fn context(fields: &mut Fields<'_>) -> Option<Context> {
    Some(Context {
        files: fields.texts("files"),
        references: fields.texts("references"),
        constraints: fields.texts("constraints"),
        notes: fields.optional("notes", "text", words),
    })
}

fn note(fields: &mut Fields<'_>) -> Option<Note> {
    let by = fields.needed("by", "agent:<name>", Actor::read);
    let note = fields.needed("note", "text", words);
    let summary = fields.optional("summary", "one line of at most 120 characters", summary);
    let timestamp = fields.optional("timestamp", TIME, time);
    let provenance = fields.inner("provenance", provenance).unwrap_or_default();
    Some(Note { by: by?, note: note?, summary, timestamp, provenance })
}

fn artifact(fields: &mut Fields<'_>) -> Option<Artifact> {
    let path = fields.needed("path", "a relative path", relative);
    let kind = fields.optional("type", "text", words);
    Some(Artifact { path: path?, kind })
}

fn review(fields: &mut Fields<'_>) -> Option<Review> {
    let review = Review {
        status: fields.optional("status", "pass, needs_work or blocked", Verdict::read),
        reviewer: fields.optional("reviewer", "a name", words),
        notes: fields.texts("notes"),
        recorded_at: fields.optional("recorded_at", TIME, time),
    };
    let empty = Review { status: None, reviewer: None, notes: Vec::new(), recorded_at: None };
    (review != empty).then_some(review)
}

fn transition(fields: &mut Fields<'_>) -> Option<Transition> {
    let from = fields.needed("from", STATES, State::read);
    let to = fields.needed("to", STATES, State::read);
    let by = fields.needed("by", ACTORS, Actor::read);
    let reason = fields.optional("reason", "text", words);
    let timestamp = fields.optional("timestamp", TIME, time);
    let provenance = fields.inner("provenance", provenance).unwrap_or_default();
    Some(Transition { from: from?, to: to?, by: by?, reason, timestamp, provenance })
}

fn provenance(fields: &mut Fields<'_>) -> Option<Provenance> {
    let session_id = fields.optional("session_id", "text", words);
    let commit_sha = fields.optional("commit_sha", "text", words);
    Some(Provenance { session_id, commit_sha })
}

fn id(text: &str) -> Option<String> {
    is_name(text).then(|| text.to_owned())
}

fn title(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn words(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Older files hold longer ones; the length is a rule of closing, not of reading.
fn summary(text: &str) -> Option<String> {
    (!text.trim().is_empty()).then(|| text.to_owned())
}

fn relative(text: &str) -> Option<String> {
    crate::model::RelPath::new(text).ok().map(|_| text.to_owned())
}

fn time(text: &str) -> Option<Timestamp> {
    chrono::DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

/// Reads only what scanning needs, from the lines that say it. `None`: only a whole reading can tell.
pub(super) fn glance(text: &str) -> Option<Glance> {
    let mut glance = Glance {
        id: String::new(),
        kind: Kind::Build,
        state: State::Todo,
        owner: Owner::Unassigned,
        priority: Priority::Normal,
        depends_on: Vec::new(),
    };
    let (mut indent, mut seen) = (None, 0_u8);
    let mut lines = text.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let (spaces, inner) = match indent {
            None => first_key(line)?,
            Some(_) => {
                let inner = line.trim_start_matches(' ');
                (line.len() - inner.len(), inner)
            }
        };
        let indent = *indent.get_or_insert(spaces);
        if spaces != indent || inner.starts_with(['#', '\n', '\r']) {
            if spaces < indent && !inner.trim().is_empty() && !inner.starts_with('#') {
                return None;
            }
            continue;
        }
        let (key, value) = inner.split_once(':')?;
        if !key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
            return None;
        }
        let bit = match key {
            "id" => {
                glance.id = simple(value)?.to_owned();
                1
            }
            "type" => {
                glance.kind = Kind::read(simple(value)?);
                32
            }
            "state" => {
                glance.state = State::read(simple(value)?)?;
                2
            }
            "owner" => {
                glance.owner = Owner::read(simple(value)?)?;
                4
            }
            "priority" => {
                glance.priority = Priority::read(simple(value)?)?;
                8
            }
            "depends_on" => {
                glance.depends_on = simple_list(value, indent, &mut lines)?;
                16
            }
            _ => 0,
        };
        if bit & seen != 0 || (bit != 0 && lines.peek().is_some_and(|next| goes_on(next, indent))) {
            return None;
        }
        seen |= bit;
    }
    (seen & 39 == 39 && is_name(&glance.id)).then_some(glance)
}

/// A value that goes on in the next line is not simple.
fn goes_on(line: &str, indent: usize) -> bool {
    let inner = line.trim_start_matches(' ');
    line.len() - inner.len() > indent && !inner.trim().is_empty() && !inner.starts_with('#')
}

/// The first key may stand on the dash's own line.
fn first_key(line: &str) -> Option<(usize, &str)> {
    let dash = line.find('-')?;
    let rest = &line[dash + 1..];
    let inner = rest.trim_start_matches(' ');
    let spaces = line.len() - inner.len();
    (!inner.trim().is_empty() && !inner.starts_with(['#', '{'])).then_some((spaces, inner))
}

/// A word that means itself, without quotes.
fn simple(value: &str) -> Option<&str> {
    let value = value.strip_prefix(' ')?;
    let value = value.find(" #").map_or(value, |at| &value[..at]).trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    let begins = value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let means_itself = !matches!(value, "null" | "~") && !value.ends_with(':');
    (begins && means_itself && value.bytes().all(plain)).then_some(value)
}

fn simple_list<'a>(
    value: &'a str,
    indent: usize,
    lines: &mut std::iter::Peekable<std::str::SplitInclusive<'a, char>>,
) -> Option<Vec<String>> {
    match value.trim() {
        "" => {}
        "[]" => return Some(Vec::new()),
        other => {
            let inner = other.strip_prefix('[')?.strip_suffix(']')?;
            return inner
                .split(',')
                .map(|item| simple(&format!(" {}", item.trim())).map(str::to_owned))
                .collect();
        }
    }
    let mut items = Vec::new();
    while let Some(line) = lines.peek() {
        let inner = line.trim_start_matches(' ');
        let blank = inner.trim().is_empty() || inner.starts_with('#');
        let spaces = line.len() - inner.len();
        if !blank && (spaces < indent || !inner.starts_with("- ")) {
            if spaces > indent {
                return None;
            }
            break;
        }
        if !blank {
            items.push(simple(&inner[1..])?.to_owned());
        }
        lines.next();
    }
    Some(items)
}
