//! `agency doctor`: what this machine lacks for the work, each with the fix. It changes nothing.

use super::context::Context;
use super::exit::Exit;
use super::show;
use crate::config::{Config, Start};
use crate::escalate;
use crate::run::profile;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Look for what would be in the way, and say how to mend it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency doctor\n  agency doctor --json")]
pub(super) struct Args {
    /// For machines
    #[arg(long)]
    json: bool,
}

/// Fewer watches than this are used up by a few large repositories.
const WATCHES: u64 = 65_536;

#[derive(Serialize)]
struct Check {
    name: String,
    fine: bool,
    found: String,
    /// What to do about it, if something is to be done.
    fix: Option<&'static str>,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let config = context.config()?;
    let mut checks = vec![channels(context, &config), git(context), watches(), isolation()];
    checks.push(Check {
        name: "state".to_owned(),
        fine: true,
        found: context.state_dir()?.path().display().to_string(),
        fix: None,
    });
    checks.extend(config.agents.keys().map(|name| agent(context, &config, name)));
    if args.json {
        show::json(&checks)?;
    } else {
        checks.iter().for_each(print);
    }
    let fine = checks.iter().all(|check| check.fine);
    Ok(if fine { Exit::Fine } else { Exit::Finding })
}

fn print(check: &Check) {
    let mark = if check.fine { "ok" } else { "!!" };
    anstream::println!("{mark}  {:<12} {}", check.name, check.found);
    if let Some(fix) = check.fix.filter(|_| !check.fine) {
        anstream::println!("    {:<12} {fix}", "");
    }
}

/// First of all: an owner who cannot be reached is the worst that can be wrong.
fn channels(context: &Context, config: &Config) -> Check {
    let channels = escalate::channels(config, &context.env);
    let names = channels.names().join(", ");
    let broken: Vec<_> =
        channels.problems().iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let found = match (names.is_empty(), broken.is_empty()) {
        (true, _) => {
            "no channel is configured: what is wrong is only shown by `agency status`".to_owned()
        }
        (false, true) => names.clone(),
        (false, false) => broken.join("; "),
    };
    let fix = Some("set `escalation` in agency.yaml, then run `agency escalate --test`");
    Check { name: "channels".to_owned(), fine: !names.is_empty() && broken.is_empty(), found, fix }
}

fn git(context: &Context) -> Check {
    let found = on_path(context, "git");
    let fix = Some("install git; without it nothing is committed");
    Check { name: "git".to_owned(), fine: found.is_some(), found: place(found.as_deref()), fix }
}

fn agent(context: &Context, config: &Config, name: &str) -> Check {
    let found = match &config.agents[name].start {
        Start::Profile(profile) => {
            context.env.get("PATH").and_then(|path| profile::find(*profile, path))
        }
        Start::Command(command) => command.first().and_then(|program| on_path(context, program)),
    };
    let fix = Some(
        "install its CLI and sign in once, or set `command` for this agent; unused agents do not matter",
    );
    Check { name: name.to_owned(), fine: found.is_some(), found: place(found.as_deref()), fix }
}

fn watches() -> Check {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/fs/inotify/{name}")).ok();
    let limit = read("max_user_watches").and_then(|text| text.trim().parse::<u64>().ok());
    let found = limit.map_or("no file events here: we look by the clock".to_owned(), |limit| {
        format!("{limit} file watches allowed")
    });
    let fix =
        Some("sysctl fs.inotify.max_user_watches=524288; beyond the limit we look by the clock");
    Check {
        name: "watches".to_owned(),
        fine: limit.is_none_or(|limit| limit >= WATCHES),
        found,
        fix,
    }
}

/// SE-05: what is live is said plainly.
fn isolation() -> Check {
    let found =
        "shared user: what agents do against the rules is detected, not prevented".to_owned();
    Check { name: "isolation".to_owned(), fine: true, found, fix: None }
}

fn on_path(context: &Context, program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let dirs = std::env::split_paths(context.env.get("PATH")?).collect::<Vec<_>>();
    dirs.into_iter().map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn place(found: Option<&Path>) -> String {
    found.map_or("not found".to_owned(), |path| path.display().to_string())
}
