//! Clocks that jump and machines that sleep cause no false staleness.

use crate::world::World;
use agency::model::*;
use agency::protocol::review_loop::{Limits, RepoFacts, ReviewLoop};
use std::time::Duration;

fn make() -> Box<dyn agency::protocol::Protocol> {
    Box::new(ReviewLoop::new(
        RepoFacts { repo: "a1b2c3d4".to_owned(), git: true },
        Limits::default(),
    ))
}

fn world_with_a_run() -> (World, RunId) {
    let mut world = World::new(make, "2026-01-01T00:00:00Z".parse().unwrap());
    world.write("README.md", "the project\n");
    world.commit_all("the owner's first commit");
    world.look();
    world.command(Verb::Init, &[("steps", "1")]);
    world.settle().unwrap();
    let run = world.alive().unwrap().spawn.run.clone();
    (world, run)
}

fn write_flag(world: &mut World) {
    let flag = serde_json::json!({"agent": "claude-code", "step": "1", "status": "proposed", "nextAgent": "codex",
        "timestamp": world.now.wall});
    world.write(".agent-status.json", flag.to_string());
}

fn jump(world: &mut World, hours: i64) {
    world.now.wall += chrono::TimeDelta::hours(hours);
}

// covers: DM-11, LP-27
#[test]
fn the_time_to_exit_is_counted_on_the_clock_that_does_not_jump() {
    for hours in [-10, 10] {
        let (mut world, run) = world_with_a_run();
        world.pass(Duration::from_secs(60));
        write_flag(&mut world);
        world.settle().unwrap();
        jump(&mut world, hours);
        world.pass(Duration::from_secs(29));
        world.settle().unwrap();
        assert!(
            world.runs[&run].stop.is_none(),
            "not before its 30 seconds, after a jump of {hours} h"
        );
        world.pass(Duration::from_secs(1));
        world.settle().unwrap();
        assert!(world.runs[&run].stop.is_some(), "and not later, after a jump of {hours} h");
    }
}

// covers: DM-11, LP-28
#[test]
fn a_flag_that_is_written_after_the_clock_was_set_back_is_good() {
    for ends_first in [true, false] {
        let (mut world, run) = world_with_a_run();
        world.pass(Duration::from_secs(60));
        jump(&mut world, -2);
        write_flag(&mut world);
        if ends_first {
            world.end_run(&run, Outcome::Ok);
        }
        world.settle().unwrap();
        world.end_run(&run, Outcome::Ok);
        world.settle().unwrap();
        assert_eq!(world.log("main").len(), 2, "the transition is made; ends first: {ends_first}");
    }
}

// covers: DM-11, LP-28
#[test]
fn a_flag_of_a_later_try_is_good_after_the_clock_was_set_back() {
    let (mut world, run) = world_with_a_run();
    world.pass(Duration::from_secs(60));
    jump(&mut world, -2);
    world.end_run(&run, Outcome::Crash { how: "exit 3".to_owned() });
    world.settle().unwrap();
    world.pass(Duration::from_secs(600));
    world.settle().unwrap();
    let next = world.alive().unwrap().spawn.run.clone();
    world.pass(Duration::from_secs(60));
    write_flag(&mut world);
    world.end_run(&next, Outcome::Ok);
    world.settle().unwrap();
    assert_eq!(world.log("main").len(), 2, "the transition is made");
}

// covers: DM-11, LP-06
#[test]
fn a_flag_that_was_written_before_the_clock_was_set_back_is_good() {
    let (mut world, run) = world_with_a_run();
    world.pass(Duration::from_secs(60));
    write_flag(&mut world);
    jump(&mut world, -2);
    world.end_run(&run, Outcome::Ok);
    world.settle().unwrap();
    assert_eq!(world.log("main").len(), 2, "the transition is made");
}

// covers: LP-28
#[test]
fn a_flag_of_before_its_turn_is_refused_when_no_clock_jumped() {
    let (mut world, run) = world_with_a_run();
    world.pass(Duration::from_secs(60));
    jump(&mut world, -2);
    write_flag(&mut world);
    jump(&mut world, 2);
    world.end_run(&run, Outcome::Ok);
    world.settle().unwrap();
    assert_eq!(world.log("main").len(), 1, "it is two hours older than its turn");
}

// covers: DM-11, LP-06
#[test]
fn a_flag_is_as_old_as_it_was_when_its_run_ended() {
    let (mut world, run) = world_with_a_run();
    world.pass(Duration::from_secs(60));
    write_flag(&mut world);
    world.end_run(&run, Outcome::Ok);
    // The lid is closed before anybody looks: nine hours of sleep.
    world.pass(Duration::from_secs(9 * 3600));
    world.settle().unwrap();
    assert_eq!(world.log("main").len(), 2, "the transition is made, nothing is stale");
}

// covers: DM-11, SU-06
#[test]
fn a_wait_ends_after_a_reboot() {
    let (mut world, run) = world_with_a_run();
    world.end_run(&run, Outcome::Crash { how: "exit 3".to_owned() });
    world.settle().unwrap();
    assert!(world.alive().is_none(), "it waits before the next try");
    // After a reboot the steady clock begins again; the wall clock goes on.
    world.now.ticks = Ticks(5_000);
    jump(&mut world, 1);
    world.restart().unwrap();
    world.settle().unwrap();
    assert!(world.alive().is_some(), "the wait is over by the wall clock");
}
