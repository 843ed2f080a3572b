//! Files of ours that earlier versions wrote must load. Each released format stays in `tests/compat/`.

use crate::e2e::stage::{HONEST, STATE, Stage};
use crate::scenarios::root;
use agency::model::{Decision, Now, Ticks, Wake};
use agency::protocol::Protocol;
use agency::protocol::ledger::{Ledger, Limits, RepoFacts};
use std::fmt::Write as _;
use std::fs;

/// A loop without git in the middle of step 1, as version 1 of the journal left it: its third run was alive.
// covers: DM-08, DM-06, SU-02
#[test]
fn a_journal_of_version_1_goes_on_where_it_was() {
    let old = |name: &str| fs::read(root("tests/compat/1").join(name)).unwrap();
    let stage = Stage::new(HONEST);
    fs::remove_dir_all(stage.repo().join(".git")).unwrap();
    fs::create_dir(stage.repo().join(".agency")).unwrap();
    fs::write(stage.repo().join(".agency/id"), old("id")).unwrap();
    fs::write(stage.repo().join(STATE), old("review-loop-state.json")).unwrap();
    let journal = stage.at("state/repo-d728be03/journal");
    fs::create_dir_all(&journal).unwrap();
    fs::write(journal.join("000001.jsonl"), old("journal.jsonl")).unwrap();
    assert_eq!(stage.state()["phase"], "verify");
    assert_eq!(stage.start_with(&["--once"]).wait(), 0, "{}", stage.daemon_log());
    assert_eq!(stage.state()["phase"], "complete", "{}", stage.ok(&["escalations", "--all"]));
    assert_eq!(
        stage.state()["history"].as_array().unwrap().len(),
        8,
        "no transition is lost or done twice"
    );
    assert_eq!(
        stage.started().len(),
        5,
        "the run whose folder is gone is lost, and its turn is tried again"
    );
}

/// The ledger's memory at every stage of a session, as the version before `engine` wrote it: preparing, waiting for another try, a run
/// alive, ended, looked at, being merged, held, at rest. Each line is one decision of a journal.
// covers: DM-08
#[test]
fn the_ledgers_memory_of_before_the_engine_is_read() {
    let now = Now { wall: "2026-11-18T19:34:49Z".parse().unwrap(), ticks: Ticks(3_071_000) };
    let mut shown = String::new();
    for line in fs::read_to_string(root("tests/compat/ledger/memos.jsonl")).unwrap().lines() {
        let decision: Decision = serde_json::from_str(line).unwrap();
        let place = RepoFacts { repo: "a1b2c3d4".to_owned(), name: "shop".to_owned(), git: true };
        let mut ledger = Ledger::new(place, Limits::default());
        ledger.absorb(&Wake::Decided(decision));
        let condition = ledger.condition(now);
        let run = condition.run().map_or_else(String::new, |run| format!(" ({})", run.run));
        writeln!(shown, "{}{run}", ledger.status(now).summary).unwrap();
    }
    crate::scenarios::golden("tests/compat/ledger/memos.txt", &shown);
}
