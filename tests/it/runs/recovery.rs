//! Runs across restarts: submitted twice, adopted, lost, stuck. How runs end by themselves is in `runs`.

use super::stage::{Stage, carrying, exists, wait_until};
use agency::model::{Outcome, RunEvent};
use agency::run::{CancelOutcome, Executor, HeldState, RunError, Ticket};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::Duration;
use tempfile::tempdir;
use tokio::runtime::Runtime;

fn states(stage: &Stage) -> Vec<HeldState> {
    stage.executor.adopt().unwrap().into_iter().map(|held| held.state).collect()
}

// covers: SU-02
#[tokio::test]
async fn submitting_twice_starts_one_child() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("echo x >> children; while [ ! -e go ]; do sleep 0.02; done");
    stage.start(&spec);
    // Another executor may call a run lost whose shim does not hold its lock yet.
    stage.started().await;
    assert_eq!(stage.executor.submit(&spec).unwrap(), Ticket::Known);
    let mut other = Stage::new(dir.path());
    assert_eq!(other.executor.submit(&spec).unwrap(), Ticket::Known);
    std::fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(stage.end().await.outcome, Outcome::Ok);
    assert_eq!(other.end().await.outcome, Outcome::Ok);
    assert_eq!(std::fs::read_to_string(dir.path().join("children")).unwrap(), "x\n");
}

/// A daemon that died between the start and its mark leaves a shim that the next one does not know of.
// covers: SU-02
#[tokio::test]
async fn two_shims_for_one_run_start_one_child() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("echo x >> children; sleep 0.5");
    stage.start(&spec);
    stage.started().await;
    let mut second = std::process::Command::new(env!("CARGO_BIN_EXE_agency"))
        .arg("shim")
        .arg(stage.folder(&spec).path())
        .spawn()
        .unwrap();
    assert_eq!(stage.end().await.outcome, Outcome::Ok);
    assert!(second.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(dir.path().join("children")).unwrap(), "x\n");
}

// covers: SU-02
#[test]
fn the_next_daemon_adopts_a_run_and_learns_its_end() {
    let dir = tempdir().unwrap();
    let first = Runtime::new().unwrap();
    let spec = first.block_on(async {
        let mut stage = Stage::new(dir.path());
        let spec = stage.spec("while [ ! -e go ]; do sleep 0.02; done; echo late; exit 4");
        stage.start(&spec);
        stage.started().await;
        spec
    });
    drop(first);
    Runtime::new().unwrap().block_on(async {
        let mut stage = Stage::new(dir.path());
        assert_eq!(states(&stage), [HeldState::Alive]);
        stage.started().await;
        std::fs::write(dir.path().join("go"), "").unwrap();
        let end = stage.end().await;
        assert_eq!(end.outcome, Outcome::Crash { how: "exited with 4".to_owned() });
        assert_eq!((end.run, end.tail.as_str()), (spec.spawn.run, "late\n"));
    });
}

// covers: SU-02
#[tokio::test]
async fn an_end_is_told_again_until_it_is_acknowledged() {
    let dir = tempdir().unwrap();
    let mut first = Stage::new(dir.path());
    let spec = first.spec("exit 5");
    first.play(&spec).await;
    assert_eq!(first.executor.submit(&spec).unwrap(), Ticket::Known);
    let mut second = Stage::new(dir.path());
    assert_eq!(states(&second), [HeldState::Ended]);
    assert_eq!(second.end().await.outcome, Outcome::Crash { how: "exited with 5".to_owned() });
    second.executor.acknowledge(&spec.spawn.run).unwrap();
    assert_eq!(second.executor.submit(&spec).unwrap(), Ticket::Over);
    assert_eq!(states(&Stage::new(dir.path())), []);
    assert!(second.events.try_recv().is_err(), "nothing more is told");
}

// covers: SU-02
#[tokio::test]
async fn an_intent_without_a_start_is_started_once_when_submitted_again() {
    let dir = tempdir().unwrap();
    let broken = Stage::with(dir.path(), Path::new("/nowhere/agency"), |executor| executor);
    let spec = broken.spec("echo x >> children");
    assert!(matches!(broken.executor.submit(&spec), Err(RunError::Shim { .. })));
    let mut stage = Stage::new(dir.path());
    assert_eq!(states(&stage), [HeldState::Intended]);
    assert_eq!(stage.play(&spec).await.outcome, Outcome::Ok);
    assert_eq!(std::fs::read_to_string(dir.path().join("children")).unwrap(), "x\n");
}

#[tokio::test]
async fn a_canceled_intent_never_starts() {
    let dir = tempdir().unwrap();
    let broken = Stage::with(dir.path(), Path::new("/nowhere/agency"), |executor| executor);
    let spec = broken.spec("echo x >> children");
    broken.executor.submit(&spec).unwrap_err();
    let mut stage = Stage::new(dir.path());
    let outcome = stage.executor.cancel(&spec.spawn.run, "not now", Duration::ZERO).unwrap();
    assert_eq!(outcome, CancelOutcome::NotStarted);
    assert_eq!(stage.end().await.outcome, Outcome::Stopped { why: "not now".to_owned() });
    assert_eq!(stage.executor.submit(&spec).unwrap(), Ticket::Known);
    assert!(!dir.path().join("children").exists());
    assert!(!stage.folder(&spec).path().join("shim.log").metadata().is_ok_and(|log| log.len() > 0));
}

/// With the shim dead the orphan has no parent of ours any more: only its environment tells whose it is.
// covers: SU-02
#[tokio::test]
async fn a_killed_shim_makes_the_run_lost_and_its_tree_ended() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let orphan = "(setsid sh -c 'trap \"\" TERM; echo > deaf; sleep 60' &)";
    let spec = stage.spec(&format!("echo said; {orphan}; sleep 60"));
    stage.start(&spec);
    stage.started().await;
    wait_until("the orphan is there", || dir.path().join("deaf").exists()).await;
    kill(Pid::from_raw(stage.shim_pid(&spec)), Signal::SIGKILL).unwrap();
    let end = stage.end().await;
    assert_eq!(carrying(&spec), [""; 0], "lost is told only when the tree is empty");
    assert_eq!((end.outcome, end.tail.as_str()), (Outcome::Lost, "said\n"));
    assert!(stage.json(&spec, "exit.json")["how"]["lost"].is_string());
}

// covers: SU-02
#[tokio::test]
async fn a_shim_that_died_while_no_daemon_ran_is_found_lost() {
    let dir = tempdir().unwrap();
    let mut first = Stage::new(dir.path());
    let spec = first.spec("sleep 60");
    first.start(&spec);
    first.started().await;
    let shim = first.shim_pid(&spec);
    drop(first);
    kill(Pid::from_raw(shim), Signal::SIGKILL).unwrap();
    wait_until("the shim is gone", || !exists(shim)).await;
    let mut stage = Stage::new(dir.path());
    assert_eq!(states(&stage), [HeldState::Losing]);
    assert_eq!(stage.end().await.outcome, Outcome::Lost);
    assert_eq!(carrying(&spec), [""; 0]);
}

/// It cleared its environment and left its session: only its parents tell whose it is.
// covers: SU-02
#[tokio::test]
async fn a_stopped_shim_is_noticed_and_its_whole_tree_ended() {
    let dir = tempdir().unwrap();
    let quick = |executor: agency::run::LocalExecutor| executor.stuck_after(Duration::from_secs(2));
    let mut stage = Stage::with(dir.path(), Path::new(env!("CARGO_BIN_EXE_agency")), quick);
    let hidden = "env -i setsid sh -c 'echo $$ > hidden.tmp; mv hidden.tmp hidden; sleep 60'";
    let spec = stage.spec(&format!("PATH=$PATH {hidden} & trap 'exit 0' TERM; wait"));
    stage.start(&spec);
    stage.started().await;
    let path = dir.path().join("hidden");
    wait_until("the hidden one is there", || path.exists()).await;
    let hidden: i32 = std::fs::read_to_string(&path).unwrap().trim().parse().unwrap();
    let shim = stage.shim_pid(&spec);
    kill(Pid::from_raw(shim), Signal::SIGSTOP).unwrap();
    assert_eq!(stage.end().await.outcome, Outcome::Lost);
    assert_eq!(carrying(&spec), [""; 0]);
    assert!(!exists(shim), "the shim itself is ended and collected");
    wait_until("init has collected the hidden one", || !exists(hidden)).await;
}

// covers: SU-02
#[tokio::test]
async fn a_shim_that_beats_is_not_stuck() {
    let dir = tempdir().unwrap();
    let quick = |executor: agency::run::LocalExecutor| executor.stuck_after(Duration::from_secs(1));
    let mut stage = Stage::with(dir.path(), Path::new(env!("CARGO_BIN_EXE_agency")), quick);
    assert_eq!(stage.outcome_of("sleep 3").await, Outcome::Ok);
}

#[tokio::test]
async fn a_run_id_cannot_leave_the_runs_folder() {
    let dir = tempdir().unwrap();
    let stage = Stage::new(dir.path());
    for id in ["../x", "", ".", "a/b", "a b"] {
        let mut spec = stage.spec("true");
        spec.spawn.run = agency::model::RunId::new(id);
        assert!(matches!(stage.executor.submit(&spec), Err(RunError::Id { .. })), "{id:?}");
    }
    let unknown = agency::model::RunId::new("nobody");
    let canceled = stage.executor.cancel(&unknown, "x", Duration::ZERO);
    assert!(matches!(canceled, Err(RunError::Unknown { .. })));
}

/// The events of one run come in order, each once.
#[tokio::test]
async fn a_run_is_told_started_once_and_ended_once() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let specs = ["exit 0", "exit 0", "exit 0"].map(|script| stage.spec(script));
    specs.iter().for_each(|spec| stage.start(spec));
    let mut told = Vec::new();
    while told.len() < 6 {
        told.push(match stage.next().await {
            RunEvent::Started { run, .. } => (run, "started"),
            RunEvent::Ended(end) => (end.run, "ended"),
        });
    }
    for spec in &specs {
        let of_run: Vec<&str> =
            told.iter().filter(|(run, _)| *run == spec.spawn.run).map(|(_, word)| *word).collect();
        assert_eq!(of_run, ["started", "ended"]);
    }
}
