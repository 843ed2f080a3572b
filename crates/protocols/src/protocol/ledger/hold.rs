//! The ledger's words for what the owner is told. It sends nothing.

use super::Ledger;
use crate::engine::{self, Notice};
use crate::model::Decision;

pub(super) fn notice(rule: &'static str, subject: impl Into<String>, summary: String) -> Notice {
    let did = "The ledger's loop is held; nothing was started and nothing was thrown away.";
    Notice { did: did.to_owned(), ..Notice::new(rule, subject, summary) }
}

/// The loop stops, and the owner is told.
pub(super) fn held(ledger: &Ledger, notice: Notice) -> Decision {
    let mut draft = ledger.draft();
    engine::hold(ledger, &mut draft, notice);
    draft.finish()
}
