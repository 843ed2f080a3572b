//! What the owner must hear, kept until they have heard it. It knows no protocol and decides nothing.

mod outbox;

pub use outbox::{EscalateError, Outbox, Record, State};
