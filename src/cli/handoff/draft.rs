//! A message made from a command line: what is not said follows from the type table and the shared state.

use super::super::exit::Misused;
use crate::clock;
use crate::model::{FileState, RelPath, without_bom};
use crate::protocol::handoff::state;
use crate::protocol::handoff::table::{self, Kind, Side, Who};
use crate::read;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency handoff send --type fix_request --priority critical --payload '{\"issues\": [\"src/a.rs:3 overflows\"]}'\n  agency handoff send --file message.json"
)]
pub(in crate::cli) struct SendArgs {
    /// task_handoff, review_request, fix_request, rereview_request, completion or escalation
    #[arg(long = "type", value_name = "TYPE", required_unless_present = "file")]
    kind: Option<String>,
    /// The sender (default: the agent that runs, else the one that the type names)
    #[arg(long)]
    from: Option<String>,
    /// The recipient (default: the one that the type names)
    #[arg(long)]
    to: Option<String>,
    /// critical, high, medium or low
    #[arg(long, default_value = "medium")]
    priority: String,
    /// A JSON object
    #[arg(long, value_name = "JSON", default_value = "{}")]
    payload: String,
    /// feature, bugfix or refactor (default: the workflow's)
    #[arg(long)]
    workflow: Option<String>,
    /// The spec (default: the workflow's)
    #[arg(long)]
    spec: Option<String>,
    /// The iteration (default: the one that the workflow is in)
    #[arg(long)]
    iteration: Option<u32>,
    /// A whole message instead
    #[arg(long, value_name = "FILE", conflicts_with = "kind")]
    file: Option<PathBuf>,
}

/// The agent that this process runs for, inside a run of ours.
pub(super) fn agent_of_run() -> Option<Who> {
    Who::parse(&std::env::var("AGENCY_AGENT").ok()?)
}

pub(super) fn document(
    root: &Path,
    args: &SendArgs,
    runner: Option<Who>,
) -> anyhow::Result<Map<String, Value>> {
    if let Some(file) = &args.file {
        let wrong = |why: String| Misused(format!("`{}` is no message: {why}", file.display()));
        let bytes = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
        return Ok(serde_json::from_slice(without_bom(&bytes))
            .map_err(|error| wrong(error.to_string()))?);
    }
    let word = args.kind.as_deref().unwrap_or_default();
    let kind = Kind::parse(word)
        .ok_or_else(|| Misused(format!("`{word}` is no type; wanted: {}", Kind::list())))?;
    let row = table::type_of(kind);
    let named = |side: Side| match side {
        Side::Only(who) => who.word().to_owned(),
        Side::Any => String::new(),
    };
    let from = args.from.clone().or(runner.map(|who| who.word().to_owned()));
    let payload: Value = serde_json::from_str(&args.payload)
        .map_err(|error| Misused(format!("--payload is not JSON: {error}")))?;
    let state = shared(root);
    let workflow = state.get("current_workflow").cloned().unwrap_or_default();
    let iteration = state.get("iteration").and_then(Value::as_u64).unwrap_or(1)
        + u64::from(kind == Kind::RereviewRequest);
    let text = |given: &Option<String>, name: &str| {
        given.clone().map_or_else(|| workflow.get(name).cloned().unwrap_or_default(), Value::from)
    };
    // A planner names the spec in its payload before the workflow knows one.
    let spec = match text(&args.spec, "spec") {
        Value::Null => payload.get("spec").cloned().unwrap_or_default(),
        known => known,
    };
    let document = json!({
        "schema_version": state::VERSION,
        "message_id": uuid::Uuid::new_v4().to_string(),
        "timestamp": clock::now().wall,
        "from": from.unwrap_or_else(|| named(row.from)),
        "to": args.to.clone().unwrap_or_else(|| named(row.to)),
        "type": word,
        "priority": args.priority,
        "payload": payload,
        "context": {
            "workflow": text(&args.workflow, "type"),
            "spec": spec,
            "iteration": args.iteration.map_or(iteration, u64::from),
        },
        "status": "pending",
    });
    match document {
        Value::Object(document) => Ok(document),
        other => anyhow::bail!("BUG: {other} is an object"),
    }
}

/// The shared state as far as it can be read; only used for what was not said.
fn shared(root: &Path) -> Map<String, Value> {
    let path = RelPath::fixed(state::PATH);
    let reading = read::read(root, &path, state::LIMIT, clock::now());
    match reading.map(|reading| reading.state) {
        Ok(FileState::Whole(file)) => {
            serde_json::from_slice(without_bom(&file.bytes)).unwrap_or_default()
        }
        _ => Map::new(),
    }
}
