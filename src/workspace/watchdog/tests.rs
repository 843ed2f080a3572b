//! The watchdog with a protocol that stands still, at a time that the test sets.

use super::*;
use crate::capacity::Capacity;
use crate::clock;
use crate::config::Config;
use crate::escalate::Notifier;
use crate::model::{Condition, Decision, Interest, Wake};
use crate::protocol::{Protocol, Status};
use crate::repository::StateDir;
use crate::run::Spares;
use crate::workspace::slot::Slot;
use crate::workspace::{Settings, UnknownRepoPolicy};
use std::path::Path;

/// Claims what it is told to claim, and never does anything.
struct Toy(Condition);

impl Protocol for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn interest(&self) -> Interest {
        Interest::default()
    }

    fn absorb(&mut self, _: &Wake) {}

    fn decide(&self, _: Now) -> Decision {
        Decision::default()
    }

    fn condition(&self, _: Now) -> Condition {
        self.0.clone()
    }

    fn status(&self, _: Now) -> Status {
        Status { summary: String::new(), held: None, detail: serde_json::Value::Null }
    }
}

async fn workspace(dir: &Path) -> Workspace {
    let config = Config::default();
    let settings = Settings {
        state_dir: StateDir::at(&dir.join("state")).unwrap(),
        capacity: Capacity::new(crate::daemon::limits(&config)),
        config: config.into(),
        env: Default::default(),
        program: "/nowhere/agency".into(),
        spares: Spares::default(),
        notifier: Notifier::default(),
        problem: None,
    };
    let repo = dir.join("repo");
    std::fs::create_dir_all(&repo).unwrap();
    Workspace::open(&repo, &settings, UnknownRepoPolicy::Wait).await.unwrap()
}

fn at(begun: Now, seconds: u64) -> Now {
    let wait = Duration::from_secs(seconds);
    Now { wall: begun.wall + wait, ticks: begun.ticks.after(wait) }
}

fn told(workspace: &Workspace) -> Vec<(String, State)> {
    let records = workspace.runner.outbox.all().into_iter();
    records.filter(|record| record.rule == RULE).map(|r| (r.summary, r.state)).collect()
}

// covers: DM-17
#[tokio::test]
async fn a_protocol_that_stands_still_for_a_minute_is_told_and_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = workspace(dir.path()).await;
    ours.slots.push(Slot::new(Box::new(Toy(Condition::step("thinking")))));
    ours.work().await.unwrap();
    let begun = clock::now();
    assert!(!ours.has_stalled(begun) && !ours.has_stalled(at(begun, 59)));
    assert!(told(&ours).is_empty(), "a moment is no stall");
    let due = ours.deadline().expect("time alone wakes it");
    assert_eq!(due.at, begun.ticks.after(PATIENCE));
    assert!(ours.has_stalled(at(begun, 60)), "it must be opened again");
    let said = told(&ours);
    assert_eq!(said, [("stalled: `toy` claims to be working: thinking".to_owned(), State::Open)]);
    let record = &ours.runner.outbox.all()[0];
    assert!(record.evidence.iter().any(|line| line.starts_with("journal ")), "{record:?}");
    drop(ours);

    let mut again = workspace(dir.path()).await;
    again.slots.push(Slot::new(Box::new(Toy(Condition::step("thinking")))));
    assert!(!again.has_stalled(clock::now()), "it gets another minute");
    assert_eq!(told(&again)[0].1, State::Open, "it still stands still");
    again.slots[0] = Slot::new(Box::new(Toy(Condition::idle("nothing to do"))));
    assert!(!again.has_stalled(clock::now()));
    assert_eq!(told(&again)[0].1, State::Resolved, "it moves again");
}

// covers: DM-17
#[tokio::test]
async fn one_that_says_why_it_does_nothing_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = workspace(dir.path()).await;
    for condition in [
        Condition::held("a flag was forged", "agency resume"),
        Condition::frozen("no manifest", "agency init"),
        Condition::idle("no task yet"),
        Condition::done("all over"),
    ] {
        ours.slots = vec![Slot::new(Box::new(Toy(condition)))];
        let begun = clock::now();
        assert!(!ours.has_stalled(begun) && !ours.has_stalled(at(begun, 3600)));
    }
    assert!(told(&ours).is_empty());
}

// covers: DM-17, OP-07
#[tokio::test]
async fn a_daemon_that_leaves_because_nothing_moves_tells_of_what_stands_still() {
    let dir = tempfile::tempdir().unwrap();
    let mut ours = workspace(dir.path()).await;
    ours.slots = vec![Slot::new(Box::new(Toy(Condition::done("all over"))))];
    ours.tell_stalls_at_the_end(clock::now());
    assert!(told(&ours).is_empty());
    ours.slots = vec![Slot::new(Box::new(Toy(Condition::step("thinking"))))];
    ours.tell_stalls_at_the_end(clock::now());
    let said = told(&ours);
    assert_eq!(said, [("stalled: `toy` claims to be working: thinking".to_owned(), State::Open)]);
}
