//! What happens at this moment, in every repository: what needs the owner first, then what works, waits, rests.

use super::frame::Frame;
use super::needs::repositories;
use super::parts::{ago, dollars, mark};
use crate::safe::Foreign;
use crate::view::{Kind, Overview, ProtocolCard, RepoCard};
use maud::{Markup, html};

const GROUPS: [(&str, &[Kind]); 4] = [
    ("Waits for you", &[Kind::Frozen, Kind::Held]),
    ("Working", &[Kind::Working]),
    ("Waiting", &[Kind::Waiting]),
    ("At rest", &[Kind::Idle, Kind::Done]),
];
/// Cards of one group; at rest, one line each is enough.
const MOST: usize = 60;

pub(super) fn page(frame: &Frame, overview: &Overview) -> Markup {
    let body = html! {
        h1 .hidden { "Now" }
        p .sums { (repositories(overview.repos.len())) " · " (overview.working()) " at work · " (dollars(overview.cost_today())) " today" }
        @if overview.repos.is_empty() { p .none { "No repository is known yet: " code { "agency run" } " in one begins." } }
        @for (title, kinds) in GROUPS { (group(frame, overview, title, kinds)) }
        (silent(overview))
    };
    super::frame::page(frame, overview, "Now", &body)
}

fn group(frame: &Frame, overview: &Overview, title: &str, kinds: &[Kind]) -> Markup {
    let mut all: Vec<(&RepoCard, &ProtocolCard)> = overview
        .repos
        .iter()
        .flat_map(|repo| repo.protocols.iter().map(move |one| (repo, one)))
        .filter(|(_, one)| kinds.contains(&one.kind))
        .collect();
    all.sort_by(|(a, one), (b, two)| {
        (one.kind, &a.name, &one.name).cmp(&(two.kind, &b.name, &two.name))
    });
    let rests = kinds.contains(&Kind::Idle);
    html! {
        @if !all.is_empty() {
            section .group {
                h2 { (title) " " span .count { (all.len()) } }
                @if rests {
                    ul .rest { @for (repo, one) in all.iter().take(2 * MOST) { li { (line(repo, one)) } } }
                } @else {
                    div .cards { @for (repo, one) in all.iter().take(MOST) { (card(frame, repo, one)) } }
                }
                @if all.len() > MOST && !rests { p .more { "and " (all.len() - MOST) " more: " code { "agency status" } } }
                @if all.len() > 2 * MOST && rests { p .more { "and " (all.len() - 2 * MOST) " more: " code { "agency status" } } }
            }
        }
    }
}

fn line(repo: &RepoCard, one: &ProtocolCard) -> Markup {
    html! {
        a href={ "/repo/" (repo.key) } { (Foreign(&repo.name)) } " " span .rule { (one.name) } " "
        (mark(one.kind)) " " span .why { (Foreign(&one.reason)) }
    }
}

fn card(frame: &Frame, repo: &RepoCard, one: &ProtocolCard) -> Markup {
    html! {
        article .card .(one.kind.word()) tabindex="-1" {
            header {
                (mark(one.kind))
                a .where href={ "/repo/" (repo.key) } { (Foreign(&repo.name)) }
                span .rule { (one.name) }
            }
            p .reason { (Foreign(&one.reason)) }
            @if let Some(trouble) = &one.trouble { p .trouble { "reports: " (Foreign(trouble)) } }
            @if one.summary != one.reason && !one.summary.is_empty() { p .summary { (Foreign(&one.summary)) } }
            p .meta {
                @if let Some(agent) = &one.agent { span { (Foreign(agent)) @if let Some(task) = &one.task { " on " (Foreign(task)) } } }
                @if let Some(since) = one.since { span { "since " (ago(since, frame.now)) } }
                @if let Some(last) = one.last_output { span { "last output " (ago(last, frame.now)) } }
                @if let Some(until) = one.until { span { "until " (super::parts::clock(until)) } }
                @if let Some(run) = &one.run { a href={ "/repo/" (repo.key) "/run/" (run) } { "transcript" } }
            }
        }
    }
}

/// Repositories without a protocol at work, so that none is missing.
fn silent(overview: &Overview) -> Markup {
    let silent: Vec<_> = overview.repos.iter().filter(|repo| repo.protocols.is_empty()).collect();
    html! {
        @if !silent.is_empty() {
            section .group {
                h2 { "No protocol at work " span .count { (silent.len()) } }
                ul .rest {
                    @for repo in silent.iter().take(MOST) {
                        li { a href={ "/repo/" (repo.key) } { (Foreign(&repo.name)) } " " span .why { (Foreign(repo.closed.as_deref().unwrap_or("nothing has begun"))) } }
                    }
                }
            }
        }
    }
}
