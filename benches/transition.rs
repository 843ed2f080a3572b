//! What one transition costs, side by side in one run: from the writer's close of its flag to the next agent's first
//! instruction. Machines are noisy, so only the ratios mean something. `cargo bench` prints them; a word (`few`, `many`, `idle`)
//! after `--` asks for a part.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod transition {
    pub(super) mod agent;
    pub(super) mod floor;
    pub(super) mod idle;
    pub(super) mod looping;
}

use std::path::{Path, PathBuf};
use std::time::Duration;
use transition::{agent, floor, idle, looping};

fn main() {
    if agent::is_one() {
        return agent::act();
    }
    let wanted = std::env::args().nth(1).filter(|word| !word.starts_with('-'));
    let wants = |part: &str| wanted.as_ref().is_none_or(|wanted| wanted == part);
    if wants("few") {
        few();
    }
    if wants("many") {
        many();
    }
    if wants("idle") {
        println!("\nIdle, over one minute\n");
        for count in [1, 1000] {
            idle::measure(count);
        }
    }
}

/// One after the other, again and again: what the machine does meanwhile, and what one leaves to the next, weighs on all alike.
const PASSES: usize = 5;

fn few() {
    println!(
        "One transition: from the writer's close to the next agent's first instruction (medians)\n"
    );
    let mut stages = Stages::default();
    let mut times = [const { Vec::new() }; 5];
    for _ in 0..PASSES {
        times[0].extend(floor::measure(floor::Sync::No, &mut stages));
        times[1].extend(floor::measure(floor::Sync::Yes, &mut stages));
        times[2].extend(floor::git_commit(10, &mut stages));
        times[3].extend(looping::measure(looping::Tree::Plain { others: 10 }, &mut stages));
        times[4].extend(looping::measure(looping::Tree::Git { others: 10 }, &mut stages));
    }
    let [floor, synced, commit, plain, git] = times.map(median);
    line("floor: inotify → spawn", floor);
    line(SYNCED, synced);
    line(COMMIT, commit);
    line("agency, without git", plain);
    line("agency, with git", git);
    println!();
    ratio("without git / synced floor", plain, synced, 2.0);
    ratio("with git / (commit + synced floor)", git, commit + synced, 1.25);
    ratio("agency without git / bare floor", plain, floor, f64::INFINITY);
}

const SYNCED: &str = "floor + synced journal and state file";
const COMMIT: &str = "`git commit -a` alone";

fn many() {
    println!("\nThe same with 10 and with 100,000 other files\n");
    let mut stages = Stages::default();
    let mut at = |tree| median(looping::measure(tree, &mut stages));
    let plain = line("without git, 10", at(looping::Tree::Plain { others: 10 }));
    let git = line("with git, 10", at(looping::Tree::Git { others: 10 }));
    let many = line("agency, without git", at(looping::Tree::Plain { others: 100_000 }));
    let many_git = line("agency, with git", at(looping::Tree::Git { others: 100_000 }));
    let synced = line(SYNCED, median(floor::measure(floor::Sync::Yes, &mut stages)));
    let many_commit = line(COMMIT, median(floor::git_commit(100_000, &mut stages)));
    println!();
    ratio("without git, 100,000 files / 10 files", many, plain, 1.25);
    ratio("with git, 100,000 files / 10 files", many_git, git, f64::INFINITY);
    ratio("with git / (commit + synced floor)", many_git, many_commit + synced, 1.25);
}

/// The folders of what was measured. They stay until all is: a file system that has just taken many files away may look long for
/// the place of a new one, and whoever is measured next would pay for that.
#[derive(Default)]
struct Stages(Vec<tempfile::TempDir>);

impl Stages {
    fn another(&mut self) -> PathBuf {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let path = dir.path().to_owned();
        self.0.push(dir);
        path
    }
}

fn line(what: &str, time: Duration) -> Duration {
    println!("  {what:<42} {:>9.2} ms", time.as_secs_f64() * 1e3);
    time
}

fn ratio(what: &str, ours: Duration, other: Duration, goal: f64) {
    let ratio = ours.as_secs_f64() / other.as_secs_f64();
    let goal = if goal.is_finite() { format!("  (goal: at most {goal}×)") } else { String::new() };
    println!("  {what:<42} {ratio:>9.2} ×{goal}");
}

/// The middle one of many.
fn median(mut times: Vec<Duration>) -> Duration {
    assert!(!times.is_empty(), "nothing was measured");
    times.sort();
    times[times.len() / 2]
}

/// Nanoseconds on a clock that all processes share.
fn clock() -> u128 {
    let clock = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC)
        .expect("every Linux has this clock");
    Duration::from(clock).as_nanos()
}

fn git(dir: &Path, words: &[&str]) {
    let names = ["-c", "user.name=Owner", "-c", "user.email=owner@example.com", "-c", "gc.auto=0"];
    let status =
        std::process::Command::new("git").args(names).args(words).current_dir(dir).status();
    assert!(status.is_ok_and(|status| status.success()), "git {words:?}");
}

/// Files that have nothing to do with the loop.
fn fill(dir: &Path, others: usize) {
    for folder in 0..others.div_ceil(1000) {
        let folder = dir.join(format!("other/{folder}"));
        std::fs::create_dir_all(&folder).expect("a temporary folder is writable");
        for file in 0..others.min(1000) {
            std::fs::write(folder.join(format!("{file}.txt")), "x\n")
                .expect("and so are its files");
        }
    }
}
