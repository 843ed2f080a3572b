//! What supervision costs: from submit to the agent's first instruction beside a plain fork and exec in the same run, the
//! memory of a shim, what a sandbox adds to a start, and two hundred runs at once. Only the ratios mean something. `cargo bench --bench runs` prints them.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use agency::config::{Config, Env};
use agency::model::{Access, RunId, Seat, Spawn, TreeRef};
use agency::run::sandbox;
use agency::run::{Executor as _, Limits, LocalExecutor, RunSpec, Spares};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const ROUNDS: usize = 60;
const MANY: usize = 200;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.get(1).map(String::as_str) {
        Some("--first-instruction") => note_first_instruction(Path::new(&words[2])),
        _ => tokio::runtime::Runtime::new().expect("a runtime").block_on(measure()),
    }
}

/// The child of both measurements.
fn note_first_instruction(notes: &Path) {
    std::fs::write(notes, clock().to_string()).expect("the notes are writable");
}

async fn measure() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    println!("From submit to the first instruction (medians of {ROUNDS})\n");
    let plain = median((0..ROUNDS).map(|_| fork_and_exec(dir.path())).collect());
    println!("  fork and exec                    {:>8.2} ms", plain.as_secs_f64() * 1e3);
    for (what, spares) in [("a new shim", None), ("the shim that waits", Some(Spares::default()))] {
        let mut times = Vec::new();
        for round in 0..=ROUNDS {
            let name = format!("{}-{round}", what.len());
            times.push(submit(dir.path(), &name, spares.as_ref(), None).await);
        }
        // Nobody waits for the first run.
        let ours = median(times.split_off(1));
        let ratio = ours.as_secs_f64() / plain.as_secs_f64();
        println!(
            "  submit, {what:<24} {:>8.2} ms {ratio:>8.2} ×  (goal: at most 3×)",
            ours.as_secs_f64() * 1e3
        );
    }
    sandboxed(dir.path()).await;
    println!();
    two_hundred(dir.path()).await;
}

/// One run without a sandbox, one with, in turn, so that both meet the same machine.
async fn sandboxed(dir: &Path) {
    let spares = Spares::default();
    let plan = plan(dir);
    let (mut free, mut kept) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        free.push(submit(dir, &format!("free-{round}"), Some(&spares), None).await);
        kept.push(submit(dir, &format!("kept-{round}"), Some(&spares), plan.clone()).await);
    }
    let [free, kept] = [free, kept].map(|mut times| median(times.split_off(1)));
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "  without a sandbox                {:>8.2} ms\n  in a sandbox                     {:>8.2} ms {:>+8.2} ms  (goal: under 1 ms more)",
        ms(free),
        ms(kept),
        ms(kept) - ms(free)
    );
    if plan.is_none() {
        println!("  this kernel has no Landlock: both are the same");
    }
}

/// As the daemon would make it, for the home folder of whoever measures.
fn plan(dir: &Path) -> Option<sandbox::Plan> {
    let state = dir.join("runs");
    let ours = sandbox::Ours { state_dir: state.clone(), folder: state.clone() };
    let subject = sandbox::Subject {
        dir,
        agent: None,
        profile: None,
        access: Access::Write,
        folder: &state,
        env: &Env::of_this_process(),
    };
    sandbox::plan(&Config::default(), &ours, &subject)
}

fn fork_and_exec(dir: &Path) -> Duration {
    let notes = dir.join("plain");
    let begun = clock();
    let mut child =
        Command::new(own_path()).arg("--first-instruction").arg(&notes).spawn().expect("a child");
    child.wait().expect("a child ends");
    since(begun, &notes)
}

/// A run, and some time for the next spare to be ready, as between any two runs.
async fn submit(
    dir: &Path,
    name: &str,
    spares: Option<&Spares>,
    sandbox: Option<sandbox::Plan>,
) -> Duration {
    let (sender, mut events) = mpsc::unbounded_channel();
    let mut executor =
        LocalExecutor::new(dir.join("runs"), env!("CARGO_BIN_EXE_agency").into(), sender);
    if let Some(spares) = spares {
        executor = executor.spares(spares.clone());
    }
    let notes = dir.join("ours");
    let argv = vec![
        own_path().display().to_string(),
        "--first-instruction".to_owned(),
        notes.display().to_string(),
    ];
    let begun = clock();
    executor.submit(&RunSpec { sandbox, ..spec(dir, name, argv) }).expect("a run");
    while !matches!(events.recv().await.as_deref(), Some(agency::model::RunEvent::Ended(_))) {}
    tokio::time::sleep(Duration::from_millis(20)).await;
    since(begun, &notes)
}

async fn two_hundred(dir: &Path) {
    let (sender, mut events) = mpsc::unbounded_channel();
    let executor =
        LocalExecutor::new(dir.join("many"), env!("CARGO_BIN_EXE_agency").into(), sender);
    let begun = Instant::now();
    for number in 0..MANY {
        let argv = vec!["sleep".to_owned(), "60".to_owned()];
        executor.submit(&spec(dir, &format!("m{number}"), argv)).expect("a run");
    }
    let mut started = 0;
    while started < MANY {
        started += usize::from(matches!(
            events.recv().await.as_deref(),
            Some(agency::model::RunEvent::Started { .. })
        ));
    }
    println!("  {MANY} runs at once: all started after {:.2} s", begun.elapsed().as_secs_f64());
    let shims = shims(&dir.join("many"));
    let (pss, private) = shims.iter().fold((0, 0), |(pss, private), pid| {
        let (one, dirty) = memory_kib(*pid);
        (pss + one, private + dirty)
    });
    let each = |sum: u64| sum as f64 / 1024.0 / shims.len() as f64;
    println!(
        "  memory of a shim: {:.2} MiB its share, {:.2} MiB its own  (goal: under 3 MB)",
        each(pss),
        each(private)
    );
    for number in 0..MANY {
        executor
            .cancel(
                &RunId::new(format!("m{number}")),
                "the measurement is over",
                Duration::from_secs(1),
            )
            .expect("a stop");
    }
    let mut ended = 0;
    while ended < MANY {
        ended += usize::from(matches!(
            events.recv().await.as_deref(),
            Some(agency::model::RunEvent::Ended(_))
        ));
    }
    println!("  all ended after {:.2} s", begun.elapsed().as_secs_f64());
}

fn spec(dir: &Path, run: &str, argv: Vec<String>) -> RunSpec {
    RunSpec {
        spawn: Spawn {
            run: RunId::new(run),
            seat: Seat::new("codex"),
            role: "reviewer".to_owned(),
            tree: TreeRef::Main,
            task: "1".to_owned(),
            phase: "review".to_owned(),
            prompt: "do nothing".to_owned(),
            why: "a measurement".to_owned(),
            resume: None,
            command: None,
            access: Access::Write,
        },
        repo: dir.to_owned(),
        protocol: "loop".to_owned(),
        argv,
        dir: dir.to_owned(),
        stdin: Default::default(),
        env: std::env::vars().filter(|(name, _)| name == "PATH").collect(),
        limits: Limits::default(),
        profile: None,
        agent: Some("codex".to_owned()),
        model: None,
        price: None,
        prices: std::collections::BTreeMap::new(),
        sandbox: None,
    }
}

/// Processes of ours whose command line names this folder.
fn shims(runs: &Path) -> Vec<u32> {
    let mark = format!("\0shim\0{}", runs.display());
    let pids = std::fs::read_dir("/proc")
        .expect("a proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&mark)
    })
    .collect()
}

/// Proportional share and private part.
fn memory_kib(pid: u32) -> (u64, u64) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
    };
    (field("Pss:"), field("Private_Clean:") + field("Private_Dirty:"))
}

fn own_path() -> PathBuf {
    std::env::current_exe().expect("a running program has a path")
}

fn clock() -> u128 {
    let clock = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .expect("every Linux has this clock");
    Duration::from(clock).as_nanos()
}

fn since(begun: u128, notes: &Path) -> Duration {
    let text = std::fs::read_to_string(notes).expect("the child has written");
    Duration::from_nanos((text.parse::<u128>().expect("a number") - begun) as u64)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
