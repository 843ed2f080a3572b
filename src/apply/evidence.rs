//! What the journal said last, as evidence for the owner (ES-06). The rest of the evidence comes with the escalation.

use crate::model::{Escalation, clip};
use crate::store;
use std::path::Path;

const LINES: usize = 5;
const LINE_MAX: usize = 160;

/// The escalation with the last lines of the journal below its own evidence.
pub fn with_journal(escalation: &Escalation, journal: &Path) -> Escalation {
    let mut escalation = escalation.clone();
    for record in store::tail(journal, LINES) {
        let at = record.at.format("%H:%M:%S");
        let line = format!("journal {} {at} {} {}", record.n, record.kind, record.body);
        escalation.evidence.push(clip(&line, LINE_MAX));
    }
    escalation
}
