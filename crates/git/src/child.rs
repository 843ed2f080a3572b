//! Runs one prepared command with a deadline and bounded output, and ends its whole process group if need be.
//! It knows nothing about git.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Time to clean up after a polite signal: a killed git would leave its lock files behind.
const GRACE: Duration = Duration::from_secs(2);
/// How long pipes may stay open after the end, for instance in the hands of an ssh master that lives on.
const LINGER: Duration = Duration::from_secs(1);
const STDERR_MAX: u64 = 64 * 1024;

pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

pub(super) struct Bounds {
    pub(super) deadline: Duration,
    pub(super) stdout_max: u64,
}

pub(super) enum Failure {
    Start(io::Error),
    Pipe(io::Error),
    TimedOut,
    TooMuch,
}

pub(super) async fn finish(
    mut command: Command,
    stdin: Vec<u8>,
    bounds: Bounds,
) -> Result<Finished, Failure> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(Failure::Start)?;
    let mut group = Group::of(&child);
    let result = timeout(bounds.deadline, attend(&mut child, &stdin, bounds.stdout_max)).await;
    match result {
        Ok(Ok((status, stdout, stderr))) => {
            group.let_go();
            Ok(Finished { status, stdout, stderr })
        }
        Ok(Err(failure)) => {
            group.end(&mut child).await;
            Err(failure)
        }
        Err(_) => {
            group.end(&mut child).await;
            Err(Failure::TimedOut)
        }
    }
}

async fn attend(
    child: &mut Child,
    stdin: &[u8],
    stdout_max: u64,
) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), Failure> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let status = {
        let pipes = async {
            tokio::try_join!(
                feed(input, stdin),
                read_all(out, stdout_max, &mut stdout),
                read_some(err, &mut stderr)
            )
        };
        tokio::pin!(pipes);
        tokio::select! {
            status = child.wait() => {
                if let Ok(read) = timeout(LINGER, &mut pipes).await {
                    read?;
                }
                status
            }
            read = &mut pipes => {
                read?;
                child.wait().await
            }
        }
    };
    Ok((status.map_err(Failure::Pipe)?, stdout, stderr))
}

async fn feed(input: Option<tokio::process::ChildStdin>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(mut input) = input else { return Ok(()) };
    match input.write_all(bytes).await {
        // It ended before it read everything: its exit code says more than this error could.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Pipe(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn read_all(
    pipe: Option<impl AsyncRead + Unpin>,
    max: u64,
    into: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some(pipe) = pipe else { return Ok(()) };
    let read = pipe.take(max.saturating_add(1)).read_to_end(into).await.map_err(Failure::Pipe)?;
    if read as u64 > max { Err(Failure::TooMuch) } else { Ok(()) }
}

/// Keeps the beginning and drains the rest, so that the writer never waits for us.
async fn read_some(
    pipe: Option<impl AsyncRead + Unpin>,
    into: &mut Vec<u8>,
) -> Result<(), Failure> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    (&mut pipe).take(STDERR_MAX).read_to_end(into).await.map_err(Failure::Pipe)?;
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await.map_err(Failure::Pipe)?;
    Ok(())
}

/// A process group that must not outlive our interest in it.
struct Group {
    leader: Option<u32>,
}

impl Group {
    fn of(child: &Child) -> Self {
        Self { leader: child.id() }
    }

    /// It ended by itself; what it left running on purpose (a credential cache, an ssh master) may stay.
    fn let_go(&mut self) {
        self.leader = None;
    }

    async fn end(&mut self, child: &mut Child) {
        self.signal(Signal::SIGTERM);
        if timeout(GRACE, child.wait()).await.is_err() {
            self.signal(Signal::SIGKILL);
            // Bounded: a process that sits in a dead disk cannot be reaped, and we go on without it.
            drop(timeout(GRACE, child.wait()).await);
        } else {
            self.signal(Signal::SIGKILL);
        }
        self.leader = None;
    }

    fn signal(&self, signal: Signal) {
        let leader = self.leader.and_then(|leader| i32::try_from(leader).ok());
        let sent = leader.map(|leader| killpg(Pid::from_raw(leader), signal));
        if let Some(Err(error)) = sent {
            // The group is gone already, which is what we want.
            tracing::trace!(%error, "no process group to signal");
        }
    }
}

impl Drop for Group {
    /// Reached while a group is held only when the caller was cancelled: politely, so that locks are removed.
    fn drop(&mut self) {
        self.signal(Signal::SIGTERM);
    }
}
