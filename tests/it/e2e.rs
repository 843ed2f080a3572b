//! The real program, real git, real processes, scripted agents. Few tests: wiring, signals, restarts, locks.

mod audit;
mod beside;
mod check;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod clock_jump;
mod commands;
mod damage;
mod dashboard;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod faults;
mod frozen;
mod gates;
mod handoff;
mod hostile;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod injection;
mod insiders;
mod kill;
mod locks;
mod looping;
mod modes;
mod night;
mod notices;
mod owner;
mod page_link;
mod parked;
mod planted;
mod provider;
mod readme;
mod redteam;
mod sandboxed;
mod seats;
mod service;
mod speaking;
pub(crate) mod stage;
mod stranger;
mod talked_round;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) mod tracer;
mod trials;
mod troubles;
mod units;
mod watching;
mod ways_out;
mod writing;
