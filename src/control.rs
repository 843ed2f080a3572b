//! The control socket of a repository: one line of JSON in, one line out. It judges nothing but who is asking.

use crate::metrics::{RepoMetrics, prometheus, read};
use crate::model::{Answer, Command};
use crate::run::run_around;
use crate::workspace::{RepoStatus, Request};
use std::io;
use std::os::fd::AsRawFd as _;
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
}

/// Serves the socket as long as the handle lives.
pub fn serve(
    path: &Path,
    requests: mpsc::Sender<Request>,
) -> Result<AbortOnDropHandle<()>, ControlError> {
    let failed = |source| ControlError::Socket { path: path.to_owned(), source };
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = with_short_path(path, |short| UnixListener::bind(short)).map_err(failed)?;
    // The event log lies beside the socket.
    let events = path.with_file_name("events.ndjson");
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    drop(tokio::spawn(converse(stream, requests.clone(), events.clone())))
                }
                Err(error) => {
                    tracing::warn!(%error, "the control socket cannot accept");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
        }
    })))
}

async fn converse(mut stream: UnixStream, requests: mpsc::Sender<Request>, events: PathBuf) {
    let asker =
        stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
    let answer = match (asker.and_then(run_around), read_line(&mut stream).await) {
        // SE-04: every verb of this socket is the owner's.
        (Some(run), _) => {
            refused(format!("agents may not do this: the caller belongs to the run `{run}`"))
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
pub async fn send(path: &Path, command: &Command) -> Result<Option<Answer>, ControlError> {
    let failed = |source| ControlError::Socket { path: path.to_owned(), source };
    let connected = with_short_path(path, |short| std::os::unix::net::UnixStream::connect(short));
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    stream.set_nonblocking(true).map_err(failed)?;
    let mut stream = UnixStream::from_std(stream).map_err(failed)?;
    let line = serde_json::to_string(command).expect("BUG: a command is plain data");
    stream.write_all(format!("{line}\n").as_bytes()).await.map_err(failed)?;
    let silent = || ControlError::Silent { path: path.to_owned() };
    let line = timeout(PATIENCE + Duration::from_secs(5), read_line(&mut stream)).await;
    let line = line.map_err(|_| silent())?.map_err(failed)?;
    serde_json::from_str(&line).map(Some).map_err(|_| silent())
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
            assert_eq!(send(&path, &command()).await.unwrap(), None, "nobody serves it yet");
            let served = serve(&path, sender).unwrap();
            let answering = tokio::spawn(async move {
                let request = requests.recv().await.unwrap();
                assert_eq!(*request.command, command());
                request.reply.send(Answer { accepted: true, text: "done".to_owned() }).unwrap();
            });
            let answer = send(&path, &command()).await.unwrap();
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
        let _served = serve(&path, sender).unwrap();
        let mut stream = UnixStream::connect(&path).await.unwrap();
        stream.write_all(b"{\"verb\":\"drop-tables\"}\n").await.unwrap();
        let answer: Answer = serde_json::from_str(&read_line(&mut stream).await.unwrap()).unwrap();
        assert!(!answer.accepted && answer.text.starts_with("not a command"), "{answer:?}");
    }
}
