//! The shim is killed before every single call that changes a file or starts a process: the run is started again, lost, or
//! known, but its command never runs twice, and nothing of it is left.

use super::stage::{Stage, carrying};
use crate::e2e::tracer::{End, kill_at};
use agency::model::Outcome;
use agency::run::{Executor as _, HeldState, RunSpec};
use nix::errno::Errno;
use std::path::Path;
use std::process::Command;
use tempfile::tempdir;

/// The intent alone: this daemon cannot start a shim.
fn intended(dir: &Path) -> RunSpec {
    let broken = Stage::with(dir, Path::new("/nowhere/agency"), |executor| executor);
    let spec = broken.spec("echo x >> children; echo said; sleep 0.1");
    broken.executor.submit(&spec).unwrap_err();
    spec
}

fn shim(dir: &Path, spec: &RunSpec) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agency"));
    command.arg("shim").arg(dir.join("runs").join(spec.spawn.run.as_str()));
    command.env_clear().envs(spec.env.iter().cloned());
    command.env("AGENCY_RUN", spec.spawn.run.as_str()).env("AGENCY_REPO", &spec.repo);
    command
}

/// What a daemon that comes after the kill finds, and how it ends. It submits again what was never started.
async fn recovered(dir: &Path, spec: &RunSpec) -> (HeldState, Outcome) {
    let mut stage = Stage::new(dir);
    let held = stage.executor.adopt().unwrap();
    assert_eq!(held.len(), 1);
    if held[0].state == HeldState::Intended {
        stage.start(spec);
    }
    let end = stage.end().await;
    assert_eq!(carrying(spec), [""; 0]);
    stage.executor.acknowledge(&spec.spawn.run).unwrap();
    (held[0].state, end.outcome)
}

/// Kills at one call. `None`: the shim came to its end before it.
async fn killed_at(nth: usize) -> Result<Option<(HeldState, Outcome)>, Errno> {
    let dir = tempdir().unwrap();
    let spec = intended(dir.path());
    let command = shim(dir.path(), &spec);
    // In a thread of its own, which waits for no child but this one.
    let end = std::thread::spawn(move || kill_at(&command, nth)).join().unwrap()?;
    let End::Killed(call) = end else { return Ok(None) };
    let (state, outcome) = recovered(dir.path(), &spec).await;
    let children = std::fs::read_to_string(dir.path().join("children")).unwrap_or_default();
    let seen = format!("killed at {nth} ({call}): {state:?}, {outcome:?}, {children:?}");
    match state {
        HeldState::Intended => assert_eq!((&outcome, &*children), (&Outcome::Ok, "x\n"), "{seen}"),
        HeldState::Ended => assert_eq!((&outcome, &*children), (&Outcome::Ok, "x\n"), "{seen}"),
        HeldState::Losing => {
            assert!(outcome == Outcome::Lost && matches!(&*children, "" | "x\n"), "{seen}");
        }
        HeldState::Alive => panic!("{seen}"),
    }
    Ok(Some((state, outcome)))
}

// covers: SU-02, DM-06
#[tokio::test]
async fn a_shim_killed_before_any_call_runs_nothing_twice() {
    let mut states = Vec::new();
    for nth in 1.. {
        match killed_at(nth).await {
            Ok(Some((state, _))) => states.push(state),
            Ok(None) => break,
            // Some sandboxes let no process trace another.
            Err(Errno::EPERM | Errno::ENOSYS) => return,
            Err(other) => panic!("{other}"),
        }
    }
    for state in [HeldState::Intended, HeldState::Losing, HeldState::Ended] {
        assert!(states.contains(&state), "no kill led to {state:?}: {states:?}");
    }
    assert!(states.len() > 10, "{states:?}");
}
