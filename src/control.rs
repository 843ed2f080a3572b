//! The control socket of a repository: one line of JSON in, one line out. It judges nothing but who is asking.

use crate::metrics::{RepoMetrics, prometheus, read};
use crate::model::{Answer, Command};
use crate::run::{Caller, Peer};
use crate::store::lock::Lock;
use crate::workspace::{RepoStatus, Request};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

const LINE_MAX: u64 = 4 << 20;
/// A command waits for effects such as a commit, never for an agent.
const PATIENCE: Duration = Duration::from_secs(150);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("cannot use the control socket `{}`", path.display())]
    Socket { path: PathBuf, source: io::Error },
    #[error("the daemon did not answer on `{}`", path.display())]
    Silent { path: PathBuf },
    #[error(
        "process {pid} answers on `{}`, but {} (SE-10); nothing was sent to it. {}",
        path.display(), holder_words(*holder), way_out(*holder, path)
    )]
    Foreign { path: PathBuf, pid: i32, holder: Option<i32> },
}

fn holder_words(holder: Option<i32>) -> String {
    match holder {
        Some(pid) => format!("the daemon that has this repository is process {pid}"),
        None => "no daemon has this repository".to_owned(),
    }
}

fn way_out(holder: Option<i32>, path: &Path) -> String {
    match holder {
        Some(_) => {
            "The daemon makes its socket again within seconds: run the command again".to_owned()
        }
        None => format!("Delete it, then run the command again: rm -r '{}'", path.display()),
    }
}

/// How often the daemon looks whether its socket is still the one that it made.
const LOOK: Duration = Duration::from_secs(1);

/// What was in the place of our socket, for the owner.
pub type OnReplaced = Box<dyn Fn(&str) + Send + Sync>;

/// Serves the socket as long as the handle lives.
pub fn serve(
    path: &Path,
    requests: mpsc::Sender<Request>,
    on_replaced: OnReplaced,
) -> Result<AbortOnDropHandle<()>, ControlError> {
    let failed = |source| ControlError::Socket { path: path.to_owned(), source };
    let mut bound = Bound::make(path).map_err(failed)?;
    let path = path.to_owned();
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            tokio::select! {
                accepted = bound.listener.accept() => answer(accepted, &path, &requests).await,
                () = tokio::time::sleep(LOOK) => bound.look(&path, &on_replaced),
            }
        }
    })))
}

async fn answer(
    accepted: io::Result<(UnixStream, tokio::net::unix::SocketAddr)>,
    path: &Path,
    requests: &mpsc::Sender<Request>,
) {
    match accepted {
        Ok((stream, _)) => {
            // The event log lies beside the socket.
            let events = path.with_file_name("events.ndjson");
            drop(tokio::spawn(converse(stream, requests.clone(), events)));
        }
        Err(error) => {
            tracing::warn!(%error, "the control socket cannot accept");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

/// The socket that we made, and how its file is known again.
struct Bound {
    listener: UnixListener,
    file: (u64, u64),
}

impl Bound {
    fn make(path: &Path) -> io::Result<Self> {
        clear(path)?;
        let listener = with_short_path(path, |short| UnixListener::bind(short))?;
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        Ok(Self { listener, file: identity(path)? })
    }

    /// SE-10: a socket that was removed or replaced is made again, and the owner is told.
    fn look(&mut self, path: &Path, on_replaced: &OnReplaced) {
        if identity(path).is_ok_and(|file| file == self.file) {
            return;
        }
        let found = found_at(path);
        match Self::make(path) {
            Ok(bound) => {
                *self = bound;
                tracing::warn!(path = %path.display(), found, "the control socket was replaced and is made again");
                on_replaced(&found);
            }
            // With the folder everything is gone, which the daemon notices by itself.
            Err(error) => tracing::warn!(%error, "the control socket cannot be made again"),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    path.symlink_metadata().map(|meta| (meta.dev(), meta.ino()))
}

/// A folder in its place may hold anything, so it is moved aside and kept.
fn clear(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => {
            let aside = path.with_extension(format!("foreign-{}", uuid::Uuid::new_v4().simple()));
            std::fs::rename(path, aside)
        }
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn found_at(path: &Path) -> String {
    use std::os::unix::fs::FileTypeExt as _;
    match path.symlink_metadata().map(|meta| meta.file_type()) {
        Ok(kind) if kind.is_socket() => "another socket was in its place".to_owned(),
        Ok(kind) if kind.is_symlink() => "a symlink was in its place".to_owned(),
        Ok(kind) if kind.is_dir() => "a folder was in its place".to_owned(),
        Ok(_) => "another file was in its place".to_owned(),
        Err(_) => "it was removed".to_owned(),
    }
}

async fn converse(mut stream: UnixStream, requests: mpsc::Sender<Request>, events: PathBuf) {
    // Held from here on: a later process with the same number is another one.
    let peer = Peer::of(&stream, stream.peer_cred().ok().and_then(|peer| peer.pid()));
    let line = read_line(&mut stream).await;
    let caller = peer.map_or_else(Caller::Unclear, |peer| peer.caller());
    let answer = match (caller.refusal(), line) {
        // SE-04, SE-07: every verb of this socket is the owner's.
        (Some(why), _) => {
            tracing::warn!(why, "a command was refused");
            refused(why)
        }
        (None, Ok(line)) if line.starts_with("GET ") => {
            return show_metrics(&mut stream, &line, &events).await;
        }
        (None, Ok(line)) => match serde_json::from_str::<Command>(&line) {
            Ok(command) => ask(command, &requests).await,
            Err(error) => refused(format!("not a command: {error}")),
        },
        (None, Err(error)) => refused(format!("not a command: {error}")),
    };
    let line = serde_json::to_string(&answer).expect("BUG: an answer is plain data");
    if let Err(error) = stream.write_all(format!("{line}\n").as_bytes()).await {
        tracing::debug!(%error, "the asker did not wait for its answer");
    }
}

/// The metrics endpoint (HO-10), for whatever can speak HTTP to a socket.
async fn show_metrics(stream: &mut UnixStream, line: &str, events: &Path) {
    let folder = events.parent().unwrap_or(events);
    let protocols = RepoStatus::read(folder).unwrap_or_default().protocols.into_iter();
    let conditions = protocols.map(|one| (one.name, one.condition.kind)).collect();
    let repo = folder.display().to_string();
    let (status, text) = match read(events) {
        _ if !line.starts_with("GET /metrics ") => ("404 Not Found", "only /metrics\n".to_owned()),
        Ok(metrics) => {
            let one = RepoMetrics { repo, metrics, conditions, frozen: false };
            ("200 OK", prometheus(true, &[one]))
        }
        Err(error) => ("500 Internal Server Error", format!("{error}\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    if let Err(error) = stream.write_all((head + &text).as_bytes()).await {
        tracing::debug!(%error, "the asker did not wait for its answer");
    }
}

async fn ask(command: Command, requests: &mpsc::Sender<Request>) -> Answer {
    let (reply, answer) = oneshot::channel();
    if requests.send(Request { command: Box::new(command), reply }).await.is_err() {
        return refused("the daemon is stopping".to_owned());
    }
    match timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => refused("the daemon stopped before it answered".to_owned()),
        Err(_) => refused("the daemon is busy; the command is in its queue".to_owned()),
    }
}

fn refused(text: String) -> Answer {
    Answer { accepted: false, text }
}

/// Sends a command to the daemon of a repository. `None`: there is none.
/// `lock` is the repository's: who answers must hold it (SE-10).
pub async fn send(
    path: &Path,
    lock: &Path,
    command: &Command,
) -> Result<Option<Answer>, ControlError> {
    let failed = |source| ControlError::Socket { path: path.to_owned(), source };
    let connected = with_short_path(path, |short| std::os::unix::net::UnixStream::connect(short));
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    stream.set_nonblocking(true).map_err(failed)?;
    let mut stream = UnixStream::from_std(stream).map_err(failed)?;
    check_holder(&stream, path, lock)?;
    let line = serde_json::to_string(command).expect("BUG: a command is plain data");
    stream.write_all(format!("{line}\n").as_bytes()).await.map_err(failed)?;
    let silent = || ControlError::Silent { path: path.to_owned() };
    let line = timeout(PATIENCE + Duration::from_secs(5), read_line(&mut stream)).await;
    let line = line.map_err(|_| silent())?.map_err(failed)?;
    serde_json::from_str(&line).map(Some).map_err(|_| silent())
}

/// A socket in the place of the daemon's would hear the owner's commands and answer them as it likes.
fn check_holder(stream: &UnixStream, path: &Path, lock: &Path) -> Result<(), ControlError> {
    let failed = |source| ControlError::Socket { path: path.to_owned(), source };
    let pid = stream.peer_cred().map_err(failed)?.pid().unwrap_or(0);
    let holder = Lock::holder_of(lock);
    if cfg!(not(target_os = "linux")) || (pid > 0 && holder == Some(pid)) {
        return Ok(());
    }
    Err(ControlError::Foreign { path: path.to_owned(), pid, holder })
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

async fn read_line(stream: &mut UnixStream) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut line).await?;
    Ok(line)
}

/// A socket's path ends at 107 bytes: a longer one is reached through the open folder.
fn with_short_path<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    const PATH_MAX: usize = 100;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if path.as_os_str().len() <= PATH_MAX {
        return act(path);
    }
    let dir = std::fs::File::open(dir)?;
    act(&Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Verb;
    use crate::store::lock::Acquired;

    fn command() -> Command {
        let by = "owner".to_owned();
        Command {
            id: "c1".to_owned(),
            protocol: None,
            verb: Verb::Resume,
            args: Default::default(),
            by,
            from: String::new(),
        }
    }

    #[tokio::test]
    async fn a_command_gets_its_answer_over_a_path_of_any_length() {
        let dir = tempfile::tempdir().unwrap();
        for depth in [0, 12] {
            let dir = dir.path().join("a-long-folder-name/".repeat(depth));
            std::fs::create_dir_all(&dir).unwrap();
            let path = dir.join("control.sock");
            let (sender, mut requests) = mpsc::channel::<Request>(1);
            let lock = dir.join("lock");
            let unserved = send(&path, &lock, &command()).await.unwrap();
            assert_eq!(unserved, None, "nobody serves it yet");
            let served = serve(&path, sender, Box::new(|_| ())).unwrap();
            let refused = send(&path, &lock, &command()).await.unwrap_err().to_string();
            assert!(refused.contains("no daemon has this repository"), "{refused}");
            let Acquired::Held(_held) = Lock::try_acquire(&lock, "us").unwrap() else { panic!() };
            let answering = tokio::spawn(async move {
                let request = requests.recv().await.unwrap();
                assert_eq!(*request.command, command());
                request.reply.send(Answer { accepted: true, text: "done".to_owned() }).unwrap();
            });
            let answer = send(&path, &lock, &command()).await.unwrap();
            assert_eq!(answer, Some(Answer { accepted: true, text: "done".to_owned() }));
            answering.await.unwrap();
            drop(served);
        }
    }

    #[tokio::test]
    async fn what_is_no_command_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let (sender, _requests) = mpsc::channel::<Request>(1);
        let _served = serve(&path, sender, Box::new(|_| ())).unwrap();
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(b"{\"verb\":\"drop-tables\"}\n").await.unwrap();
        let answer: Answer = serde_json::from_str(&read_line(&mut stream).await.unwrap()).unwrap();
        assert!(!answer.accepted && answer.text.starts_with("not a command"), "{answer:?}");
    }

    // covers: SE-10
    #[tokio::test]
    async fn a_socket_that_was_removed_or_replaced_is_made_again_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("control.sock");
        let (sender, _requests) = mpsc::channel::<Request>(1);
        let (told, mut heard) = mpsc::unbounded_channel();
        let tell: OnReplaced = Box::new(move |found| told.send(found.to_owned()).unwrap());
        let _served = serve(&path, sender, tell).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(heard.recv().await.unwrap(), "it was removed");
        std::fs::remove_file(&path).unwrap();
        let fake = UnixListener::bind(&path).unwrap();
        assert_eq!(heard.recv().await.unwrap(), "another socket was in its place");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("kept"), "").unwrap();
        assert_eq!(heard.recv().await.unwrap(), "a folder was in its place");
        UnixStream::connect(&path).await.unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "what was there is kept");
        drop(fake);
    }
}
