//! Bad agents, one after the other, under the real daemon: each is ended, told apart, leaves nothing behind, and the loop
//! goes on or waits for its owner. The agent is `agents/fake.sh`.

use super::stage::{Daemon, HONEST, Stage, wait_until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const FAKE: &str = include_str!("../agents/fake.sh");

/// One bad agent and what must come of it.
struct Case {
    mode: &'static str,
    /// How many runs behave that way before the agent becomes honest.
    times: u32,
    /// The agent's settings beside its retries.
    limits: &'static str,
    /// How long a shim may be silent: most of a minute, unless that is what is tried.
    stuck_after_ms: &'static str,
    /// Of the first runs, in the words of `agency runs --json`.
    outcomes: &'static [&'static str],
}

impl Case {
    const fn new(mode: &'static str, outcomes: &'static [&'static str]) -> Self {
        Self { mode, times: 1, limits: "silence: 60s", stuck_after_ms: "45000", outcomes }
    }

    fn stage(&self) -> Stage {
        let stage = Stage::new(FAKE).with_env("AGENCY_STUCK_AFTER_MS", self.stuck_after_ms);
        // What the sandbox prevents is found out without it.
        let is_prevented = matches!(self.mode, "kill-shim" | "stop-shim" | "forge");
        let sandbox = if is_prevented { "sandbox: { mode: off }\n" } else { "" };
        let agents = format!("retries: 2, backoff: 100ms, {}", self.limits);
        stage.configure_agents(&agents, sandbox);
        let home = |name: &str, text: &str| std::fs::write(stage.at("home").join(name), text);
        home("honest.sh", HONEST).unwrap();
        home("mode", self.mode).unwrap();
        home("times", &self.times.to_string()).unwrap();
        stage.ok(&["loop", "init", "--steps", "1"]);
        stage
    }

    /// Plays the loop to its end, which the bad agent must not prevent.
    fn completes(&self) -> Stage {
        let stage = self.stage();
        let daemon = stage.start();
        self.wait(&stage, "the end of the loop", || stage.state()["phase"] == "complete");
        self.all_is_over(&stage, daemon);
        let outcomes = outcomes(&stage);
        let first: Vec<&str> =
            outcomes.iter().take(self.outcomes.len()).map(String::as_str).collect();
        assert_eq!(first, self.outcomes, "{}", self.mode);
        let rest = &outcomes[self.outcomes.len()..];
        assert!(rest.iter().all(|word| word == "ok"), "{}: {outcomes:?}", self.mode);
        assert_eq!(stage.transitions().len(), 4, "{}", self.mode);
        stage
    }

    fn wait(&self, stage: &Stage, what: &str, holds: impl Fn() -> bool) {
        stage.wait(&format!("{what} with {}", self.mode), || holds().then_some(()));
    }

    /// The loop has come to rest: nothing runs, nothing is left, and no run met one before it.
    fn all_is_over(&self, stage: &Stage, daemon: Daemon) {
        self.wait(stage, "the end of all runs", || {
            runs(stage).iter().all(|run| run["state"] == "ended")
        });
        // The last shim leaves right after its record.
        wait_until(Duration::from_secs(2), || left_over(stage).is_empty().then_some(()));
        assert_eq!(left_over(stage), [""; 0], "{}", self.mode);
        let intruders = std::fs::read_to_string(stage.at("home/intruders")).unwrap_or_default();
        assert_eq!(intruders, "", "{}: a run entered a tree that was not empty", self.mode);
        assert_eq!(daemon.stop(), 0, "{}", self.mode);
        assert!(stage.ok(&["journal", "verify"]).starts_with("the journal is whole"));
    }
}

fn runs(stage: &Stage) -> Vec<Value> {
    stage.json(&["runs", "--json"]).as_array().cloned().unwrap_or_default()
}

fn outcomes(stage: &Stage) -> Vec<String> {
    runs(stage).iter().map(|run| run["outcome"].as_str().unwrap_or("none").to_owned()).collect()
}

/// Command lines of all processes that carry a mark of this stage's repository, the dead left out.
fn left_over(stage: &Stage) -> Vec<String> {
    let mark = format!("AGENCY_REPO={}", stage.repo().display());
    let of = |dir: &Path, name: &str| std::fs::read(dir.join(name)).unwrap_or_default();
    let carries = |dir: &Path| of(dir, "environ").split(|b| *b == 0).any(|e| e == mark.as_bytes());
    let dirs = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
    dirs.filter(|dir| carries(dir))
        .map(|dir| String::from_utf8_lossy(&of(&dir, "cmdline")).replace('\0', " "))
        .collect()
}

/// Bytes in the folder of the first run.
fn size_of_first_run(stage: &Stage) -> u64 {
    let id = runs(stage)[0]["id"].as_str().unwrap().to_owned();
    let repos = std::fs::read_dir(stage.at("state")).unwrap();
    let mut folders = repos.map(|repo| repo.unwrap().path().join("runs").join(&id));
    let folder = folders.find(|folder| folder.is_dir()).unwrap();
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

/// The most memory that a process ever had, in kB.
fn peak_kb(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

// covers: SU-04
#[test]
fn a_silent_agent_is_ended_and_tried_again() {
    let limits = "first_output: 1s, silence: 60s";
    Case { limits, ..Case::new("hang", &["timeout"]) }.completes();
}

// covers: SU-03, SU-04
#[test]
fn an_agent_that_ignores_the_request_to_end_is_killed() {
    let limits = "first_output: 1s, silence: 60s";
    Case { limits, ..Case::new("deaf", &["timeout"]) }.completes();
}

// covers: SU-04
#[test]
fn an_agent_that_is_slow_but_speaks_is_left_alone() {
    let limits = "first_output: 2s, silence: 2s";
    Case { limits, ..Case::new("slow", &["ok"]) }.completes();
}

// covers: SU-04
#[test]
fn a_flood_fills_neither_the_disk_nor_our_memory() {
    let case = Case::new("spew", &["ok"]);
    let stage = case.stage();
    let daemon = stage.start();
    case.wait(&stage, "the end of the loop", || stage.state()["phase"] == "complete");
    let peak = peak_kb(daemon.pid());
    case.all_is_over(&stage, daemon);
    assert!(peak < 100_000, "the daemon took {peak} kB while 300 MB were said");
    let size = size_of_first_run(&stage);
    assert!((1_000_000..17_000_000).contains(&size), "{size} bytes are kept of 300 MB");
    assert_eq!(outcomes(&stage), ["ok"; 4]);
}

// covers: SU-03
#[test]
fn a_deaf_child_in_another_session_goes_with_its_run() {
    let stage = Case::new("fork", &["ok"]).completes();
    assert!(stage.at("home/forked").exists(), "there was such a child");
}

// covers: SU-03
#[test]
fn a_child_that_holds_the_pipes_does_not_hold_the_loop() {
    Case::new("pipe", &["ok"]).completes();
}

// covers: SU-02
#[test]
fn an_agent_that_kills_its_shim_is_lost_and_gone_before_the_next() {
    Case::new("kill-shim", &["lost"]).completes();
}

// covers: SU-02
#[test]
fn an_agent_that_stops_its_shim_is_noticed_and_gone_before_the_next() {
    Case { stuck_after_ms: "3000", ..Case::new("stop-shim", &["lost"]) }.completes();
}

/// It knows where its run's folder is, and writes the end of its run before it ends.
// covers: SU-02
#[test]
fn an_agent_that_forges_its_end_is_gone_before_the_next() {
    Case::new("forge", &["lost"]).completes();
}

// covers: SU-05
#[test]
fn crashes_are_tried_again() {
    Case { times: 2, ..Case::new("crash", &["crash", "crash"]) }.completes();
}

// covers: SU-05
#[test]
fn an_agent_out_of_memory_is_a_crash() {
    Case::new("memory", &["crash"]).completes();
}

// covers: SU-05, SU-06
#[test]
fn exit_zero_without_the_file_is_tried_again_and_then_held() {
    let case = Case { times: 3, ..Case::new("nothing", &[]) };
    let stage = case.stage();
    let daemon = stage.start();
    let told = stage.wait("the hold", || stage.escalation("SU-06"));
    assert!(told["summary"].as_str().unwrap().contains("no flag in 3 tries"), "{told}");
    assert_eq!(stage.json(&["status", "--json"])["repos"][0]["held"], true);
    assert_eq!(outcomes(&stage), ["no-artifact"; 3]);
    assert!(stage.transitions().is_empty(), "nothing moved");
    stage.ok(&["resume"]);
    case.wait(&stage, "the end of the loop", || stage.state()["phase"] == "complete");
    case.all_is_over(&stage, daemon);
    assert_eq!(runs(&stage).len(), 7);
}
