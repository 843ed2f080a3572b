//! Notices end with their cause, an acknowledged one is hidden, and no fault of the outbox swallows a message.

use super::stage::{HONEST, Stage, wait_until};
use super::tracer::{End, fail_syncs};
use crate::escalate::receiver::Receiver;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn configure(stage: &Stage, hooks: &Receiver, more: &str) {
    let url = hooks.url("hook");
    let text = format!(
        "escalation:\n  backoff: 100ms\n  webhooks: [ {{ url: \"{url}\", secret_env: HOOK_SECRET }} ]\n{more}"
    );
    stage.configure_agents("retries: 0", &text);
}

fn message(hooks: &Receiver, kind: &str, rule: &str) -> Option<Value> {
    let mut bodies = hooks.requests().into_iter().map(|request| request.json());
    bodies.find(|body| body["type"] == kind && body["rule"] == rule)
}

// covers: LP-18, ES-02
#[test]
fn the_notice_of_a_missing_map_is_hidden_by_ack_and_ends_when_the_map_is_added() {
    let hooks = Receiver::fine();
    let stage = Stage::new("sleep 1000");
    configure(&stage, &hooks, "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let body = stage.wait("the notice", || message(&hooks, "escalation.opened", "LP-18"));
    let id = body["id"].as_str().unwrap();
    assert!(stage.ok(&["status"]).contains(id) && stage.ok(&["escalations"]).contains(id));
    stage.ok(&["ack", id]);
    for words in [&["status"][..], &["status", "--json"], &["escalations"]] {
        assert!(!stage.ok(words).contains(id), "{words:?}: {}", stage.ok(words));
    }
    assert!(stage.ok(&["escalations", "--all"]).contains(id), "it is not forgotten");
    stage.write("CODEBASE.md", "the map\n");
    stage.wait("the notice's end", || message(&hooks, "escalation.resolved", "LP-18"));
    assert_eq!(stage.escalation("LP-18").unwrap()["state"], "resolved");
    // It comes again: told again, and shown again.
    fs::remove_file(stage.repo().join("CODEBASE.md")).unwrap();
    stage.wait("the same notice again", || stage.ok(&["status"]).contains(id).then_some(()));
    assert_eq!(stage.escalation("LP-18").unwrap()["state"], "open");
    drop(daemon);
}

// Over 5 s: the first daemon's try lasts 2 s, and it tries again 5 s later.
// covers: DM-18, DM-16
#[test]
fn a_repository_that_another_daemon_holds_is_frozen_told_and_goes_on_by_itself() {
    let hooks = Receiver::fine();
    let stage = Stage::new(HONEST);
    stage.git_in(&stage.at(""), &["clone", "--quiet", "repo", "free"]);
    let (held, free) = (stage.repo(), stage.at("free"));
    configure(&stage, &hooks, "");
    let other = {
        let log = fs::File::create(stage.at("other.log")).unwrap();
        let mut command = stage.program();
        command.env("AGENCY_STATE_DIR", stage.at("elsewhere"));
        command.arg("run").stdout(Stdio::null()).stderr(log);
        super::stage::Daemon::of(command.spawn().unwrap())
    };
    stage.wait("the other daemon's lock", || {
        let lock = fs::read_to_string(held.join(".git/agency/lock")).ok()?;
        lock.starts_with("pid ").then_some(())
    });
    let both = format!("repos:\n  - path: {}\n  - path: {}\n", free.display(), held.display());
    configure(&stage, &hooks, &both);
    let daemon = stage.start();
    let cause = format!("another agency daemon (pid {}) has this repository", other.pid());
    let body = stage.wait("the message", || message(&hooks, "escalation.opened", "DM-10"));
    assert_eq!(body["repo"], held.to_str().unwrap());
    assert!(body["summary"].as_str().unwrap().contains(&cause), "{body}");
    assert!(body["resolve"].as_str().unwrap().starts_with("stop that daemon"), "{body}");
    let status = stage.json(&["status", "--json"]);
    let find = |status: &Value| {
        let repos = status["repos"].as_array().unwrap();
        repos.iter().find(|repo| repo["path"] == held.to_str().unwrap()).cloned().unwrap()
    };
    let repo = find(&status);
    assert_eq!(repo["frozen"], true, "{repo}");
    assert!(repo["closed"].as_str().unwrap().contains(&cause), "{repo}");
    let text = stage.ok(&["status"]);
    assert!(text.contains(&format!("{}  FROZEN", held.display())), "{text}");
    assert!(text.contains("stop that daemon"), "{text}");
    assert_eq!(stage.agency(&["status", "--check"]).code, 1);
    other.stop();
    stage.wait("the notice's end", || message(&hooks, "escalation.resolved", "DM-10"));
    assert_eq!(find(&stage.json(&["status", "--json"]))["frozen"], false);
    drop(daemon);
}

// covers: ES-02, DM-08
#[test]
fn a_damaged_message_in_the_outbox_is_told_and_its_bytes_are_kept() {
    let hooks = Receiver::fine();
    let stage = Stage::new("sleep 1000");
    stage.ok(&["loop", "init", "--steps", "1"]);
    configure(&stage, &hooks, "");
    let file = stage.folder().join("outbox/0123456789ab.json");
    fs::write(&file, "{\"id\": \"0123").unwrap();
    let daemon = stage.start();
    let body = stage.wait("the message", || message(&hooks, "escalation.opened", "ES-02"));
    let kept = stage.folder().join("outbox/damaged/0123456789ab.json");
    assert!(body["summary"].as_str().unwrap().contains(kept.to_str().unwrap()), "{body}");
    assert_eq!(fs::read_to_string(kept).unwrap(), "{\"id\": \"0123");
    assert!(!file.exists());
    drop(daemon);
}

// covers: ES-02, DM-21
#[test]
fn messages_are_sent_and_work_goes_on_while_the_outbox_cannot_be_synced() {
    let hooks = Receiver::fine();
    let stage = Stage::new(HONEST);
    configure(&stage, &hooks, "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let mut command = stage.program();
    command.arg("run").env("AGENCY_LOG", "info");
    let log = stage.at("daemon.log");
    let during = super::troubles::lasts(4, 20);
    let begun = Instant::now();
    let traced =
        std::thread::spawn(move || fail_syncs(&command, "/outbox/", Errno::EIO, during, &log));
    let pid = wait_until(Duration::from_secs(20), || {
        let pid = stage.json(&["status", "--json"])["daemon"]["pid"].as_i64();
        pid.and_then(|pid| i32::try_from(pid).ok()).or_else(|| traced.is_finished().then_some(0))
    });
    // A sandbox where no process may trace another.
    let Some(pid) = pid.filter(|pid| *pid > 0) else { return };
    stage.wait("the message", || message(&hooks, "escalation.opened", "LP-18"));
    assert!(begun.elapsed() < during, "it was sent while no sync succeeded");
    stage.wait_for_phase("complete");
    assert!(stage.daemon_log().contains("a message is kept in memory only"), "nothing failed");
    stage.wait("the message on disk", || {
        stage.escalation("LP-18").filter(|one| one["deliveries"][0]["state"] == "delivered")
    });
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert!(matches!(traced.join().unwrap(), Ok(End::Exited { code: 0, .. })));
    let sent = hooks.requests().into_iter().map(|request| request.json());
    let opened = sent.filter(|one| one["rule"] == "LP-18" && one["type"] == "escalation.opened");
    let ids: Vec<_> = opened.map(|one| one["id"].clone()).collect();
    assert!(ids.iter().all(|id| *id == ids[0]), "one stable id: {ids:?}");
}

// covers: DM-08, DM-21, DM-18
#[test]
fn a_journal_that_cannot_be_synced_freezes_is_told_and_goes_on_in_a_new_file() {
    use std::os::unix::fs::MetadataExt as _;
    let hooks = Receiver::fine();
    let stage = Stage::new(HONEST);
    configure(&stage, &hooks, "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let segment = stage.folder().join("journal/000001.jsonl");
    // A second name keeps the old file from being the new one by chance.
    fs::hard_link(&segment, stage.at("old")).unwrap();
    let mut command = stage.program();
    command.arg("run").env("AGENCY_LOG", "info");
    let (log, during) = (stage.at("daemon.log"), super::troubles::lasts(4, 20));
    let traced =
        std::thread::spawn(move || fail_syncs(&command, "/journal/", Errno::EIO, during, &log));
    let told = wait_until(Duration::from_secs(20), || {
        let told = message(&hooks, "escalation.opened", "DM-10");
        told.or_else(|| traced.is_finished().then_some(Value::Null))
    });
    let Some(body) = told.filter(Value::is_object) else {
        // A sandbox where no process may trace another.
        assert!(matches!(traced.join().unwrap(), Err(Errno::EPERM | Errno::ENOSYS)));
        return;
    };
    assert!(body["summary"].as_str().unwrap().contains("000001.jsonl"), "{body}");
    stage.wait_for_phase("complete");
    stage.wait("the notice's end", || message(&hooks, "escalation.resolved", "DM-10"));
    // While the fault lasts it may freeze once more.
    let status = stage.wait("work to go on", || {
        Some(stage.json(&["status", "--json"]))
            .filter(|status| status["repos"][0]["frozen"] == false)
    });
    assert!(status["repos"][0]["notes"].to_string().contains("anew"), "{status}");
    let pid = i32::try_from(status["daemon"]["pid"].as_i64().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert!(matches!(traced.join().unwrap(), Ok(End::Exited { code: 0, .. })));
    let inode = |path: &std::path::Path| path.metadata().unwrap().ino();
    assert_ne!(inode(&segment), inode(&stage.at("old")), "pages of a failed sync are not trusted");
    assert!(stage.ok(&["journal", "verify"]).starts_with("the journal is whole"));
    assert_eq!(stage.transitions().len(), 4, "every turn was made once");
}
