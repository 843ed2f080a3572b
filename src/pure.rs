//! The pure part as a crate of its own, for the simulation: optimised, so that a million decisions fit into the everyday
//! test run. No copy and no part of the program: the same files, and what does not compile here is not pure.

pub mod model;
pub mod protocol;
pub mod route;
