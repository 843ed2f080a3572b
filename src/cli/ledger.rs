//! `agency progress|reviews|features|ledger`: the ledger's files by command, as the scripts in the wild know it.
//! The rules are `protocol::ledger`'s; here are the words on the command line and the lines that are printed.

mod commits;
pub(super) mod features;
mod file;
pub(super) mod progress;
pub(super) mod reviews;
pub(super) mod scripts;

use super::exit::Exit;
use crate::model::{Rejection, without_bom};
use crate::protocol::ledger::json;
use crate::protocol::ledger::words::AgentType;
use crate::store::EditError;
use serde_json::Value;
use std::path::Path;

/// Why a command did nothing: what is printed behind `ERROR: `, and the exit code.
#[derive(Debug)]
pub(super) struct Trouble {
    exit: Exit,
    lines: Vec<String>,
}

impl Trouble {
    fn new(line: impl Into<String>) -> Self {
        Self { exit: Exit::Finding, lines: vec![line.into()] }
    }

    fn ours(line: impl Into<String>) -> Self {
        Self { exit: Exit::Failure, lines: vec![line.into()] }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.lines.join("; "))
    }
}

impl From<Vec<Rejection>> for Trouble {
    fn from(problems: Vec<Rejection>) -> Self {
        Self { exit: Exit::Finding, lines: problems.iter().map(ToString::to_string).collect() }
    }
}

impl From<EditError<Trouble>> for Trouble {
    fn from(error: EditError<Trouble>) -> Self {
        match error {
            EditError::Refused(trouble) => trouble,
            EditError::Busy => Self { exit: Exit::Busy, lines: vec![error.to_string()] },
            EditError::Odd { .. } | EditError::TooLarge { .. } => Self::new(error.to_string()),
            EditError::Store(_) => Self::ours(error.to_string()),
        }
    }
}

/// Prints what went wrong the way the scripts do.
fn finish(result: Result<(), Trouble>) -> Exit {
    let Err(trouble) = result else { return Exit::Fine };
    for line in &trouble.lines {
        anstream::eprintln!("ERROR: {line}");
    }
    trouble.exit
}

fn warn(line: &str) {
    anstream::eprintln!("WARNING: {line}");
}

fn say_json(value: &Value) {
    anstream::println!("{}", json::print(value));
}

/// The agent in whose run we are, as its environment says. Only a courtesy: the daemon judges what really changed.
fn agent_here() -> Option<AgentType> {
    let ours = std::env::var_os("AGENCY_PROTOCOL").is_some_and(|name| name == "ledger");
    let phase = std::env::var("AGENCY_PHASE").ok().filter(|_| ours)?;
    AgentType::parse(&phase)
}

/// Spec 5 §5, at the earliest moment: an agent that may not do this hears it at once.
fn only(agents: &[AgentType], what: &str) -> Result<(), Trouble> {
    match agent_here() {
        Some(agent) if !agents.contains(&agent) => {
            let allowed: Vec<_> = agents.iter().map(|agent| agent.word()).collect();
            let (agent, allowed) = (agent.word(), allowed.join(" and "));
            Err(Trouble::new(format!("{agent} may not {what}; only {allowed} may (LG-06)")))
        }
        Some(_) | None => Ok(()),
    }
}

/// A JSON argument: the text itself, or the name of a file that holds it.
fn json_argument(name: &str, given: Option<&str>) -> Result<Value, Trouble> {
    let Some(given) = given else { return Ok(Value::Null) };
    let problem = match serde_json::from_str(given) {
        Ok(value) => return Ok(value),
        Err(problem) => problem,
    };
    let text = match std::fs::metadata(Path::new(given)) {
        Ok(meta) if meta.is_file() && meta.len() <= JSON_MAX => std::fs::read_to_string(given),
        _ => return Err(Trouble::new(format!("Invalid JSON in {name}: {problem}"))),
    };
    let text = text.map_err(|error| Trouble::new(format!("cannot read `{given}`: {error}")))?;
    serde_json::from_slice(without_bom(text.as_bytes())).map_err(|problem| {
        Trouble::new(format!("Invalid JSON in {name} (file `{given}`): {problem}"))
    })
}

const JSON_MAX: u64 = 16 << 20;

/// `a, b,c` as a list.
fn comma_list(given: Option<&str>) -> Vec<String> {
    let parts = given.unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
