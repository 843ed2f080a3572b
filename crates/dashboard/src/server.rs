//! Listens: always on a socket of ours, on TCP where the owner says so. Every connection is bounded in time, size and number.

use crate::address::Hosts;
use crate::gate::guard;
use crate::live::Live;
use crate::lockout::Lockout;
use crate::pages;
use crate::peer::{Identify, Peer};
use crate::session::{LINK_LIFE, Right, Sessions};
use crate::source::Source;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// From the first byte to the end of the headers.
const HEAD_TIME: Duration = Duration::from_secs(5);
const HEAD_MAX: usize = 16 * 1024;
/// A live page asks again after this time.
const CONNECTION_TIME: Duration = Duration::from_secs(600);
/// On each listener.
const CONNECTIONS: usize = 64;

/// How the daemon wants it.
pub struct Options {
    /// Where the socket is made, in a folder that only the owner may enter.
    pub socket: PathBuf,
    pub listen: Option<SocketAddr>,
    /// Names beside those of this machine.
    pub hosts: Vec<String>,
    /// Addresses of proxies that the owner trusts to let in only the owner.
    pub proxies: Vec<IpAddr>,
    /// Who acts, for the journal.
    pub who: String,
    pub identify: Identify,
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the dashboard cannot listen on `{place}`")]
    Listen { place: String, source: io::Error },
    #[error(
        "`dashboard.listen` is `{address}`, which others can reach: set `dashboard.proxies` to the address of the proxy that keeps them out, or listen on 127.0.0.1"
    )]
    Open { address: SocketAddr },
}

pub(crate) type App = Arc<Shared>;

pub(crate) struct Shared {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) sessions: Sessions,
    pub(crate) lockout: Lockout,
    pub(crate) live: Live,
    pub(crate) hosts: Hosts,
    pub(crate) proxies: Vec<IpAddr>,
    pub(crate) identify: Identify,
    pub(crate) who: String,
    /// The cookie's name: browsers send the cookies of one name to every port, so two daemons need two.
    pub(crate) cookie: String,
    /// Rendering reads many files; only so many pages at once.
    pub(crate) renderers: Semaphore,
    address: Option<SocketAddr>,
}

impl Shared {
    /// A one-use link, as `agency dashboard --link` prints it.
    pub(crate) fn link(&self, right: Right) -> io::Result<serde_json::Value> {
        let token = self.sessions.link(right, Instant::now())?;
        let path = format!("/enter/{}", token.as_str());
        let address = self.address.map(|address| address.to_string());
        Ok(serde_json::json!({"path": path, "address": address, "expires_s": LINK_LIFE.as_secs()}))
    }
}

/// Serves as long as it lives.
pub struct Dashboard {
    app: App,
    socket: PathBuf,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Dashboard {
    pub async fn start(source: Arc<dyn Source>, options: Options) -> Result<Self, ServeError> {
        let Options { socket, listen, hosts, proxies, who, identify } = options;
        if let Some(address) =
            listen.filter(|address| !address.ip().is_loopback() && proxies.is_empty())
        {
            return Err(ServeError::Open { address });
        }
        let unix = bind_socket(&socket)?;
        let tcp = match listen {
            Some(address) => {
                Some(TcpListener::bind(address).await.map_err(failed(address.to_string()))?)
            }
            None => None,
        };
        let address = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
        let app = Arc::new(Shared {
            live: Live::start(Arc::clone(&source)),
            sessions: Sessions::default(),
            lockout: Lockout::default(),
            hosts: Hosts::new(&hosts),
            cookie: cookie_name(&socket),
            renderers: Semaphore::new(4),
            source,
            proxies,
            identify,
            who,
            address,
        });
        let routes = routes(&app);
        let mut tasks = vec![spawn(serve_unix(unix, routes.clone()))];
        tasks.extend(tcp.map(|tcp| spawn(serve_tcp(tcp, routes))));
        Ok(Self { app, socket, _tasks: tasks })
    }

    /// Where TCP listens, if it does.
    pub fn address(&self) -> Option<SocketAddr> {
        self.app.address
    }

    /// The way in for whoever started it, without the socket.
    pub fn link(&self, right: Right) -> io::Result<String> {
        let token = self.app.sessions.link(right, Instant::now())?;
        let host = self
            .app
            .address
            .map_or_else(|| "localhost:7777".to_owned(), |address| address.to_string());
        Ok(format!("http://{host}/enter/{}", token.as_str()))
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // Whoever connects to a socket without a listener learns that nobody serves it; the file is only tidied up.
        fs::remove_file(&self.socket).ok();
    }
}

fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(task))
}

fn failed(place: String) -> impl FnOnce(io::Error) -> ServeError {
    move |source| ServeError::Listen { place, source }
}

fn bind_socket(path: &Path) -> Result<UnixListener, ServeError> {
    let place = || path.display().to_string();
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed(place())(error));
        }
        _ => {}
    }
    let listener = short(path, |path| UnixListener::bind(path)).map_err(failed(place()))?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed(place()))?;
    Ok(listener)
}

/// A socket's path ends at 107 bytes: a longer one is reached through the open folder.
pub(crate) fn short<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    const PATH_MAX: usize = 100;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if path.as_os_str().len() <= PATH_MAX {
        return act(path);
    }
    let dir = fs::File::open(dir)?;
    act(&Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name))
}

fn cookie_name(socket: &Path) -> String {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(socket.as_os_str().as_encoded_bytes());
    let short: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("agency_{short}")
}

fn routes(app: &App) -> Router {
    Router::new()
        .route("/", get(pages::needs))
        .route("/now", get(pages::now))
        .route("/repo/{key}", get(pages::repo))
        .route("/repo/{key}/run/{run}", get(pages::run))
        .route("/history", get(pages::history))
        .route("/machine", get(pages::machine))
        .route("/events", get(crate::live::events))
        .route("/act", post(crate::act::handle))
        .route("/enter/{token}", get(pages::enter))
        .route("/leave", post(pages::leave))
        .route("/link", post(pages::link))
        .route("/style.css", get(crate::assets::style))
        .route("/app.js", get(crate::assets::script))
        .route("/icon.svg", get(crate::assets::icon))
        .fallback(pages::missing)
        .layer(from_fn_with_state(Arc::clone(app), guard))
        .with_state(Arc::clone(app))
}

async fn serve_unix(listener: UnixListener, routes: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let cred = stream.peer_cred();
                let pid = cred.as_ref().ok().and_then(|cred| u32::try_from(cred.pid()?).ok());
                let uid = cred.map_or(u32::MAX, |cred| cred.uid());
                serve(stream, Peer::Unix { pid, uid }, &routes, permit);
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

async fn serve_tcp(listener: TcpListener, routes: Router) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, theirs)) => {
                let Ok(ours) = stream.local_addr() else { continue };
                serve(stream, Peer::Tcp { theirs, ours }, &routes, permit);
            }
            Err(error) => pause_after(&error).await,
        }
    }
}

async fn pause_after(error: &io::Error) {
    tracing::warn!(%error, "the dashboard cannot accept a connection");
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// One request for each connection: whoever stays has to ask again, and is looked at again.
fn serve<S>(stream: S, peer: Peer, routes: &Router, permit: tokio::sync::OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(routes.clone().layer(Extension(peer)));
    tokio::spawn(async move {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIME)
            .max_buf_size(HEAD_MAX)
            .keep_alive(false);
        let served =
            timeout(CONNECTION_TIME, http.serve_connection(TokioIo::new(stream), service)).await;
        if let Ok(Err(error)) = served {
            tracing::debug!(%error, "a dashboard connection ended early");
        }
        drop(permit);
    });
}
