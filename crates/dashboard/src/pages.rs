//! The pages: one handler for each, and the frame around them. What they show comes from the source, already read.

mod cause;
mod charts;
mod enter;
mod frame;
mod history;
mod machine;
mod needs;
mod now;
mod parts;
mod repo;
mod run;
mod tables;

/// For the report, which has the same looks.
pub(crate) mod digest_parts {
    pub use super::charts::seconds;
    pub(crate) use super::parts::{dollars, tokens};
}

pub(crate) use enter::{enter, leave, link};
pub(crate) use frame::{Frame, answered, plain};

use crate::gate::Visitor;
use crate::server::App;
use crate::source::Source;
use crate::view::{HistoryQuery, Overview};
use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use maud::Markup;
use std::sync::Arc;

/// Reads and draws away from the tasks that serve.
async fn draw(
    app: App,
    visitor: Visitor,
    uri: Uri,
    page: impl FnOnce(&dyn Source, &Frame, &Overview) -> Option<Markup> + Send + 'static,
) -> Response {
    let source = Arc::clone(&app.source);
    let drawn = async {
        let _permit = app.renderers.acquire().await.ok()?;
        let frame = Frame::of(&app, &visitor, &uri);
        let task = tokio::task::spawn_blocking(move || {
            let overview = source.overview();
            page(source.as_ref(), &frame, &overview)
        });
        Some(task.await)
    };
    match drawn.await {
        Some(Ok(Some(page))) => page.into_response(),
        Some(Ok(None)) => {
            let text = "there is nothing here; it may have been forgotten or cleared away";
            (StatusCode::NOT_FOUND, plain(StatusCode::NOT_FOUND, text)).into_response()
        }
        Some(Err(_)) | None => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            (status, plain(status, "this page could not be made; the daemon's log says why"))
                .into_response()
        }
    }
}

pub(crate) async fn needs(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Response {
    draw(app, visitor, uri, |_, frame, overview| Some(needs::page(frame, overview))).await
}

pub(crate) async fn now(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Response {
    draw(app, visitor, uri, |_, frame, overview| Some(now::page(frame, overview))).await
}

pub(crate) async fn repo(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path(key): Path<String>,
    uri: Uri,
) -> Response {
    draw(app, visitor, uri, move |source, frame, overview| {
        Some(repo::page(frame, overview, &source.repo(&key)?))
    })
    .await
}

pub(crate) async fn run(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Path((key, id)): Path<(String, String)>,
    uri: Uri,
) -> Response {
    draw(app, visitor, uri, move |source, frame, overview| {
        Some(run::page(frame, overview, &source.run(&key, &id)?))
    })
    .await
}

pub(crate) async fn history(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    Query(query): Query<HistoryQuery>,
    uri: Uri,
) -> Response {
    draw(app, visitor, uri, move |source, frame, overview| {
        Some(history::page(frame, overview, &query, &source.history(&query)))
    })
    .await
}

pub(crate) async fn machine(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    uri: Uri,
) -> Response {
    draw(app, visitor, uri, |source, frame, overview| {
        Some(machine::page(frame, overview, &source.machine()))
    })
    .await
}

pub(crate) async fn missing() -> Response {
    (StatusCode::NOT_FOUND, plain(StatusCode::NOT_FOUND, "there is no such page")).into_response()
}
