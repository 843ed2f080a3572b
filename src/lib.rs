//! `agency`: the daemon that runs AI coding CLIs on repositories and believes nothing they say.
pub mod config;
pub mod escalate;
pub mod git;
pub mod model;
pub mod protocol;
pub mod repository;
pub mod run;
pub mod store;
