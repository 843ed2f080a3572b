//! Tells open pages that something changed; they then read themselves again. While nobody watches, nothing is looked at.

use crate::gate::Visitor;
use crate::server::App;
use crate::source::Source;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Between two looks while somebody watches.
const LOOK: Duration = Duration::from_millis(300);
/// A line of nothing, so that a connection that is gone is noticed.
const PING: Duration = Duration::from_secs(15);
/// Pages that are open at once.
const WATCHERS: usize = 24;

pub(crate) struct Live {
    stamp: watch::Sender<u64>,
    now: Arc<Notify>,
    room: Arc<Semaphore>,
    _looking: AbortOnDropHandle<()>,
}

impl Live {
    pub(crate) fn start(source: Arc<dyn Source>) -> Self {
        let (stamp, now) = (watch::Sender::new(0), Arc::new(Notify::new()));
        let looking = tokio::spawn(look(source, stamp.clone(), Arc::clone(&now)));
        let room = Arc::new(Semaphore::new(WATCHERS));
        Self { stamp, now, room, _looking: AbortOnDropHandle::new(looking) }
    }

    /// Something has just been done.
    pub(crate) fn look_now(&self) {
        self.now.notify_one();
    }
}

async fn look(source: Arc<dyn Source>, stamp: watch::Sender<u64>, now: Arc<Notify>) {
    loop {
        if timeout(LOOK, now.notified()).await.is_err() && stamp.receiver_count() == 0 {
            continue;
        }
        let source = Arc::clone(&source);
        if let Ok(found) = tokio::task::spawn_blocking(move || source.stamp()).await {
            stamp.send_if_modified(|known| std::mem::replace(known, found) != found);
        }
    }
}

pub(crate) async fn events(State(app): State<App>, Extension(_): Extension<Visitor>) -> Response {
    let Ok(permit) = Arc::clone(&app.live.room).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open").into_response();
    };
    let (sender, lines) = mpsc::channel(4);
    let mut stamp = app.live.stamp.subscribe();
    stamp.mark_unchanged();
    tokio::spawn(async move {
        let mut line = Bytes::from_static(b"retry: 1000\n\n");
        while sender.send(line).await.is_ok() {
            line = tokio::select! {
                () = sender.closed() => break,
                changed = stamp.changed() => match changed {
                    Ok(()) => format!("event: changed\ndata: {}\n\n", *stamp.borrow_and_update()).into(),
                    Err(_) => break,
                },
                () = sleep(PING) => Bytes::from_static(b": still here\n\n"),
            };
        }
        drop(permit);
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    (headers, Body::new(Lines(lines))).into_response()
}

struct Lines(mpsc::Receiver<Bytes>);

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}
