//! The ledger (spec 5): three documents, five kinds of agents, and one gatekeeper. It reads and writes nothing.
//!
//! `words.rs` holds the tables of words, `progress.rs`, `reviews.rs` and `features.rs` the documents with their schemas and
//! every change that is allowed to them. The commands and the daemon use the same functions.

mod check;
pub mod cycles;
pub mod features;
pub mod issues;
pub mod json;
pub mod progress;
pub mod reviews;
pub mod words;

pub use features::{FEATURES, Features};
pub use progress::{PROGRESS, Progress};
pub use reviews::{REVIEWS, Reviews};

use crate::model::Rejection;

pub const NAME: &str = "ledger";

/// The largest file of the ledger that is read (DESIGN §7).
pub const FILE_MAX: u64 = 128 << 20;

/// One of the three files: bytes in, bytes out, and everything that is wrong with it.
pub trait Document: Sized {
    const FILE: &'static str;

    fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>>;

    fn to_bytes(&self) -> Vec<u8>;

    fn problems(&self) -> Vec<Rejection>;
}

macro_rules! document {
    ($name:ident, $file:ident) => {
        impl Document for $name {
            const FILE: &'static str = $file;

            fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>> {
                Self::read(bytes)
            }

            fn to_bytes(&self) -> Vec<u8> {
                self.to_bytes()
            }

            fn problems(&self) -> Vec<Rejection> {
                self.problems()
            }
        }
    };
}

document!(Progress, PROGRESS);
document!(Reviews, REVIEWS);
document!(Features, FEATURES);
