//! The simulation: protocols as they are, in random worlds of files, git, agents and owners. Built optimised.

pub mod board;
mod dice;
pub mod review_loop;
#[path = "../../it/sheets.rs"]
mod sheets;
#[path = "../../it/world.rs"]
mod world;
