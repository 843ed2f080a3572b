//! What a report costs on a small and on a very large board, side by side in one run: from the builder's close of its report to the
//! auditor's first instruction. Machines are noisy, so only the ratio means something. `cargo bench --bench board` prints it; a
//! number after `--` is the size of the large board. `-- queue 2000` queues so many tasks at four places and compares the rate of
//! the first quarter with that of the last, and prints what the journal takes per task.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const AGENT: &str = "--agent";
const QUEUE: &str = "queue";
const SMALL: usize = 10;
const LARGE: usize = 100_000;
const ROUNDS: usize = 4;
/// In each round; the first of them warms all caches.
const TASKS: usize = 6;
const DAY: &str = "2026-01-01";
/// An agent works for minutes. One that ended at once would have its successor wait for what its own start left to do.
const LIFE: Duration = Duration::from_millis(300);

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    if word == AGENT {
        return act();
    }
    if word == QUEUE {
        let tasks = std::env::args().nth(2).and_then(|word| word.parse().ok());
        return queue(tasks.unwrap_or(2_000));
    }
    let large = word.parse().unwrap_or(LARGE);
    println!(
        "From the builder's close of its report to the auditor's first instruction (medians)\n"
    );
    let (few, many) = in_turns(SMALL, large);
    let (few, many) = (line(SMALL, few), line(large, many));
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    println!("\n  {:<24} {ratio:>9.2} ×  (goal: at most 1.2×)", "ratio");
}

fn line(tasks: usize, time: Duration) -> Duration {
    println!("  {:<24} {:>9.2} ms", format!("{tasks} other tasks"), time.as_secs_f64() * 1e3);
    time
}

/// All tasks are there from the beginning. Four agents work at a time; each task is built, audited, verified and merged.
fn queue(tasks: usize) {
    let stage = Stage::new();
    let text = std::fs::read_to_string(stage.at("agency.yaml")).expect("it was just written");
    let limits = "limits: { parallel: 4, per_repo: 4, per_agent: 4 }\n";
    std::fs::write(stage.at("agency.yaml"), text + limits).expect("a temporary folder is writable");
    let stage = board_at(stage, 0);
    for id in 1..=tasks {
        let path = format!(".kodingx/inbox/claude-code/{DAY}/T{id:04}-0900-now.md");
        stage.write(&path, &task(id, "claude-code", "NEW", None));
    }
    let begun = clock();
    stage.agency(&["run", "--once"]);
    let whole = Duration::from_nanos((clock() - begun) as u64);
    let text = std::fs::read_to_string(stage.notes()).expect("the agents have written");
    let mut ends: Vec<u128> = text
        .lines()
        .filter(|line| line.starts_with("builder "))
        .map(|line| line.rsplit(' ').next().and_then(|end| end.parse().ok()).expect("a time"))
        .collect();
    ends.sort_unstable();
    assert_eq!(ends.len(), tasks, "every task was built once");
    let quarter = tasks / 4;
    let rate = |from: u128, to: u128| quarter as f64 / ((to - from) as f64 / 1e9);
    let first = rate(begun, ends[quarter - 1]);
    let last = rate(ends[tasks - quarter - 1], ends[tasks - 1]);
    println!("{tasks} tasks at 4 places: {:.0} s", whole.as_secs_f64());
    println!("  first quarter {first:>8.2} tasks/s\n  last quarter  {last:>8.2} tasks/s");
    println!("  ratio         {:>8.2} ×  (goal: at most 1.3×)", first / last);
    let bytes = folder_size(&stage.at("state"), "journal");
    println!("  journal       {:>8} bytes per task, {bytes} in all", bytes / tasks as u64);
}

/// Of the files in folders of this name, below `dir`.
fn folder_size(dir: &Path, name: &str) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |path: PathBuf| {
        if path.file_name().is_some_and(|found| found == name) {
            let files = std::fs::read_dir(&path).into_iter().flatten().flatten();
            files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
        } else if path.is_dir() {
            folder_size(&path, name)
        } else {
            0
        }
    };
    entries.map(|entry| size(entry.path())).sum()
}

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let stage = Self { dir };
        std::fs::create_dir_all(stage.at("home")).expect("a temporary folder is writable");
        let program = std::env::current_exe().expect("a running program has a path");
        let command = format!("[{}, {AGENT}, {}]", program.display(), stage.notes().display());
        let agent = format!("{{ command: {command}, retries: 0 }}");
        std::fs::write(stage.notes(), "").expect("a temporary folder is writable");
        let notes = stage.notes();
        let text = format!(
            "agents:\n  claude-code: {agent}\n  gemini: {agent}\nboard: {{ auditor: gemini, disk_floor: 1MiB }}\n\
             sandbox: {{ write: [\"{}\"] }}\n",
            notes.display()
        );
        std::fs::write(stage.at("agency.yaml"), text).expect("a temporary folder is writable");
        stage
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn notes(&self) -> PathBuf {
        self.at("notes")
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.at("repo").join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(&path)).expect("a folder is writable");
        std::fs::write(path, text).expect("a temporary folder is writable");
    }

    fn git(&self, words: &[&str]) {
        let names =
            ["-c", "user.name=Owner", "-c", "user.email=owner@example.com", "-c", "gc.auto=0"];
        let status =
            Command::new("git").args(names).args(words).current_dir(self.at("repo")).status();
        assert!(status.is_ok_and(|status| status.success()), "git {words:?}");
    }

    fn agency(&self, words: &[&str]) {
        let status = Command::new(env!("CARGO_BIN_EXE_agency"))
            .args(words)
            .current_dir(self.at("repo"))
            .env("HOME", self.at("home"))
            .env("AGENCY_STATE_DIR", self.at("state"))
            .env("AGENCY_CONFIG", self.at("agency.yaml"))
            .env("AGENCY_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "agency {words:?}");
    }
}

/// Both boards in turns, so that whatever else the machine does hits the one as it hits the other.
fn in_turns(small: usize, large: usize) -> (Duration, Duration) {
    let stages = [small, large].map(board);
    for round in 0..ROUNDS {
        stages.iter().for_each(|stage| play(stage, round));
    }
    let [few, many] = stages.map(|stage| median(&times(&stage.notes())));
    (few, many)
}

fn board(others: usize) -> Stage {
    board_at(Stage::new(), others)
}

fn board_at(stage: Stage, others: usize) -> Stage {
    let profile = "name: tiny\ndescription: one check\ncommands:\n  - \"true\"\n";
    stage.write("README.md", "a shop\n");
    stage.write(".kodingx/dod/profiles/tiny.yml", profile);
    // Work of years: done, by others, and known to the board from its beginning.
    for number in 0..others {
        let day = format!("2025-{:02}-{:02}", 1 + number / 28 % 12, 1 + number % 28);
        let id = 1000 + number;
        let path = format!(".kodingx/inbox/someone/{day}/T{id:04}-0900-done-long-ago.md");
        stage.write(&path, &task(id, "someone", "DONE", None));
    }
    stage.git(&["init", "--quiet", "--initial-branch=main"]);
    let who = ["--orchestrator", "other", "--builders", "claude-code", "--timezone", "UTC"];
    stage.agency(&[&["init"][..], &who].concat());
    stage.git(&["add", "README.md", ".kodingx/agency.json", ".kodingx/dod"]);
    stage.git(&["commit", "--quiet", "-m", "a board"]);
    stage
}

/// Tasks that are built, audited and merged one after the other.
fn play(stage: &Stage, round: usize) {
    for number in 1..=TASKS {
        let id = round * TASKS + number;
        let path = format!(".kodingx/inbox/claude-code/{DAY}/T{id:04}-0900-now.md");
        let before = (number > 1).then(|| id - 1);
        stage.write(&path, &task(id, "claude-code", "NEW", before));
    }
    stage.agency(&["run", "--once"]);
}

fn task(id: usize, assignee: &str, status: &str, before: Option<usize>) -> String {
    let before = before.map(|id| format!("T{id:04}")).unwrap_or_default();
    format!(
        "---\nid: T{id:04}\ntitle: A task of ordinary length\npriority: P2\nstatus: {status}\nassignee: {assignee}\n\
         created_at: 2026-01-01T09:00:00Z\ndod_profile: tiny\nscope:\n  must_touch: []\n  may_touch: [\"src/**\"]\n  \
         must_not_touch: []\ndepends_on: [{before}]\nacceptance: [\"it works\", \"it is tested\"]\n---\n\n## Problem\n\
         What is to be done, in a paragraph that is as long as people write them, so that a file has its usual size.\n"
    )
}

/// For each task: when its report was closed, and when its auditor began.
fn times(notes: &Path) -> Vec<Duration> {
    let text = std::fs::read_to_string(notes).expect("the agents have written");
    let mut closed: BTreeMap<&str, u128> = BTreeMap::new();
    let mut times = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [role, task, begun, end] = words[..] else { panic!("four words: {line}") };
        let number = |word: &str| word.parse::<u128>().expect("a number");
        match role {
            "builder" => drop(closed.insert(task, number(end))),
            _ => times.push(number(begun) - closed[task]),
        }
    }
    assert_eq!(times.len(), ROUNDS * TASKS, "every task was audited once");
    let warm = times.into_iter().enumerate().filter(|(at, _)| at % TASKS > 0);
    warm.map(|(_, time)| Duration::from_nanos(time as u64)).collect()
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Nanoseconds on a clock that all processes share.
fn clock() -> u128 {
    let clock = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .expect("every Linux has this clock");
    Duration::from(clock).as_nanos()
}

/// The builder and the auditor: each notes its first instruction, writes its answer, notes the close, exits.
fn act() {
    let begun = clock();
    let notes = std::env::args().nth(2).expect("the notes' path is the second argument");
    let told = |name: &str| std::env::var(name).expect("the daemon tells every agent");
    let (role, agent, task) = (told("AGENCY_ROLE"), told("AGENCY_AGENT"), told("AGENCY_TASK"));
    std::thread::sleep(LIFE);
    let (ending, fields) = if role == "auditor" {
        ("audit", "verdict: PASS\nfindings: []\n".to_owned())
    } else {
        std::fs::create_dir_all("src").expect("the tree is writable");
        std::fs::write(format!("src/{task}.txt"), &task).expect("the tree is writable");
        let at = "2026-01-01T09:00:00Z";
        let fields = format!(
            "status: READY_FOR_REVIEW\nstarted_at: {at}\nfinished_at: {at}\nchanges:\n  files_modified: []\ncommands_run: []\n\
             verification:\n  dod_passed: true\nrisks: []\n"
        );
        ("report", fields)
    };
    let folder = format!(".kodingx/outbox/{agent}/{DAY}");
    std::fs::create_dir_all(&folder).expect("the tree is writable");
    let text = format!("---\ntask_id: {task}\nagent: {agent}\n{fields}---\n\n## Summary\nDone.\n");
    let path = format!("{folder}/{task}-0900-now-{ending}.md");
    std::fs::write(path, text).expect("the tree is writable");
    let closed = clock();
    let file = std::fs::OpenOptions::new().create(true).append(true).open(notes);
    let line = format!("{role} {task} {begun} {closed}\n");
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the notes are writable");
}
