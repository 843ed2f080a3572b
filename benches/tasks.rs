//! What a large board costs: `agency status` and `agency task new` on 100,000 tasks, the same once the finished ones are
//! archived, and how fast documents are parsed. `cargo bench --bench tasks` prints it; `-- 1000` takes a smaller board.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use agency::model::RelPath;
use agency::protocol::board::names::{TaskId, Zone, task_path};
use agency::protocol::board::report;
use agency::protocol::board::scope::Scope;
use agency::protocol::board::table::Status;
use agency::protocol::board::task::{self, NewTask, Priority};
use nix::fcntl::{OFlag, openat};
#[cfg(target_os = "linux")]
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::stat::Mode;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{DirEntry, File};
use std::io::Read as _;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const AGENTS: [&str; 4] = ["claude-code", "codex", "gemini", "alice"];
const ROUNDS: usize = 15;
/// One in so many is not finished.
const ACTIVE: u64 = 20;
/// As `agency status` reads.
const READERS: usize = 16;
const AHEAD: usize = 32;

fn main() {
    let count = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let stage = Stage { dir: tempfile::tempdir().expect("a temporary folder") };
    stage.begin();
    let bytes = (1..=count).map(|number| write(&stage.repo(), number)).sum::<usize>();
    println!(
        "{count} tasks in {} folders, {} MB; medians of {ROUNDS}\n",
        folders(&stage.repo()),
        bytes >> 20
    );
    let cold = drop_caches();
    let how = if cold { "page cache emptied" } else { "the page cache could not be emptied" };
    line(
        &format!("the files only opened and read, {how}"),
        floor(&stage.repo()),
        "the disk's floor",
    );
    drop_caches();
    let first = stage.time(&["status"]);
    line(&format!("agency status, first call, {how}"), first, "goal: under 1 s");
    drop_caches();
    let again = stage.time(&["status"]);
    line(&format!("agency status, seen before, {how}"), again, "goal: under 1 s");
    let stranger = |round| stage.time_as(&format!("stranger-{round}"), &["status"]);
    line(
        "agency status, first call, files read before",
        median((0..5).map(stranger)),
        "goal: under 1 s",
    );
    line("agency status", median((0..ROUNDS).map(|_| stage.time(&["status"]))), "");
    let new = ["task", "new", "--title", "One more", "--assignee", "codex"];
    line("agency task new", median((0..ROUNDS).map(|_| stage.time(&new))), "goal: under 50 ms");
    line(
        "agency task show",
        median((0..ROUNDS).map(|_| stage.time(&["task", "show", "T0020"]))),
        "",
    );
    line(
        "agency task list --status BLOCKED",
        stage.time(&["task", "list", "--status", "BLOCKED"]),
        "",
    );
    line("agency archive --older-than 1", stage.time(&["archive", "--older-than", "1"]), "");
    println!("\n{} tasks are left in the inbox", count / ACTIVE);
    line("agency status", median((0..ROUNDS).map(|_| stage.time(&["status"]))), "");
    line("agency task new", median((0..ROUNDS).map(|_| stage.time(&new))), "");
    parse_rates();
}

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn repo(&self) -> std::path::PathBuf {
        self.dir.path().join("repo")
    }

    fn begin(&self) {
        std::fs::create_dir_all(self.repo()).expect("the folder is writable");
        let git = Command::new("git").args(["init", "--quiet"]).current_dir(self.repo()).status();
        assert!(git.expect("git is there").success());
        self.time(&["init", "--builders", &AGENTS.join(","), "--timezone", "UTC"]);
    }

    fn time(&self, words: &[&str]) -> Duration {
        self.time_as("state", words)
    }

    /// With a state directory of this name: a new one remembers nothing.
    fn time_as(&self, state: &str, words: &[&str]) -> Duration {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agency"));
        command
            .args(words)
            .env("HOME", self.dir.path())
            .env("AGENCY_STATE_DIR", self.dir.path().join(state))
            .env_remove("AGENCY_CONFIG")
            .current_dir(self.repo())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let begun = Instant::now();
        assert!(command.status().expect("it starts").success(), "{words:?} fails");
        begun.elapsed()
    }
}

fn render(number: u64) -> (RelPath, String) {
    let id = TaskId::sequential(number);
    // A hundred to a folder, a few folders a day, ending long before today.
    let day = i64::try_from(number / 400).expect("few enough");
    let at = "2020-01-01T09:30:00Z".parse::<chrono::DateTime<chrono::Utc>>().expect("a time");
    let at = at + chrono::TimeDelta::days(day);
    let agent = AGENTS[usize::try_from(number % 4).expect("less than four")];
    let status = match (number % ACTIVE, number % 3) {
        (0, 0) => Status::New,
        (0, 1) => Status::Blocked,
        (0, _) => Status::InProgress,
        _ => Status::Done,
    };
    let task = NewTask {
        title: format!("Fix the rounding of totals, case {number}"),
        priority: Priority::P2,
        assignee: agent.to_owned(),
        person: false,
        status,
        dod_profile: "auto".to_owned(),
        scope: Scope {
            must_touch: vec!["src/accounting/**".to_owned()],
            may_touch: vec!["tests/**".to_owned()],
            must_not_touch: vec!["db/migrations/**".to_owned()],
        },
        labels: vec!["bug".to_owned(), "accounting".to_owned()],
        depends_on: Vec::new(),
        context_files: vec!["src/accounting/totals.ts".to_owned()],
        acceptance: vec!["Totals match the fixtures".to_owned(), "No regression".to_owned()],
        constraints: vec!["No schema changes".to_owned()],
        risks: Vec::new(),
        refs: vec![("jira".to_owned(), format!("PROJ-{number}"))],
        parent: None,
        problem:
            "The totals of some invoices are off by a cent, which nobody can explain to a customer."
                .to_owned(),
        notes: String::new(),
    };
    let path = task_path(agent, &id, &task.title, Zone::UTC, at);
    (path, task.render(&id, &Zone::UTC.stamp(at)))
}

fn write(repo: &Path, number: u64) -> usize {
    let (path, text) = render(number);
    let at = repo.join(path.as_str());
    let folder = at.parent().expect("a path in a folder");
    if !folder.is_dir() {
        std::fs::create_dir_all(folder).expect("the folder is writable");
    }
    std::fs::write(&at, &text).expect("the folder is writable");
    text.len()
}

fn folders(repo: &Path) -> usize {
    below(&repo.join(".kodingx/inbox")).iter().map(|agent| below(agent).len()).sum()
}

fn below(dir: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// As long as it takes to list the folders and to read the first KiB of each file, as `agency status` does: some way ahead, and
/// in the order of their inodes.
fn floor(repo: &Path) -> Duration {
    let begun = Instant::now();
    let mut days: Vec<PathBuf> =
        below(&repo.join(".kodingx/inbox")).iter().flat_map(|agent| below(agent)).collect();
    days.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                while let Some(day) = days.get(next.fetch_add(1, Ordering::Relaxed)) {
                    read_day(day);
                }
            });
        }
    });
    begun.elapsed()
}

fn read_day(day: &Path) {
    let mut files: Vec<DirEntry> =
        std::fs::read_dir(day).expect("it is there").map(|entry| entry.expect("one")).collect();
    files.sort_unstable_by_key(DirEntryExt::ino);
    let dir = File::open(day).expect("it is there");
    let mut ahead = VecDeque::new();
    for entry in files {
        if ahead.len() == AHEAD {
            ahead.pop_front().into_iter().for_each(read_head);
        }
        ahead.push_back(open(&dir, &entry.file_name()));
    }
    ahead.into_iter().for_each(read_head);
}

fn open(dir: &File, name: &OsStr) -> File {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    #[cfg(target_os = "linux")]
    let flags = flags | OFlag::O_NOATIME;
    let file = File::from(openat(dir, name, flags, Mode::empty()).expect("it opens"));
    #[cfg(target_os = "linux")]
    posix_fadvise(&file, 0, 1024, PosixFadviseAdvice::POSIX_FADV_WILLNEED).expect("a file");
    file
}

fn read_head(mut file: File) {
    let count = file.read(&mut [0; 1024]).expect("it can be read");
    assert!(count > 0, "it says something");
}

/// Only root may; without it the figures are of a warm cache.
fn drop_caches() -> bool {
    let synced = Command::new("sync").status().is_ok_and(|status| status.success());
    synced && std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

fn parse_rates() {
    println!();
    let tasks: Vec<(RelPath, String)> = (1..=2000).map(render).collect();
    let size: usize = tasks.iter().map(|(_, text)| text.len()).sum();
    rate("task files parsed and checked", size, || {
        tasks
            .iter()
            .for_each(|(path, text)| drop(task::parse(text.as_bytes(), path).expect("valid")));
    });
    let path =
        RelPath::fixed(".kodingx/outbox/claude-code/2026-01-31/T0007-1610-fix-vat-report.md");
    let text = include_str!("../tests/spec/board-report.md");
    rate("report files parsed and checked", text.len() * 2000, || {
        (0..2000).for_each(|_| drop(report::parse(text.as_bytes(), &path).expect("valid")));
    });
}

fn rate(what: &str, bytes: usize, work: impl Fn()) {
    let times = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    });
    let took = median(times).as_secs_f64();
    println!("  {what:<62} {:>9.1} MB/s", bytes as f64 / took / 1e6);
}

fn line(what: &str, took: Duration, goal: &str) {
    println!("  {what:<62} {:>9.1} ms   {goal}", took.as_secs_f64() * 1e3);
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}
