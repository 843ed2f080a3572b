//! The daemon is killed before every single call that changes a file or starts a process: the end is always the same.

use super::stage::{HONEST, Stage};
use super::tracer::{End, kill_at};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::io::Write as _;

/// So few of the calls are killed at in the everyday run; `AGENCY_TRIALS` takes about so many, or `all`.
const EVERYDAY: usize = 10;

/// How a loop of one step ended: everything that a kill must not change.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    commits: Vec<String>,
    turns: Vec<String>,
    phase: String,
    runs: Vec<String>,
    escalations: Vec<String>,
    events: Vec<String>,
    dirty: String,
    journal_is_whole: bool,
}

fn prepared() -> Stage {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

fn outcome(stage: &Stage) -> Outcome {
    let list = |value: serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let turn = |line: &String| line.split_once(' ').map(|(_, turn)| turn.to_owned());
    let said = |value: &serde_json::Value, keys: [&str; 2]| {
        keys.map(|key| value[key].to_string()).join(" ")
    };
    Outcome {
        commits: stage.transitions(),
        turns: stage.started().iter().filter_map(turn).collect(),
        phase: stage.state()["phase"].to_string(),
        runs: list(stage.json(&["runs", "--json"]))
            .iter()
            .map(|run| said(run, ["phase", "outcome"]))
            .collect(),
        escalations: list(stage.json(&["escalations", "--all", "--json"]))
            .iter()
            .map(|one| said(one, ["rule", "count"]))
            .collect(),
        events: events(stage),
        dirty: stage.git(&["status", "--porcelain", "--ignored"]),
        journal_is_whole: stage.ok(&["journal", "verify"]).starts_with("the journal is whole"),
    }
}

/// The words of the event log, which has one repository here.
fn events(stage: &Stage) -> Vec<String> {
    let folders = std::fs::read_dir(stage.at("state")).unwrap();
    let logs = folders.map(|entry| entry.unwrap().path().join("events.ndjson"));
    let text: String = logs.filter_map(|log| std::fs::read_to_string(log).ok()).collect();
    let word =
        |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["event"].to_string();
    text.lines().map(word).collect()
}

/// Killed before its `nth` call, started again and left in peace. `None`: it had fewer calls than that.
fn killed_at(nth: usize, wanted: &Outcome) -> Result<Option<&'static str>, String> {
    let stage = prepared();
    let mut command = stage.program();
    command.args(["run", "--once"]);
    let End::Killed(call) = kill_at(&command, nth).map_err(|cause| cause.to_string())? else {
        return Ok(None);
    };
    let code = stage.start_with(&["--once"]).wait();
    let found = outcome(&stage);
    if code == 0 && found == *wanted {
        return Ok(Some(call));
    }
    let log = stage.daemon_log();
    Err(format!("killed at call {nth} ({call}), then exit {code}: {found:?}\n{log}"))
}

/// How many calls a run makes that nobody kills. `None` in a sandbox where no process may trace another.
fn calls_of_a_clean_run(stage: &Stage) -> Option<usize> {
    let mut command = stage.program();
    command.args(["run", "--once"]);
    match kill_at(&command, usize::MAX) {
        Ok(End::Exited { code: 0, calls }) => Some(calls),
        Err(Errno::EPERM | Errno::ENOSYS) => None,
        other => panic!("the clean run ended with {other:?}"),
    }
}

// covers: DM-06, DM-05
#[test]
fn a_kill_before_any_call_changes_nothing() {
    let stage = prepared();
    let Some(calls) = calls_of_a_clean_run(&stage) else { return };
    assert!(calls > 300, "only {calls} calls were seen");
    let wanted = outcome(&stage);
    assert_eq!(wanted.commits.len(), 4);
    let wanted_trials = std::env::var("AGENCY_TRIALS").unwrap_or_default();
    let stride = match wanted_trials.as_str() {
        "all" => 1,
        trials => calls / trials.parse().unwrap_or(EVERYDAY).max(1) + 1,
    };
    let mut kinds = BTreeMap::new();
    let mut failures = Vec::new();
    // A little further than the clean run went: no two runs make quite the same calls.
    for nth in (1..calls + 50).step_by(stride) {
        match killed_at(nth, &wanted) {
            Ok(Some(call)) => *kinds.entry(call).or_insert(0) += 1,
            Ok(None) => {}
            Err(failure) => failures.push(failure),
        }
    }
    let kills: usize = kinds.values().sum();
    let figures = format!("{kills} kills, {calls} calls in a clean run: {kinds:?}");
    assert!(failures.is_empty(), "{figures}\n{}", failures.join("\n\n"));
    assert!(kills + 2 >= calls / stride, "{figures}");
    if !wanted_trials.is_empty() {
        writeln!(std::io::stderr(), "{figures}").unwrap();
    }
}
