//! What a form asks for: its fields, its signature, its number. The verbs themselves are the daemon's.

use crate::gate::Visitor;
use crate::pages::{Frame, answered, plain};
use crate::server::App;
use crate::source::{Caller, Outcome};
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, State};
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use std::time::Duration;

/// A form holds a few words and one text of the owner's.
const BODY_MAX: usize = 32 * 1024;
const BODY_TIME: Duration = Duration::from_secs(10);
/// Longer words are not for the journal.
const TEXT_MAX: usize = 4_000;

/// What the owner wants done in one repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// One of the options of a message, or words for an agent that asked.
    Answer {
        cause: String,
        option: String,
        reason: Option<String>,
    },
    Ack {
        cause: String,
    },
    Resume {
        reason: Option<String>,
    },
    Stop {
        run: String,
    },
    Pause {
        reason: Option<String>,
    },
    Unpause,
    Task {
        verb: String,
        task: String,
        reason: Option<String>,
    },
}

#[derive(Debug, Deserialize)]
pub(crate) struct Form {
    pub(crate) repo: String,
    #[serde(rename = "do")]
    pub(crate) verb: String,
    #[serde(default)]
    pub(crate) target: String,
    /// The option that the button stands for; the page chose it.
    #[serde(default)]
    pub(crate) option: String,
    /// The owner's own words.
    #[serde(default)]
    text: String,
    request: String,
    csrf: String,
    /// The page to go back to.
    #[serde(default)]
    back: String,
}

impl Form {
    fn act(&self) -> Option<Act> {
        let text: String = self.text.trim().chars().take(TEXT_MAX).collect();
        let reason = Some(text.clone()).filter(|text| !text.is_empty());
        let target = self.target.clone();
        Some(match self.verb.as_str() {
            "answer" => Act::Answer { cause: target, option: self.option.clone(), reason },
            "say" => Act::Answer { cause: target, option: reason?, reason: None },
            "ack" => Act::Ack { cause: target },
            "resume" => Act::Resume { reason },
            "stop" => Act::Stop { run: target },
            "pause" => Act::Pause { reason },
            "unpause" => Act::Unpause,
            "task" => Act::Task { verb: self.option.clone(), task: target, reason },
            _ => return None,
        })
    }
}

pub(crate) async fn handle(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let no = |status, text: &str| (status, plain(status, text)).into_response();
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.starts_with("application/x-www-form-urlencoded") {
        return no(StatusCode::UNSUPPORTED_MEDIA_TYPE, "this takes the forms of our own pages");
    }
    let body = match tokio::time::timeout(BODY_TIME, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(body)) => body,
        Ok(Err(_)) => return no(StatusCode::PAYLOAD_TOO_LARGE, "the form is too long"),
        Err(_) => return no(StatusCode::REQUEST_TIMEOUT, "the form did not come in time"),
    };
    let Some(form) = parse(&body) else {
        return no(StatusCode::BAD_REQUEST, "this is no form of ours");
    };
    let signed =
        [&form.request, &form.repo, &form.verb, &form.target, &form.option].map(String::as_str);
    if !visitor.session.key.verify(&signed, &form.csrf) {
        return no(
            StatusCode::FORBIDDEN,
            "the form was not made for this session; load the page again",
        );
    }
    if let Some(why) = &visitor.unclear {
        return no(
            StatusCode::FORBIDDEN,
            &format!("this browser may look and not act: {why} (WB-05)"),
        );
    }
    if !visitor.may_act() {
        return no(
            StatusCode::FORBIDDEN,
            "this session may look and not act; `agency dashboard --link` makes one that may",
        );
    }
    if !app.sessions.use_once(&visitor.cookie, &form.request) {
        return no(
            StatusCode::CONFLICT,
            "this was sent before and works once; load the page again to see what it did",
        );
    }
    let Some(act) = form.act() else { return no(StatusCode::BAD_REQUEST, "the answer is empty") };
    perform(&app, &visitor, form, act).await
}

async fn perform(app: &App, visitor: &Visitor, form: Form, act: Act) -> Response {
    let caller =
        Caller { who: app.who.clone(), from: visitor.peer.words(), request: form.request.clone() };
    let (status, text) = match app.source.act(&form.repo, act, caller).await {
        Outcome::Accepted(text) => {
            app.sessions.set_flash(&visitor.cookie, text);
            app.live.look_now();
            let back = [(LOCATION, local(&form.back))];
            return (StatusCode::SEE_OTHER, back).into_response();
        }
        Outcome::Refused(text) => (StatusCode::UNPROCESSABLE_ENTITY, text),
        Outcome::Unknown(text) => (StatusCode::NOT_FOUND, text),
    };
    let frame = Frame::bare(app, visitor);
    (status, answered(&frame, &text, &local(&form.back))).into_response()
}

fn parse(body: &[u8]) -> Option<Form> {
    let uri = format!("/?{}", std::str::from_utf8(body).ok()?).parse().ok()?;
    axum::extract::Query::<Form>::try_from_uri(&uri).ok().map(|form| form.0)
}

/// A page of ours, never another site.
fn local(back: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.?=&%+".contains(c);
    let fits = back.starts_with('/') && !back.starts_with("//") && back.chars().all(plain);
    if fits { back.to_owned() } else { "/".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_back_stays_here() {
        for good in ["/", "/now", "/repo/shop-1a2b3c4d", "/history?q=T0001&page=2"] {
            assert_eq!(local(good), good);
        }
        for bad in
            ["", "//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nSet-Cookie: x"]
        {
            assert_eq!(local(bad), "/", "{bad}");
        }
    }

    #[test]
    fn a_form_becomes_an_act() {
        let form = |text: &str| parse(text.as_bytes()).unwrap().act();
        let base = "repo=shop-1&request=r&csrf=c&target=a1";
        let answer = Act::Answer {
            cause: "a1".to_owned(),
            option: "resume".to_owned(),
            reason: Some("it is mended".to_owned()),
        };
        assert_eq!(
            form(&format!("{base}&do=answer&option=resume&text=it+is%20mended")),
            Some(answer)
        );
        assert_eq!(form(&format!("{base}&do=ack")), Some(Act::Ack { cause: "a1".to_owned() }));
        assert_eq!(form(&format!("{base}&do=say&text=+")), None, "an answer without words");
        assert_eq!(form(&format!("{base}&do=rm")), None);
        assert!(parse(b"repo=x").is_none());
    }
}
