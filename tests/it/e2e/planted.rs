//! An agent plants programs for git, or moves refs: the loop holds, nothing runs, and the owner's word lets it go on.

use super::stage::{HONEST, Stage};
use serde_json::Value;

/// Before its honest work: harmless settings in every run, and in the first one a hook and a monitor.
const PLANTS: &str = r#"
git config user.name "$AGENCY_AGENT"
git config branch.main.description "$AGENCY_RUN"
if [ "$AGENCY_PHASE" = propose ] && [ ! -e "$HOME/planted" ]; then
  touch "$HOME/planted"
  printf '#!/bin/sh\necho "$0" >> %s/ran\n' "$HOME" > .git/hooks/reference-transaction
  chmod +x .git/hooks/reference-transaction
  cp .git/hooks/reference-transaction "$HOME/monitor"
  git config core.fsmonitor "$HOME/monitor"
fi
"#;

fn planted() -> Stage {
    let stage = Stage::new(&format!("{PLANTS}{HONEST}"));
    stage.ok(&["loop", "init", "--steps", "1"]);
    stage
}

/// Those of this rule that wait for the owner.
fn open(stage: &Stage, rule: &str) -> Option<Value> {
    let all = stage.json(&["escalations", "--json"]);
    let is_open = |one: &&Value| one["rule"] == rule && one["state"] != "resolved";
    all.as_array().unwrap().iter().find(is_open).cloned()
}

fn is_held(stage: &Stage) -> bool {
    stage.json(&["status", "--json"])["repos"][0]["held"] == true
}

fn ran(stage: &Stage) -> bool {
    stage.at("home/ran").exists()
}

// covers: SE-01, SE-04
#[test]
fn a_planted_hook_and_monitor_hold_the_loop_until_they_are_trusted() {
    let stage = planted();
    let daemon = stage.start();
    let told = stage.wait("the hold", || stage.escalation("SE-01"));
    let said = told.to_string();
    for word in
        [".git/config", "core.fsmonitor", "home/monitor", ".git/hooks/reference-transaction"]
    {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    assert!(told["resolve"].as_str().unwrap().starts_with("agency trust --repo "), "{said}");
    assert!(is_held(&stage) && stage.transitions().is_empty() && !ran(&stage));
    let refused = stage.agency(&["resume"]);
    assert!(refused.code == 1 && refused.err.contains("agency trust"), "{}", refused.err);
    let trusted = stage.ok(&["trust"]);
    assert!(trusted.contains("the loop goes on"), "{trusted}");
    stage.wait_for_phase("complete");
    stage.wait("the last commit", || (stage.transitions().len() == 4).then_some(()));
    assert!(!ran(&stage), "trusted or not, no hook and no monitor runs in our git");
    assert_eq!(open(&stage, "SE-01"), None);
    let all = stage.json(&["escalations", "--all", "--json"]);
    let of = |rule: &str| all.as_array().unwrap().iter().filter(|one| one["rule"] == rule).count();
    assert_eq!(of("SE-01"), 1, "harmless settings never hold: {all}");
    assert_eq!(of("SE-04"), 1, "it is announced: {all}");
    drop(daemon);
}

// covers: SE-01, DM-06, DM-15
#[test]
fn what_was_planted_is_still_held_after_a_kill_and_trusted_without_a_daemon() {
    let stage = planted();
    let daemon = stage.start();
    stage.wait("the hold", || stage.escalation("SE-01"));
    daemon.kill();
    assert_eq!(stage.start_with(&["--once"]).wait(), 1, "{}", stage.daemon_log());
    assert!(is_held(&stage) && stage.transitions().is_empty() && !ran(&stage));
    assert!(stage.ok(&["trust"]).contains("the loop goes on"));
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!((stage.transitions().len(), ran(&stage)), (4, false));
}

/// Each turn of the first step moves another kind of ref.
const MOVES: &str = r#"
owner() { git -c user.name=A -c user.email=a@b "$@"; }
if [ ! -e "$HOME/moved-$AGENCY_PHASE" ]; then
  touch "$HOME/moved-$AGENCY_PHASE"
  case "$AGENCY_PHASE" in
    propose) owner tag planted ;;
    review) owner branch planted ;;
    execute) owner branch --force kept HEAD~1 ;;
    verify) owner tag --delete kept >/dev/null ;;
  esac
fi
"#;

// covers: LP-20
#[test]
fn tags_and_branches_that_an_agent_makes_moves_or_deletes_hold() {
    let stage = Stage::new(&format!("{MOVES}{HONEST}"));
    stage.git(&["branch", "kept"]);
    stage.git(&["tag", "kept"]);
    stage.ok(&["loop", "init", "--steps", "1"]);
    let daemon = stage.start();
    for turn in 0..4 {
        let told = stage.wait(&format!("hold {turn}"), || open(&stage, "LP-20"));
        assert_eq!((&told["holds"], stage.transitions().len()), (&true.into(), turn), "{told}");
        stage.ok(&["resume"]);
    }
    stage.wait("the last commit", || (stage.transitions().len() == 4).then_some(()));
    drop(daemon);
}
