//! The owner's pages in a browser: what they show ([`view`]), how they look (`pages`), who may see them and who may act (`gate`).
//! It reads no file of a repository and knows no protocol: the daemon brings the facts and the verbs as a [`Source`].
//!
//! A request passes, in this order: the Host allow-list, the Origin against the same list, Sec-Fetch-Site, the process at the
//! other end (no process of a run gets in), the lock-out of its source, the session, the right to act, and the token of the form.

mod act;
mod address;
mod assets;
mod chart;
mod client;
pub mod digest;
mod forms;
mod gate;
mod headers;
mod live;
mod lockout;
mod metrics;
mod pages;
mod peer;
mod safe;
mod server;
mod session;
mod source;
mod token;
pub mod view;

pub use act::Act;
pub use client::{Link, ask_link};
pub use metrics::serve_metrics;
pub use peer::{Identify, Standing};
pub use server::{Dashboard, Options, ServeError};
pub use session::Right;
pub use source::{Caller, Outcome, Pending, Source};
