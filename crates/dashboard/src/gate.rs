//! Who gets in. Each check refuses by itself; none of them grants anything that another one refused.

use crate::address::Hosts;
use crate::headers::harden;
use crate::pages::plain;
use crate::peer::{Peer, Standing};
use crate::server::App;
use crate::session::{Right, Session};
use crate::token::Token;
use axum::extract::{Request, State};
use axum::http::header::{COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;
use std::time::Instant;

/// Somebody with a session, on their way to a page.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) session: Session,
    pub(crate) cookie: Token,
    pub(crate) peer: Peer,
    /// Why this process may not act, though its session could.
    pub(crate) unclear: Option<String>,
}

impl Visitor {
    pub(crate) fn may_act(&self) -> bool {
        self.session.right == Right::Act && self.unclear.is_none()
    }
}

/// A connection that passed the checks of address and process, and has no session.
#[derive(Clone)]
pub(crate) struct Stranger {
    pub(crate) peer: Peer,
    pub(crate) standing: Standing,
}

pub(crate) struct Refusal {
    status: StatusCode,
    text: String,
}

fn refuse<T>(status: StatusCode, text: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { status, text: text.into() })
}

/// What needs no session: the door itself, and what its page is made of.
const OPEN: [&str; 4] = ["/style.css", "/app.js", "/icon.svg", "/link"];

pub(crate) async fn guard(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let response = match check(&app, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(Refusal { status, text }) => {
            tracing::info!(%status, text, path = request.uri().path(), "a dashboard request was refused");
            (status, plain(status, &text)).into_response()
        }
    };
    harden(response)
}

async fn check(app: &App, request: &mut Request) -> Result<(), Refusal> {
    if request.uri().path().len() > 1_024
        || request.uri().query().is_some_and(|text| text.len() > 2_048)
    {
        return refuse(StatusCode::URI_TOO_LONG, "the address is too long");
    }
    if ![Method::GET, Method::HEAD, Method::POST].contains(request.method()) {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "pages are read and forms are posted");
    }
    check_site(&app.hosts, request)?;
    let peer = request.extensions().get::<Peer>().cloned();
    let peer = peer.expect("BUG: the server names the peer of each connection");
    let standing = standing(app, &peer).await;
    if let Standing::Inside(run) = &standing {
        return refuse(
            StatusCode::FORBIDDEN,
            format!(
                "the dashboard is the owner's: this process belongs to the run `{run}` (WB-05)"
            ),
        );
    }
    let path = request.uri().path();
    let is_open = OPEN.contains(&path) || path.starts_with("/enter/");
    let Some(cookie) = cookie(request.headers(), &app.cookie) else {
        request.extensions_mut().insert(Stranger { peer, standing });
        return if is_open { Ok(()) } else { refuse(StatusCode::UNAUTHORIZED, SIGN_IN) };
    };
    check_locked(app, &peer)?;
    match Token::parse(&cookie)
        .and_then(|cookie| Some((app.sessions.find(&cookie, Instant::now())?, cookie)))
    {
        Some((session, cookie)) => {
            let unclear = match &standing {
                Standing::Unclear(why) => Some(why.clone()),
                Standing::Outside | Standing::Inside(_) => None,
            };
            request.extensions_mut().insert(Visitor {
                session,
                cookie,
                peer: peer.clone(),
                unclear,
            });
        }
        None if is_open => {}
        None => {
            app.lockout.note_wrong(&peer.source(), Instant::now());
            return refuse(StatusCode::UNAUTHORIZED, SIGN_IN);
        }
    }
    request.extensions_mut().insert(Stranger { peer, standing });
    Ok(())
}

pub(crate) const SIGN_IN: &str = "Nobody has entered here with this browser, or the daemon was started again since. \
     On the machine, `agency dashboard --link` prints a link that works once, within five minutes.";

/// Host, Origin, Sec-Fetch-Site: in this order. What a page of another site can make a browser send ends here.
fn check_site(hosts: &Hosts, request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let host = one(headers, &HOST)?.unwrap_or_default();
    if !hosts.allow(host) || request.uri().authority().is_some_and(|named| named.as_str() != host) {
        return refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "this name is not one of the dashboard's; see `dashboard.hosts`",
        );
    }
    if let Some(origin) = one(headers, &ORIGIN)?
        && !hosts.allow_origin(origin, host)
    {
        return refuse(StatusCode::FORBIDDEN, "the request comes from a page of another site");
    }
    let fetch = |name: &'static str| one(headers, &HeaderName::from_static(name));
    let site = fetch("sec-fetch-site")?;
    let is_click = fetch("sec-fetch-mode")? == Some("navigate")
        && fetch("sec-fetch-dest")? == Some("document");
    let is_read = request.method() != Method::POST;
    match site {
        None | Some("same-origin") => Ok(()),
        Some("none") if is_read => Ok(()),
        Some(_) if is_read && is_click => Ok(()),
        Some(_) => refuse(StatusCode::FORBIDDEN, "the request was made by a page of another site"),
    }
}

/// Two of a kind are one too many: whoever reads them might choose differently.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refusal> {
    let mut all = headers.get_all(name).iter();
    let first = all.next();
    if all.next().is_some() {
        return refuse(StatusCode::BAD_REQUEST, format!("`{name}` is given twice"));
    }
    match first.map(|value| value.to_str()) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => refuse(StatusCode::BAD_REQUEST, format!("`{name}` is not plain text")),
    }
}

pub(crate) fn check_locked(app: &App, peer: &Peer) -> Result<(), Refusal> {
    match app.lockout.locked(&peer.source(), Instant::now()) {
        Some(left) => refuse(
            StatusCode::TOO_MANY_REQUESTS,
            format!("too many wrong tokens from here; try again in {} s", left.as_secs()),
        ),
        None => Ok(()),
    }
}

async fn standing(app: &App, peer: &Peer) -> Standing {
    let (peer, app) = (peer.clone(), Arc::clone(app));
    let looked =
        tokio::task::spawn_blocking(move || peer.standing(&app.identify, &app.proxies)).await;
    looked.unwrap_or_else(|_| Standing::Unclear("its process could not be looked at".to_owned()))
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
}

impl axum::response::IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, plain(self.status, &self.text)).into_response()
    }
}
