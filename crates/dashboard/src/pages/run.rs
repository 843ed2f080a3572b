//! One run: what it was told, what it said, what it changed, what the checks said.

use super::frame::Frame;
use super::parts::{ago, clock, cost, outcome, tokens, took};
use crate::forms::{Look, Order, Words};
use crate::safe::{Foreign, inner};
use crate::view::{DiffView, Gate, Overview, RunPage, Said, SaidKind};
use maud::{Markup, html};

pub(super) fn page(frame: &Frame, overview: &Overview, page: &RunPage) -> Markup {
    let run = &page.line;
    let body = html! {
        header .title {
            p .crumb { a href={ "/repo/" (run.repo_key) } { (Foreign(&run.repo)) } }
            h1 { (Foreign(&run.agent)) @if !run.task.is_empty() { " on " (Foreign(&run.task)) } }
            p { (outcome(run)) " " @if let Some(reason) = &run.reason { (Foreign(reason)) } }
            @if run.running { (frame.forms.button(&Order { repo: &run.repo_key, verb: "stop", target: &run.id, option: "" }, "Stop this run", Look::Grave, Words::None)) }
        }
        (facts(frame, page))
        (gates(frame, &page.gates))
        section .panel {
            h2 { "Transcript" }
            @if page.transcript_cut { p .more { "The beginning is left out: " code { "agency logs " (run.id) } } }
            (transcript(&page.transcript))
            @if !page.complaints.is_empty() { details data-fold="stderr" { summary { "Standard error" } pre .log { (inner(&page.complaints)) } } }
        }
        @if let Some(diff) = &page.diff { (changes(diff)) }
        @if let Some(prompt) = &page.prompt { details .panel data-fold="prompt" { summary { h2 { "Prompt" } } pre .log { (inner(prompt)) } } }
    };
    super::frame::page(frame, overview, &crate::safe::flat(&run.id), &body)
}

fn facts(frame: &Frame, page: &RunPage) -> Markup {
    let run = &page.line;
    let used = [("in", run.input_tokens), ("out", run.output_tokens)];
    let used: Vec<_> = used
        .iter()
        .filter_map(|(word, count)| Some(format!("{} {word}", tokens((*count)?))))
        .collect();
    html! {
        dl .grid {
            div { dt { "Took" } dd { (took(run, frame.now)) } }
            div { dt { "Cost" } dd { (cost(run)) } }
            div { dt { "Tokens" } dd { @if used.is_empty() { "–" } @else { (used.join(", ")) } } }
            div { dt { "Model" } dd { (Foreign(run.model.as_deref().unwrap_or("–"))) } }
            div { dt { "Began" } dd { (clock(run.started)) ", " (ago(run.started, frame.now)) } }
            div { dt { "Seat" } dd { (Foreign(&run.role)) ", " (Foreign(&run.phase)) } }
            @if let Some(pid) = page.pid { div { dt { "Process" } dd { (pid) } } }
        }
        @if !page.why.is_empty() { p .why { (Foreign(&page.why)) } }
        details data-fold="argv" { summary { "Command line" } pre .log { (inner(&page.argv.join("\n"))) } p .path { "in " (Foreign(&page.dir)) } }
    }
}

fn gates(frame: &Frame, gates: &[Gate]) -> Markup {
    html! {
        @if !gates.is_empty() {
            section .panel {
                h2 { "Checks" }
                @for gate in gates {
                    @let failed = gate.run.outcome.as_deref().is_some_and(|word| word != "ok");
                    details data-fold={ "g-" (gate.run.id) } open[failed] {
                        summary { (outcome(&gate.run)) " " code { (Foreign(&gate.line)) } " " span .num { (took(&gate.run, frame.now)) } }
                        pre .log { (inner(&gate.output)) }
                    }
                }
            }
        }
    }
}

/// Failures are open; what an agent did without trouble is folded into one line.
fn transcript(said: &[Said]) -> Markup {
    let mut groups: Vec<(SaidKind, Vec<&Said>)> = Vec::new();
    for one in said {
        match groups.last_mut() {
            Some((kind, group)) if *kind == one.kind && one.kind == SaidKind::Tool => {
                group.push(one)
            }
            _ => groups.push((one.kind, vec![one])),
        }
    }
    html! {
        @if said.is_empty() { p .none { "no output yet" } }
        div .transcript {
            @for (at, (kind, group)) in groups.iter().enumerate() {
                @match kind {
                    SaidKind::Message => @for one in group { p .message { (inner(&one.text)) } },
                    SaidKind::Failure => @for one in group { pre .failure { (inner(&one.text)) } },
                    SaidKind::Tool => details data-fold={ "s-" (at) } {
                        summary { (steps(group.len())) " " span .first { (Foreign(group.first().map_or("", |one| &one.text))) } }
                        @for one in group { pre .tool { (inner(&one.text)) } }
                    },
                }
            }
        }
    }
}

fn steps(count: usize) -> String {
    if count == 1 { "1 step".to_owned() } else { format!("{count} steps") }
}

fn changes(diff: &DiffView) -> Markup {
    html! {
        section .panel {
            h2 { "Changes" }
            p .path { (Foreign(&diff.title)) }
            @if diff.text.is_empty() { p .none { "no file differs" } } @else {
                pre .diff tabindex="0" { @for line in diff.text.lines() { span .(class(line)) { (inner(line)) "\n" } } }
            }
            @if diff.cut { p .more { "The rest is left out." } }
        }
    }
}

fn class(line: &str) -> &'static str {
    match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => "path",
        [b'd', b'i', b'f', b'f', ..] => "file",
        [b'+', ..] => "add",
        [b'-', ..] => "del",
        [b'@', b'@', ..] => "hunk",
        _ => "same",
    }
}
