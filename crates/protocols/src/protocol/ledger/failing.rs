//! Ends of runs that are no success, whatever the run left.

use super::memory::Ended;
use crate::model::Outcome;

/// The words for an end that is no success, whatever lies there.
pub(super) fn failed(ended: &Ended) -> Option<String> {
    match &ended.outcome {
        Outcome::Crash { .. } | Outcome::Timeout { .. } | Outcome::Lost => {
            Some(format!("the run {}", ended.outcome.sentence()))
        }
        Outcome::Ok
        | Outcome::Stopped { .. }
        | Outcome::UsageLimit { .. }
        | Outcome::Provider { .. }
        | Outcome::Auth { .. }
        | Outcome::NotFound { .. }
        | Outcome::Denied { .. } => None,
    }
}
