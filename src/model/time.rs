//! Two clocks, told apart by type. Nothing here reads a clock.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Wall time, for stamps that people and files use. It may jump.
pub type Timestamp = chrono::DateTime<chrono::Utc>;

/// Milliseconds since the machine booted, suspend included. It never jumps; it starts again at a reboot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticks(pub u64);

impl Ticks {
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }

    /// How long ago `earlier` was. A stamp from before a reboot counts as now: downtime is nobody's fault.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// The time of a decision, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    pub wall: Timestamp,
    pub ticks: Ticks,
}

/// When a protocol wants to look again although nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    pub at: Ticks,
    pub why: &'static str,
}

impl Deadline {
    pub fn earlier(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
