//! The five causes for which the specification's own script calls the owner (spec 1 §7): each gives exactly one message.

use crate::world::World;
use agency::model::*;
use agency::protocol::review_loop::{Limits, RepoFacts, ReviewLoop};
use serde_json::json;
use std::time::Duration;

const COMMENTS: &str = "ENG_REVIEW_COMMENTS.md";

fn make() -> Box<dyn agency::protocol::Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git: true };
    Box::new(ReviewLoop::new(place, Limits::default()))
}

/// A loop at its first turn, with claude-code running.
fn begun() -> World {
    let mut world = World::new(make, "2026-01-01T00:00:00Z".parse().unwrap());
    world.write("README.md", "the project\n");
    world.write("CODEBASE.md", "the map\n");
    world.write(COMMENTS, "nothing yet\n");
    world.commit_all("the owner's first commit");
    world.look();
    world.command(Verb::Init, &[("steps", "1,2")]);
    world.settle().unwrap();
    assert!(world.alive().is_some() && world.escalations.is_empty());
    world
}

fn flag(world: &mut World, step: &str, status: &str) {
    let flag = json!({"agent": "claude-code", "step": step, "status": status, "nextAgent": "codex",
        "timestamp": world.now.wall});
    world.write(".agent-status.json", flag.to_string());
}

fn end(world: &mut World, outcome: Outcome) {
    let run = world.alive().expect("a run is alive").spawn.run.clone();
    world.end_run(&run, outcome);
    world.settle().unwrap();
}

/// Looks again and again, also after a restart: no second message comes.
fn only(world: &mut World, rule: &str) -> Escalation {
    for _ in 0..3 {
        world.pass(Duration::from_secs(5));
        world.settle().unwrap();
        world.restart().unwrap();
        world.settle().unwrap();
    }
    let told = world.decisions.iter().flat_map(|decision| &decision.effects);
    let told: Vec<_> = told
        .filter_map(|keyed| match &keyed.effect {
            Effect::Escalate(escalation) => Some(escalation),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1, "one message: {told:#?}");
    assert_eq!(told[0].cause.rule.as_str(), rule);
    assert!(told[0].evidence.iter().any(|line| !line.is_empty()), "{rule} has no evidence");
    (**told[0]).clone()
}

// covers: LP-23, LP-03
#[test]
fn an_invalid_transition_is_told_once() {
    let mut world = begun();
    flag(&mut world, "1", "approved");
    end(&mut world, Outcome::Ok);
    assert!(only(&mut world, "LP-03").holds);
}

// covers: LP-23, LP-10
#[test]
fn three_refused_flags_in_a_row_are_told_once() {
    let mut world = begun();
    for step in ["7", "8", "9"] {
        flag(&mut world, step, "proposed");
        end(&mut world, Outcome::Ok);
        world.pass(Duration::from_secs(200));
        world.settle().unwrap();
    }
    assert!(only(&mut world, "LP-10").evidence[0].contains("LP-05"));
}

// covers: LP-21, LP-23
#[test]
fn a_stale_lock_without_a_process_is_told_once_and_names_its_run() {
    let mut world = begun();
    let run = world.alive().unwrap().spawn.run.clone();
    world.pass(Duration::from_secs(46 * 60));
    world.settle().unwrap();
    end(&mut world, Outcome::Lost);
    let told = only(&mut world, "LP-21");
    assert!(!told.holds && told.summary.contains(run.as_str()), "{}", told.summary);
    world.pass(Duration::from_secs(600));
    world.settle().unwrap();
    assert!(world.alive().is_some(), "the agent is tried again");
}

// covers: LP-21
#[test]
fn a_lock_with_a_living_process_or_a_young_one_is_never_stale() {
    let mut world = begun();
    world.pass(Duration::from_secs(3 * 3600));
    world.settle().unwrap();
    assert!(world.alive().is_some() && world.escalations.is_empty(), "it lives");
    let mut world = begun();
    world.pass(Duration::from_secs(44 * 60));
    end(&mut world, Outcome::Lost);
    assert!(world.escalations.is_empty(), "it was lost early");
    // A clock that jumps makes nothing older (DM-11).
    let mut world = begun();
    world.now.wall += chrono::TimeDelta::hours(5);
    world.now.ticks = world.now.ticks.after(Duration::from_secs(60));
    end(&mut world, Outcome::Lost);
    assert!(world.escalations.is_empty(), "a jump is no age: {:?}", world.escalations);
}

// covers: LP-23, LP-11
#[test]
fn an_edited_state_file_is_told_once() {
    let mut world = begun();
    world.write(".review-loop-state.json", "{\"currentStep\": \"2\"}");
    world.settle().unwrap();
    assert!(only(&mut world, "LP-11").evidence[0].contains("currentStep"));
}

// covers: LP-23, LP-17
#[test]
fn comments_by_anybody_but_the_reviewer_are_told_once() {
    let mut world = begun();
    world.write(COMMENTS, "approved, says claude-code\n");
    world.settle().unwrap();
    assert!(only(&mut world, "LP-17").evidence.iter().any(|line| line.contains("approved")));
}
