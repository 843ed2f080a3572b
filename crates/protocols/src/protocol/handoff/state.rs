//! `.claude/state.json`: is it ours in shape, what does it say, and what must it say. It writes nothing.

use super::json::{self, Fields, show};
use super::locks::{self, Lock};
use super::message::is_version_1;
use super::table::{AgentStatus, Who};
use crate::model::{Field, Rejection, RelPath, Timestamp, clip, without_bom};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const PATH: &str = ".claude/state.json";
pub const LIMIT: u64 = 1 << 20;
pub const VERSION: &str = "1.0.0";
const RULE: &str = "HO-04";

/// The shared state as somebody left it. What we do not know of it stays as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub document: Map<String, Value>,
    pub locks: BTreeMap<String, Lock>,
}

/// The state, or everything that makes it something else. Keys of others are fine; our own must have their shape.
pub fn parse(bytes: &[u8]) -> Result<State, Vec<Rejection>> {
    let file = RelPath::fixed(PATH);
    let document = json::read_object(RULE, &file, bytes).map_err(|problem| vec![problem])?;
    let mut fields = Fields::new(RULE, &file, bytes);
    if let Some(version) = fields.text("", &document, "schema_version")
        && !is_version_1(&version)
    {
        let found = format!("`schema_version` = {}", clip(&version, 40));
        fields.refuse("schema_version", found, "`schema_version` as 1.0.0");
    }
    let nullable = |value: &Value, fits: Fits| value.is_null() || fits(value);
    let shapes: [(&str, Fits, &str); 6] = [
        ("current_workflow", Value::is_object, "an object or null"),
        ("current_agent", Value::is_string, "a text or null"),
        ("last_handoff", Value::is_string, "a text or null"),
        ("iteration", Value::is_u64, "a whole number"),
        ("locks", Value::is_object, "an object"),
        ("agents", all_objects, "an object of objects"),
    ];
    for (name, fits, wanted) in shapes {
        if let Some(value) = document.get(name).filter(|value| !nullable(value, fits)) {
            fields.refuse(name, show(name, value), &format!("`{name}` as {wanted}"));
        }
    }
    let locks = locks::all(&document);
    if fields.is_fine() { Ok(State { document, locks }) } else { Err(fields.into_problems()) }
}

/// What people read of a file of this name that another tool wrote (HO-14).
pub fn other_format(problems: &[Rejection]) -> String {
    let why = problems.first().map_or("not our fields", |problem| problem.found.as_str());
    format!(
        "`{PATH}` has another format ({}). agency leaves it alone; move it away or run `agency handoff adopt`",
        clip(why, 100)
    )
}

/// A new state file in the place of another tool's: its keys stay but for those that the protocol defines.
pub(super) fn adopted(bytes: &[u8]) -> Vec<u8> {
    let theirs: Map<String, Value> = serde_json::from_slice(without_bom(bytes)).unwrap_or_default();
    let own = ["current_workflow", "current_agent", "last_handoff", "iteration", "agents"];
    let mut document: Map<String, Value> =
        theirs.into_iter().filter(|(name, _)| !own.contains(&name.as_str())).collect();
    document.insert("schema_version".to_owned(), VERSION.into());
    if !document.get("locks").is_some_and(Value::is_object) {
        document.insert("locks".to_owned(), json!({}));
    }
    let mut bytes = serde_json::to_vec_pretty(&document).expect("BUG: JSON is plain data");
    bytes.push(b'\n');
    bytes
}

/// Has a value the kind that its field wants?
type Fits = fn(&Value) -> bool;

fn all_objects(value: &Value) -> bool {
    value.as_object().is_some_and(|agents| agents.values().all(Value::is_object))
}

/// Does this look like the state of a handoff workflow at all? Other tools keep a file of this name too.
pub fn is_ours(bytes: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(without_bom(bytes)) else {
        return false;
    };
    let version = fields.get("schema_version").and_then(Value::as_str);
    version.is_some_and(is_version_1)
        && ["current_workflow", "current_agent", "locks", "agents"]
            .iter()
            .any(|name| fields.contains_key(*name))
}

impl State {
    pub fn current_agent(&self) -> Option<&str> {
        self.document.get("current_agent").and_then(Value::as_str)
    }

    /// A workflow that has not ended, by the file.
    pub fn workflow(&self) -> Option<&Map<String, Value>> {
        let workflow = self.document.get("current_workflow").and_then(Value::as_object)?;
        let ended = workflow.get("status").and_then(Value::as_str) == Some("completed");
        (!ended).then_some(workflow)
    }

    /// Does it name a workflow, an agent at work or a handoff, of now or of before? Then another journal knows more (DM-13).
    pub fn shows_work(&self) -> bool {
        let says = |name: &str| self.document.get(name).is_some_and(|value| !value.is_null());
        ["current_workflow", "current_agent", "last_handoff"].into_iter().any(says)
    }

    /// Agents that call themselves active.
    pub fn active(&self) -> Vec<&str> {
        let agents = self.document.get("agents").and_then(Value::as_object);
        let active = |agent: &Value| agent.get("status").and_then(Value::as_str) == Some("active");
        let agents = agents.into_iter().flatten().filter(|(_, agent)| active(agent));
        agents.map(|(name, _)| name.as_str()).collect()
    }

    /// Does the field hold what we want there?
    pub(super) fn holds(&self, field: &Field) -> bool {
        let mut at = None;
        for (depth, name) in field.at.iter().enumerate() {
            at = match depth {
                0 => self.document.get(name),
                _ => at.and_then(|value: &Value| value.get(name)),
            };
        }
        at == field.value.as_ref()
    }
}

pub(super) fn field(at: &[&str], value: Value) -> Field {
    Field { at: at.iter().map(|&name| name.to_owned()).collect(), value: Some(value) }
}

/// One agent's line.
pub(super) fn agent_fields(who: Who, status: AgentStatus, now: Timestamp) -> [Field; 2] {
    let word = who.word();
    [
        field(&["agents", word, "status"], status.word().into()),
        field(&["agents", word, "last_active"], json!(now)),
    ]
}
