//! The agent of the benchmark: notes its first instruction, lives for a moment, writes the flag of its phase, notes the close,
//! exits.

use std::io::Write as _;
use std::time::Duration;

/// An agent works for minutes. One that ended at once would have its successor wait for what its own start left to do.
const LIFE: Duration = Duration::from_millis(60);

const MODE: &str = "--agent";

pub(crate) fn is_one() -> bool {
    std::env::args().nth(1).as_deref() == Some(MODE)
}

/// `[program, --agent, notes]`, as a command template.
pub(crate) fn template(notes: &std::path::Path) -> String {
    let program = std::env::current_exe().expect("a running program has a path");
    format!("[{}, {MODE}, {}]", program.display(), notes.display())
}

pub(crate) fn act() {
    let begun = crate::clock();
    let notes = std::env::args().nth(2).expect("the notes' path is the second argument");
    let told = |name: &str| std::env::var(name).unwrap_or_default();
    let (agent, step) = (told("AGENCY_AGENT"), told("AGENCY_TASK"));
    let mut notes = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(notes)
        .expect("the notes are writable");
    let closed = match flag_words(&agent, &told("AGENCY_PHASE")) {
        Some((status, next)) => {
            std::thread::sleep(LIFE);
            let now = chrono::Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Nanos, true);
            // What the other one writes is not touched: that would be reported.
            let work = if agent == "codex" { "notes.txt" } else { "ENG_REVIEW_RESPONSE.md" };
            std::fs::write(work, &now).expect("the tree is writable");
            let flag = format!(
                r#"{{"agent":"{agent}","step":"{step}","status":"{status}","nextAgent":"{next}","timestamp":"{now}"}}"#
            );
            std::fs::write(".agent-status.json", flag).expect("the tree is writable");
            crate::clock()
        }
        None => begun,
    };
    notes.write_all(format!("{begun} {closed}\n").as_bytes()).expect("the notes are writable");
}

fn flag_words(agent: &str, phase: &str) -> Option<(&'static str, &'static str)> {
    match (agent, phase) {
        ("claude-code", "propose") => Some(("proposed", "codex")),
        ("codex", "review") => Some(("approved", "claude-code")),
        ("claude-code", "execute") => Some(("executed", "codex")),
        ("codex", "verify") => Some(("verified-clean", "claude-code")),
        _ => None,
    }
}
