//! What the machine itself costs: an event and a spawn, the syncs that durability needs, a plain commit.

use super::agent;
use crate::{Stages, clock, fill, git};
use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecursiveMode, Watcher as _};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ROUNDS: usize = 20;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Sync {
    No,
    Yes,
}

/// A file is closed, an event comes, a child is started; its first instruction ends the round.
pub(crate) fn measure(sync: Sync, stages: &mut Stages) -> Vec<Duration> {
    let dir = stages.another();
    let notes = dir.join("notes");
    let watched = dir.join("watched");
    std::fs::create_dir(&watched).expect("a temporary folder is writable");
    let (sender, events) = mpsc::channel();
    let mut watcher = notify::recommended_watcher(sender).expect("inotify");
    watcher.watch(&watched, RecursiveMode::NonRecursive).expect("inotify");
    let mut journal = File::create(dir.join("journal")).expect("a temporary folder is writable");
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
            replace(&dir, round);
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
    times
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

/// The owner's own way, for comparison.
pub(crate) fn git_commit(others: usize, stages: &mut Stages) -> Vec<Duration> {
    let dir = stages.another();
    git(&dir, &["init", "--quiet"]);
    fill(&dir, others);
    let change = |round: usize| {
        for name in ["state", "response"] {
            std::fs::write(dir.join(name), format!("round {round}"))
                .expect("a temporary folder is writable");
        }
    };
    change(0);
    git(&dir, &["add", "-A"]);
    git(&dir, &["commit", "--quiet", "-m", "first"]);
    let commit = |round| {
        change(round);
        let begun = Instant::now();
        git(&dir, &["commit", "--quiet", "-a", "-m", "next"]);
        begun.elapsed()
    };
    (1..=ROUNDS).map(commit).collect()
}
