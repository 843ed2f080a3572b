//! The owner hears it: the real daemon, a real loopback listener for webhooks and a real one for mail.

use super::stage::{HONEST, Stage, wait_until};
use crate::escalate::escalation;
use crate::escalate::receiver::{Answer, Receiver};
use crate::escalate::server::Server;
use agency::escalate::Outbox;
use agency::model::{Key, Severity};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

fn configure(stage: &Stage, hooks: &Receiver, more: &str) {
    let url = hooks.url("/hook");
    let text = format!(
        "escalation:\n  backoff: 100ms\n  webhooks: [ {{ url: \"{url}\", secret_env: HOOK_SECRET }} ]\n{more}"
    );
    stage.configure_agents("retries: 0", &text);
}

/// Types of the messages about one cause, in the order of their arrival.
fn types(hooks: &Receiver, id: &str) -> Vec<String> {
    let about =
        hooks.requests().into_iter().map(|request| request.json()).filter(|body| body["id"] == id);
    about.map(|body| body["type"].as_str().unwrap().to_owned()).collect()
}

// covers: ES-01, ES-02, ES-03, ES-06, ES-07
#[test]
fn a_hold_is_told_acknowledged_answered_and_resolved() {
    let hooks = Receiver::fine();
    let mails = Server::new(|_| None);
    let stage = Stage::new("exit 3");
    let mail = format!(
        "  email: {{ smtp: \"smtp://127.0.0.1:{}\", from: agency@box, to: [owner@example.com] }}\n",
        mails.port
    );
    configure(&stage, &hooks, &mail);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    let told = stage.wait("the hold", || stage.escalation("SU-06"));
    let id = told["id"].as_str().unwrap().to_owned();
    stage.wait("the webhook", || (types(&hooks, &id) == ["escalation.opened"]).then_some(()));
    stage.wait("the mail", || {
        mails.mails().iter().any(|mail| mail.text.contains("SU-06")).then_some(())
    });
    let body = hooks
        .requests()
        .into_iter()
        .map(|request| request.json())
        .find(|body| body["id"] == id)
        .unwrap();
    assert_eq!((&body["rule"], &body["protocol"]), (&"SU-06".into(), &"loop".into()));
    for field in ["summary", "what", "did", "wont", "resolve"] {
        assert!(!body[field].as_str().unwrap().is_empty(), "{field} is empty: {body}");
    }
    assert!(body["evidence"].to_string().contains("journal "), "the journal's last lines: {body}");
    assert!(body["repo"].as_str().unwrap().ends_with("/repo"), "{body}");
    stage.wait("the deliveries in the list", || {
        let all = stage.escalation("SU-06")?;
        let all =
            all["deliveries"].as_array()?.iter().filter(|one| one["state"] == "delivered").count();
        (all == 2).then_some(())
    });
    stage.ok(&["ack", &id]);
    assert_eq!(stage.escalation("SU-06").unwrap()["state"], "acked");
    let wrong = stage.agency(&["answer", &id, "dance"]);
    assert!(wrong.code == 2 && wrong.err.contains("its options: resume"), "{}", wrong.err);
    std::fs::write(stage.at("agent.sh"), HONEST).unwrap();
    stage.ok(&["answer", &id, "resume", "--reason", "the agent is mended"]);
    stage.wait_for_phase("complete");
    stage.wait("the resolution", || {
        (types(&hooks, &id) == ["escalation.opened", "escalation.resolved"]).then_some(())
    });
    let journal = stage.ok(&["journal", "--json", "--lines", "10000"]);
    assert!(journal.contains("the agent is mended"), "who and why are journalled");
    drop(daemon);
}

// covers: ES-02, DM-06
#[test]
fn what_was_not_sent_before_a_kill_is_sent_by_the_next_daemon() {
    let hooks = Receiver::fine();
    let stage = Stage::new("exit 3");
    stage.configure_agents("retries: 0", "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "held, and nobody was told");
    let told = stage.escalation("SU-06").unwrap();
    let id = told["id"].as_str().unwrap();
    configure(&stage, &hooks, "");
    for _ in 0..5 {
        let daemon = stage.start();
        stage.wait("the message", || (!types(&hooks, id).is_empty()).then_some(()));
        daemon.kill();
    }
    let requests = hooks.requests();
    let about: Vec<_> = requests.iter().filter(|request| request.json()["id"] == id).collect();
    assert!(about.iter().all(|request| request.id() == about[0].id()), "always the same message");
    assert!(about.len() <= 2, "a kill may repeat the last one, nothing else: {}", about.len());
}

/// One cause before each kill; the listener takes its time, so that many kills meet a message on its way.
// covers: ES-02, ES-03
#[test]
fn kills_during_delivery_lose_nothing_and_invent_nothing() {
    let trials = std::env::var("AGENCY_TRIALS").ok().and_then(|n| n.parse().ok()).unwrap_or(6);
    let hooks = Receiver::new(|number| Answer::Slow(Duration::from_millis(number as u64 % 5 * 15)));
    let stage = Stage::new("exit 3");
    configure(&stage, &hooks, "");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let folders = std::fs::read_dir(stage.at("state")).unwrap().map(|entry| entry.unwrap().path());
    let folder = folders.into_iter().find(|path| path.join("repo.json").exists()).unwrap();
    let outbox = Outbox::open(folder.join("outbox"), "a1b2c3d4", &stage.repo()).unwrap();
    let mut raised = BTreeSet::new();
    for trial in 0..trials {
        let cause = escalation(&format!("kill {trial}"), Severity::Critical);
        let now = chrono::Utc::now();
        raised.insert(outbox.raise(&cause, &Key::new(format!("kill-{trial}.0")), now).unwrap());
        let daemon = stage.start();
        std::thread::sleep(Duration::from_millis(30 + trial * 37 % 170));
        daemon.kill();
    }
    let daemon = stage.start();
    // Under a flood the rest comes as a digest, a minute later.
    let told = wait_until(Duration::from_secs(60 + trials), || {
        let all = stage.json(&["escalations", "--json"]);
        let told = |one: &Value| {
            let deliveries = one["deliveries"].as_array().unwrap();
            !deliveries.is_empty()
                && deliveries.iter().all(|delivery| delivery["state"] == "delivered")
        };
        let ours = all
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| raised.contains(one["id"].as_str().unwrap()));
        ours.clone().all(told).then_some(())
    });
    assert!(told.is_some(), "a cause was never told: {}", stage.ok(&["escalations"]));
    drop(daemon);
    let requests = hooks.requests();
    let distinct: BTreeSet<_> = requests.iter().map(|request| request.id().to_owned()).collect();
    assert!(
        requests.len() - distinct.len() <= trials as usize + 1,
        "at most one repetition for each kill"
    );
    for body in requests.iter().map(|request| request.json()).filter(|body| body["rule"] == "LP-03")
    {
        assert!(
            body["type"] == "escalation.digest" || raised.contains(body["id"].as_str().unwrap()),
            "invented: {body}"
        );
    }
    println!(
        "{trials} kills: {} messages, {} repeated under their own id",
        distinct.len(),
        requests.len() - distinct.len()
    );
}

// covers: ES-07, SE-04
#[test]
fn the_channels_can_be_proven() {
    let stage = Stage::new("exit 0");
    let none = stage.agency(&["escalate", "--test"]);
    assert!(none.code == 1 && none.err.contains("no channel"), "{}", none.err);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let status = stage.ok(&["status"]);
    let second = status.lines().nth(1).unwrap();
    assert!(second.starts_with("no channel is configured"), "after the daemon: {status}");
    let doctor = stage.agency(&["doctor"]);
    assert!(
        doctor.code == 1 && doctor.out.starts_with("!!  channels"),
        "so does the doctor: {}",
        doctor.out
    );
    let hooks = Receiver::fine();
    configure(&stage, &hooks, "");
    assert!(stage.ok(&["escalate", "--test"]).contains("delivered"));
    assert_eq!(hooks.count(), 1);
}

// covers: ES-08
#[test]
fn the_heartbeat_beats_while_the_repository_is_looked_after() {
    let hooks = Receiver::fine();
    let stage = Stage::new("exit 3");
    let url = hooks.url("/beat");
    stage.configure_agents("retries: 0", &format!("heartbeat: {{ url: \"{url}\", every: 1s }}\n"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start_with(&["--poll"]);
    stage.wait("three beats", || (hooks.count() >= 3).then_some(()));
    daemon.signal(nix::sys::signal::Signal::SIGSTOP);
    let stopped = hooks.count();
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(hooks.count() <= stopped + 1, "a stopped daemon does not beat");
    daemon.signal(nix::sys::signal::Signal::SIGCONT);
    stage.wait("beats again", || (hooks.count() >= stopped + 3).then_some(()));
    drop(daemon);
}
