//! Small charts as SVG in the page: no script, no colour of their own.

use crate::safe::flat;
use maud::{Markup, html};

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 96.0;
/// Below the bars, for the first and the last name.
const FOOT: f64 = 16.0;

/// Upright bars, one for each day or hour.
pub(crate) fn columns(
    title: &str,
    values: &[(String, f64)],
    show: impl Fn(f64) -> String,
) -> Markup {
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if values.is_empty() || most <= 0.0 {
        return html! { p .none { "nothing yet" } };
    }
    let step = WIDTH / count(values.len());
    let total: f64 = values.iter().map(|(_, value)| value).sum();
    let label = format!("{title}: {} in all, {} at most", show(total), show(most));
    let ends = [values.first(), values.last()];
    html! {
        svg .chart viewBox={ "0 0 " (WIDTH) " " (HEIGHT + FOOT) } role="img" aria-label=(label) {
            @for (at, (name, value)) in values.iter().enumerate() {
                @let height = if *value > 0.0 { (value / most * (HEIGHT - 4.0)).max(2.0) } else { 1.0 };
                rect .bar .zero[*value <= 0.0] x=(round(step * count(at) + step * 0.12)) y=(round(HEIGHT - height)) width=(round(step * 0.76)) height=(round(height)) rx="2" {
                    title { (flat(name)) ": " (show(*value)) }
                }
            }
            @if let [Some((first, _)), Some((last, _))] = ends {
                text .axis x="0" y=(HEIGHT + FOOT - 3.0) { (flat(first)) }
                @if values.len() > 1 { text .axis .end x=(WIDTH) y=(HEIGHT + FOOT - 3.0) { (flat(last)) } }
            }
        }
    }
}

/// Lying bars with their names, the longest first.
pub(crate) fn rows(title: &str, values: &[(String, f64)], show: impl Fn(f64) -> String) -> Markup {
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if values.is_empty() || most <= 0.0 {
        return html! { p .none { "nothing yet" } };
    }
    let line = 30.0;
    html! {
        svg .chart viewBox={ "0 0 " (WIDTH) " " (line * count(values.len())) } role="img" aria-label=(title) {
            @for (at, (name, value)) in values.iter().enumerate() {
                @let top = line * count(at);
                text .name x="0" y=(top + 11.0) { (flat(name)) }
                text .name .end x=(WIDTH) y=(top + 11.0) { (show(*value)) }
                rect .track x="0" y=(top + 16.0) width=(WIDTH) height="6" rx="3" {}
                rect .bar x="0" y=(top + 16.0) width=(round((value / most * WIDTH).max(3.0))) height="6" rx="3" {}
            }
        }
    }
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: WB-04
    #[test]
    fn a_chart_says_its_numbers_and_escapes_its_names() {
        let values = [("<b>x</b>".to_owned(), 2.0), ("y".to_owned(), 0.5)];
        let shown = rows("time", &values, |value| format!("{value} h")).into_string();
        assert!(
            shown.contains("&lt;b&gt;") && !shown.contains("<b>") && shown.contains("0.5 h"),
            "{shown}"
        );
        let shown = columns("cost", &values, |value| format!("${value:.2}")).into_string();
        assert!(shown.contains("cost: $2.50 in all, $2.00 at most"), "{shown}");
        assert!(!shown.contains("style="), "the policy allows no inline style");
        assert!(columns("cost", &[], |_| String::new()).into_string().contains("nothing yet"));
    }
}
