//! What the owner must hear, kept until they have heard it. It knows no protocol and decides nothing.
//!
//! - [`Outbox`] is the durable list of one repository: one record per cause.
//! - [`Courier`] carries what is due through the [`Channels`]; what is due is decided in `plan`, how often it is tried
//!   in `pace`, how it looks in `shapes`. Deliveries are on disk in `track` before and after each attempt.
//! - [`Heartbeat`] and [`SystemdNotifier`] tell the outside that we live, only as long as everybody who promised proves it.

mod channels;
mod courier;
mod damaged;
mod heartbeat;
mod message;
mod notifier;
mod outbox;
mod pace;
mod plan;
mod redact;
mod send;
mod shapes;
mod systemd;
mod track;
mod unwritten;

pub use channels::{Channels, Surroundings};
pub use courier::{Courier, CourierHandle, Running};
pub use heartbeat::{Heartbeat, HeartbeatError, Proof, Proofs};
pub use notifier::{Notifier, channels};
pub use outbox::{EscalateError, Outbox, Record, State, in_repo};
pub use plan::FloodLimit;
pub use redact::Redactor;
pub use send::{SigningKeys, signature};
pub use systemd::SystemdNotifier;
pub use track::{Delivery, DeliveryState};
