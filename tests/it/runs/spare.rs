//! A run under the shim that waited for it is like any other, and a spare ends with its daemon.

use super::stage::{SHIM, Stage, exists, wait_until};
use agency::run::{Executor as _, RunSpec, Spares};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// Says its parent's command line, its session, and its environment.
const SAY: &str = r#"tr '\0' ' ' < /proc/$PPID/cmdline; echo; echo "parent $PPID"; exec env"#;

/// Runs until one of them had the spare; the first one has none.
async fn with_the_spare(stage: &mut Stage) -> (RunSpec, String) {
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

// covers: SU-02
#[tokio::test]
async fn a_spare_that_is_told_to_end_keeps_no_run() {
    let (input, mut orders) = std::io::pipe().unwrap();
    let mut spare = std::process::Command::new(SHIM)
        .args(["shim", "-"])
        .stdin(input)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let pid = i32::try_from(spare.id()).unwrap();
    let catches_the_signal = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & (1 << (Signal::SIGTERM as i32 - 1)) != 0)
    };
    wait_until("the spare listens", catches_the_signal).await;
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    wait_until("the spare has ended", || spare.try_wait().unwrap().is_some()).await;
    let order = br#"{"folder":"/nowhere","env":[]}"#;
    assert!(orders.write_all(order).is_err(), "nobody takes an order any more");
}

/// The folder that waits for the next run.
fn ahead(stage: &Stage, spec: &RunSpec) -> PathBuf {
    stage.folder(spec).path().with_file_name(".next")
}

// covers: SU-02
#[tokio::test]
async fn the_folder_of_the_next_run_is_made_ahead_and_becomes_its() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let first = stage.spec("true");
    stage.play(&first).await;
    let ahead = ahead(&stage, &first);
    wait_until("the next folder waits", || ahead.join("alive").exists()).await;
    std::fs::write(ahead.join("mark"), "").unwrap();
    assert_eq!(stage.executor.adopt().unwrap().len(), 1, "what waits is no run");
    let second = stage.spec("echo hello");
    stage.play(&second).await;
    let folder = stage.folder(&second);
    assert!(folder.path().join("mark").exists(), "it is the one that waited");
    assert_eq!(stage.stdout(&second), "hello\n");
    let left = std::fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().ends_with(".tmp")).collect();
    assert!(left.is_empty(), "nothing that waited is left over: {left:?}");
}

// covers: SU-02
#[tokio::test]
async fn what_was_put_in_place_of_the_next_folder_is_not_used() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("echo hello");
    let (ahead, other) = (ahead(&stage, &spec), dir.path().join("other"));
    std::fs::create_dir_all(ahead.parent().unwrap()).unwrap();
    std::fs::create_dir(&other).unwrap();
    std::os::unix::fs::symlink(&other, &ahead).unwrap();
    stage.play(&spec).await;
    assert_eq!(stage.stdout(&spec), "hello\n");
    assert!(!stage.folder(&spec).path().is_symlink());
}
