//! Every usual way of writing a file ends in one judgement of the whole file, with file events and without.

use super::parked::{
    detail, flag, gated, mark, park_for_long, parked_in, put_flag, refusals, wait_until_parked,
};
use super::stage::{FLAG, HONEST, Stage};
use std::fs::{self, File};
use std::io::Write as _;
use std::time::Duration;

/// Between two halves of one file. The scenario is about time: much longer than a file must rest to count as whole.
const BETWEEN_HALVES: Duration = Duration::from_secs(2);

type Way = fn(&Stage, &str);

fn in_two_halves(stage: &Stage, text: &str) {
    let (first, second) = text.split_at(text.len() / 2);
    let mut file = File::create(stage.repo().join(FLAG)).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    std::thread::sleep(BETWEEN_HALVES);
    file.write_all(second.as_bytes()).unwrap();
}

/// Each half by a writer of its own, so that the first half is closed too.
fn in_two_closed_halves(stage: &Stage, text: &str) {
    let (first, second) = text.split_at(text.len() / 2);
    stage.write(FLAG, first);
    std::thread::sleep(BETWEEN_HALVES);
    let mut file = File::options().append(true).open(stage.repo().join(FLAG)).unwrap();
    file.write_all(second.as_bytes()).unwrap();
}

fn link_then_unlink(stage: &Stage, text: &str) {
    let unfinished = stage.repo().join(".flag-in-work");
    fs::write(&unfinished, text).unwrap();
    fs::hard_link(&unfinished, stage.repo().join(FLAG)).unwrap();
    fs::remove_file(unfinished).unwrap();
}

/// From a folder that did not exist a moment ago.
fn out_of_a_fresh_tree(stage: &Stage, text: &str) {
    stage.write("fresh/deep/flag", text);
    fs::rename(stage.repo().join("fresh/deep/flag"), stage.repo().join(FLAG)).unwrap();
    fs::remove_dir_all(stage.repo().join("fresh")).unwrap();
}

/// Over a file that lies there already.
fn truncated_in_place(stage: &Stage, text: &str) {
    stage.write(FLAG, &text[..text.len() - 1]);
    stage.write(FLAG, text);
}

const WAYS: [(&str, Way); 6] = [
    ("truncated in place", truncated_in_place),
    ("renamed in", put_flag),
    ("linked, then unlinked", link_then_unlink),
    ("out of a fresh tree", out_of_a_fresh_tree),
    ("two halves", in_two_halves),
    ("two closed halves", in_two_closed_halves),
];

/// What `reviewed` must find in the comments.
const REQUEST: &str = "### CR-001: name the test\n- **ID**: CR-001\n- **Round**: 1\n- **Severity**: low\n\
    - **Category**: quality\n- **File(s)**: README.md:1\n- **Status**: open\n";

/// One transition for each way: approved and changed, again and again, by hand, since every agent fails.
fn every_way(words: &[&str]) {
    let stage = parked_in("propose");
    for phase in ["review", "execute", "verify"] {
        mark(&stage, &format!("fail-{phase}"));
    }
    stage.write("ENG_REVIEW_COMMENTS.md", REQUEST);
    let daemon = stage.start_with(words);
    let turns = [
        ("propose", "claude-code", "proposed"),
        ("review", "codex", "reviewed"),
        ("review", "claude-code", "revised"),
        ("review", "codex", "approved"),
        ("execute", "claude-code", "executed"),
        ("verify", "codex", "verified-clean"),
    ];
    for (at, ((phase, agent, status), (name, way))) in turns.into_iter().zip(WAYS).enumerate() {
        wait_until_parked(&stage, phase);
        stage.wait("the turn", || (detail(&stage)["detail"]["holder"] == agent).then_some(()));
        way(&stage, &flag(agent, status));
        stage.wait(&format!("the flag {name}"), || {
            (stage.transitions().len() == at + 1).then_some(())
        });
        assert_eq!(refusals(&stage), [""; 0], "{name}");
    }
    assert_eq!(stage.state()["phase"], "complete");
    assert_eq!(daemon.stop(), 0);
}

// covers: DM-03
#[test]
fn every_way_of_writing_is_seen_whole_by_events() {
    every_way(&[]);
}

// covers: DM-02, DM-03
#[test]
fn every_way_of_writing_is_seen_whole_by_polling() {
    every_way(&["--poll"]);
}

/// An agent that needs two seconds for its flag.
fn slow_writer() -> String {
    let moved = "mv .agent-status.json.tmp .agent-status.json";
    let halves = "head -c 40 .agent-status.json.tmp > .agent-status.json; touch \"$HOME/half\"; sleep 2\n\
                  tail -c +41 .agent-status.json.tmp >> .agent-status.json; rm .agent-status.json.tmp";
    assert!(HONEST.contains(moved), "the honest agent moves its flag in");
    gated().replace(moved, halves)
}

// covers: DM-03
#[test]
fn an_agent_that_writes_its_flag_in_two_halves_is_not_refused() {
    let stage = Stage::new(&slow_writer());
    park_for_long(&stage);
    mark(&stage, "fail-review");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    wait_until_parked(&stage, "review");
    assert_eq!(refusals(&stage), [""; 0]);
    drop(daemon);
}

// covers: DM-03, DM-15
#[test]
fn half_a_flag_at_the_start_of_the_daemon_or_at_a_command_is_waited_for() {
    let stage = Stage::new(&slow_writer());
    park_for_long(&stage);
    mark(&stage, "fail-review");
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    stage.wait("half a flag", || stage.at("home/half").exists().then_some(()));
    assert_eq!(stage.agency(&["resume"]).code, 1, "a command makes it look");
    daemon.kill();
    let daemon = stage.start();
    wait_until_parked(&stage, "review");
    assert_eq!(refusals(&stage), [""; 0]);
    assert_eq!(stage.transitions(), ["Review loop: Step 1 proposed"]);
    drop(daemon);
}
