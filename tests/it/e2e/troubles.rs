//! Trouble of the machine under a daemon that works: each ends in a message and, once it is over, in the right end.

use super::stage::{HONEST, Stage, wait_until};
use crate::escalate::receiver::{Answer, Receiver};
use nix::sys::signal::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Waits until the test lets it go on, then does its turn.
fn patient() -> String {
    format!("while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done\n{HONEST}")
}

fn hooked(agent: &str, hooks: &Receiver, settings: &str) -> Stage {
    let stage = Stage::new(agent);
    let url = hooks.url("/hook");
    let text = format!(
        "escalation:\n  backoff: 100ms\n  webhooks: [ {{ url: \"{url}\", secret_env: HOOK_SECRET }} ]\n"
    );
    stage.configure_agents(settings, &text);
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

fn heard(hooks: &Receiver, rule: &str) -> Option<()> {
    let about = |body: &serde_json::Value| body["rule"] == rule;
    hooks.requests().iter().any(|request| about(&request.json())).then_some(())
}

// covers: DM-21, ES-02
#[test]
fn an_outbox_that_became_a_file_while_an_agent_works_keeps_no_message_back() {
    let hooks = Receiver::fine();
    let agent = "while [ ! -e \"$HOME/go\" ]; do sleep 0.05; done\nexit 3";
    let stage = hooked(agent, &hooks, "retries: 0");
    let daemon = stage.start();
    stage.wait("the run", || {
        stage
            .json(&["runs", "--json"])
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["state"] == "running")
            .then_some(())
    });
    let outbox = stage.folder().join("outbox");
    // Moved first: the daemon may be writing there.
    fs::rename(&outbox, stage.at("removed")).unwrap();
    fs::write(&outbox, "in the way").unwrap();
    fs::write(stage.at("home/go"), "").unwrap();
    stage.wait("the message", || heard(&hooks, "SU-06"));
    stage.wait("the record", || stage.escalation("SU-06"));
    assert_eq!(fs::read(outbox.with_extension("replaced-1")).unwrap(), b"in the way");
    assert_eq!(daemon.stop(), 0);
}

// covers: DM-21
#[test]
fn a_run_folder_that_cannot_be_made_keeps_the_turn_waiting_and_tells_it() {
    let hooks = Receiver::fine();
    let stage = hooked(HONEST, &hooks, "retries: 2, backoff: 100ms");
    let runs = stage.folder().join("runs");
    let Some(_mounted) = Mounted::tmpfs(&runs, "2m") else {
        eprintln!("skipped: this machine lets nobody mount a small file system here");
        return;
    };
    let full = fill(&runs);
    let daemon = stage.start();
    stage.wait("the message", || heard(&hooks, "DM-21"));
    let text = stage.wait("the status", || {
        let text = fs::read_to_string(stage.folder().join("status.json")).ok()?;
        text.contains("starting `claude-code` failed").then_some(text)
    });
    assert!(text.contains("\"held\": true"), "{text}");
    assert!(stage.started().is_empty());
    fs::remove_file(&full).unwrap();
    stage.wait_for_phase("complete");
    stage.wait("the end of the message", || {
        (stage.escalation("DM-21")?["state"] == "resolved").then_some(())
    });
    assert_eq!(stage.transitions().len(), 4, "every turn was made once");
    assert_eq!(daemon.stop(), 0);
}

/// One call fails, once: the turn begins a moment later and nobody need hear of it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
// covers: DM-21
#[test]
fn one_full_disk_while_a_runs_folder_is_made_delays_the_turn_and_no_more() {
    use super::tracer::{End, fail_folder};
    let stage = Stage::new(HONEST);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let mut command = stage.program();
    command.args(["run", "--once"]).env("AGENCY_LOG", "info");
    let log = stage.at("daemon.log");
    let (end, call) = match fail_folder(&command, "/runs/", nix::errno::Errno::ENOSPC, &log) {
        // A sandbox where no process may trace another.
        Err(nix::errno::Errno::EPERM | nix::errno::Errno::ENOSYS) => return,
        traced => traced.unwrap(),
    };
    assert!(matches!(end, End::Exited { code: 0, .. }), "{end:?}\n{}", stage.daemon_log());
    assert_eq!(call, Some("mkdir"));
    assert!(stage.daemon_log().contains("an effect is tried again later"), "nothing failed");
    assert_eq!(stage.transitions().len(), 4, "{}", stage.daemon_log());
    assert_eq!(stage.started().len(), 4, "every agent was started once");
    assert_eq!(stage.state()["phase"], "complete");
    assert!(stage.escalation("DM-21").is_none());
}

/// How long a trouble lasts: shorter in the everyday run than with `AGENCY_TRIALS`. In seconds.
pub(super) fn lasts(everyday: u64, full: u64) -> Duration {
    let full_length = std::env::var_os("AGENCY_TRIALS").is_some();
    Duration::from_secs(if full_length { full } else { everyday })
}

struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    /// `None` where nobody may mount: not root, or a sandbox.
    fn tmpfs(at: &'a Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size}");
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).status();
        done.is_ok_and(|status| status.success()).then_some(Self(at))
    }
}

/// Leaves no room at all; returns what takes it.
fn fill(dir: &Path) -> PathBuf {
    let full = dir.join("full");
    for size in ["64k", "1k"] {
        let part = format!("of={}", full.display());
        let size = format!("bs={size}");
        let append = ["oflag=append", "conv=notrunc"];
        drop(Command::new("dd").args(["if=/dev/zero", &part, &size]).args(append).output());
    }
    full
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.0).status());
    }
}

/// The disk of the state directory is full for so long, beginning while an agent works.
#[expect(clippy::print_stderr, reason = "a test that proves nothing should say so")]
fn a_full_state_disk(during: Duration) {
    let hooks = Receiver::fine();
    let stage = Stage::new(&patient());
    let state = stage.at("state");
    let Some(_mounted) = Mounted::tmpfs(&state, "8m") else {
        eprintln!("skipped: this machine lets nobody mount a small file system here");
        return;
    };
    let url = hooks.url("/hook");
    stage.configure(&format!(
        "escalation:\n  backoff: 100ms\n  webhooks: [ {{ url: \"{url}\", secret_env: HOOK_SECRET }} ]\n"
    ));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("the run", || {
        let runs = stage.json(&["runs", "--json"]);
        runs.as_array().unwrap().iter().any(|run| run["state"] == "running").then_some(())
    });
    let begun = Instant::now();
    let full = fill(&state);
    fs::write(stage.at("home/go"), "").unwrap();
    let told = || heard(&hooks, "DM-21").or_else(|| heard(&hooks, "DM-10"));
    let told = wait_until(Duration::from_secs(30), told);
    assert!(told.is_some(), "nobody was told\n{}", stage.daemon_log());
    let status = stage.wait("a status that says so", || {
        let status = stage.json(&["status", "--json"])["repos"][0].clone();
        (status["held"] == true).then_some(status)
    });
    assert!(status.to_string().contains("No space left on device"), "{status}");
    wait_until(during.saturating_sub(begun.elapsed()), || None::<()>);
    assert_eq!(stage.agency(&["status", "--check"]).code, 1, "as long as it lasts");
    fs::remove_file(&full).unwrap();
    stage.wait_for_phase("complete");
    stage.wait("a daemon that is well", || {
        (stage.agency(&["status", "--check"]).code == 0).then_some(())
    });
    assert_eq!(stage.transitions().len(), 4, "every turn was made once");
    assert!(stage.ok(&["journal", "verify"]).starts_with("the journal is whole"));
    assert_eq!(daemon.stop(), 0);
}

// covers: DM-21, DM-10
#[test]
fn a_state_disk_that_is_full_for_a_while_is_told_and_work_goes_on_by_itself() {
    a_full_state_disk(lasts(0, 25));
}

// covers: DM-21, DM-10
#[test]
fn a_state_disk_that_is_full_for_long_is_told_and_work_goes_on_by_itself() {
    a_full_state_disk(lasts(10, 100));
}

// covers: DM-09
#[test]
fn a_stop_is_honoured_within_10_s_whatever_waits_to_be_sent() {
    let hooks = Receiver::new(|_| Answer::Slow(Duration::from_secs(600)));
    let stage = hooked(HONEST, &hooks, "retries: 0");
    let outbox =
        agency::escalate::Outbox::open(stage.folder().join("outbox"), "a1b2c3d4", &stage.repo())
            .unwrap();
    let at = agency::clock::now().wall;
    let first = crate::escalate::escalation("many", agency::model::Severity::Warning);
    let id = outbox.raise(&first, &agency::model::Key::new("test-0"), at).unwrap();
    let dir = stage.folder().join("outbox");
    let text = fs::read_to_string(dir.join(format!("{id}.json"))).unwrap();
    for n in 0..10_000 {
        let other = format!("{n:012x}");
        fs::write(dir.join(format!("{other}.json")), text.replace(&id, &other)).unwrap();
    }
    let daemon = stage.start();
    stage.wait("the first attempt", || (hooks.count() > 0).then_some(()));
    let begun = Instant::now();
    daemon.signal(Signal::SIGTERM);
    let code = daemon.wait();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(code, 0, "{}", stage.daemon_log());
}
