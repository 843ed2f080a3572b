//! The first page: does anything need the owner? If not, it says so in three words.

use super::cause::{card, closed};
use super::frame::Frame;
use super::parts::dollars;
use crate::safe::Foreign;
use crate::view::{Cause, Overview, RepoCard};
use maud::{Markup, html};
use std::cmp::Reverse;

/// More than this at once helps nobody; the rest is counted.
const MOST: usize = 40;

fn body(frame: &Frame, overview: &Overview) -> Markup {
    let causes = sorted(overview);
    let closed_repos: Vec<&RepoCard> =
        overview.repos.iter().filter(|repo| needs_word(repo)).collect();
    let shown = causes.iter().take(MOST);
    html! {
        (banner(overview))
        @for repo in closed_repos { (closed(frame, repo)) }
        @for (repo, cause) in shown { (card(frame, repo, cause)) }
        @if causes.len() > MOST { p .more { "and " (causes.len() - MOST) " more: " code { "agency escalations" } } }
        (paused(overview))
    }
}

pub(super) fn page(frame: &Frame, overview: &Overview) -> Markup {
    super::frame::page(frame, overview, "Needs you", &body(frame, overview))
}

fn needs_word(repo: &RepoCard) -> bool {
    repo.needs_owner() && !repo.causes.iter().any(|cause| cause.holds)
}

/// What holds work first, then the graver, then the older.
fn sorted(overview: &Overview) -> Vec<(&RepoCard, &Cause)> {
    let mut all: Vec<_> = overview
        .repos
        .iter()
        .flat_map(|repo| repo.causes.iter().map(move |cause| (repo, cause)))
        .collect();
    all.sort_by_key(|(_, cause)| (Reverse(cause.holds), Reverse(cause.severity), cause.first_seen));
    all
}

fn banner(overview: &Overview) -> Markup {
    let (urgent, notices, working) = (overview.urgent(), overview.notices(), overview.working());
    let counted =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (class, title) = match (urgent, notices) {
        (0, 0) => ("calm", "All is well".to_owned()),
        (0, notices) => ("calm", format!("All is well, {} to read", counted(notices, "notice"))),
        (1, _) => ("alert", "1 thing needs you".to_owned()),
        (urgent, _) => ("alert", format!("{urgent} things need you")),
    };
    html! {
        section .banner .(class) aria-live="polite" {
            h1 { (title) }
            p {
                @if working > 0 { (working) " at work" } @else { "nothing at work" }
                " in " (repositories(overview.repos.len()))
                " · " (dollars(overview.cost_today())) " today"
            }
        }
    }
}

pub(super) fn repositories(count: usize) -> String {
    if count == 1 { "1 repository".to_owned() } else { format!("{count} repositories") }
}

fn paused(overview: &Overview) -> Markup {
    let paused = overview.repos.iter().filter_map(|repo| Some((repo, repo.paused.as_ref()?)));
    let paused: Vec<_> = paused.collect();
    html! {
        @if !paused.is_empty() {
            section .calmly {
                h2 { "Paused by you" }
                ul { @for (repo, words) in paused { li { a href={ "/repo/" (repo.key) } { (Foreign(&repo.name)) } " " (Foreign(words)) } } }
            }
        }
    }
}
