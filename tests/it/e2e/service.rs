//! The daemon as a service: stop, drain, new settings, one broken repository beside a healthy one, room for runs.

use super::stage::{HONEST, Stage};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};

fn pid_of_first_run(stage: &Stage) -> i64 {
    stage.wait("a run", || stage.json(&["runs", "--json"])[0]["pid"].as_i64())
}

fn is_alive(pid: i64) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

// covers: DM-09
#[test]
fn a_stop_leaves_the_runs_alive() {
    let stage = Stage::new("sleep 1000");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let pid = pid_of_first_run(&stage);
    let asked = Instant::now();
    assert_eq!(daemon.stop(), 0);
    assert!(asked.elapsed() < Duration::from_secs(10), "a stop takes at most 10 s");
    assert!(is_alive(pid), "the agent lives on");
    let next = stage.start();
    stage.wait("the next daemon", || {
        stage.daemon_log().matches("agency is at work").nth(1).map(drop)
    });
    assert!(is_alive(pid) && stage.started().is_empty(), "it is found again, not started again");
    drop(next);
}

// covers: DM-09
#[test]
fn a_drain_waits_for_the_run_and_starts_no_other() {
    let stage = Stage::new(HONEST);
    std::fs::write(stage.at("home/slow"), "1.5").unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start_with(&["--drain"]);
    let pid = pid_of_first_run(&stage);
    assert_eq!(daemon.stop(), 0);
    assert!(!is_alive(pid), "it waited for the run");
    assert_eq!(stage.started().len(), 1, "and started no other");
    assert_eq!(stage.transitions().len(), 1, "what the run had done is committed");
}

// covers: DM-09
#[test]
fn new_settings_are_taken_over_and_wrong_ones_are_not() {
    let stage = Stage::new("exit 4");
    stage.configure_agents("retries: 0", "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SU-06"));
    std::fs::write(stage.at("agency.yaml"), "loop: { max_rounds: many }\n").unwrap();
    daemon.signal(Signal::SIGHUP);
    let notes = || stage.json(&["status", "--json"])["repos"][0]["notes"].to_string();
    stage.wait("the problem in the status", || notes().contains("max_rounds").then_some(()));
    stage.ok(&["resume"]);
    stage.wait("the last good settings at work", || {
        let runs = stage.json(&["runs", "--json"]);
        (runs.as_array().unwrap().iter().filter(|run| run["outcome"] == "crash").count() == 2)
            .then_some(())
    });
    std::fs::write(stage.at("agent.sh"), HONEST).unwrap();
    stage.configure_agents("retries: 1, backoff: 100ms", "");
    stage.wait("the new settings without a signal", || {
        (!notes().contains("max_rounds")).then_some(())
    });
    stage.ok(&["resume"]);
    stage.wait_for_phase("complete");
    drop(daemon);
}

// covers: DM-10
#[test]
fn a_broken_repository_is_frozen_and_the_other_goes_on() {
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let other = stage.at("other");
    stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", "other"]);
    let begun = stage.agency_in(&other, &["loop", "init", "--steps", "1"]);
    assert_eq!(begun.code, 0, "{}", begun.err);
    // The first one's journal is damaged in the middle.
    let folder = std::fs::read_dir(stage.at("state")).unwrap().map(|entry| entry.unwrap().path());
    let folder = folder
        .into_iter()
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("repo-"));
    let journal = folder.unwrap().join("journal/000001.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, text.replacen("\"n\":1", "\"n\":7", 1)).unwrap();
    let daemon = stage.start_with(&[stage.repo().to_str().unwrap(), other.to_str().unwrap()]);
    stage.wait("the healthy one's end", || {
        let state = std::fs::read_to_string(other.join(".review-loop-state.json")).ok()?;
        state.contains("\"complete\"").then_some(())
    });
    let frozen = stage.wait("the frozen one in the status", || {
        let status = stage.json(&["--repo", stage.repo().to_str().unwrap(), "status", "--json"]);
        status["repos"][0]["closed"].as_str().map(str::to_owned)
    });
    assert!(frozen.starts_with("frozen") && frozen.contains("000001.jsonl"), "{frozen}");
    assert!(stage.escalation("DM-10").is_some());
    assert!(stage.transitions().is_empty());
    drop(daemon);
}

// covers: SU-08
#[test]
fn no_more_runs_at_a_time_than_there_is_room_for() {
    let watcher = r#"
        echo begin >> "$HOME/trace"; sleep 0.2; echo end >> "$HOME/trace"; exit 5"#;
    let stage = Stage::new(watcher);
    stage.configure_agents("retries: 0", "limits: { parallel: 2, per_agent: 2 }\n");
    let mut repos = vec![stage.repo()];
    for number in 0..5 {
        let name = format!("repo{number}");
        stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", &name]);
        repos.push(stage.at(&name));
    }
    for repo in &repos {
        assert_eq!(stage.agency_in(repo, &["loop", "init", "--steps", "1"]).code, 0);
    }
    let words: Vec<&str> = repos.iter().map(|repo| repo.to_str().unwrap()).collect();
    let daemon = stage.start_with(&words);
    // Five failures open the breaker of the agent, so the sixth one waits.
    stage.wait("five runs", || {
        let trace = std::fs::read_to_string(stage.at("home/trace")).unwrap_or_default();
        (trace.matches("end").count() >= 5).then_some(())
    });
    stage.wait("the breaker", || {
        let all = stage.json(&["escalations", "--json"]);
        let breaker =
            |one: &serde_json::Value| one["summary"].as_str().unwrap().contains("five times");
        all.as_array().unwrap().iter().any(breaker).then_some(())
    });
    let trace = std::fs::read_to_string(stage.at("home/trace")).unwrap();
    let mut running = 0;
    for word in trace.lines() {
        running += if word == "begin" { 1 } else { -1 };
        assert!((0..=2).contains(&running), "{trace}");
    }
    drop(daemon);
}

#[test]
fn runs_of_long_ago_are_cleared_away_and_the_one_that_lives_is_not() {
    let stage = Stage::new("sleep 1000");
    stage.configure("limits: { keep_runs: 1d }\n");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let runs = stage.folder().join("runs");
    let old = std::time::SystemTime::now() - Duration::from_secs(2 * 86_400);
    for number in 0..205 {
        let folder = runs.join(format!("old-{number}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("run.json"), "{}").unwrap();
        std::fs::write(folder.join("seen"), "").unwrap();
        std::fs::File::open(&folder).unwrap().set_modified(old).unwrap();
    }
    let daemon = stage.start();
    let pid = pid_of_first_run(&stage);
    let count = || {
        let names = std::fs::read_dir(&runs).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("old-")).count()
    };
    stage.wait("the clearing", || (count() <= 200).then_some(()));
    // The one that lives may have been among the newest 200.
    assert!(count() >= 199, "the newest stay: {}", count());
    assert!(is_alive(pid));
    drop(daemon);
}
