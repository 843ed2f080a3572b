//! What a question to the ledger costs: `agency features next` on 500 features beside `python3` that starts up and reads the same
//! JSON, in turns in one run. Only the ratio means something. `cargo bench --bench ledger` prints it.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use serde_json::json;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 60;
const FEATURES: usize = 500;
/// The least that a script could do: no arguments, no checks, nothing printed.
const PYTHON: &str = "import json; json.load(open('feature_list.json'))";

fn main() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let features: Vec<_> = (1..=FEATURES).map(feature).collect();
    let list = json!({"project_name": "Shop", "total_features": FEATURES, "features": features});
    let text = serde_json::to_string_pretty(&list).expect("plain data");
    std::fs::write(dir.path().join("feature_list.json"), &text).expect("the folder is writable");
    let python = python();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(time(dir.path(), env!("CARGO_BIN_EXE_agency"), &["features", "next"]));
        theirs.push(time(dir.path(), &python, &["-c", PYTHON]));
    }
    let (ours, theirs) = (median(ours), median(theirs));
    println!("{FEATURES} features, {} bytes (medians of {ROUNDS}, in turns)\n", text.len());
    println!("  agency features next             {:>8.2} ms", ours.as_secs_f64() * 1e3);
    println!("  python3, import json, load       {:>8.2} ms", theirs.as_secs_f64() * 1e3);
    let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
    println!("  ratio                            {ratio:>8.1} ×  (goal: at least 8×)");
}

/// The interpreter itself: a version manager's wrapper would cost python more than it must.
fn python() -> String {
    let script = "import sys; print(sys.executable)";
    let output = Command::new("python3").args(["-c", script]).output().expect("python3 is there");
    String::from_utf8(output.stdout).expect("a path").trim().to_owned()
}

fn feature(number: usize) -> serde_json::Value {
    json!({
        "id": format!("F{number:03}"), "name": format!("Feature number {number}"),
        "description": "What it does for the people who use it, said in a sentence or two of ordinary length.",
        "priority": number % 5, "category": "api",
        "test_steps": ["Start the program", "Do the thing", "Look at the result"],
        // The worst case for a reader that could stop early.
        "passes": number < FEATURES,
    })
}

fn time(dir: &std::path::Path, program: &str, words: &[&str]) -> Duration {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.args(words).current_dir(dir).stdout(Stdio::null());
    assert!(command.status().expect("it starts").success(), "{program} fails");
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
