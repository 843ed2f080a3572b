//! A report on what happened, as one page that needs nothing else: its style is in it, its charts are drawings.

use crate::assets::STYLE;
use crate::chart;
pub use crate::pages::digest_parts::seconds;
use crate::pages::digest_parts::{dollars, tokens};
use crate::safe::{Foreign, inner};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// What the page says; the texts are as they were found.
#[derive(Clone, Debug, Default)]
pub struct DigestPage {
    pub title: String,
    /// Such as `Nov 17, 20:00 to Nov 18, 08:00 UTC`.
    pub span: String,
    /// Such as `3 done, 2 waiting for you`.
    pub headline: String,
    pub calm: bool,
    pub cost: f64,
    pub estimated: bool,
    pub tokens: u64,
    pub runs: usize,
    /// What waits for the owner: where, what, and the command.
    pub waiting: Vec<[String; 3]>,
    /// Heading, then lines of where and what.
    pub lists: Vec<(String, Vec<[String; 2]>)>,
    pub cost_by_hour: Vec<(String, f64)>,
    pub time_per_agent: Vec<(String, f64)>,
    pub longest_waits: Vec<(String, f64)>,
}

pub fn html(page: &DigestPage) -> String {
    let estimated = if page.estimated { "~" } else { "" };
    let markup: Markup = html! {
        (DOCTYPE)
        html lang="en";
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (page.title) }
            style { (PreEscaped(STYLE)) }
        }
        body .digest {
            main {
                section .banner .(if page.calm { "calm" } else { "alert" }) { h1 { (page.headline) } p { (page.span) " · " (page.runs) " runs · " (estimated) (dollars(page.cost)) " · " (tokens(page.tokens)) " tokens" } }
                @if !page.waiting.is_empty() {
                    section .panel { h2 { "Waits for you" } ul .checks { @for [place, what, command] in &page.waiting { li .wrong { p { strong { (Foreign(place)) } " " (Foreign(what)) } pre .command { (inner(command)) } } } } }
                }
                @for (heading, lines) in page.lists.iter().filter(|(_, lines)| !lines.is_empty()) {
                    section .panel { h2 { (heading) " " span .count { (lines.len()) } } ul { @for [place, what] in lines { li { strong { (Foreign(place)) } " " (Foreign(what)) } } } }
                }
                div .pair {
                    section .panel { h2 { "Cost by hour" } (chart::columns("Cost by hour", &page.cost_by_hour, dollars)) }
                    section .panel { h2 { "Time per agent" } (chart::rows("Time per agent", &page.time_per_agent, seconds)) }
                    section .panel { h2 { "Longest waits" } (chart::rows("Longest waits", &page.longest_waits, seconds)) }
                }
            }
        }
    };
    markup.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: OP-09, WB-04
    #[test]
    fn the_page_needs_nothing_else_and_believes_no_text() {
        let evil = "<script>alert(1)</script>".to_owned();
        let page = DigestPage {
            headline: "1 thing waits for you".to_owned(),
            waiting: vec![[evil.clone(), evil.clone(), evil.clone()]],
            lists: vec![("Done".to_owned(), vec![[evil.clone(), evil.clone()]])],
            time_per_agent: vec![(evil.clone(), 60.0)],
            ..DigestPage::default()
        };
        let text = html(&page);
        assert!(!text.contains("<script") && text.contains("&lt;script&gt;"), "{text}");
        for loads in ["src=", "href=", "@import", "url("] {
            assert!(!text.contains(loads), "{loads}");
        }
    }
}
