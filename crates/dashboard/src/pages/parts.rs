//! Small pieces that several pages share: times, sums, marks.

use crate::view::{Kind, RunLine, Time};
use maud::{Markup, html};

/// `3 min ago`, with the exact time on hover and for the script that keeps it current.
pub(super) fn ago(at: Time, now: Time) -> Markup {
    html! { time datetime=(at.format("%Y-%m-%dT%H:%M:%SZ")) title=(at.format("%Y-%m-%d %H:%M:%S UTC")) data-ago { (words((now - at).num_seconds())) " ago" } }
}

/// The moment of a day.
pub(super) fn clock(at: Time) -> Markup {
    html! { time datetime=(at.format("%Y-%m-%dT%H:%M:%SZ")) title=(at.format("%Y-%m-%d %H:%M:%S UTC")) { (at.format("%b %d, %H:%M")) } }
}

pub(crate) fn words(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3_600 => format!("{} min", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h {:02} min", seconds / 3_600, seconds / 60 % 60),
        seconds => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

pub(crate) fn dollars(cost: f64) -> String {
    format!("${:.2}", cost + 0.0)
}

pub(crate) fn tokens(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..1_000_000 => format!("{} k", count / 1_000),
        _ => format!("{}.{} M", count / 1_000_000, count / 100_000 % 10),
    }
}

pub(super) fn mark(kind: Kind) -> Markup {
    html! { span .mark .(kind.word()) { (kind.word()) } }
}

/// One kind of end, in a word and a colour.
pub(super) fn outcome(run: &RunLine) -> Markup {
    if run.running {
        return html! { span .mark .working { "running" } };
    }
    let word = run.outcome.as_deref().unwrap_or("ended");
    let class = if word == "ok" { "fine" } else { "bad" };
    html! { span .mark .(class) { (word) } }
}

pub(super) fn cost(run: &RunLine) -> String {
    let mark = if run.cost_estimated { "~" } else { "" };
    run.cost.map_or_else(|| "–".to_owned(), |cost| format!("{mark}{}", dollars(cost)))
}

pub(super) fn took(run: &RunLine, now: Time) -> String {
    words((run.ended.unwrap_or(now) - run.started).num_seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0, 59, 60, 3_599, 3_660, 90_000].map(words).join(", "),
            "0 s, 59 s, 1 min, 59 min, 1 h 01 min, 1 d 1 h"
        );
        assert_eq!([9_999, 10_000, 1_250_000].map(tokens).join(", "), "9999, 10 k, 1.2 M");
        assert_eq!(dollars(-0.0), "$0.00");
    }
}
