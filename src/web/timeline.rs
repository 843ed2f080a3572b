//! The journal of a repository as a list of what happened, newest first.

use crate::cli::narrate::logged;
use crate::cli::protocol;
use crate::model::{Command, Decision, Effect, clip};
use crate::store::Record;
use agency_dashboard::view::{RowTable, Step, StepKind, TableRow};
use serde::Deserialize as _;
use serde_json::Value;

const TEXT_MAX: usize = 400;

pub(super) fn steps(records: &[Record], most: usize) -> Vec<Step> {
    records.iter().rev().flat_map(|record| of(record).into_iter().rev()).take(most).collect()
}

fn of(record: &Record) -> Vec<Step> {
    let protocol = record.body["protocol"].as_str().unwrap_or_default();
    let step = |kind, what: String, row: Option<String>| Step {
        n: record.n,
        at: record.at,
        protocol: protocol.to_owned(),
        kind,
        what: clip(&what, TEXT_MAX),
        row,
    };
    match record.kind.as_str() {
        "decided" => Decision::deserialize(&record.body["decision"])
            .map(|decision| {
                decided(&decision)
                    .into_iter()
                    .map(|(kind, what, row)| step(kind, what, row))
                    .collect()
            })
            .unwrap_or_default(),
        "asked" => {
            asked(&record.body).map(|what| step(StepKind::Asked, what, None)).into_iter().collect()
        }
        "ran" => {
            let word = |name: &str| record.body[name].as_str().unwrap_or_default().to_owned();
            let what = format!("run {} ended: {}", word("run"), word("outcome"));
            vec![step(StepKind::Ended, what, None)]
        }
        "failed" => {
            let what = format!("a step failed: {}", record.body["failure"]);
            vec![step(StepKind::Refused, what, None)]
        }
        _ => Vec::new(),
    }
}

fn decided(decision: &Decision) -> Vec<(StepKind, String, Option<String>)> {
    let mut steps = Vec::new();
    let row = decision.row.as_ref().map(ToString::to_string);
    let refused = decision.rejections.iter();
    steps.extend(refused.map(|rejection| {
        (StepKind::Refused, rejection.to_string(), Some(rejection.rule.to_string()))
    }));
    let mut told = false;
    for keyed in &decision.effects {
        match &keyed.effect {
            Effect::Log(event) => {
                if let Some(what) = logged(event) {
                    told = true;
                    steps.push((StepKind::Moved, what, row.clone()));
                }
            }
            Effect::Escalate(escalation) => {
                let rule = Some(escalation.cause.rule.to_string());
                steps.push((StepKind::Told, escalation.summary.clone(), rule));
            }
            Effect::Resolve { cause, .. } => {
                let (what, rule) = (format!("over: {}", cause.subject), cause.rule.to_string());
                steps.push((StepKind::Noted, what, Some(rule)));
            }
            _ => {}
        }
    }
    if let (Some(row), false) = (row, told) {
        steps.push((StepKind::Moved, "moved".to_owned(), Some(row)));
    }
    steps
}

/// Who, from where, what and why; the number of the request is in the journal.
fn asked(body: &Value) -> Option<String> {
    let command = Command::deserialize(&body["command"]).ok()?;
    let from = if command.from.is_empty() { String::new() } else { format!(", {}", command.from) };
    let what = command
        .arg("do")
        .map_or_else(|| format!("{:?}", command.verb).to_lowercase(), str::to_owned);
    let on = ["task", "run", "id", "answers"].iter().find_map(|name| command.arg(name));
    let on = on.map(|on| format!(" {on}")).unwrap_or_default();
    let why = command.arg("reason").map(|why| format!(": {why}")).unwrap_or_default();
    Some(format!("{}{from}: {what}{on}{why}", command.by))
}

/// The protocol's table, with the row that moved it last.
pub(super) fn table(name: &str, records: &[Record]) -> Option<RowTable> {
    let table = protocol::table(name)?;
    let last = records.iter().rev().find_map(|record| {
        let ours = record.kind == "decided" && record.body["protocol"] == name;
        record.body["decision"]["row"].as_str().filter(|_| ours)
    });
    let cells = |row: &comfy_table::Row| {
        row.cell_iter().map(comfy_table::Cell::content).collect::<Vec<String>>()
    };
    let rows = table.row_iter().map(cells);
    let rows = rows.map(|cells| TableRow {
        lit: last.is_some_and(|last| cells.first().is_some_and(|id| id == last)),
        cells,
    });
    Some(RowTable {
        protocol: name.to_owned(),
        head: table.header().map(cells).unwrap_or_default(),
        rows: rows.collect(),
    })
}
