//! The agents' CLIs: where they are, which version, and whether anything shows that they can sign in.

use super::super::context::Context;
use super::Check;
use super::machine::on_path;
use crate::config::{Config, Profile, Start};
use crate::run::profile;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A CLI that has not told its version by then is not asked any longer.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// All at once: each of them takes a second to say its version.
pub(super) fn checks(context: &Context, config: &Config) -> Vec<Check> {
    std::thread::scope(|scope| {
        let names = config.agents.keys();
        let asked: Vec<_> =
            names.map(|name| scope.spawn(|| check(context, config, name))).collect();
        asked.into_iter().filter_map(|asked| asked.join().ok()).collect()
    })
}

fn check(context: &Context, config: &Config, name: &str) -> Check {
    let start = &config.agents[name].start;
    let found = match start {
        Start::Profile(profile) => {
            context.env.get("PATH").and_then(|path| profile::find(*profile, path))
        }
        Start::Command(command) => command.first().and_then(|program| on_path(context, program)),
    };
    let Some(program) = found else {
        if !config.roles.values().any(|agent| agent == name) {
            return Check::fine(name, "not found; no role needs it");
        }
        let fix = "install its CLI and sign in once, set `command` for this agent, or give its `roles` to another";
        return Check::wrong(name, "not found", fix);
    };
    let Start::Profile(profile) = start else {
        return Check::fine(name, program.display().to_string());
    };
    let version = version(&program).unwrap_or_else(|| "version unknown".to_owned());
    let check = Check::fine(name, format!("{version} ({})", program.display()));
    if is_signed_in(context, *profile) { check } else { check.hint(sign_in(*profile)) }
}

fn version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().ok()?;
    let said = finish(child)?;
    said.lines().next().map(|line| crate::model::clip(line.trim(), 60))
}

fn finish(mut child: Child) -> Option<String> {
    let mut left = PATIENCE;
    while !left.is_zero() {
        if child.try_wait().ok()?.is_some() {
            let output = child.wait_with_output().ok()?;
            return Some(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        std::thread::sleep(PAUSE);
        left -= PAUSE;
    }
    // It did not answer; what it does next must not be our doing.
    drop(child.kill());
    drop(child.wait());
    None
}

/// A key in the environment, or the file that a sign-in leaves. Whether it still counts only the provider knows.
fn is_signed_in(context: &Context, profile: Profile) -> bool {
    let (keys, file): (&[&str], &str) = match profile {
        Profile::Claude => (
            &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
            ".claude/.credentials.json",
        ),
        Profile::Codex => (&["OPENAI_API_KEY", "CODEX_API_KEY"], ".codex/auth.json"),
        Profile::Gemini => (&["GEMINI_API_KEY", "GOOGLE_API_KEY"], ".gemini/oauth_creds.json"),
        Profile::Aider => (
            &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AIDER_API_KEY"],
            ".aider.conf.yml",
        ),
    };
    let home = context.env.get("HOME").map(PathBuf::from);
    keys.iter().any(|key| context.env.get(key).is_some_and(|value| !value.is_empty()))
        || home.is_some_and(|home| home.join(file).is_file())
}

fn sign_in(profile: Profile) -> &'static str {
    match profile {
        Profile::Claude => {
            "no sign-in found: run `claude` once, or set ANTHROPIC_API_KEY for the daemon"
        }
        Profile::Codex => {
            "no sign-in found: run `codex login` once, or set OPENAI_API_KEY for the daemon"
        }
        Profile::Gemini => {
            "no sign-in found: run `gemini` once, or set GEMINI_API_KEY for the daemon"
        }
        Profile::Aider => "no key found: set the key of your provider for the daemon",
    }
}
