//! The real program, real git, real processes, scripted agents. Few tests: wiring, signals, restarts, locks.

mod commands;
mod kill;
mod looping;
mod service;
pub(crate) mod stage;
