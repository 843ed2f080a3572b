//! The real program, real git, real processes, scripted agents. Few tests: wiring, signals, restarts, locks.

mod beside;
mod commands;
mod damage;
mod hostile;
mod kill;
mod looping;
mod parked;
mod service;
pub(crate) mod stage;
mod writing;
