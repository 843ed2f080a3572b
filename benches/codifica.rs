//! What Codifica costs: a claim in a large state file against reading it, and validating a very large one (issue 8).
//! Ratios within one run, so that a slow machine says the same as a fast one.

use agency::model::RelPath;
use agency::protocol::codifica::{Action, Actor, Board, Config, Stamp, act, validate};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONFIG: &str = r#"{"protocol":"codifica","version":"0.2","spec":"s.md","state":"work.md"}"#;

fn state_file(tasks: usize) -> Vec<u8> {
    let mut text = String::from("# Work\n\n```yaml\n");
    for n in 0..tasks {
        write!(
            text,
            "- id: FEAT-{n}\n  type: build\n  state: {}\n  owner: {}\n  title: The task with number {n}, which has a title\n  \
             description: |\n    What is to be done, in a paragraph that is as long as people write them.\n    It goes on for a second line, \
             so that a task has about seven hundred bytes.\n  priority: normal\n  depends_on:\n    - FEAT-{}\n  labels: [search, ui]\n  \
             acceptance:\n    - The search finds every word of the text\n    - It answers within a tenth of a second\n  claimed_at: 2026-01-01T00:00:00Z\n  \
             execution_notes:\n    - by: agent:builder\n      note: The index is built and kept on disk\n      summary: index on disk\n      \
             timestamp: 2026-01-01T00:00:00Z\n\n",
            if n % 10 == 9 { "todo" } else { "done" },
            if n % 10 == 9 { "unassigned" } else { "agent:builder" },
            n.saturating_sub(n % 10).saturating_sub(1) / 10 * 10,
        )
        .expect("writing to a String cannot fail");
    }
    text.push_str("```\n");
    text.into_bytes()
}

fn read(config: &Arc<Config>, bytes: &[u8]) -> Board {
    Board::read(config, vec![(RelPath::fixed("work.md"), bytes.to_vec())])
}

/// The best of several, since others share the machine.
fn best(mut run: impl FnMut()) -> Duration {
    let once = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..7).map(|_| once(&mut run)).min().unwrap_or_default()
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn main() {
    let config = Arc::new(Config::read(CONFIG.as_bytes()).expect("the contract is valid"));
    let large = state_file(100_000);
    let start = Instant::now();
    let findings = {
        let board = Board::read(&config, vec![(RelPath::fixed("work.md"), large.clone())]);
        validate(&board).len()
    };
    let took = start.elapsed();
    let size = large.len() as f64 / 1e6;
    // The copy that the bench itself keeps is not the program's.
    let peak = peak_kib() as f64 / 1e3 - size;
    println!(
        "validate 100,000 tasks: {size:.1} MB in {:.2} s = {:.1} MB/s, peak {:.2} x the file (at most 5), {findings} findings",
        took.as_secs_f64(),
        size / took.as_secs_f64(),
        peak / size
    );
    drop(large);
    let file = state_file(10_000);
    let scan = best(|| drop(read(&config, &file)));
    let board = read(&config, &file);
    let stamp =
        Stamp { at: "2026-01-01T00:00:00Z".parse().expect("a time"), session: None, commit: None };
    let actor = Actor::Agent("builder".to_owned());
    let edit =
        best(|| drop(act(&board, "FEAT-5009", &actor, &Action::Claim, &stamp).expect("a claim")));
    println!(
        "claim in 10,000 tasks ({:.1} MB): scan {:.1} ms, claim on top of it {:.1} ms = {:.2} x the scan in all (at most 5)",
        file.len() as f64 / 1e6,
        scan.as_secs_f64() * 1e3,
        edit.as_secs_f64() * 1e3,
        (scan + edit).as_secs_f64() / scan.as_secs_f64()
    );
}
