//! One open message: what happened, the evidence, and what can be answered.

use super::frame::Frame;
use super::parts::ago;
use crate::forms::{Look, Order, Words};
use crate::safe::{Foreign, inner};
use crate::view::{Cause, RepoCard};
use maud::{Markup, html};

/// How a message begins that asks for nothing; `Seen` closes it.
const NOTHING: &str = "nothing to do";

pub(super) fn card(frame: &Frame, repo: &RepoCard, cause: &Cause) -> Markup {
    let class = if cause.holds { "held" } else { cause.severity.word() };
    html! {
        article .card .cause .(class) #{ "c-" (cause.id) } tabindex="-1" {
            header {
                @if cause.holds { span .mark .held { "held" } } @else { span .mark .(cause.severity.word()) { (cause.severity.word()) } }
                a .where href={ "/repo/" (repo.key) } { (Foreign(&repo.name)) }
                span .rule title="agency explain" { (Foreign(&cause.protocol)) " " (Foreign(&cause.rule)) }
                span .when { (ago(cause.first_seen, frame.now)) @if cause.count > 1 { ", " (cause.count) " times" } @if cause.acked { ", seen" } }
            }
            h2 { (Foreign(&cause.summary)) }
            @if cause.what != cause.summary && !cause.what.is_empty() { p .what { (Foreign(&cause.what)) } }
            @if !cause.evidence.is_empty() {
                details data-fold={ "e-" (cause.id) } open[cause.evidence.len() <= 3] {
                    summary { "Evidence (" (cause.evidence.len()) ")" }
                    ul .evidence { @for line in &cause.evidence { li { (Foreign(line)) } } }
                }
            }
            dl .facts {
                @if !cause.did.is_empty() { dt { "Done" } dd { (Foreign(&cause.did)) } }
                @if !cause.wont.is_empty() { dt { "Not without you" } dd { (Foreign(&cause.wont)) } }
                @if !cause.undelivered.is_empty() { dt { "Not delivered by" } dd { (Foreign(&cause.undelivered.join(", "))) } }
            }
            @if !cause.resolve.starts_with(NOTHING) { pre .command aria-label="The command that resolves it" { (inner(&cause.resolve)) } }
            (answers(frame, repo, cause))
        }
    }
}

fn answers(frame: &Frame, repo: &RepoCard, cause: &Cause) -> Markup {
    if !frame.forms.may_act() {
        return html! {};
    }
    let order = |verb: &'static str, option: &'static str| Order {
        repo: &repo.key,
        verb,
        target: &cause.id,
        option,
    };
    html! {
        div .acts {
            @for (at, option) in cause.options.iter().enumerate() {
                @let look = if at == 0 { Look::Main } else { Look::Quiet };
                @let words = if cause.question || at > 0 { Words::None } else { Words::Optional("Why (optional)") };
                (frame.forms.button(&Order { option, ..order("answer", "") }, &label(option), look, words))
            }
            @if cause.question && cause.options.is_empty() {
                (frame.forms.button(&order("say", ""), "Answer", Look::Main, Words::Required("Your answer")))
            }
            @if !cause.acked { (frame.forms.button(&order("ack", ""), "Seen", Look::Quiet, Words::None)) }
        }
    }
}

/// The option's own word, which the command line takes, too.
fn label(option: &str) -> String {
    let mut letters = option.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + letters.as_str()
    })
}

/// A repository in which nothing can happen, and of which no message says why.
pub(super) fn closed(frame: &Frame, repo: &RepoCard) -> Markup {
    let stuck = repo.protocols.iter().find(|one| one.resolve.is_some());
    let why = repo
        .closed
        .as_deref()
        .or_else(|| Some(stuck?.reason.as_str()))
        .unwrap_or("it waits for you");
    let word = if repo.frozen { "frozen" } else { "held" };
    html! {
        article .card .cause .held tabindex="-1" {
            header { span .mark .(word) { (word) } a .where href={ "/repo/" (repo.key) } { (Foreign(&repo.name)) } }
            h2 { (Foreign(why)) }
            @if let Some(resolve) = stuck.and_then(|one| one.resolve.as_deref()) { pre .command { (inner(resolve)) } }
            @if !repo.frozen {
                div .acts { (frame.forms.button(&Order { repo: &repo.key, verb: "resume", target: "", option: "" }, "Resume", Look::Main, Words::Optional("Why (optional)"))) }
            }
        }
    }
}
