//! The simulation: protocols as they are, in random worlds of files, git, agents and owners. Built optimised.

mod dice;
pub mod review_loop;
#[expect(dead_code, reason = "scenarios use more of it than the simulation")]
#[path = "../../it/world.rs"]
mod world;
