//! The pure part of `agency`: the words that shell and protocols share ([`model`]), how a repository's protocols are
//! found ([`route`]), what every protocol has ([`engine`]), and the five protocols. It is a crate of its own so that the compiler proves the absence of IO: it
//! depends on no runtime, watcher or process library. It reads no file, clock or environment and starts no process.

pub mod engine;
pub mod model;
pub mod protocol;
pub mod route;
