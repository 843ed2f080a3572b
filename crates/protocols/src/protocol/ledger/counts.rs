//! The numbers of `progress.json` and of architecture reviews, as spec 5 §1 and §2 define them. Pure counting; it judges nothing.

use super::features::Features;
use super::reviews::{Reviews, is_by, text};
use super::words::{AgentType, Verdict};
use std::collections::BTreeSet;

/// After so many completed features comes an ARCHITECTURE review (spec 5 §2, "Every 5 features").
pub const ARCHITECTURE_EVERY: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub total: u64,
    /// "Features that passed review": a REVIEW let them through, also if they fail again since.
    pub completed: u64,
    /// "Features marked as passing", whoever marked them.
    pub passing: u64,
}

impl Counts {
    pub fn of(features: &Features, reviews: Option<&Reviews>) -> Self {
        let with = |verdict: Verdict| {
            let reviews = reviews.map_or(&[][..], Reviews::reviews).iter();
            let of_features = reviews.filter(|review| is_by(review, AgentType::Review));
            let said = of_features
                .filter(|review| text(review, "verdict").and_then(Verdict::parse) == Some(verdict));
            said.filter_map(|review| text(review, "feature_id")).collect::<BTreeSet<_>>()
        };
        let (passed, commented) = (with(Verdict::Pass), with(Verdict::PassWithComments));
        let completed = features.all().filter(|feature| {
            let id = feature.id();
            // PASS_WITH_COMMENTS lets a feature through only after the last fix; then it was marked.
            let marked = || feature.passes() || feature.value()["passed_at"].is_string();
            passed.contains(id.as_str()) || commented.contains(id.as_str()) && marked()
        });
        Self {
            total: features.len() as u64,
            completed: completed.count() as u64,
            passing: features.passing() as u64,
        }
    }

    /// Another five features are completed since the last ARCHITECTURE review.
    pub fn is_architecture_due(self, reviews: Option<&Reviews>) -> bool {
        let reviews = reviews.map_or(&[][..], Reviews::reviews).iter();
        let last = reviews
            .filter(|review| is_by(review, AgentType::Architecture))
            .filter_map(|review| review["features_completed"].as_u64())
            .max();
        self.completed / ARCHITECTURE_EVERY > last.unwrap_or(0) / ARCHITECTURE_EVERY
    }
}

/// Why an ARCHITECTURE review was made, by the features that were completed then.
pub(super) fn trigger(completed: Option<u64>) -> String {
    match completed {
        Some(count) if count > 0 && count.is_multiple_of(ARCHITECTURE_EVERY) => {
            format!("Every {ARCHITECTURE_EVERY} features")
        }
        Some(1) => "After 1 feature".to_owned(),
        Some(count) => format!("After {count} features"),
        None => "On request".to_owned(),
    }
}
