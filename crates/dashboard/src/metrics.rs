//! `GET /metrics` on its own address, for programs that collect numbers. No session, and nothing else is served there.

use crate::server::ServeError;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

const TIME: Duration = Duration::from_secs(10);
const CONNECTIONS: usize = 8;

/// Serves as long as the handle lives; says where. The text is made for each request, away from the tasks that serve.
pub async fn serve_metrics(
    listen: SocketAddr,
    text: Arc<dyn Fn() -> String + Send + Sync>,
) -> Result<(SocketAddr, AbortOnDropHandle<()>), ServeError> {
    let failed = |source| ServeError::Listen { place: listen.to_string(), source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let answer = move || {
        let text = Arc::clone(&text);
        async move {
            let text = tokio::task::spawn_blocking(move || text()).await.unwrap_or_default();
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(CONTENT_TYPE, kind)], text).into_response()
        }
    };
    let routes = Router::new().route("/metrics", get(answer));
    Ok((address, AbortOnDropHandle::new(tokio::spawn(serve(listener, routes)))))
}

async fn serve(listener: TcpListener, routes: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(200)).await;
            continue;
        };
        let service = TowerToHyperService::new(routes.clone());
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(TIME).keep_alive(false);
            if let Ok(Err(error)) =
                timeout(TIME, http.serve_connection(TokioIo::new(stream), service)).await
            {
                tracing::debug!(%error, "a request for metrics ended early");
            }
            drop(permit);
        });
    }
}
