//! Money: what the runs of a step may cost.

use crate::world::World;
use agency::model::*;
use agency::protocol::review_loop::{Limits, RepoFacts, ReviewLoop};

fn capped() -> Box<dyn agency::protocol::Protocol> {
    let place = RepoFacts { repo: "a1b2c3d4".to_owned(), git: true };
    Box::new(ReviewLoop::new(place, Limits { cost_per_step: Some(1_000_000), ..Limits::default() }))
}

// covers: SU-07
#[test]
fn a_step_past_its_cap_waits_for_the_owner() {
    let mut world = World::new(capped, "2026-01-01T00:00:00Z".parse().unwrap());
    world.write("README.md", "the project\n");
    world.commit_all("the owner's first commit");
    world.look();
    world.command(Verb::Init, &[("steps", "1,2")]);
    world.settle().unwrap();
    for cost in [600_000, 600_000] {
        let run = world.alive().expect("within the cap a run is started").spawn.run.clone();
        world.end_run(&run, Outcome::Timeout { limit: "silence".to_owned() });
        let usage = &mut world.runs.get_mut(&run).unwrap().end.as_mut().unwrap().usage;
        usage.cost_microusd = Some(cost);
        usage.session = Some("s-1".to_owned());
        world.settle().unwrap();
        world.pass(std::time::Duration::from_secs(600));
        world.settle().unwrap();
    }
    assert!(world.alive().is_none(), "past the cap nothing is started");
    let told = world.escalations.last().unwrap();
    assert_eq!((told.cause.rule.as_str(), told.holds), ("SU-07", true));
    assert!(told.summary.contains("$1.20"), "{}", told.summary);
    world.command(Verb::Resume, &[]);
    world.settle().unwrap();
    let run = world.alive().expect("the owner allowed as much again");
    assert_eq!(run.spawn.resume.as_deref(), Some("s-1"), "the agent's own session goes on");
}
