//! Every call that changes a file or starts a process fails once, with each of three errors, in a step of each protocol. The
//! daemon goes on by itself, or stops and says why; it never stands still in silence, and the end is always the same.

use super::handoff::RELAY;
use super::stage::{HONEST, Stage};
use super::tracer::{End, fail_at, kill_at};
use crate::board::running::{CONFIG as BOARD, board_with, task as board_task};
use crate::codifica::{CONFIG, daemon::daemon_stage, task};
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::process::Command;

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
    stage.set_config(&text);
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
    /// The daemon stopped and its message names the fault; the next one went on by itself.
    Stopped(&'static str),
    /// The protocol was held and the owner told; the command that the message names got it out.
    Held(&'static str),
    /// It had fewer calls than that.
    NotReached,
}

/// One trial: a stage, and the one call that failed there.
struct Trial<'a> {
    play: &'a Play,
    stage: Stage,
    nth: usize,
    errno: Errno,
    wanted: &'a Outcome,
}

impl Trial<'_> {
    fn run(&self) -> Result<Ending, String> {
        let mut command = self.stage.program();
        command.args(["run", "--once"]).env("AGENCY_LOG", "info");
        let traced = fail_at(&command, self.nth, self.errno, &self.stage.at("daemon.log"));
        let traced = traced.map_err(|cause| cause.to_string())?;
        let (End::Exited { code, .. }, call) = traced else {
            return Err(self.failure("", &format!("{traced:?}")));
        };
        let Some(call) = call else { return Ok(Ending::NotReached) };
        if code == 0 && self.ended_well() {
            return Ok(Ending::WentOn(call));
        }
        // A second run proves nothing about a first one that was silent.
        if code == 0 || !self.was_told() {
            return Err(self.failure(call, &format!("exit {code}, and nobody was told why")));
        }
        let again = self.stage.start_with(&["--once"]).wait();
        if again == 0 && self.ended_well() {
            return Ok(Ending::Stopped(call));
        }
        let named = self.do_as_told();
        let last = self.stage.start_with(&["--once"]).wait();
        if last == 0 && self.ended_well() {
            return Ok(Ending::Held(call));
        }
        Err(self.failure(call, &format!("exit {code}, {again}, then {last} after {named:?}")))
    }

    /// A run that was tried once more is part of going on; its protocol may have recorded the lost one in a commit.
    fn ended_well(&self) -> bool {
        let (found, wanted) = (outcome(&self.stage), self.wanted);
        if found.runs == wanted.runs {
            return found == *wanted;
        }
        let has_all = wanted.subjects.iter().all(|subject| found.subjects.contains(subject));
        let (runs, subjects) = (wanted.runs.clone(), wanted.subjects.clone());
        has_all && Outcome { runs, subjects, ..found } == *wanted
    }

    /// The error is named by what the program printed or by what it told the owner.
    fn was_told(&self) -> bool {
        let told = self.stage.agency(&["escalations", "--all", "--json"]).out;
        let named = std::io::Error::from(self.errno).to_string();
        let named = named.split(" (os error").next().unwrap();
        [told, self.stage.daemon_log()].iter().any(|text| text.contains(named))
    }

    /// Runs each command that an open message names.
    fn do_as_told(&self) -> Vec<String> {
        let all = self.stage.json(&["escalations", "--json"]);
        let open = all.as_array().unwrap().iter().filter(|one| one["state"] == "open");
        let named = open.filter_map(|one| one["resolve"].as_str()).filter_map(|resolve| {
            resolve.split(" (").next().filter(|command| command.starts_with("agency "))
        });
        let named: Vec<String> = named.map(str::to_owned).collect();
        for line in &named {
            let mut shell = Command::new("sh");
            let program = self.stage.program();
            shell.args(["-c", &line.replacen("agency", "\"$0\"", 1)]).arg(program.get_program());
            shell.env_clear().current_dir(self.stage.repo());
            shell.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
            shell.output().unwrap();
        }
        named
    }

    fn failure(&self, call: &str, what: &str) -> String {
        let told = self.stage.agency(&["escalations", "--all"]).out;
        format!(
            "{}: call {} ({call}) failed with {}: {what}: {:#?}\nwanted {:#?}\n{told}\n{}",
            self.play.name,
            self.nth,
            self.errno,
            outcome(&self.stage),
            self.wanted,
            self.stage.daemon_log()
        )
    }
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
        "one" => (1, &ERRORS[..1]),
        trials => (calls / trials.parse().unwrap_or(EVERYDAY).max(1) + 1, &ERRORS[..1]),
    };
    let [mut went_on, mut stopped, mut held] = [const { BTreeMap::new() }; 3];
    let mut failures = Vec::new();
    for (at, nth) in (stride.min(calls / 3).max(1)..=calls).step_by(stride).enumerate() {
        for error in 0..errors.len() {
            let errno = ERRORS[(at + error) % ERRORS.len()];
            let stage = (play.prepare)();
            match (Trial { play, stage, nth, errno, wanted: &wanted }).run() {
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
