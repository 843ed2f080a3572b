//! `agency`: the daemon that runs AI coding CLIs on repositories and believes nothing they say.
pub mod clock;
pub mod model;
pub mod protocol;
pub mod read;
pub mod watch;
