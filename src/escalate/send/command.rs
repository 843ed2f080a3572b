//! A program of the owner's that gets the message as JSON on its standard input: argv, no shell, a time limit.

use super::{ATTEMPT_LIMIT, Outgoing};
use crate::config::Env;
use crate::escalate::pace::Outcome;
use crate::escalate::shapes::json;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};

/// What a program needs to find its way; no secret is among it.
const PASSED: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "LANG",
    "TZ",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

pub(in crate::escalate) struct CommandSender {
    command: Vec<String>,
    env: Vec<(&'static str, OsString)>,
}

impl CommandSender {
    pub(in crate::escalate) fn new(command: &[String], env: &Env) -> Self {
        let passed = |name: &&'static str| Some((*name, env.get(name)?.to_owned()));
        Self { command: command.to_vec(), env: PASSED.iter().filter_map(passed).collect() }
    }

    pub(in crate::escalate) async fn send(&self, outgoing: &Outgoing) -> Outcome {
        let extra = [("AGENCY_MESSAGE", outgoing.message.id.clone())];
        run(&self.command, &self.env, &extra, &json(&outgoing.message)).await
    }

    pub(super) async fn run_with(&self, arguments: Vec<String>) -> Outcome {
        let command: Vec<String> = self.command.iter().cloned().chain(arguments).collect();
        run(&command, &self.env, &[], b"").await
    }
}

async fn run(
    argv: &[String],
    env: &[(&str, OsString)],
    extra: &[(&str, String)],
    input: &[u8],
) -> Outcome {
    let Some((program, arguments)) = argv.split_first() else {
        return Outcome::later("no program is named");
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(env.iter().map(|(name, value)| (name, value)));
    command.envs(extra.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own, so that whatever it starts ends with it.
    let mut child = match command.process_group(0).kill_on_drop(true).spawn() {
        Ok(child) => child,
        Err(error) => return Outcome::later(format!("cannot start `{program}`: {error}")),
    };
    let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
    let group = Group(id);
    let ended = tokio::time::timeout(ATTEMPT_LIMIT, finish(&mut child, input)).await;
    drop(group);
    match ended {
        Ok(Ok(status)) if status.success() => Outcome::Delivered,
        Ok(Ok(status)) => Outcome::later(format!("`{program}` ended with {status}")),
        Ok(Err(error)) => Outcome::later(format!("cannot wait for `{program}`: {error}")),
        Err(_) => Outcome::later(format!("`{program}` took too long")),
    }
}

async fn finish(child: &mut Child, input: &[u8]) -> std::io::Result<std::process::ExitStatus> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read is no failure of ours: its exit status counts.
        drop(stdin.write_all(input).await);
    }
    child.wait().await
}

/// Ends the whole group when the attempt is over, however it ended.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Mostly nobody is left, which is an error, and fine.
            killpg(group, Signal::SIGKILL).ok();
        }
    }
}
