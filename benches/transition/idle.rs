//! What watching costs when nothing happens.

use super::looping::Stage;
use crate::{Stages, git};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Repositories that wait for their owner: nothing runs, everything is watched.
pub(crate) fn measure(count: usize) {
    let mut stages = Stages::default();
    let stage = Stage::new(stages.another(), "[\"false\"]");
    let template = stage.at("template");
    std::fs::create_dir(&template).expect("a temporary folder is writable");
    std::fs::write(template.join("README.md"), "x\n").expect("a temporary folder is writable");
    git(&template, &["init", "--quiet", "--initial-branch=main"]);
    git(&template, &["add", "-A"]);
    git(&template, &["commit", "--quiet", "-m", "first"]);
    let repos: Vec<_> = (0..count).map(|number| stage.at(&format!("repos/{number}"))).collect();
    std::fs::create_dir(stage.at("repos")).expect("a temporary folder is writable");
    for repo in &repos {
        let copied = Command::new("cp").arg("-a").arg(&template).arg(repo).status();
        assert!(copied.is_ok_and(|status| status.success()), "a copy");
        let begun = stage.agency(repo).args(["loop", "init", "--steps", "1"]).status();
        assert!(begun.is_ok_and(|status| status.success()), "a loop");
    }
    let mut daemon = stage.agency(&stage.dir).arg("run").args(&repos).spawn().expect("a daemon");
    wait_until_quiet(daemon.id());
    let before = cpu(daemon.id());
    std::thread::sleep(Duration::from_secs(60));
    let used = cpu(daemon.id()) - before;
    let rss = rss_mib(daemon.id());
    let share = used.as_secs_f64() / 60.0 * 100.0;
    println!(
        "  {count:>5} repositories: {rss:>6.1} MiB RSS, {share:>5.2} % of a core (goal for 1,000: under 64 MiB, 1 %)"
    );
    daemon.kill().and_then(|()| daemon.wait()).expect("our own child ends");
}

/// The first agents have failed and every repository is held: the daemon uses no more time.
fn wait_until_quiet(pid: u32) {
    let end = Instant::now() + Duration::from_secs(300);
    let mut calm = 0;
    while calm < 5 && Instant::now() < end {
        let before = cpu(pid);
        std::thread::sleep(Duration::from_secs(2));
        calm = if cpu(pid) - before < Duration::from_millis(60) { calm + 1 } else { 0 };
    }
}

fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
        .expect("the daemon lives");
    let after_name = stat.rsplit(") ").next().expect("a stat line");
    let fields: Vec<&str> = after_name.split(' ').collect();
    let ticks: u64 = [11, 12].iter().filter_map(|&at| fields[at].parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn rss_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon lives");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("a status has it");
    let kib: f64 =
        line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).expect("a number");
    kib / 1024.0
}
