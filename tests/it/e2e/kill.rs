//! The daemon is killed again and again; nothing is lost, torn or done twice.

use super::stage::{HONEST, Stage};
use std::collections::BTreeSet;
use std::time::Duration;

// covers: DM-06, DM-05, SU-02
#[test]
fn fifty_kills_of_the_daemon_change_nothing() {
    let stage = Stage::new(HONEST);
    std::fs::write(stage.at("home/slow"), "0.15").unwrap();
    let steps: Vec<String> = (1..=8).map(|n| n.to_string()).collect();
    stage.ok(&["loop", "init", "--steps", &steps.join(",")]);
    // Moments that no two tries share; a kill while the daemon starts is as good as any.
    for kill in 0..50_u64 {
        let daemon = stage.start();
        std::thread::sleep(Duration::from_millis(20 + (kill * 37) % 260));
        daemon.kill();
    }
    let before = stage.transitions().len();
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    let said = stage.ok(&["escalations", "--all"]);
    assert_eq!(stage.state()["phase"], "complete", "{said}");
    assert!(before > 0, "some transitions came between two kills");
    let transitions = stage.transitions();
    let wanted: Vec<String> = steps
        .iter()
        .flat_map(|step| {
            ["proposed", "approved", "executed", "advanced"]
                .map(|word| format!("Review loop: Step {step} {word}"))
        })
        .collect();
    assert_eq!(transitions, wanted, "every commit once, in order");
    let started = stage.started();
    let runs: BTreeSet<_> = started.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(runs.len(), started.len(), "no run began twice: {started:?}");
    let turns: Vec<_> = started.iter().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(turns.len(), 32, "every turn was started once: {turns:?}");
    assert_eq!(stage.git(&["status", "--porcelain"]), "");
    assert!(stage.ok(&["journal", "verify"]).starts_with("the journal is whole"));
}

// covers: SU-02, DM-06
#[test]
fn a_run_goes_on_while_the_daemon_is_dead_and_its_end_is_known() {
    let stage = Stage::new(HONEST);
    std::fs::write(stage.at("home/slow"), "1").unwrap();
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let pid = stage.wait("a run", || stage.json(&["runs", "--json"])[0]["pid"].as_i64());
    daemon.kill();
    assert!(
        std::path::Path::new(&format!("/proc/{pid}")).exists(),
        "the agent outlives the daemon"
    );
    stage.wait("its flag, while nobody watches", || {
        stage.repo().join(".agent-status.json").exists().then_some(())
    });
    std::fs::write(stage.at("home/slow"), "0").unwrap();
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.transitions().len(), 4);
    assert_eq!(stage.started().len(), 4, "adopted, not started again");
}
