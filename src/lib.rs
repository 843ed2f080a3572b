//! `agency`: the daemon that runs AI coding CLIs on repositories and believes nothing they say.
//!
//! Agents and people write files. We **read facts, decide, then act**, and these are three kinds of code.
//!
//! ```text
//!   file events · rescans · deadlines · ends of runs · answers · commands      all are wakes: "look again"
//!         │
//!   [watch] [read]   safe reads, "is it whole?"                                 shell
//!   [workspace]      one task per repository; owns everything about it          shell
//!         │ Wake
//!   [protocol]       absorb(wake) updates an index; decide(now) → Decision      PURE
//!         │ Decision { row, effects, rejections, memory }
//!   [store] journal  appended and synced: this is the commit point              shell
//!   [apply]          effects in order, each idempotent by its key               shell
//!         ├─ [store] files     ├─ [run] agents and gates     ├─ [escalate] the owner
//!         └─ [git] one wrapper └─ [apply] answers to questions
//! ```
//!
//! Reading order: [`model`] (the words of the seam) → [`engine`], then `protocol::ledger` (a protocol on it) →
//! [`workspace`] (the loop of one repository) → [`apply`] → [`daemon`] → [`cli`].
//!
//! # Crates
//! - `crates/protocols` is the pure part: [`model`], [`route`], [`engine`] (what every protocol has: sessions, holds, tries, memory)
//!   and [`protocol`]. The compiler proves that it reaches no IO.
//! - `crates/supervisor` keeps one run: shim, process tree, limits, logs. It has no async runtime and outlives the daemon.
//! - `crates/git` is the only part that runs git. `crates/host` has the clocks and the safe read that all of them share.
//! - This package is the daemon and the command line.
//!
//! # What is deliberately absent
//! - The pure part has no IO, clock, environment, randomness or tokio.
//! - `protocol/x` never imports `protocol/y`; the shell never matches on a status or phase.
//! - Only [`store`] writes protocol files, only [`git`] runs git, only [`run`] starts agents, only [`cli`] prints, only
//!   [`clock`] reads clocks. `tests/it/tidy.rs` checks these.
//! - What a decision holds is what the journal stores, so those types of [`model`] derive serde on purpose.
//!
//! # After a crash
//! The journal is replayed: every decision comes back as a wake, every effect without a `done` is done again, then all
//! files are looked at and the protocols decide. Deciding again on the same facts yields nothing new.

pub use agency_git as git;
pub use agency_host::{clock, read};
pub use agency_protocols::{engine, memos, model, protocol, route};

pub mod apply;
pub mod capacity;
pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
mod digest;
pub mod escalate;
pub mod live;
pub mod metrics;
pub mod repository;
pub mod rules;
pub mod run;
pub mod store;
pub mod verbs;
pub mod watch;
mod web;
pub mod workspace;
