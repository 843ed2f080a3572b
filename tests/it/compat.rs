//! Files of ours that earlier versions wrote must load. Each released format stays in `tests/compat/`.

use crate::e2e::stage::{HONEST, STATE, Stage};
use crate::scenarios::root;
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
