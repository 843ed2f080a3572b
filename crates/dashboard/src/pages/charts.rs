//! Cost by day and time by agent, as two small charts.

use super::parts::{dollars, words};
use crate::chart;
use maud::{Markup, html};

pub(super) fn pair(cost: &[(String, f64)], time: &[(String, f64)]) -> Markup {
    html! {
        div .pair {
            section .panel { h2 { "Cost per day" } (chart::columns("Cost per day", cost, dollars)) }
            section .panel { h2 { "Time per agent" } (chart::rows("Time per agent", time, seconds)) }
        }
    }
}

/// A duration in words, such as `1 h 05 min`.
pub fn seconds(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a duration in seconds")]
    let whole = value as i64;
    words(whole)
}
