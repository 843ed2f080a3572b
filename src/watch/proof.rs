//! Waits for the canary's event. Who switches to polling when it does not come is not decided here.

use super::canary;
use crate::model::Ticks;
use std::path::PathBuf;

#[derive(Default)]
pub(super) struct Proof {
    waiting: Option<(PathBuf, Ticks)>,
}

impl Proof {
    /// A folder where we cannot write proves nothing, in neither direction.
    pub(super) fn begin(folder: Option<&PathBuf>, until: Ticks) -> Self {
        let Some(folder) = folder else { return Self::default() };
        match canary::write(folder) {
            Ok(()) => Self { waiting: Some((folder.clone(), until)) },
            Err(error) => {
                tracing::debug!(folder = %folder.display(), %error, "no canary");
                Self::default()
            }
        }
    }

    pub(super) fn until(&self) -> Option<Ticks> {
        self.waiting.as_ref().map(|(_, until)| *until)
    }

    pub(super) fn heard(&mut self) {
        if let Some((folder, _)) = self.waiting.take() {
            canary::remove(&folder);
        }
    }

    /// Did the event not come in time? Said once.
    pub(super) fn is_overdue(&mut self, now: Ticks) -> bool {
        let overdue = self.until().is_some_and(|until| until <= now);
        if overdue {
            self.heard();
        }
        overdue
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.heard();
    }
}
