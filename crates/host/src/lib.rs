//! What every part that touches the machine needs: clocks ([`clock`]) and safe bounded reads ([`read`]). It writes nothing
//! and knows no protocol.

pub mod clock;
pub mod read;
