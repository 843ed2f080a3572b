//! One repository: what it does, what happened, its tasks and runs, what it costs.

use super::cause::{card, closed};
use super::charts;
use super::frame::Frame;
use super::parts::{ago, dollars, mark};
use super::tables;
use crate::forms::{Look, Order, Words};
use crate::safe::Foreign;
use crate::view::{Overview, ProtocolCard, RepoCard, RepoPage, Step, Task};
use maud::{Markup, html};

pub(super) fn page(frame: &Frame, overview: &Overview, page: &RepoPage) -> Markup {
    let repo = &page.card;
    let is_silent = repo.needs_owner() && !repo.causes.iter().any(|cause| cause.holds);
    let body = html! {
        header .title {
            h1 { (Foreign(&repo.name)) }
            p .path { (Foreign(&repo.path)) " · " (dollars(repo.cost_today)) " today" @if !repo.attended { " · no running daemon works here" } }
            (pause(frame, repo))
        }
        @if is_silent { (closed(frame, repo)) }
        @for cause in &repo.causes { (card(frame, repo, cause)) }
        section .panel { h2 { "Now" } @if repo.protocols.is_empty() { p .none { "no protocol is at work" } } @for one in &repo.protocols { (protocol(frame, repo, one)) } }
        (tasks(frame, repo, &page.tasks))
        section .panel { h2 { "Runs" } (tables::runs(frame, &page.runs, false)) p .more { a href={ "/history?repo=" (repo.key) } { "All runs of this repository" } } }
        (charts::pair(&page.cost_per_day, &page.time_per_agent))
        section .panel { h2 { "Timeline" } (timeline(frame, &page.timeline)) }
        @for table in &page.tables {
            details .panel data-fold={ "t-" (table.protocol) } open { summary { h2 { "Table: " (table.protocol) } } (tables::rows(table)) }
        }
        @if !repo.notes.is_empty() { section .panel { h2 { "Notes" } ul { @for note in &repo.notes { li { (Foreign(note)) } } } } }
    };
    super::frame::page(frame, overview, &crate::safe::flat(&repo.name), &body)
}

fn pause(frame: &Frame, repo: &RepoCard) -> Markup {
    let order = |verb| Order { repo: &repo.key, verb, target: "", option: "" };
    html! {
        @match &repo.paused {
            Some(words) => { p .pause { (Foreign(words)) } (frame.forms.button(&order("unpause"), "Let runs start again", Look::Main, Words::None)) },
            None => @if frame.forms.may_act() {
                details data-fold="pause" {
                    summary { "Pause this repository" }
                    div .acts { (frame.forms.button(&order("pause"), "Start no new run", Look::Quiet, Words::Optional("Why (optional)"))) }
                }
            },
        }
    }
}

fn protocol(frame: &Frame, repo: &RepoCard, one: &ProtocolCard) -> Markup {
    html! {
        div .proto {
            p { (mark(one.kind)) " " strong { (one.name) } " " (Foreign(&one.reason)) }
            @if one.summary != one.reason && !one.summary.is_empty() { p .summary { (Foreign(&one.summary)) } }
            @if let Some(run) = &one.run {
                p .meta {
                    a href={ "/repo/" (repo.key) "/run/" (run) } { "transcript" }
                    @if let Some(since) = one.since { span { "since " (ago(since, frame.now)) } }
                    @if let Some(last) = one.last_output { span { "last output " (ago(last, frame.now)) } }
                }
                (frame.forms.button(&Order { repo: &repo.key, verb: "stop", target: run, option: "" }, "Stop this run", Look::Grave, Words::None))
            }
        }
    }
}

/// The verb's own word, which the command line takes, too.
fn label(verb: &str) -> String {
    let mut letters = verb.chars();
    let first =
        letters.next().map(|first| first.to_uppercase().collect::<String>()).unwrap_or_default();
    first + &letters.as_str().replace('-', " ")
}

/// Who gets work back must know why.
fn words(verb: &str) -> Words<'static> {
    match verb {
        "request-changes" => Words::Required("What must change"),
        "start" | "done" => Words::None,
        _ => Words::Optional("Why (optional)"),
    }
}

/// How many tasks are shown; the others are counted.
const TASKS: usize = 60;

fn tasks(frame: &Frame, repo: &RepoCard, tasks: &[Task]) -> Markup {
    html! {
        @if !tasks.is_empty() {
            section .panel {
                h2 { "Tasks " span .count { (tasks.len()) } }
                ul .tasks {
                    @for task in tasks.iter().take(TASKS) {
                        li {
                            p { span .mark .neutral { (Foreign(&task.status)) } " " strong { (Foreign(&task.id)) } " " (Foreign(&task.title)) span .who { " " (Foreign(&task.assignee)) } }
                            @if frame.forms.may_act() && !task.verbs.is_empty() {
                                details data-fold={ "k-" (task.id) } { summary { "Act" } div .acts {
                                    @for verb in &task.verbs {
                                        @let order = Order { repo: &repo.key, verb: "task", target: &task.id, option: verb };
                                        (frame.forms.button(&order, &label(verb), if *verb == "cancel" { Look::Grave } else { Look::Quiet }, words(verb)))
                                    }
                                } }
                            }
                        }
                    }
                }
                @if tasks.len() > TASKS { p .more { "and " (tasks.len() - TASKS) " more: " code { "agency task list" } } }
            }
        }
    }
}

fn timeline(frame: &Frame, steps: &[Step]) -> Markup {
    html! {
        @if steps.is_empty() { p .none { "nothing yet" } } @else {
            ol .timeline {
                @for step in steps {
                    li .(step.kind.word()) {
                        span .when { (ago(step.at, frame.now)) }
                        span .what {
                            @if let Some(row) = &step.row { span .rule { (Foreign(row)) } " " }
                            (Foreign(&step.what))
                            @if !step.protocol.is_empty() { span .proto-name { " " (Foreign(&step.protocol)) } }
                        }
                    }
                }
            }
        }
    }
}
