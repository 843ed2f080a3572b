//! A message: bytes → a typed message or everything that is wrong with it (HO-01). It moves nothing and trusts nothing.

use super::json::{self, Fields, show};
use super::payload::{self, Payload};
use super::table::{self, Flow, Folder, Kind, Priority, Who};
use crate::model::{Digest, Rejection, RelPath, Timestamp, clip, without_bom};
use chrono::DateTime;
use serde_json::{Map, Value, json};
use std::time::Duration;

pub(super) const RULE: &str = "HO-01";
/// SPEC GAP: the spec says nothing about clocks that run ahead; we allow two minutes.
const FUTURE_MAX: Duration = Duration::from_secs(120);
/// For [`parse`]: the message was judged before, so no timestamp of it is in the future.
pub(super) const ANY_TIME: Timestamp =
    Timestamp::from_timestamp(253_402_128_000, 0).expect("a day of the year 9999");
const ITERATION_MAX: u64 = 10_000;

/// What a message says. Everything in it is a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: String,
    pub timestamp: Timestamp,
    pub from: Who,
    pub to: Who,
    pub kind: Kind,
    pub priority: Priority,
    pub payload: Payload,
    /// `None`: an escalation that names none.
    pub workflow: Option<Flow>,
    /// Empty where its type does not need one.
    pub spec: String,
    /// 0 where it names no workflow.
    pub iteration: u32,
    pub status: Folder,
    /// The whole document, with what we do not know.
    pub document: Map<String, Value>,
}

/// Reads the message in `file`; `seen` is when we first saw these bytes. All problems at once.
pub fn parse(file: &RelPath, bytes: &[u8], seen: Timestamp) -> Result<Message, Vec<Rejection>> {
    parse_written_by(file, bytes, seen, seen)
}

/// The same where the wall clock was set back: `latest` is the latest time that it can have shown when the message was written.
pub(super) fn parse_written_by(
    file: &RelPath,
    bytes: &[u8],
    seen: Timestamp,
    latest: Timestamp,
) -> Result<Message, Vec<Rejection>> {
    let mut document = json::read_object(RULE, file, bytes).map_err(|problem| vec![problem])?;
    complete_escalation(&mut document, file, seen);
    let mut fields = Fields::new(RULE, file, bytes);
    version(&mut fields, &document);
    let id = identity(&mut fields, &document, file);
    let timestamp = stamp(&mut fields, &document, latest);
    let from = fields.word("", &document, "from", Who::parse, &Who::list());
    let to = fields.word("", &document, "to", Who::parse, &Who::list());
    let kind = fields.word("", &document, "type", Kind::parse, &Kind::list());
    let priority = fields.word("", &document, "priority", Priority::parse, &Priority::list());
    let status = fields.word("", &document, "status", Folder::parse, &Folder::list());
    if let Some(kind) = kind {
        sides(&mut fields, kind, from, to);
    }
    let payload = fields.object(&document, "payload");
    let context = match kind {
        Some(Kind::Escalation) if !document.contains_key("context") => {
            Some(Context { workflow: None, spec: String::new(), iteration: 0 })
        }
        _ => {
            let context = fields.object(&document, "context");
            context.and_then(|it| context_of(&mut fields, kind, it))
        }
    };
    let spec = context.as_ref().map_or("", |context| context.spec.as_str());
    let payload =
        payload.zip(kind).and_then(|(it, kind)| payload::parse(&mut fields, kind, it, spec));
    if let (Some(context), Some(Payload::Rereview { iteration: Some(said), .. })) =
        (&context, &payload)
        && *said != context.iteration
    {
        let found =
            format!("`payload.iteration` {said} beside `context.iteration` {}", context.iteration);
        fields.refuse("iteration", found, "the same iteration in both");
    }
    let all = (|| {
        let Context { workflow, spec, iteration } = context?;
        Some(Message {
            id: id?,
            timestamp: timestamp?,
            from: from?,
            to: to?,
            kind: kind?,
            priority: priority?,
            payload: payload?,
            workflow,
            spec,
            iteration,
            status: status?,
            document: document.clone(),
        })
    })();
    match all {
        Some(message) if fields.is_fine() => Ok(message),
        Some(_) | None => Err(fields.into_problems()),
    }
}

/// SPEC GAP: the spec's own escalation has only `type`, `from`, `to` and `payload`. An agent that needs a person is heard without
/// the rest of the envelope; what is missing follows from the file.
fn complete_escalation(document: &mut Map<String, Value>, file: &RelPath, seen: Timestamp) {
    if document.get("type").and_then(Value::as_str) != Some(Kind::Escalation.word()) {
        return;
    }
    let folder = super::folder_of(file).unwrap_or(Folder::Pending);
    let known = [
        ("schema_version", Some(super::state::VERSION.into())),
        ("message_id", id_of_name(file).map(Value::from)),
        ("timestamp", Some(json!(seen))),
        ("priority", Some(Priority::Medium.word().into())),
        ("status", Some(folder.word().into())),
    ];
    for (name, value) in known {
        if let (false, Some(value)) = (document.contains_key(name), value) {
            document.insert(name.to_owned(), value);
        }
    }
}

/// Could these bytes be a message at all? Other tools keep JSON files in folders of this name too.
pub fn looks_like_one(bytes: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(without_bom(bytes)) else {
        return false;
    };
    let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    Kind::parse(word("type")).is_some()
        && Who::parse(word("from")).is_some()
        && Who::parse(word("to")).is_some()
}

fn version(fields: &mut Fields<'_>, document: &Map<String, Value>) {
    if let Some(version) = fields.text("", document, "schema_version")
        && !is_version_1(&version)
    {
        let found = format!("`schema_version` = {}", clip(&version, 40));
        fields.refuse("schema_version", found, "`schema_version` as 1.0.0");
    }
}

pub(super) fn is_version_1(version: &str) -> bool {
    let parts: Vec<_> = version.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.len() == 3 && parts[0] == "1" && parts.iter().all(number)
}

/// The id is a UUID of version 4, and the file is named by it.
fn identity(
    fields: &mut Fields<'_>,
    document: &Map<String, Value>,
    file: &RelPath,
) -> Option<String> {
    let named = id_of_name(file);
    let id = fields.text("", document, "message_id").filter(|id| {
        if !is_uuid_4(id) {
            let found = format!("`message_id` = {}", clip(id, 60));
            fields.refuse("message_id", found, "a UUID of version 4");
        }
        is_uuid_4(id)
    });
    if named.is_none() || id.as_deref().is_some_and(|id| named != Some(id)) {
        let found = format!("the file name `{}`", clip(file.file_name(), 80));
        let id = id.as_deref().unwrap_or("<message_id>");
        let wanted = format!("`{id}.json` or `handoff-{id}.json`, by its message_id");
        fields.refuse("message_id", found, &wanted);
    }
    id
}

/// The id that a file name claims.
pub fn id_of_name(file: &RelPath) -> Option<&str> {
    let stem = file.file_name().strip_suffix(".json")?;
    let id = stem.strip_prefix("handoff-").unwrap_or(stem);
    is_uuid_4(id).then_some(id)
}

pub fn is_uuid_4(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match hyphen(at) {
            true => *byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
        && bytes[14] == b'4'
        && matches!(bytes[19], b'8' | b'9' | b'a' | b'b' | b'A' | b'B')
}

fn stamp(
    fields: &mut Fields<'_>,
    document: &Map<String, Value>,
    latest: Timestamp,
) -> Option<Timestamp> {
    let text = fields.text("", document, "timestamp")?;
    let found = format!("`timestamp` = {}", clip(&text, 60));
    let Ok(stamp) = DateTime::parse_from_rfc3339(&text) else {
        fields.refuse("timestamp", found, "RFC 3339 with a zone, as 2026-01-01T00:00:00Z");
        return None;
    };
    if stamp.to_utc() > latest + FUTURE_MAX {
        fields.refuse("timestamp", found, "a time at most 2 min in the future");
        return None;
    }
    Some(stamp.to_utc())
}

/// The type table's from and to.
fn sides(fields: &mut Fields<'_>, kind: Kind, from: Option<Who>, to: Option<Who>) {
    let row = table::type_of(kind);
    for (name, side, who) in [("from", row.from, from), ("to", row.to, to)] {
        if let Some(who) = who.filter(|who| !side.fits(*who)) {
            let found = format!("`{name}` = {} for `{}`", who.word(), kind.word());
            let wanted = format!("`{name}` as {} ({})", side.word(), row.id);
            fields.refuse(name, found, &wanted);
        }
    }
}

struct Context {
    workflow: Option<Flow>,
    spec: String,
    iteration: u32,
}

fn context_of(
    fields: &mut Fields<'_>,
    kind: Option<Kind>,
    context: &Map<String, Value>,
) -> Option<Context> {
    let workflow = fields.word("context", context, "workflow", Flow::parse, &Flow::list());
    let spec = spec_of(fields, kind, context);
    let iteration = match context.get("iteration") {
        Some(value) => value.as_u64().filter(|number| (1..=ITERATION_MAX).contains(number)),
        None => None,
    };
    if iteration.is_none() {
        let found = context
            .get("iteration")
            .map_or("no `context.iteration`".to_owned(), |value| show("context.iteration", value));
        fields.refuse("iteration", found, "`context.iteration` as a whole number from 1");
    }
    let iteration = u32::try_from(iteration?).ok()?;
    Some(Context { workflow: Some(workflow?), spec: spec?, iteration })
}

/// SPEC GAP: an agent that asks before there is a spec has none to name; only handoffs between agents need it.
fn spec_of(
    fields: &mut Fields<'_>,
    kind: Option<Kind>,
    context: &Map<String, Value>,
) -> Option<String> {
    let optional =
        kind.is_none_or(|kind| matches!(kind, Kind::Completion | Kind::Escalation | Kind::Answer));
    match context.get("spec") {
        None | Some(Value::Null) if optional => Some(String::new()),
        Some(Value::String(text)) if optional && text.is_empty() => Some(String::new()),
        _ => {
            let text = fields.text("context", context, "spec")?;
            if RelPath::new(text.as_str()).is_err() {
                let found = format!("`context.spec` = {}", clip(&text, 60));
                fields.refuse("spec", found, "a path inside the repository");
                return None;
            }
            Some(text)
        }
    }
}

/// The bytes of a message in a folder: its document with that status.
pub fn render(document: &Map<String, Value>, folder: Folder) -> Vec<u8> {
    let mut document = document.clone();
    document.insert("status".to_owned(), folder.word().into());
    let mut bytes = serde_json::to_vec_pretty(&document).expect("BUG: JSON is plain data");
    bytes.push(b'\n');
    bytes
}

/// What a message says apart from its status, as one digest: it never changes.
pub(super) fn core(document: &Map<String, Value>) -> Digest {
    let mut document = document.clone();
    document.remove("status");
    Digest::of(&serde_json::to_vec(&document).expect("BUG: JSON is plain data"))
}
