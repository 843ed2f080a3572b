//! What is the same on every page: head, navigation, the answer to the last act.

use crate::forms::Forms;
use crate::gate::Visitor;
use crate::safe::Foreign;
use crate::server::Shared;
use crate::session::Right;
use crate::view::{Overview, Time};
use agency_host::clock;
use axum::http::{StatusCode, Uri};
use maud::{DOCTYPE, Markup, html};

/// Of the visitor who looks, for one page.
pub(crate) struct Frame {
    pub(crate) forms: Forms,
    pub(crate) now: Time,
    flash: Option<String>,
    path: String,
    /// Why nothing can be done from here.
    looks_only: Option<String>,
}

impl Frame {
    pub(crate) fn of(app: &Shared, visitor: &Visitor, uri: &Uri) -> Self {
        let back = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let key = visitor.may_act().then(|| visitor.session.key.clone());
        let looks_only = match (&visitor.unclear, visitor.session.right) {
            (Some(why), Right::Act) => Some(format!("You can look and not act from here: {why}.")),
            (_, Right::Read) => Some("This link may look and not act.".to_owned()),
            (None, Right::Act) => None,
        };
        let flash = app.sessions.take_flash(&visitor.cookie);
        let path = uri.path().to_owned();
        Self { forms: Forms::new(key, back), now: clock::wall(), flash, path, looks_only }
    }

    /// For an answer that is no page of its own.
    pub(crate) fn bare(app: &Shared, visitor: &Visitor) -> Self {
        Self { flash: None, ..Self::of(app, visitor, &Uri::from_static("/")) }
    }
}

const PAGES: [(&str, &str, &str); 4] = [
    ("/", "Needs you", "1"),
    ("/now", "Now", "2"),
    ("/history", "History", "3"),
    ("/machine", "Machine", "4"),
];

pub(super) fn page(frame: &Frame, overview: &Overview, title: &str, body: &Markup) -> Markup {
    let urgent = overview.urgent();
    let count = if urgent > 0 { format!("({urgent}) ") } else { String::new() };
    html! {
        (head(&format!("{count}{title} · agency")))
        body data-live="yes" {
            a .skip href="#main" { "Skip to the content" }
            header .top {
                a .brand href="/" aria-label="agency: what needs you" { span .dot .(mood(overview)) {} "agency" }
                nav aria-label="Pages" {
                    @for (path, name, key) in PAGES {
                        @let here = frame.path == path;
                        a href=(path) aria-current=[here.then_some("page")] data-key=(key) {
                            (name)
                            @if path == "/" && urgent > 0 { " " span .count aria-label={ (urgent) " waiting" } { (urgent) } }
                        }
                    }
                }
            }
            main #main tabindex="-1" {
                @if let Some(flash) = &frame.flash { p .flash role="status" { (Foreign(flash)) } }
                @if let Some(problem) = &overview.problem { p .problem role="alert" { (Foreign(problem)) } }
                (body)
            }
            footer {
                p { (overview.daemon) }
                p { (overview.isolation) }
                @if overview.unreachable { p { "No channel is configured: what goes wrong is shown only here and by " code { "agency status" } "." } }
                @if let Some(why) = &frame.looks_only { p .looks { (why) } }
                p { form method="post" action="/leave" { button .link type="submit" { "Leave" } } span .keys { " · " kbd { "1" } "–" kbd { "4" } " pages, " kbd { "j" } " " kbd { "k" } " next and previous, " kbd { "/" } " search" } }
            }
        }
    }
}

fn mood(overview: &Overview) -> &'static str {
    match (overview.urgent(), overview.working()) {
        (0, 0) => "calm",
        (0, _) => "busy",
        _ => "alert",
    }
}

fn head(title: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en";
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="robots" content="noindex";
            title { (title) }
            link rel="icon" href="/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/style.css";
            script src="/app.js" defer {}
        }
    }
}

/// A page for somebody who is not let in, or who asked for something that cannot be.
pub(crate) fn plain(status: StatusCode, text: &str) -> Markup {
    let title = status.canonical_reason().unwrap_or("No");
    html! {
        (head(&format!("{title} · agency")))
        body .alone {
            main #main {
                p .brand { span .dot {} "agency" }
                h1 { (title) }
                p { (Foreign(text)) }
                p { a href="/" { "Open the dashboard" } }
            }
        }
    }
}

/// What a verb was answered that was refused.
pub(crate) fn answered(frame: &Frame, text: &str, back: &str) -> Markup {
    html! {
        (head("Refused · agency"))
        body .alone {
            main #main {
                p .brand { span .dot .alert {} "agency" }
                h1 { "That was refused" }
                p .refusal role="alert" { (Foreign(text)) }
                p { a href=(back) { "Back" } }
                @if let Some(why) = &frame.looks_only { p .looks { (why) } }
            }
        }
    }
}
