//! The daemon is killed again and again while a run is alive: the run goes on, is found again, and its end is known.

use super::stage::{HONEST, Stage};
use std::path::Path;

/// `AGENCY_TRIALS=200` is the full number.
const EVERYDAY: usize = 8;

/// The agent's pid, once a run is alive that was not among the `seen`.
fn next_run(stage: &Stage, seen: &[String]) -> (String, i64) {
    stage.wait("a new run", || {
        let runs = stage.json(&["runs", "--json"]);
        let newest = runs.as_array()?.last()?.clone();
        let id = newest["id"].as_str()?.to_owned();
        let alive = newest["state"] == "running" && !seen.contains(&id);
        Some((id, newest["pid"].as_i64().filter(|_| alive)?))
    })
}

// covers: SU-02, DM-06
#[test]
fn every_end_is_known_whenever_the_daemon_is_killed() {
    let trials = std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok());
    // A step is four runs, and each run sees its daemon killed.
    let steps = trials.unwrap_or(EVERYDAY).min(200).div_ceil(4);
    let stage = Stage::new(HONEST);
    std::fs::write(stage.at("home/slow"), "0.25").unwrap();
    let names: Vec<String> = (1..=steps).map(|step| step.to_string()).collect();
    stage.ok(&["loop", "init", "--steps", &names.join(",")]);
    let mut seen = Vec::new();
    let mut outlived = 0;
    for _ in 0..4 * steps {
        let daemon = stage.start();
        let (run, pid) = next_run(&stage, &seen);
        daemon.kill();
        outlived += usize::from(Path::new(&format!("/proc/{pid}")).exists());
        seen.push(run);
    }
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete", "{}", stage.ok(&["escalations", "--all"]));
    let runs = stage.json(&["runs", "--json"]);
    let runs = runs.as_array().unwrap();
    assert!(runs.iter().all(|run| run["outcome"] == "ok"), "{runs:?}");
    assert_eq!((runs.len(), stage.started().len()), (4 * steps, 4 * steps), "each turn once");
    assert!(outlived >= 3 * steps, "only {outlived} of {} runs outlived their daemon", 4 * steps);
}
