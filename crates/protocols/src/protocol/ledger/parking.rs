//! LG-08: a feature that was rejected twice waits for its owner, while the others go on. It judges no work.

use super::docs::Docs;
use super::hold::notice;
use super::memory::{Memo, Standing};
use super::reviews::{Reviews, is_by, text};
use super::words::{AgentType, Verdict};
use super::{FEATURES, Ledger};
use crate::engine::{self, Draft, Weight};
use crate::model::{Decision, Effect};

/// So many rejections, and the owner is asked.
const REJECTS_MAX: usize = 2;

pub(super) fn is_parked(ledger: &Ledger, feature: &str) -> bool {
    matches!(ledger.index.memory.standing.get(feature), Some(Standing::Parked { .. }))
}

/// The parked features, for `agency status`.
pub(super) fn parked(ledger: &Ledger) -> Vec<&str> {
    let standing = ledger.index.memory.standing.keys().map(String::as_str);
    standing.filter(|feature| is_parked(ledger, feature)).collect()
}

/// Nothing else is left to do: the loop waits for the owner.
pub(super) fn only_parked_left(ledger: &Ledger) -> Option<String> {
    let memory = &ledger.index.memory;
    let parked = parked(ledger);
    let rests = memory.turn().is_none() && memory.rest().is_some() && !parked.is_empty();
    rests.then(|| format!("{} was rejected twice and waits for you", parked.join(", ")))
}

/// Parks what was rejected too often, one feature at a time, and forgets what waits no longer.
pub(super) fn look(ledger: &Ledger, docs: &Docs) -> Option<Decision> {
    let list = docs.features.as_ref()?;
    let memory = &ledger.index.memory;
    let done = |id: &&String| list.get(id).is_none_or(|feature| feature.passes());
    if let Some(id) = memory.standing.keys().find(done) {
        let mut decision = ledger.draft();
        if let Some(Standing::Parked { cause, .. }) = memory.standing.get(id) {
            let how = format!("{id} passes or is no longer in the list");
            decision.effect(Effect::Resolve { cause: cause.clone(), how });
        }
        decision.remember(Memo::Standing(id.clone(), None));
        return Some(decision.finish());
    }
    let reviews = docs.reviews.as_ref()?;
    list.pending().find_map(|feature| {
        let id = feature.id();
        let rejects = rejects(reviews, &id);
        let from = match memory.standing.get(&id) {
            Some(Standing::Parked { .. }) => return None,
            Some(Standing::Retried { rejects }) => *rejects,
            None => 0,
        };
        (rejects >= from + REJECTS_MAX).then(|| park(ledger, &id, feature.label(), rejects))
    })
}

fn rejects(reviews: &Reviews, feature: &str) -> usize {
    let rejected = |review: &&serde_json::Value| {
        is_by(review, AgentType::Review)
            && text(review, "feature_id") == Some(feature)
            && text(review, "verdict").and_then(Verdict::parse) == Some(Verdict::Reject)
    };
    reviews.reviews().iter().filter(rejected).count()
}

fn park(ledger: &Ledger, id: &str, label: &str, rejects: usize) -> Decision {
    let mut decision = ledger.draft();
    let summary = format!("{id} ({label}) was rejected {rejects} times and waits for you");
    let mut reason = notice("LG-08", format!("{id} {rejects}"), summary);
    reason.did = format!(
        "{id} is parked; the other features go on. Its rejected work is kept under refs/agency/ledger/rejected/."
    );
    reason.wont = format!(
        "agency does not start {id} again by itself. Make its entry in `{FEATURES}` smaller or clearer, or remove it, then: agency \
         resume"
    );
    let cause = engine::tell(ledger, &mut decision, Weight::Ask, reason);
    decision.remember(Memo::Standing(id.to_owned(), Some(Standing::Parked { cause, rejects })));
    decision.finish()
}

/// The owner lets all parked features try again. How many there were.
pub(super) fn release(ledger: &Ledger, decision: &mut Draft<Memo>, how: &str) -> usize {
    let mut count = 0;
    for (id, standing) in &ledger.index.memory.standing {
        if let Standing::Parked { cause, rejects } = standing {
            decision.effect(Effect::Resolve { cause: cause.clone(), how: how.to_owned() });
            decision.remember(Memo::Standing(
                id.to_owned(),
                Some(Standing::Retried { rejects: *rejects }),
            ));
            count += 1;
        }
    }
    count
}
