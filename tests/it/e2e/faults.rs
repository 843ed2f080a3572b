//! Every call that changes a file or starts a process fails once, with each of three errors, in a step of each protocol. The
//! daemon goes on by itself, or stops and says why; it never stands still in silence, and the end is always the same.

use super::handoff::RELAY;
use super::stage::{HONEST, Stage};
use super::tracer::{End, fail_at, kill_at};
use crate::board::running::{CONFIG as BOARD, board_with, task as board_task};
use crate::codifica::{CONFIG, daemon::daemon_stage, task};
use nix::errno::Errno;
use std::collections::BTreeMap;

/// So few of the calls fail in the everyday run, for each protocol; `AGENCY_TRIALS` takes about so many, or `all`.
const EVERYDAY: usize = 2;
const ERRORS: [Errno; 3] = [Errno::ENOSPC, Errno::EIO, Errno::EMFILE];

/// One protocol at work for a while.
struct Play {
    name: &'static str,
    prepare: fn() -> Stage,
}

const PLAYS: [Play; 5] = [
    Play { name: "loop", prepare: a_loop },
    Play { name: "handoff", prepare: a_relay },
    Play { name: "board", prepare: a_board },
    Play { name: "codifica", prepare: a_keeper },
    Play { name: "ledger", prepare: a_ledger },
];

fn a_loop() -> Stage {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

fn a_relay() -> Stage {
    let stage = Stage::new(RELAY);
    std::fs::write(stage.at("home/fixes"), "0").unwrap();
    stage.ok(&["handoff", "start", "Add user auth"]);
    stage
}

fn a_board() -> Stage {
    let stage = board_with(BOARD);
    board_task(&stage, "one", &[]);
    stage
}

fn a_keeper() -> Stage {
    let stage = daemon_stage(CONFIG, "", &[task("FEAT-1", "")]);
    stage.ok(&["adopt"]);
    stage
}

fn a_ledger() -> Stage {
    let script = include_str!("../../../src/cli/demo/ledger.sh");
    // One feature is enough, and nobody waits for effect.
    let script = script.replace("sleep 0.2\n", "").replace("agency=$1", "agency=\"$1\"");
    let stage = Stage::new(&one_feature(&script));
    let (bin, agent) = (env!("CARGO_BIN_EXE_agency"), stage.at("agent.sh"));
    let agent =
        format!("{{ command: [sh, {}, {bin}], retries: 2, backoff: 100ms }}", agent.display());
    let text = format!("agents:\n  claude-code: {agent}\n  codex: {agent}\n");
    std::fs::write(stage.at("agency.yaml"), text).unwrap();
    stage.ok(&["ledger", "init"]);
    stage
}

/// Keeps the first feature of the list.
fn one_feature(script: &str) -> String {
    let later = |line: &&str| !(2..=5).any(|n| line.contains(&format!("\"id\": \"F00{n}\"")));
    let text = script.lines().filter(later).collect::<Vec<_>>().join("\n");
    text.replace("\"passes\": false},\n]}", "\"passes\": false}\n]}")
        .replace("\"total_features\": 5", "\"total_features\": 1")
}

/// Everything that a fault must not change.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    subjects: Vec<String>,
    runs: Vec<String>,
    dirty: String,
    status: Vec<String>,
    journal_is_whole: bool,
}

fn outcome(stage: &Stage) -> Outcome {
    let list = |value: serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut subjects: Vec<String> =
        stage.git(&["log", "--branches", "--format=%s"]).lines().map(str::to_owned).collect();
    subjects.sort();
    let mut runs: Vec<String> = list(stage.json(&["runs", "--json"]))
        .iter()
        .map(|run| format!("{} {}", run["phase"], run["outcome"]))
        .collect();
    runs.sort();
    let text = std::fs::read(stage.folder().join("status.json")).unwrap();
    let status: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let shown =
        |one: &serde_json::Value| format!("{} {} {}", one["name"], one["summary"], one["held"]);
    Outcome {
        subjects,
        runs,
        dirty: stage.git(&["status", "--porcelain"]),
        status: list(status["protocols"].clone()).iter().map(shown).collect(),
        journal_is_whole: stage.ok(&["journal", "verify"]).starts_with("the journal is whole"),
    }
}

/// What a fault led to.
enum Ending {
    /// The run went on by itself to its end.
    WentOn(&'static str),
    /// The daemon stopped with an error and said so; the next one went on.
    Stopped(&'static str),
    /// The protocol was held and the owner told; it went on when they said so.
    Held(&'static str),
    /// It had fewer calls than that.
    NotReached,
}

fn failed_at(play: &Play, nth: usize, errno: Errno, wanted: &Outcome) -> Result<Ending, String> {
    let stage = (play.prepare)();
    let mut command = stage.program();
    command.args(["run", "--once"]);
    let traced = fail_at(&command, nth, errno).map_err(|cause| cause.to_string())?;
    let (End::Exited { code, .. }, call) = traced else {
        return Err(format!("{}: call {nth} with {errno}: {traced:?}", play.name));
    };
    let Some(call) = call else { return Ok(Ending::NotReached) };
    let by_itself = code == 0 && outcome(&stage) == *wanted;
    if by_itself {
        return Ok(Ending::WentOn(call));
    }
    let first = format!("exit {code}");
    let code = stage.start_with(&["--once"]).wait();
    let found = outcome(&stage);
    if code == 0 && found == *wanted {
        return Ok(Ending::Stopped(call));
    }
    let told = stage.agency(&["escalations"]).out;
    let holds = found.status.iter().any(|line| line.contains("held"));
    if holds && !told.is_empty() {
        stage.agency(&["resume"]);
        let code = stage.start_with(&["--once"]).wait();
        let tries_may_differ = Outcome { runs: wanted.runs.clone(), ..outcome(&stage) };
        if code == 0 && tries_may_differ == *wanted {
            return Ok(Ending::Held(call));
        }
    }
    let log = stage.daemon_log();
    let told = stage.agency(&["escalations", "--all"]).out;
    Err(format!(
        "{}: call {nth} ({call}) failed with {errno}: {first}, then exit {code}: {found:#?}\nwanted {wanted:#?}\n{told}\n{log}",
        play.name
    ))
}

/// How many calls an undisturbed run makes, and how it ends. `None` in a sandbox where no process may trace another.
fn clean_run(play: &Play) -> Option<(usize, Outcome)> {
    let stage = (play.prepare)();
    let mut command = stage.program();
    command.args(["run", "--once"]);
    match kill_at(&command, usize::MAX) {
        Ok(End::Exited { code: 0, calls }) => Some((calls, outcome(&stage))),
        Err(Errno::EPERM | Errno::ENOSYS) => None,
        other => panic!("{}: the clean run ended with {other:?}", play.name),
    }
}

#[expect(clippy::print_stdout, reason = "the figures of a trial that was asked for")]
fn fail_everywhere(play: &Play) {
    let Some((calls, wanted)) = clean_run(play) else { return };
    let wanted_trials = std::env::var("AGENCY_TRIALS").unwrap_or_default();
    let (stride, errors) = match wanted_trials.as_str() {
        "all" => (1, &ERRORS[..]),
        trials => (calls / trials.parse().unwrap_or(EVERYDAY).max(1) + 1, &ERRORS[..1]),
    };
    let [mut went_on, mut stopped, mut held] = [const { BTreeMap::new() }; 3];
    let mut failures = Vec::new();
    for (at, nth) in (stride.min(calls / 3).max(1)..=calls).step_by(stride).enumerate() {
        for error in 0..errors.len() {
            match failed_at(play, nth, ERRORS[(at + error) % ERRORS.len()], &wanted) {
                Ok(Ending::WentOn(call)) => *went_on.entry(call).or_insert(0) += 1,
                Ok(Ending::Stopped(call)) => *stopped.entry(call).or_insert(0) += 1,
                Ok(Ending::Held(call)) => *held.entry(call).or_insert(0) += 1,
                Ok(Ending::NotReached) => {}
                Err(failure) => failures.push(failure),
            }
        }
    }
    let figures = format!(
        "{}: {calls} calls in a clean run; went on: {went_on:?}; stopped and said so: {stopped:?}; held and told: {held:?}",
        play.name
    );
    if !wanted_trials.is_empty() {
        println!("{figures}");
    }
    assert!(failures.is_empty(), "{figures}\n{}", failures.join("\n\n"));
    assert!(went_on.len() + stopped.len() + held.len() > 0, "nothing was tried: {figures}");
}

// covers: DM-17, DM-21
#[test]
fn a_failing_call_never_stops_the_review_loop_in_silence() {
    fail_everywhere(&PLAYS[0]);
}

// covers: DM-17, DM-21
#[test]
fn a_failing_call_never_stops_a_relay_in_silence() {
    fail_everywhere(&PLAYS[1]);
}

// covers: DM-17, DM-21
#[test]
fn a_failing_call_never_stops_a_board_in_silence() {
    fail_everywhere(&PLAYS[2]);
}

// covers: DM-17, DM-21
#[test]
fn a_failing_call_never_stops_codifica_in_silence() {
    fail_everywhere(&PLAYS[3]);
}

// covers: DM-17, DM-21
#[test]
fn a_failing_call_never_stops_a_ledger_in_silence() {
    fail_everywhere(&PLAYS[4]);
}
