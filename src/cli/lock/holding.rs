//! `agency lock run`: a command under a lock that is renewed while it runs. When the lock is lost the command is ended.

use super::super::context::Context;
use super::super::exit::{Exit, Refused};
use super::{Terms, acquire, change};
use crate::clock;
use crate::protocol::handoff::locks::{self, Claim};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);
/// What a command that lost its lock gets to end by itself.
const GRACE: Duration = Duration::from_secs(2);

pub(super) fn run(
    context: &Context,
    root: &Path,
    resource: &str,
    terms: &Terms,
    command: &[String],
) -> anyhow::Result<Exit> {
    let Some(grant) = acquire(context, root, resource, terms)? else { return Ok(Exit::Busy) };
    if let Some(lock) = &grant.taken_over {
        anstream::eprintln!("the lock of `{}` had expired and was taken over", lock.agent);
    }
    let claim = Claim::Token(grant.token);
    let child = Command::new(&command[0])
        .args(&command[1..])
        .env("AGENCY_LOCK_RESOURCE", resource)
        .env("AGENCY_LOCK_TOKEN", grant.token.to_string())
        .spawn();
    let ended = match child {
        Ok(mut child) => hold(root, resource, &claim, terms.ttl, &mut child),
        Err(error) => Err(anyhow::anyhow!("cannot start `{}`: {error}", command[0])),
    };
    let released = change(root, |state| locks::release(state, resource, &claim));
    let status = ended?;
    released?;
    Ok(exit(status))
}

/// Waits for the command and renews the lock well before it expires.
fn hold(
    root: &Path,
    resource: &str,
    claim: &Claim,
    ttl: Duration,
    child: &mut Child,
) -> anyhow::Result<ExitStatus> {
    let mut renewed = clock::now().ticks;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if clock::now().ticks.since(renewed) >= ttl / 3 {
            let kept =
                change(root, |state| locks::renew(state, resource, claim, ttl, clock::now().wall));
            if let Err(error) = kept {
                end(child)?;
                return Err(Refused(format!(
                    "the lock on `{resource}` is lost, so the command was ended: {error}"
                ))
                .into());
            }
            renewed = clock::now().ticks;
        }
        std::thread::sleep(PAUSE);
    }
}

fn end(child: &mut Child) -> anyhow::Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id())?);
    // A child that is gone already needs no signal.
    kill(pid, Signal::SIGTERM).ok();
    let begun = clock::now().ticks;
    while clock::now().ticks.since(begun) < GRACE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

fn exit(status: ExitStatus) -> Exit {
    match status.code() {
        Some(0) => Exit::Fine,
        Some(code) => Exit::Of(u8::try_from(code).unwrap_or(1)),
        None => Exit::Finding,
    }
}
