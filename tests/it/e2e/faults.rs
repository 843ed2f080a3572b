//! Every call that changes a file or starts a process fails once, with each of three errors, in a step of each protocol. The
//! daemon goes on by itself, or stops and says why; it never stands still in silence, and the end is always the same.

use super::handoff::RELAY;
use super::stage::{HONEST, Stage, wait_until};
use super::tracer::{End, fail_at, kill_at};
use crate::board::running::{CONFIG as BOARD, board_with, task as board_task};
use crate::codifica::{CONFIG, daemon::daemon_stage, task};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

/// So few of the calls fail in the everyday run, for each protocol; `AGENCY_TRIALS` takes about so many, or `all`.
const EVERYDAY: usize = 2;
/// The exit code of a daemon that failed; it prints why.
const FAILURE: i32 = 3;
/// So long may a daemon that stays take to come to the end.
const BY_ITSELF: Duration = Duration::from_secs(60);
const ERRORS: [Errno; 3] = [Errno::ENOSPC, Errno::EIO, Errno::EMFILE];

/// One protocol at work for a while.
pub(super) struct Play {
    pub(super) name: &'static str,
    pub(super) prepare: fn() -> Stage,
}

pub(super) const PLAYS: [Play; 5] = [
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
pub(super) struct Outcome {
    subjects: Vec<String>,
    runs: Vec<String>,
    dirty: String,
    status: Vec<String>,
    journal_is_whole: bool,
}

pub(super) fn outcome(stage: &Stage) -> Outcome {
    let list = |value: Value| value.as_array().cloned().unwrap_or_default();
    let mut subjects: Vec<String> =
        stage.git(&["log", "--branches", "--format=%s"]).lines().map(str::to_owned).collect();
    subjects.sort();
    let mut runs: Vec<String> = list(stage.json(&["runs", "--json"]))
        .iter()
        .map(|run| format!("{} {}", run["phase"], run["outcome"]))
        .collect();
    runs.sort();
    let status = status_of(stage);
    Outcome {
        subjects,
        runs,
        dirty: stage.git(&["status", "--porcelain"]),
        status: list(status["protocols"].clone()).iter().map(shown).collect(),
        journal_is_whole: stage.ok(&["journal", "verify"]).starts_with("the journal is whole"),
    }
}

fn shown(protocol: &Value) -> String {
    format!("{} {} {}", protocol["name"], protocol["summary"], protocol["held"])
}

/// As the daemon wrote it last.
fn status_of(stage: &Stage) -> Value {
    let text = std::fs::read(stage.folder().join("status.json")).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// What a fault led to.
enum Ending {
    /// The run went on by itself to its end.
    WentOn(&'static str),
    /// A daemon that stays told the owner and went on by itself to the same end.
    Recovered(&'static str),
    /// The daemon ended with a message that names the fault; the next one went on by itself.
    Stopped(&'static str),
    /// The protocol was held and the owner told; the command that the message names got it out.
    Held(&'static str),
    /// It had fewer calls than that.
    NotReached,
}

impl Ending {
    fn call(&self) -> &'static str {
        match self {
            Self::WentOn(call) | Self::Recovered(call) | Self::Stopped(call) | Self::Held(call) => {
                call
            }
            Self::NotReached => "none",
        }
    }
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
        if self.has_stalled() {
            return Err(self.failure(call, &format!("exit {code}, and a protocol stands still")));
        }
        if code == 0 && self.ended_well() {
            return Ok(Ending::WentOn(call));
        }
        // A second run proves nothing about a first one that was silent.
        if code == 0 || !self.was_told(code) {
            return Err(self.failure(call, &format!("exit {code}, and the owner was not told why")));
        }
        let again = self.stage.start_with(&["--once"]).wait();
        if again == 0 && self.ended_well() && !self.has_stalled() {
            return self.by_itself().map(|recovered| match recovered {
                true => Ending::Recovered(call),
                false => Ending::Stopped(call),
            });
        }
        let named = self.do_as_told();
        let last = self.stage.start_with(&["--once"]).wait();
        if last == 0 && self.ended_well() && !self.has_stalled() {
            return Ok(Ending::Held(call));
        }
        Err(self.failure(call, &format!("exit {code}, {again}, then {last} after {named:?}")))
    }

    /// The same call fails in a daemon that stays, on a stage of its own. True when it came to the same end, false when it stopped and
    /// said why.
    fn by_itself(&self) -> Result<bool, String> {
        let stage = (self.play.prepare)();
        let trial = Trial { stage, ..*self };
        let mut command = trial.stage.program();
        command.arg("run").env("AGENCY_LOG", "info");
        let log = trial.stage.at("daemon.log");
        let (end, call) = std::thread::scope(|scope| {
            let traced = scope.spawn(|| fail_at(&command, self.nth, self.errno, &log));
            let is_there = || {
                let status = status_of(&trial.stage);
                let all = status["protocols"].as_array().cloned().unwrap_or_default();
                let shown: Vec<String> = all.iter().map(shown).collect();
                // What is done may still have to be committed.
                let changed = ["--no-optional-locks", "status", "--porcelain"];
                let is_over =
                    || shown == self.wanted.status && trial.stage.git(&changed).is_empty();
                (traced.is_finished() || is_over()).then_some(())
            };
            wait_until(BY_ITSELF, is_there);
            let pid = trial.stage.json(&["status", "--json"])["daemon"]["pid"].as_i64();
            if let Some(pid) = pid.and_then(|pid| i32::try_from(pid).ok()) {
                // It may have ended just now.
                kill(Pid::from_raw(pid), Signal::SIGTERM).ok();
            }
            traced.join().unwrap().unwrap()
        });
        let End::Exited { code, .. } = end else {
            return Err(trial.failure("", &format!("{end:?}")));
        };
        match call {
            Some(call) if code != 0 => trial.was_told(code).then_some(false).ok_or_else(|| {
                trial.failure(call, &format!("exit {code} of a daemon that stays, without a word"))
            }),
            Some(call) if !trial.ended_well() || trial.has_stalled() => {
                Err(trial.failure(call, "a daemon that stays does not go on by itself"))
            }
            Some(_) | None => Ok(true),
        }
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

    /// DM-17: each run of the daemon checks, before it ends, that what is not over has something that moves it.
    fn has_stalled(&self) -> bool {
        self.messages().iter().any(|one| one["rule"] == "DM-17")
    }

    fn messages(&self) -> Vec<Value> {
        let all = self.stage.json(&["escalations", "--all", "--json"]);
        all.as_array().cloned().unwrap_or_default()
    }

    /// A message or `status` names the error, or the daemon ended with it. Its log alone tells the owner nothing.
    fn was_told(&self, code: i32) -> bool {
        let named = std::io::Error::from(self.errno).to_string();
        let named = named.split(" (os error").next().unwrap();
        let failed = |line: &str| line.starts_with("error: ") && line.contains(named);
        self.messages().iter().any(|one| one.to_string().contains(named))
            || self.stage.agency(&["status"]).out.contains(named)
            || (code == FAILURE && self.stage.daemon_log().lines().any(failed))
    }

    /// Runs each command that an open message names.
    fn do_as_told(&self) -> Vec<String> {
        let all = self.messages();
        let open = all.iter().filter(|one| one["state"] == "open");
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

/// Which calls fail, and with which errors.
enum Sample {
    /// So many calls, each with one of the errors.
    About(usize),
    /// Each call with one of the errors.
    Each,
    /// Each call with each of the errors.
    All,
    /// This call with each of the errors, to look into a finding.
    Only(usize),
}

impl Sample {
    fn of(wanted: &str) -> Self {
        match wanted {
            "all" => Self::All,
            "one" => Self::Each,
            other => match other.strip_prefix('@').and_then(|nth| nth.parse().ok()) {
                Some(nth) => Self::Only(nth),
                None => Self::About(other.parse().unwrap_or(EVERYDAY).max(1)),
            },
        }
    }

    /// The calls, counted from one, and the errors of each.
    fn points(&self, calls: usize) -> Vec<(usize, Errno)> {
        let (first, stride, errors) = match *self {
            Self::About(trials) => {
                let stride = calls / trials + 1;
                (stride.min(calls / 3).max(1), stride, 1)
            }
            Self::Each => (1, 1, 1),
            Self::All => (1, 1, ERRORS.len()),
            Self::Only(nth) => return ERRORS.map(|errno| (nth, errno)).to_vec(),
        };
        let at = (first..=calls).step_by(stride).enumerate();
        let all = at.flat_map(|(at, nth)| (0..errors).map(move |n| (nth, at + n)));
        all.map(|(nth, error)| (nth, ERRORS[error % ERRORS.len()])).collect()
    }
}

#[expect(clippy::print_stderr, reason = "the figures of a trial that was asked for")]
fn fail_everywhere(play: &Play) {
    let Some((calls, wanted)) = clean_run(play) else { return };
    let asked = std::env::var("AGENCY_TRIALS").unwrap_or_default();
    let [mut went_on, mut recovered, mut stopped, mut held] = [const { BTreeMap::new() }; 4];
    let mut failures = Vec::new();
    for (nth, errno) in Sample::of(&asked).points(calls) {
        let stage = (play.prepare)();
        let kind = match (Trial { play, stage, nth, errno, wanted: &wanted }).run() {
            Ok(ending) => {
                let (kind, counts) = match ending {
                    Ending::WentOn(_) => ("went on", Some(&mut went_on)),
                    Ending::Recovered(_) => ("told and went on", Some(&mut recovered)),
                    Ending::Stopped(_) => ("stopped", Some(&mut stopped)),
                    Ending::Held(_) => ("held", Some(&mut held)),
                    Ending::NotReached => ("not reached", None),
                };
                if let Some(counts) = counts {
                    *counts.entry(ending.call()).or_insert(0) += 1;
                }
                format!("{kind} ({})", ending.call())
            }
            Err(failure) => {
                failures.push(failure.clone());
                format!("FAILED\n{failure}")
            }
        };
        if !asked.is_empty() {
            eprintln!("{}: call {nth} of {calls}, {errno}: {kind}", play.name);
        }
    }
    let figures = format!(
        "{}: {calls} calls in a clean run; went on: {went_on:?}; told and went on: {recovered:?}; stopped and said so: {stopped:?}; held and told: {held:?}",
        play.name
    );
    if !asked.is_empty() {
        eprintln!("{figures}");
    }
    assert!(failures.is_empty(), "{figures}\n{}", failures.join("\n\n"));
    assert!(
        went_on.len() + recovered.len() + stopped.len() + held.len() > 0,
        "nothing was tried: {figures}"
    );
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
