//! What was: runs and messages, searched by task, agent, rule, repository or outcome.

use super::frame::Frame;
use super::parts::ago;
use super::tables;
use crate::safe::Foreign;
use crate::view::{HistoryPage, HistoryQuery, Overview, PastCause};
use maud::{Markup, html};

pub(super) fn page(
    frame: &Frame,
    overview: &Overview,
    query: &HistoryQuery,
    page: &HistoryPage,
) -> Markup {
    let body = html! {
        h1 { "History" }
        form .search method="get" action="/history" role="search" {
            label .hidden for="q" { "Task, agent, rule, repository or outcome" }
            input #q type="search" name="q" value=(crate::safe::flat(&query.q)) placeholder="Task, agent, rule, outcome" maxlength="200";
            @if !query.repo.is_empty() { input type="hidden" name="repo" value=(crate::safe::flat(&query.repo)); }
            button .main type="submit" { "Search" }
        }
        @if !query.repo.is_empty() { p .path { "Only " (Foreign(&query.repo)) ". " a href="/history" { "All repositories" } } }
        section .panel { h2 { "Runs" } (tables::runs(frame, &page.runs, true)) (turn(query, page)) }
        section .panel { h2 { "Messages" } (messages(frame, &page.causes)) }
    };
    super::frame::page(frame, overview, "History", &body)
}

fn turn(query: &HistoryQuery, page: &HistoryPage) -> Markup {
    html! {
        form .turn method="get" action="/history" {
            input type="hidden" name="q" value=(crate::safe::flat(&query.q));
            input type="hidden" name="repo" value=(crate::safe::flat(&query.repo));
            @if query.page > 0 { button .quiet type="submit" name="page" value=(query.page - 1) { "Newer" } }
            @if page.more { button .quiet type="submit" name="page" value=(query.page + 1) { "Older" } }
        }
    }
}

fn messages(frame: &Frame, causes: &[PastCause]) -> Markup {
    html! {
        @if causes.is_empty() { p .none { "none" } } @else {
            ul .runs {
                @for cause in causes {
                    li { a .run href={ "/repo/" (cause.repo_key) } {
                        span .mark .(if cause.state == "resolved" { "fine" } else { cause.severity.word() }) { (cause.state) }
                        span .who { (Foreign(&cause.rule)) " " (Foreign(&cause.summary)) }
                        span .phase { (Foreign(&cause.repo)) }
                        span .when { (ago(cause.first_seen, frame.now)) }
                    } }
                }
            }
        }
    }
}
