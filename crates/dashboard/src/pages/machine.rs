//! What this machine lacks for the work, each with its fix: as `agency doctor` says it.

use super::frame::Frame;
use crate::safe::Foreign;
use crate::view::{Finding, Overview};
use maud::{Markup, html};

pub(super) fn page(frame: &Frame, overview: &Overview, findings: &[Finding]) -> Markup {
    let wrong = findings.iter().filter(|one| !one.fine).count();
    let title = match wrong {
        0 => "Nothing is in the way".to_owned(),
        1 => "1 thing is in the way".to_owned(),
        wrong => format!("{wrong} things are in the way"),
    };
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|one| one.fine);
    let body = html! {
        section .banner .(if wrong == 0 { "calm" } else { "alert" }) { h1 { (title) } p { (overview.daemon) } }
        section .panel {
            ul .checks {
                @for one in sorted {
                    li .wrong[!one.fine] {
                        p { span .mark .(if one.fine { "fine" } else { "bad" }) { (if one.fine { "ok" } else { "look" }) } " " strong { (Foreign(&one.name)) } " " (Foreign(&one.found)) }
                        @if let Some(fix) = &one.fix { p .fix { (Foreign(fix)) } }
                    }
                }
            }
        }
    };
    super::frame::page(frame, overview, "Machine", &body)
}
