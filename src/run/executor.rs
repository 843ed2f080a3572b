//! The verbs by which runs are started, ended and found again: local now, a cluster later. No place is known here.

use super::spec::RunSpec;
use crate::model::RunId;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Events (`Started`, `Ended`) arrive on the channel that an executor was made with. Each run's `Ended` comes once per
/// executor, and again from the next one until it was acknowledged.
pub trait Executor {
    /// Idempotent by run id: the second call starts nothing.
    fn submit(&self, spec: &RunSpec) -> Result<Ticket, RunError>;

    /// Asks a run to end. Its `Ended` follows as an event.
    fn cancel(&self, run: &RunId, why: &str, grace: Duration) -> Result<CancelOutcome, RunError>;

    /// Finds every run whose end was not acknowledged, and observes it. Called once, after a start.
    fn adopt(&self) -> Result<Vec<Held>, RunError>;

    /// The end is in the journal; it need not be reported again.
    fn acknowledge(&self, run: &RunId) -> Result<(), RunError>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// This call started it.
    Started,
    /// It was started before; its end has come or will come as an event.
    Known,
    /// It has ended, and the end was acknowledged.
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    Asked,
    /// It was never started, and now never will be.
    NotStarted,
    AlreadyEnded,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub run: RunId,
    pub state: HeldState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldState {
    Alive,
    Ended,
    /// Its shim is gone without a record: its tree is being ended, then it is reported as lost.
    Losing,
    /// The intent is on disk, but `submit` did not come to its end. Submit it again, or cancel it.
    Intended,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(
        "`{run}` is not a run id: wanted 1 to 128 letters, digits, `-`, `_` and `.`, no `.` first"
    )]
    Id { run: RunId },
    #[error("there is no run `{run}`")]
    Unknown { run: RunId },
    #[error("the run folder `{}` cannot be used", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the shim `{}` cannot be started", path.display())]
    Shim {
        path: PathBuf,
        #[source]
        cause: io::Error,
    },
}
