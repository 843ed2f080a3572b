//! Many stops of trees that do not want to end: no process may be left, ever. One stop alone is in `runs`.

use super::stage::{Stage, carrying, wait_until};
use agency::model::Outcome;
use agency::run::{Executor as _, RunSpec};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// `AGENCY_TRIALS=1000` is the full number.
const EVERYDAY: usize = 40;
/// So many at a time: most of a trial is waiting.
const AT_ONCE: usize = 20;

/// A grandchild in a session of its own, orphaned, deaf to TERM, and in another directory; the agent waits beside it.
fn stubborn(stage: &Stage, dir: &Path) -> RunSpec {
    let mut spec = stage.spec("");
    let mark = dir.join(spec.spawn.run.as_str());
    let deaf = "trap '' TERM HUP INT; cd /; echo > \"$0\"; while :; do sleep 0.3; done";
    let script = format!("(setsid sh -c \"$1\" '{}' &) ; sleep 1000", mark.display());
    spec.argv = ["sh", "-c", &script, "agent", deaf].map(str::to_owned).to_vec();
    spec
}

/// Stops that many at once, and returns how long the slowest took.
async fn stop_some(count: usize) -> Duration {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let specs: Vec<RunSpec> = (0..count).map(|_| stubborn(&stage, dir.path())).collect();
    specs.iter().for_each(|spec| stage.start(spec));
    for spec in &specs {
        let mark = dir.path().join(spec.spawn.run.as_str());
        wait_until("the grandchild is there", || mark.exists()).await;
    }
    let from = Instant::now();
    for spec in &specs {
        stage.executor.cancel(&spec.spawn.run, "enough", Duration::from_secs(1)).unwrap();
    }
    for _ in &specs {
        assert_eq!(stage.end().await.outcome, Outcome::Stopped { why: "enough".to_owned() });
    }
    let took = from.elapsed();
    for spec in &specs {
        assert_eq!(carrying(spec), [""; 0], "a survivor");
        assert_eq!(stage.json(spec, "exit.json")["survivors"], 0);
    }
    took
}

// covers: SU-03
#[tokio::test]
async fn no_stop_leaves_a_survivor() {
    let trials = std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok());
    let mut left: usize = trials.unwrap_or(EVERYDAY);
    while left > 0 {
        let count = left.min(AT_ONCE);
        let took = stop_some(count).await;
        assert!(took < Duration::from_secs(10), "{count} stops took {took:?}");
        left -= count;
    }
}
