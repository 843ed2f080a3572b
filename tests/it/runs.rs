//! Runs with real shims and real processes: how they end, what is kept of them, what they see. Restarts are in `recovery`.

mod listening;
mod recovery;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod shim_kills;
mod spare;
pub(crate) mod stage;
mod trials;

use agency::model::Outcome;
use agency::run::{CancelOutcome, Executor, Limits, history};
use stage::{Stage, carrying, exists, wait_until};
use std::time::{Duration, Instant};
use tempfile::tempdir;

/// In a session of its own, deaf to TERM, orphaned at once, and it keeps the pipes open. It tells that it is there.
const DEAF_ORPHAN: &str = r#"(setsid sh -c 'trap "" TERM; echo > deaf; while :; do sleep 0.2; done' &)
    while [ ! -e deaf ]; do sleep 0.02; done;"#;

#[tokio::test]
async fn ends_are_told_apart() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let crash = |how: &str| Outcome::Crash { how: how.to_owned() };
    assert_eq!(stage.outcome_of("echo fine").await, Outcome::Ok);
    assert_eq!(stage.outcome_of("exit 3").await, crash("exited with 3"));
    assert_eq!(stage.outcome_of("kill -9 $$").await, crash("killed by SIGKILL"));
}

#[tokio::test]
async fn the_record_says_what_it_took_and_the_tail_what_was_said() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("echo out; echo err >&2; exit 3");
    stage.start(&spec);
    stage.started().await;
    let end = stage.end().await;
    assert_eq!(end.tail, "out\nerr\n");
    let record = stage.json(&spec, "exit.json");
    assert_eq!(record["how"]["exited"], 3);
    assert_eq!(record["survivors"], 0);
    assert!(record["peak_rss_kb"].as_u64().unwrap() > 100, "{record}");
    assert!(record["wall_ms"].as_u64().unwrap() < 20_000, "{record}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_not_found() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec = stage.spec("");
    spec.argv = vec!["/nowhere/agent".to_owned()];
    let outcome = stage.play(&spec).await.outcome;
    let Outcome::NotFound { program, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(program, "/nowhere/agent");
}

// covers: SU-01
#[tokio::test]
async fn the_child_sees_exactly_the_listed_environment() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec = stage.spec("");
    spec.argv = vec!["env".to_owned()];
    spec.env.push(("OPENAI_API_KEY".to_owned(), "s3cret".to_owned()));
    stage.play(&spec).await;
    let mut wanted: Vec<String> =
        spec.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    wanted.push(format!("AGENCY_RUN={}", spec.spawn.run));
    wanted.push(format!("AGENCY_REPO={}", spec.repo.display()));
    wanted.sort();
    let stdout = stage.stdout(&spec);
    let mut seen: Vec<&str> = stdout.lines().collect();
    seen.sort_unstable();
    assert_eq!(seen, wanted);
    assert_eq!(stage.json(&spec, "run.json")["env"][1], "OPENAI_API_KEY");
}

// covers: SE-03
#[tokio::test]
async fn no_value_of_the_environment_is_written_down() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec = stage.spec("echo done");
    spec.env.push(("OPENAI_API_KEY".to_owned(), "s3cret".to_owned()));
    stage.play(&spec).await;
    for entry in std::fs::read_dir(stage.folder(&spec).path()).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read(&path).unwrap();
        assert!(!String::from_utf8_lossy(&text).contains("s3cret"), "{}", path.display());
    }
}

// covers: SU-01
#[tokio::test]
async fn stdin_is_null_and_group_session_and_directory_are_its_own() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("readlink /proc/self/fd/0; pwd; cut -d' ' -f1,5,6 /proc/$$/stat");
    stage.play(&spec).await;
    let stdout = stage.stdout(&spec);
    let lines: Vec<&str> = stdout.lines().collect();
    let [stdin, directory, ids] = lines[..] else { panic!("{stdout}") };
    assert_eq!((stdin, directory), ("/dev/null", dir.path().to_str().unwrap()));
    let ids: Vec<i32> = ids.split(' ').map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids[0], ids[1], "it leads its process group");
    assert_eq!(ids[2], stage.shim_pid(&spec), "the shim leads the session");
}

// covers: SU-04
#[tokio::test]
async fn a_flood_of_output_stays_within_its_bound() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec = stage.spec("head -c 200000000 /dev/zero; echo the end; echo err >&2");
    spec.limits.log_bytes = 1024 * 1024;
    assert_eq!(stage.play(&spec).await.outcome, Outcome::Ok);
    let entries = std::fs::read_dir(stage.folder(&spec).path()).unwrap();
    let size: u64 = entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!((200_000..1_100_000).contains(&size), "{size} bytes kept");
    assert!(stage.stdout(&spec).ends_with("the end\n"));
}

#[tokio::test]
async fn output_that_cannot_be_kept_does_not_end_the_run() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("echo lost; sleep 0.1; echo kept >&2");
    let folder = stage.folder(&spec);
    std::fs::create_dir_all(folder.path()).unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.stdout()).unwrap();
    let end = stage.play(&spec).await;
    assert_eq!((end.outcome, end.tail.as_str()), (Outcome::Ok, "kept\n"));
    let note = stage.json(&spec, "exit.json")["notes"][0].to_string();
    assert!(note.contains("5 bytes of") && note.contains("No space left"), "{note}");
}

// covers: SU-04
#[tokio::test]
async fn each_limit_ends_a_run_and_is_named() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let off = Limits { first_output_s: None, silence_s: None, wall_s: None, ..Limits::default() };
    let endless = "while :; do echo x; sleep 0.1; done";
    let cases = [
        ("first-output", "sleep 60", Limits { first_output_s: Some(1), ..off.clone() }),
        ("silence", "echo once; sleep 60", Limits { silence_s: Some(1), ..off.clone() }),
        ("wall-clock", endless, Limits { wall_s: Some(1), silence_s: Some(1), ..off }),
    ];
    for (limit, script, limits) in cases {
        let mut spec = stage.spec(script);
        spec.limits = limits;
        let from = Instant::now();
        let outcome = stage.play(&spec).await.outcome;
        assert_eq!(outcome, Outcome::Timeout { limit: limit.to_owned() }, "{script}");
        assert!(from.elapsed() >= Duration::from_secs(1), "{limit} came too early");
    }
}

// covers: SU-03
#[tokio::test]
async fn a_stop_ends_the_deaf_orphan_in_another_session_too() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec(&format!("{DEAF_ORPHAN} sleep 60"));
    stage.start(&spec);
    stage.started().await;
    wait_until("the orphan is there", || dir.path().join("deaf").exists()).await;
    let from = Instant::now();
    let asked = stage.executor.cancel(&spec.spawn.run, "enough", Duration::from_secs(1)).unwrap();
    assert_eq!(asked, CancelOutcome::Asked);
    assert_eq!(stage.end().await.outcome, Outcome::Stopped { why: "enough".to_owned() });
    assert_eq!(carrying(&spec), [""; 0]);
    assert!(from.elapsed() < Duration::from_secs(10), "{:?}", from.elapsed());
}

// covers: SU-03
#[tokio::test]
async fn an_exit_ends_the_deaf_orphan_too() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec(&format!("{DEAF_ORPHAN} echo bye"));
    assert_eq!(stage.play(&spec).await.outcome, Outcome::Ok);
    assert_eq!(carrying(&spec), [""; 0]);
    assert!(stage.stdout(&spec).contains("bye"));
}

/// Each process lives for an instant and leaves a successor in a new session: no list of them is ever complete.
// covers: SU-03
#[tokio::test]
async fn chains_of_forks_cannot_outrun_the_kill() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let hop = "trap '' TERM; echo > hopped; setsid sh ./hop.sh &\n";
    std::fs::write(dir.path().join("hop.sh"), hop).unwrap();
    let spec = stage.spec("for chain in 1 2 3 4; do sh ./hop.sh; done; sleep 60");
    stage.start(&spec);
    stage.started().await;
    wait_until("it hops", || dir.path().join("hopped").exists()).await;
    stage.executor.cancel(&spec.spawn.run, "enough", Duration::ZERO).unwrap();
    stage.end().await;
    assert_eq!(carrying(&spec), [""; 0]);
    assert_eq!(stage.json(&spec, "exit.json")["survivors"], 0);
}

#[tokio::test]
async fn an_orphan_that_holds_the_pipes_does_not_delay_the_end() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let mut spec = stage.spec("sleep 60 & echo done");
    spec.limits.grace_s = 30;
    let from = Instant::now();
    let end = stage.play(&spec).await;
    assert_eq!((end.outcome, end.tail.as_str()), (Outcome::Ok, "done\n"));
    assert!(from.elapsed() < Duration::from_secs(10), "{:?}", from.elapsed());
}

/// Some agents exit with 0 when they are told to end.
#[tokio::test]
async fn a_stopped_run_is_no_success_whatever_its_code() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("trap 'exit 0' TERM; echo > ready; while :; do sleep 0.05; done");
    stage.start(&spec);
    wait_until("the trap is set", || dir.path().join("ready").exists()).await;
    stage.executor.cancel(&spec.spawn.run, "your turn is over", Duration::from_secs(5)).unwrap();
    let why = "your turn is over".to_owned();
    assert_eq!(stage.end().await.outcome, Outcome::Stopped { why });
    assert_eq!(stage.json(&spec, "exit.json")["code"], 0);
    let again = stage.executor.cancel(&spec.spawn.run, "again", Duration::ZERO).unwrap();
    assert_eq!(again, CancelOutcome::AlreadyEnded);
}

#[tokio::test]
async fn no_zombie_is_left() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let spec = stage.spec("true");
    stage.play(&spec).await;
    let shim = stage.shim_pid(&spec);
    wait_until("the shim is collected", || !exists(shim)).await;
}

#[tokio::test]
async fn the_list_of_runs_has_the_pinned_shape() {
    let dir = tempdir().unwrap();
    let mut stage = Stage::new(dir.path());
    let ended = stage.spec("echo x; exit 1");
    stage.play(&ended).await;
    let running = stage.spec("sleep 60");
    stage.start(&running);
    stage.started().await;
    std::fs::create_dir(dir.path().join("runs/half-made")).unwrap();
    let list = serde_json::to_value(history::list(&dir.path().join("runs"))).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
    assert_eq!(list[0]["id"], ended.spawn.run.as_str());
    assert_eq!((&list[0]["state"], &list[0]["outcome"]), (&"ended".into(), &"crash".into()));
    assert!(list[0]["pid"].is_null() && list[0]["last_output_at"].is_string());
    let child = &stage.json(&running, "alive")["child"]["pid"];
    assert_eq!((&list[1]["state"], &list[1]["pid"]), (&"running".into(), child));
    assert!(list[1]["outcome"].is_null() && list[1]["ended_at"].is_null());
    assert_eq!((&list[1]["agent"], &list[1]["role"]), (&"codex".into(), &"builder".into()));
    stage.executor.cancel(&running.spawn.run, "done", Duration::ZERO).unwrap();
    stage.end().await;
}
