//! The agents' CLIs: where they are, which version, and whether anything shows that they can sign in.

use super::super::context::Context;
use super::Check;
use super::machine::on_path;
use crate::config::{Config, Profile, Start};
use crate::model::Access;
use crate::run::profile::{self, Options};
use crate::run::sandbox::{Kernel, is_confined};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A CLI that has not told its version by then is not asked any longer.
const PATIENCE: Duration = Duration::from_secs(10);
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
    let proven = profile::proven(*profile);
    if !is_signed_in(context, *profile) {
        check.hint(sign_in(*profile))
    } else if *profile == Profile::Gemini && !has_key(context, GEMINI_KEYS) {
        check.hint(GEMINI_ENDED)
    } else if numbers(&version) > numbers(proven) {
        check.hint(&format!(
            "newer than {proven}, the version that this profile was tried with; if a run ends oddly, look at `agency logs RUN`"
        ))
    } else {
        check
    }
}

/// `2.1.326 (Claude Code)`, `codex-cli 0.169.0`: the first word of numbers.
fn numbers(version: &str) -> Option<Vec<u64>> {
    let words = version.split([' ', 'v']);
    let mut found = words.filter_map(|word| {
        word.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u64>>>()
    });
    found.find(|numbers| numbers.len() > 1)
}

/// SU-12: how the agent of each seat is started.
pub(super) fn seats(config: &Config) -> Vec<Check> {
    let seats = config.roles.iter().filter_map(|(seat, name)| {
        let agent = config.agents.get(name)?;
        let line = match &agent.start {
            Start::Command(command) => command.join(" "),
            Start::Profile(profile) => {
                let looks = seat.as_str() == "auditor";
                let options = Options {
                    access: if looks { Access::ReadOnly } else { Access::Write },
                    budget_usd: agent.cost_per_run_usd,
                    model: agent.model.clone(),
                    args: agent.args.clone(),
                    permissions: agent.permissions,
                    allow: config.review_loop.gates.clone(),
                    sandboxed: is_confined(config, Some(agent), Kernel::here()),
                    ..Options::default()
                };
                profile::launch(*profile, &options).argv_template.join(" ")
            }
        };
        Some(Check::fine(seat.as_str(), format!("{name}: {line}")))
    });
    seats.collect()
}

fn version(program: &Path) -> Option<String> {
    let mut command = Command::new(program);
    // Gemini CLI starts itself once more without it, which takes a second longer.
    command.env("GEMINI_CLI_NO_RELAUNCH", "true");
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

const GEMINI_KEYS: &[&str] = &["GEMINI_API_KEY", "GOOGLE_API_KEY"];
const GEMINI_ENDED: &str = "Gemini CLI no longer serves free, Pro and Ultra accounts (since June 2026): set GEMINI_API_KEY, use an enterprise account, set Antigravity's `agy` as the agent's `command`, or give the seat to another agent, such as `roles: { auditor: codex }`";

fn has_key(context: &Context, keys: &[&str]) -> bool {
    keys.iter().any(|key| context.env.get(key).is_some_and(|value| !value.is_empty()))
}

/// A key in the environment, or the file that a sign-in leaves. Whether it still counts only the provider knows.
fn is_signed_in(context: &Context, profile: Profile) -> bool {
    let (keys, file): (&[&str], &str) = match profile {
        Profile::Claude => (
            &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
            ".claude/.credentials.json",
        ),
        Profile::Codex => (&["OPENAI_API_KEY", "CODEX_API_KEY"], ".codex/auth.json"),
        Profile::Gemini => (GEMINI_KEYS, ".gemini/oauth_creds.json"),
        Profile::Aider => (
            &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "AIDER_API_KEY"],
            ".aider.conf.yml",
        ),
    };
    let home = context.env.get("HOME").map(PathBuf::from);
    has_key(context, keys) || home.is_some_and(|home| home.join(file).is_file())
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
            "no key found: set GEMINI_API_KEY for the daemon (the sign-in with free, Pro and Ultra accounts ended in June 2026), use an enterprise account, set Antigravity's `agy` as the agent's `command`, or give the seat to another agent"
        }
        Profile::Aider => "no key found: set the key of your provider for the daemon",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(numbers("2.1.326 (Claude Code)"), Some(vec![2, 1, 326]));
        assert_eq!(numbers("codex-cli 0.169.0"), Some(vec![0, 169, 0]));
        assert_eq!(numbers("aider 0.86.2"), Some(vec![0, 86, 2]));
        assert!(numbers("2.10.0") > numbers("2.9.9"));
        assert_eq!(numbers("version unknown"), None);
    }

    // covers: SU-12
    #[test]
    fn each_seat_has_its_command_line() {
        let yaml = "agents: { codex: { model: m-1, permissions: full } }\nsandbox: { mode: off }\n";
        let config = Config::parse(yaml.as_bytes(), &crate::config::Env::default()).unwrap();
        let found: Vec<String> = seats(&config).into_iter().map(|check| check.found).collect();
        let reviewer = "codex: codex exec --json -s danger-full-access -m m-1 -";
        assert!(found.iter().any(|line| line == reviewer), "{found:?}");
    }
}
