//! The messages of handoffs and the state that they share.

use super::super::handoff;
use super::{Finding, Look};

pub(super) fn check(look: &Look) -> Vec<Finding> {
    match handoff::findings(&look.root) {
        Ok(found) => found.into_iter().map(|(file, problem)| Finding::new(file, problem)).collect(),
        Err(error) => vec![Finding::new(".claude/handoffs", format!("{error:#}"))],
    }
}
