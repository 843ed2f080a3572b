//! Agents that try to get a transition that they did not earn, one after the other, against one real daemon and real git.
//! Each attempt ends in its rule; none moves the loop.

use super::parked::refusals;
use super::stage::{FLAG, HONEST, STATE, Stage};
use std::fs;

const REDTEAM: &str = include_str!("../agents/redteam.sh");

/// How an attempt ends.
enum End {
    /// The flag is refused by this rule, the agent is started again.
    Refused(&'static str),
    /// The owner is told of this rule; the flag that came with it is refused by the other.
    Told(&'static str, &'static str),
    /// The loop is held by this rule.
    Held(&'static str),
}
use End::{Held, Refused, Told};

const ATTACKS: &[(&str, End)] = &[
    ("forge-agent", Refused("LP-08")),
    ("replay", Refused("LP-28")),
    ("backdate", Refused("LP-06")),
    ("future", Refused("LP-06")),
    ("race", Refused("LP-08")),
    ("edit-state", Told("LP-11", "LP-05")),
    // By its step while the agent runs, or by the foreign file once it has ended: whichever is looked at first.
    ("other-review", Told("LP-17", "LP-05 LP-31")),
    ("skip-ahead", Held("LP-03")),
    ("mandates", Held("LP-12")),
    ("commit", Held("LP-20")),
    ("hooks", Held("SE-01")),
];

fn stage() -> Stage {
    let stage = Stage::new(REDTEAM);
    stage.configure_agents("retries: 20, backoff: 10ms", "loop: { max_rejections: 100 }\n");
    fs::write(stage.at("home/honest.sh"), HONEST).unwrap();
    for (file, text) in [
        ("ENG_REVIEW_COMMENTS.md", "nothing yet\n"),
        ("owner-mandates.json", "{\"mandatedSteps\": []}\n"),
        ("CODEBASE.md", "the map\n"),
    ] {
        stage.write(file, text);
    }
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", "the owner's files"]);
    stage.ok(&["loop", "init", "--steps", "1,2"]);
    stage
}

fn attack(stage: &Stage, name: &str) {
    fs::write(stage.at("home/attack.tmp"), name).unwrap();
    fs::rename(stage.at("home/attack.tmp"), stage.at("home/attack")).unwrap();
}

/// Flags that race may be refused one by one: the rule must be among what was refused since.
fn wait_for_refusal(stage: &Stage, name: &str, rule: &str, before: usize) {
    stage.wait(&format!("the refusal of {name} by {rule}"), || {
        let is_one = |seen: &String| rule.split(' ').any(|rule| rule == seen);
        refusals(stage)[before..].iter().any(is_one).then_some(())
    });
}

/// The owner takes the flag away and puts the files right before the loop goes on.
fn put_right(stage: &Stage) {
    fs::remove_file(stage.repo().join(FLAG)).ok();
    stage.git(&["checkout", "--quiet", "HEAD", "--", "owner-mandates.json"]);
    if stage.agency(&["resume"]).code != 0 {
        stage.git(&["config", "--unset-all", "core.hooksPath"]);
        fs::remove_file(stage.repo().join(".git/hooks/post-commit")).unwrap();
        stage.ok(&["trust"]);
    }
}

fn check(stage: &Stage, name: &str, end: &End) {
    let before = refusals(stage).len();
    attack(stage, name);
    match end {
        Refused(rule) => wait_for_refusal(stage, name, rule, before),
        Told(told, refused) => {
            let told = stage.wait(&format!("the message of {name}"), || stage.escalation(told));
            assert!(!told["evidence"].as_array().unwrap().is_empty(), "{told}");
            wait_for_refusal(stage, name, refused, before);
        }
        Held(rule) => {
            let told = stage.wait(&format!("the hold of {name}"), || stage.escalation(rule));
            assert_eq!(told["state"], "open", "{told}");
            put_right(stage);
        }
    }
    assert!(stage.transitions().is_empty(), "{name} moved the loop");
    stage.wait("our state", || (stage.state()["currentStep"] == "1").then_some(()));
    assert_eq!(
        (&stage.state()["phase"], &stage.state()["history"]),
        (&"propose".into(), &serde_json::json!([]))
    );
}

// covers: LP-03, LP-05, LP-06, LP-08, LP-11, LP-12, LP-17, LP-20, LP-28, SE-01
#[test]
fn no_attack_ends_in_a_transition() {
    let stage = stage();
    let daemon = stage.start();
    for (name, end) in ATTACKS {
        check(&stage, name, end);
    }
    fs::write(stage.at("home/honest"), "").unwrap();
    stage.wait("honest work to go through", || (stage.transitions().len() >= 4).then_some(()));
    let tampered: Vec<_> = super::parked::quarantined(&stage);
    let forged =
        |bytes: &&Vec<u8>| String::from_utf8_lossy(bytes).contains("\"currentStep\": \"2\"");
    assert!(tampered.iter().any(|bytes| forged(&bytes)), "the forged `{STATE}` is kept");
    assert!(!stage.at("home/ran").exists(), "no planted hook ran");
    drop(daemon);
}
