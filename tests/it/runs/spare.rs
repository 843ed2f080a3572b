//! A run under the shim that waited for it is like any other, and a spare ends with its daemon.

use super::stage::{SHIM, Stage, exists, wait_until};
use agency::run::Spares;
use std::path::Path;
use tempfile::tempdir;

/// Says its parent's command line, its session, and its environment.
const SAY: &str = r#"tr '\0' ' ' < /proc/$PPID/cmdline; echo; echo "parent $PPID"; exec env"#;

/// Runs until one of them had the spare; the first one has none.
async fn with_the_spare(stage: &mut Stage) -> (agency::run::RunSpec, String) {
    for _ in 0..200 {
        let mut spec = stage.spec(SAY);
        spec.env.push(("OPENAI_API_KEY".to_owned(), "s3cret".to_owned()));
        stage.play(&spec).await;
        let said = stage.stdout(&spec);
        if said.lines().next().is_some_and(|line| line.ends_with(" shim - ")) {
            return (spec, said);
        }
    }
    panic!("no run had a spare");
}

// covers: SU-01, SU-02
#[tokio::test]
async fn a_run_under_a_spare_sees_exactly_its_own_environment() {
    let dir = tempdir().unwrap();
    let spares = Spares::default();
    let mut stage =
        Stage::with(dir.path(), Path::new(SHIM), |executor| executor.spares(spares.clone()));
    let (spec, said) = with_the_spare(&mut stage).await;
    let mut wanted: Vec<String> =
        spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    wanted.push(format!("AGENCY_RUN={}", spec.spawn.run));
    wanted.push(format!("AGENCY_REPO={}", spec.repo.display()));
    let ours =
        |line: &&str| !["PWD=", "SHLVL=", "_=", "OLDPWD="].iter().any(|own| line.starts_with(own));
    let mut seen: Vec<&str> = said.lines().skip(2).filter(ours).collect();
    seen.sort_unstable();
    wanted.sort();
    assert_eq!(seen, wanted);
    let shim = stage.shim_pid(&spec);
    assert!(said.contains(&format!("parent {shim}\n")), "{said}");
    wait_until("the shim is collected", || !exists(shim)).await;
    assert_eq!(stage.json(&spec, "exit.json")["how"]["exited"], 0);
}
