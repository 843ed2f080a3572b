//! Fix cycles (spec 5 §4): how often something was fixed, and what the last attempt decides.

use super::issues;
use super::reviews::{Reviews, number, text};
use super::words::Verdict;
use serde_json::Value;

/// Spec 5 §4, "Fix Cycle Limits".
pub const FIX_MAX: usize = 3;

/// What is fixed: a feature, or the findings of an architecture review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    Feature(String),
    Architecture(u64),
}

impl Subject {
    /// `A2` and the branch `refactor/arch-review-2` name an architecture review, everything else a feature.
    pub fn parse(text: &str) -> Self {
        let number = text.strip_prefix(REFACTOR).or_else(|| text.strip_prefix('A'));
        match number.and_then(|number| number.parse().ok()) {
            Some(review) => Self::Architecture(review),
            None => Self::Feature(text.to_owned()),
        }
    }
}

const REFACTOR: &str = "refactor/arch-review-";

/// The branch on which the findings of an architecture review are fixed.
pub fn refactor_branch(review: u64) -> String {
    format!("{REFACTOR}{review}")
}

/// Attempts since the feature's last REJECT; those on an architecture review's findings count for that review (LG-08).
pub fn attempts(reviews: &Reviews, subject: &Subject) -> usize {
    let rejected = reviews.reviews().iter().filter(|review| concerns(review, subject));
    let rejected = rejected.filter(|review| verdict(review) == Some(Verdict::Reject));
    let since = rejected.filter_map(|review| number(review, "review_id")).max().unwrap_or(0);
    let counts = |fix: &&Value| {
        let addressed = number(fix, "review_id").unwrap_or(0);
        let first = *subject == Subject::Architecture(addressed);
        (first || concerns(fix, subject)) && (addressed > since || since == 0)
    };
    reviews.fixes().iter().filter(counts).count()
}

/// A review or a fix of this feature, or on this review's refactoring branch.
fn concerns(entry: &Value, subject: &Subject) -> bool {
    match subject {
        Subject::Feature(id) => text(entry, "feature_id") == Some(id),
        Subject::Architecture(review) => text(entry, "branch") == Some(&refactor_branch(*review)),
    }
}

fn verdict(review: &Value) -> Option<Verdict> {
    text(review, "verdict").and_then(Verdict::parse)
}

/// After the last attempt the severity of what is left decides, whatever the reviewer wishes.
pub fn tiebreak(review: &Value) -> Verdict {
    if issues::blocking(review) > 0 { Verdict::Reject } else { Verdict::PassWithComments }
}
