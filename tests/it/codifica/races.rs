//! Clones that race for tasks over a real bare remote.

use super::{is_untouched, shared, task};
use crate::e2e::stage::Said;
use std::collections::BTreeMap;

/// `AGENCY_TRIALS` is the full number of tasks.
const EVERYDAY: usize = 8;

// covers: CD-08
#[test]
fn eight_clones_race_for_one_task_and_one_wins() {
    let (stage, clones) = shared(&[task("FEAT-1", "")], 8);
    let heads: Vec<_> =
        clones.iter().map(|dir| stage.git_in(dir, &["rev-parse", "HEAD"])).collect();
    let said: Vec<Said> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, dir) in clones.iter().enumerate() {
            let (stage, agent) = (&stage, format!("a{number}"));
            running.push(scope.spawn(move || {
                stage.agency_in(dir, &["work", "claim", "FEAT-1", "--agent", &agent])
            }));
        }
        running.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let winners: Vec<_> = (0..8).filter(|at| said[*at].code == 0).collect();
    assert_eq!(winners.len(), 1, "{:?}", said.iter().map(|one| &one.err).collect::<Vec<_>>());
    assert!(said.iter().all(|one| one.code == 0 || (one.code == 1 && one.err.contains("CD-"))));
    let log = stage.git_in(&stage.at("hub.git"), &["log", "--format=%an %s", "main"]);
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(log.starts_with(&format!("agent:a{} codifica: FEAT-1 claimed", winners[0])), "{log}");
    for (at, dir) in clones.iter().enumerate() {
        assert!(is_untouched(&stage, dir), "clone {at} is dirty");
        let moved = stage.git_in(dir, &["rev-parse", "HEAD"]) != heads[at];
        assert_eq!(moved, winners.contains(&at), "only the winner's checkout follows");
    }
    let text = std::fs::read_to_string(clones[winners[0]].join("work/active.md")).unwrap();
    assert!(
        text.contains("state: in_progress")
            && text.contains("claimed_at: 2")
            && text.contains("Prose – stays.")
    );
}

// covers: CD-08, CD-23
#[test]
fn eight_clones_share_many_tasks_and_each_is_claimed_once() {
    let wanted = std::env::var("AGENCY_TRIALS").ok().and_then(|text| text.parse().ok());
    let count = wanted.unwrap_or(EVERYDAY).min(100);
    let tasks: Vec<_> = (0..count).map(|number| task(&format!("T-{number}"), "")).collect();
    let (stage, clones) = shared(&tasks, 8);
    std::thread::scope(|scope| {
        for (number, dir) in clones.iter().enumerate() {
            let (stage, agent) = (&stage, format!("a{number}"));
            scope.spawn(move || {
                loop {
                    let said = stage.agency_in(dir, &["work", "claim", "--agent", &agent]);
                    if said.code != 0 {
                        assert!(said.code == 1 && said.err.contains("no task"), "{}", said.err);
                        break;
                    }
                }
            });
        }
    });
    let log = stage.git_in(&stage.at("hub.git"), &["log", "--reverse", "--format=%an %s", "main"]);
    let mut claims: BTreeMap<&str, &str> = BTreeMap::new();
    for line in log.lines().skip(2) {
        let words: Vec<_> = line.split(' ').collect();
        assert!(claims.insert(words[2], words[0]).is_none(), "{} was claimed twice", words[2]);
    }
    assert_eq!(claims.len(), count);
    let text = stage.git_in(&stage.at("hub.git"), &["show", "main:work/active.md"]);
    for (id, agent) in &claims {
        let block =
            text.split("- id: ").find(|block| block.starts_with(&format!("{id}\n"))).unwrap();
        assert!(
            block.contains(&format!("owner: {agent}\n"))
                && block.matches("to: in_progress").count() == 1,
            "{block}"
        );
    }
    assert!(clones.iter().all(|dir| is_untouched(&stage, dir)), "no clone is left dirty");
}
