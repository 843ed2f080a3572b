//! What the machine itself costs: an event and a spawn, the syncs that durability needs, a plain commit.

use super::agent;
use crate::{clock, fill, git, median};
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecursiveMode, Watcher as _};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 60;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Sync {
    No,
    Yes,
}

/// A file is closed, an event comes, a child is started; its first instruction ends the round.
pub(crate) fn measure(sync: Sync) -> Duration {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let notes = dir.path().join("notes");
    let watched = dir.path().join("watched");
    std::fs::create_dir(&watched).expect("a temporary folder is writable");
    let (sender, events) = mpsc::channel();
    let mut watcher = notify::recommended_watcher(sender).expect("inotify");
    watcher.watch(&watched, RecursiveMode::NonRecursive).expect("inotify");
    let mut journal =
        File::create(dir.path().join("journal")).expect("a temporary folder is writable");
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        std::fs::write(watched.join("flag"), round.to_string())
            .expect("a temporary folder is writable");
        let closed = clock();
        while !is_close(
            &events.recv_timeout(Duration::from_secs(5)).expect("an event").expect("an event"),
        ) {}
        if sync == Sync::Yes {
            writeln!(journal, "{round}").and_then(|()| journal.sync_data()).expect("a journal");
            replace(dir.path(), round);
        }
        let program = std::env::current_exe().expect("a running program has a path");
        let mut child = Command::new(program)
            .arg("--agent")
            .arg(&notes)
            .current_dir(&watched)
            .spawn()
            .expect("a child");
        child.wait().expect("a child ends");
        times.push(Duration::from_nanos((last_begun(&notes) - closed) as u64));
    }
    assert!(agent::template(&notes).contains("--agent"), "the same child as in the daemon's runs");
    median(times)
}

fn is_close(event: &notify::Event) -> bool {
    matches!(event.kind, EventKind::Access(AccessKind::Close(AccessMode::Write)))
}

/// Temporary file, sync, rename, sync of the folder: as every file of ours is written.
fn replace(dir: &Path, round: usize) {
    let (temporary, target) = (dir.join("state.tmp"), dir.join("state"));
    let mut file = File::create(&temporary).expect("a temporary folder is writable");
    file.write_all(format!("{round}").repeat(500).as_bytes())
        .and_then(|()| file.sync_all())
        .expect("a sync");
    std::fs::rename(&temporary, &target)
        .and_then(|()| File::open(dir)?.sync_all())
        .expect("a sync");
}

fn last_begun(notes: &Path) -> u128 {
    let text = std::fs::read_to_string(notes).expect("the child has written");
    let line = text.lines().last().expect("one line for each child");
    line.split(' ').next().and_then(|word| word.parse().ok()).expect("a number")
}

pub(crate) fn git_commit() -> Duration {
    git_commit_among(10)
}

/// The owner's own way, for comparison.
pub(crate) fn git_commit_among(others: usize) -> Duration {
    let dir = tempfile::tempdir().expect("a temporary folder");
    git(dir.path(), &["init", "--quiet"]);
    fill(dir.path(), others);
    for name in ["state", "response"] {
        std::fs::write(dir.path().join(name), "0").expect("a temporary folder is writable");
    }
    git(dir.path(), &["add", "-A"]);
    git(dir.path(), &["commit", "--quiet", "-m", "first"]);
    let rounds = if others > 1000 { ROUNDS / 4 } else { ROUNDS };
    let mut times = Vec::new();
    for round in 0..rounds {
        for name in ["state", "response"] {
            std::fs::write(dir.path().join(name), format!("round {round}"))
                .expect("a temporary folder is writable");
        }
        let begun = Instant::now();
        git(dir.path(), &["commit", "--quiet", "-a", "-m", "next"]);
        times.push(begun.elapsed());
    }
    median(times)
}
