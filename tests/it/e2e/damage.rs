//! A journal that somebody changed stops its repository; one that a crash tore does not.

use super::parked::{flag, parked_in, put_flag, unmark, wait_until_parked};
use super::stage::Stage;
use std::fs;
use std::path::PathBuf;

/// The journal of the stage's only repository.
fn journal(stage: &Stage) -> PathBuf {
    stage.folder().join("journal/000001.jsonl")
}

fn stopped_in_execute() -> Stage {
    let stage = parked_in("execute");
    let daemon = stage.start();
    wait_until_parked(&stage, "execute");
    daemon.kill();
    stage
}

// covers: DM-08
#[test]
fn a_flipped_byte_is_named_and_stops_the_repository() {
    let stage = stopped_in_execute();
    let path = journal(&stage);
    let mut bytes = fs::read(&path).unwrap();
    let whole = bytes.clone();
    let at = bytes.len() / 2;
    let line = 1 + bytes[..at].iter().filter(|&&byte| byte == b'\n').count();
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let said = stage.agency(&["journal", "verify"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("000001.jsonl") && said.err.contains(&line.to_string()),
        "{}",
        said.err
    );
    unmark(&stage, "fail-execute");
    let started = stage.started().len();
    let once = stage.agency(&["run", "--once"]);
    assert_ne!(once.code, 0);
    assert!(once.err.contains("000001.jsonl"), "{}", once.err);
    assert_eq!(stage.started().len(), started, "nothing is started");
    let repo = stage.json(&["status", "--json"])["repos"][0].clone();
    assert_eq!(repo["held"], true, "{repo}");
    assert!(repo["closed"].as_str().unwrap().contains("000001.jsonl"), "{repo}");
    let told = stage.escalation("DM-10").unwrap();
    assert_eq!(told["state"], "open");
    fs::write(&path, whole).unwrap();
    let daemon = stage.start();
    put_flag(&stage, &flag("claude-code", "executed"));
    stage.wait("the last commit", || (stage.transitions().len() == 4).then_some(()));
    stage.wait("the notice's end", || {
        (stage.escalation("DM-10")?["state"] == "resolved").then_some(())
    });
    drop(daemon);
}

// covers: DM-08
#[test]
fn a_torn_last_line_is_dropped_and_noted() {
    let stage = stopped_in_execute();
    let path = journal(&stage);
    let bytes = fs::read(&path).unwrap();
    // What follows the last line is room for the next one.
    let end = bytes.iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&path, &bytes[..end - 7]).unwrap();
    unmark(&stage, "fail-execute");
    let daemon = stage.start();
    let notes = stage.wait("a note", || {
        let notes = stage.json(&["status", "--json"])["repos"][0]["notes"].to_string();
        notes.contains("000001.jsonl").then_some(notes)
    });
    assert!(notes.contains("last line"), "{notes}");
    put_flag(&stage, &flag("claude-code", "executed"));
    stage.wait("the last commit", || (stage.transitions().len() == 4).then_some(()));
    assert!(stage.ok(&["journal", "verify"]).starts_with("the journal is whole"));
    drop(daemon);
}
