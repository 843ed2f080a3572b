//! `agency audit loop` on real histories: one that we made ourselves, and one of a repository that ran the protocol before us.

use super::stage::{FLAG, HONEST, STATE, Stage};
use serde_json::{Value, json};

const COMMENTS: &str = "ENG_REVIEW_COMMENTS.md";
const RESPONSE: &str = "ENG_REVIEW_RESPONSE.md";

fn found(stage: &Stage, more: &[&str]) -> Vec<(String, String)> {
    let said = stage.agency(&[&["audit", "loop", "--json"], more].concat());
    let all: Vec<Value> =
        serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    assert_eq!(said.code, i32::from(!all.is_empty()), "{}{}", said.out, said.err);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.iter().map(|one| (text(&one["rule"]), text(&one["subject"]))).collect()
}

fn state(stage: &Stage, step: &str, phase: &str, agent: &str, round: u32) {
    let state =
        json!({"currentStep": step, "currentRound": round, "phase": phase, "activeAgent": agent});
    stage.write(STATE, state.to_string());
}

fn commit(stage: &Stage, subject: &str) -> String {
    stage.git(&["add", "-A"]);
    stage.git(&["commit", "--quiet", "-m", subject]);
    stage.git(&["rev-parse", "HEAD"])
}

fn request(severity: &str, category: &str) -> String {
    format!(
        "### CR-001: a wish\n- **ID**: CR-001\n- **Round**: 1\n- **Severity**: {severity}\n\
         - **Category**: {category}\n- **File(s)**: src/a.rs:1\n- **Status**: open\n"
    )
}

// covers: LP-01, LP-16, LP-17, LP-19
#[test]
fn a_history_of_our_own_has_nothing_to_find() {
    let stage = Stage::new(HONEST);
    assert!(stage.agency(&["audit", "loop"]).err.contains("no commit touches"));
    stage.ok(&["loop", "init", "--steps", "1,6.5"]);
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.transitions().len(), 8);
    let before = stage.git(&["status", "--porcelain", "--ignored"]);
    assert_eq!(found(&stage, &[]), []);
    assert_eq!(stage.git(&["status", "--porcelain", "--ignored"]), before, "nothing is written");
}

/// Each commit breaks the rule that its subject ends with.
// covers: LP-01, LP-03, LP-11, LP-12, LP-13, LP-14, LP-15, LP-16, LP-17, LP-19, LP-25
#[test]
fn every_violation_of_an_old_history_is_listed() {
    let stage = Stage::new("exit 0");
    stage.write("owner-mandates.json", r#"{"mandatedSteps": ["4", "7"]}"#);
    state(&stage, "1", "propose", "claude-code", 1);
    commit(&stage, "the owner begins");
    stage.write(RESPONSE, "the plan\n");
    state(&stage, "1", "review", "codex", 1);
    commit(&stage, "Review loop: Step 1 proposed");
    stage.write(COMMENTS, request("critical", "security"));
    state(&stage, "1", "execute", "claude-code", 1);
    commit(&stage, "Review loop: Step 1 approved LP-15");
    stage.write(FLAG, "{}");
    commit(&stage, "work LP-19");
    stage.git(&["rm", "--quiet", FLAG]);
    state(&stage, "1", "propose", "claude-code", 1);
    commit(&stage, "Review loop: Step 1 back LP-03");
    let middle = stage.git(&["rev-parse", "HEAD"]);
    state(&stage, "1", "review", "codex", 9);
    commit(&stage, "Review loop: Step 1 proposed LP-25");
    state(&stage, "1", "execute", "claude-code", 1);
    commit(&stage, "work of somebody LP-19");
    stage.write("reviews/COMMENTS-1.md", request("critical", "security"));
    stage.write(COMMENTS, "nothing\n");
    commit(&stage, "Review loop: Step 1 comments LP-17");
    state(&stage, "1", "verify", "codex", 1);
    commit(&stage, "Review loop: Step 1 executed");
    stage.write(COMMENTS, "### CR-1x: not a request\n");
    state(&stage, "2", "propose", "claude-code", 1);
    commit(&stage, "Review loop: Step 1 advanced LP-16 LP-14");
    state(&stage, "2", "review", "codex", 1);
    stage.write("owner-mandates.json", r#"{"mandatedSteps": ["2", "4"]}"#);
    commit(&stage, "Review loop: Step 2 proposed LP-12");
    stage.write("reviews/COMMENTS-2.md", "### CR-1x: not a request\n");
    stage.write(COMMENTS, request("low", "scope"));
    state(&stage, "2", "review", "claude-code", 1);
    commit(&stage, "Review loop: Step 2 reviewed LP-12");
    stage.write("reviews/RESPONSE-1.md", "the plan\n");
    stage.write(RESPONSE, "Deferred: all of it\n");
    state(&stage, "2", "review", "codex", 2);
    commit(&stage, "Review loop: Step 2 revised LP-13");
    for (phase, agent) in [("execute", "claude-code"), ("verify", "codex")] {
        state(&stage, "2", phase, agent, 1);
        commit(&stage, "Review loop: Step 2 on");
    }
    state(&stage, "5", "propose", "claude-code", 1);
    commit(&stage, "Review loop: Step 2 advanced LP-13");
    stage.write(STATE, "not json");
    commit(&stage, "Review loop: Step 5 LP-11");
    let all = found(&stage, &[]);
    for (rule, subject) in &all {
        // The odd one out: rows of malformed requests come one for each field.
        assert!(subject.contains(rule.as_str()), "{rule} in `{subject}`: {all:#?}");
    }
    let rules: std::collections::BTreeSet<_> = all.iter().map(|(rule, _)| rule.as_str()).collect();
    let wanted =
        ["LP-03", "LP-11", "LP-12", "LP-13", "LP-14", "LP-15", "LP-16", "LP-17", "LP-19", "LP-25"];
    assert!(wanted.iter().all(|rule| rules.contains(rule)), "{rules:?}");
    let later = found(&stage, &["--since", &middle[..10]]);
    assert!(later.len() < all.len() && all.ends_with(&later), "only what came after: {later:?}");
    assert_eq!(found(&stage, &["--since", "2999-01-01"]), []);
    let said = stage.agency(&["audit", "loop", "--since", "yesterday"]);
    assert!(said.code == 2 && said.err.contains("is not a date"), "{}", said.err);
    assert!(
        stage
            .agency(&["audit", "loop"])
            .out
            .contains("  LP-03  .review-loop-state.json: no row leads")
    );
}
