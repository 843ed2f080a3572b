//! The door: a one-use link becomes a cookie; a command on the socket makes such a link.

use super::plain;
use crate::gate::{SIGN_IN, Stranger, Visitor, check_locked};
use crate::peer::{Peer, Standing};
use crate::server::App;
use crate::session::Right;
use crate::token::Token;
use axum::extract::{Extension, Path, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, HeaderName, LOCATION, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use std::time::Instant;

pub(crate) async fn enter(
    State(app): State<App>,
    Extension(Stranger { peer, .. }): Extension<Stranger>,
    Path(token): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = check_locked(&app, &peer) {
        return refusal.into_response();
    }
    let now = Instant::now();
    let cookie = match Token::parse(&token).map(|link| app.sessions.enter(&link, now)) {
        Some(Ok(Some(cookie))) => cookie,
        Some(Err(error)) => {
            tracing::error!(%error, "no session can be made");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            return (status, plain(status, "no session can be made")).into_response();
        }
        None | Some(Ok(None)) => {
            app.lockout.note_wrong(&peer.source(), now);
            return no(
                StatusCode::FORBIDDEN,
                &format!("This link was used, is too old, or is none. {SIGN_IN}"),
            );
        }
    };
    tracing::info!(from = peer.words(), "somebody entered the dashboard");
    let is_https = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let secure = if is_https { "; Secure" } else { "" };
    let value = format!(
        "{}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=2592000{secure}",
        app.cookie,
        cookie.as_str()
    );
    (StatusCode::SEE_OTHER, [(LOCATION, "/".to_owned()), (SET_COOKIE, value)]).into_response()
}

pub(crate) async fn leave(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
) -> Response {
    app.sessions.leave(&visitor.cookie);
    let value = format!("{}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0", app.cookie);
    let page = plain(StatusCode::OK, "You have left. `agency dashboard --link` prints a new link.");
    ([(SET_COOKIE, value)], page).into_response()
}

/// Only a program of the owner's, on the socket: no browser can send this header, nor leave out the others.
pub(crate) async fn link(
    State(app): State<App>,
    Extension(Stranger { peer, standing }): Extension<Stranger>,
    headers: HeaderMap,
) -> Response {
    let asked = headers.get("x-agency-link").and_then(|value| value.to_str().ok());
    let right = match asked {
        Some("act") => Right::Act,
        Some("read") => Right::Read,
        _ => return no(StatusCode::FORBIDDEN, "links are made by `agency dashboard --link`"),
    };
    let marks = [
        ORIGIN,
        COOKIE,
        HeaderName::from_static("sec-fetch-site"),
        HeaderName::from_static("sec-fetch-mode"),
    ];
    let from_browser = marks.iter().any(|mark| headers.contains_key(mark));
    if from_browser || !matches!(peer, Peer::Unix { .. }) {
        return no(
            StatusCode::FORBIDDEN,
            "links are made by `agency dashboard --link`, on the daemon's socket",
        );
    }
    if let Standing::Unclear(why) = standing {
        return no(
            StatusCode::FORBIDDEN,
            &format!(
                "no link is made for a process that is not known to be the owner's: {why} (WB-05)"
            ),
        );
    }
    match app.link(right) {
        Ok(link) => ([(CONTENT_TYPE, "application/json")], link.to_string()).into_response(),
        Err(error) => {
            no(StatusCode::INTERNAL_SERVER_ERROR, &format!("no link can be made: {error}"))
        }
    }
}

fn no(status: StatusCode, text: &str) -> Response {
    (status, plain(status, text)).into_response()
}
