//! The sandbox: which level is live, a probe that proves what it denies, and settings that open it (SE-05, SE-06).

use super::super::context::Context;
use super::super::isolation::{Level, Sandbox};
use super::Check;
use crate::config::{Config, Permissions, SandboxMode, Start};
use crate::run::sandbox::{self, Kernel, Ours, probe};

const NAME: &str = "isolation";
const NEWER: &str = "a kernel since Linux 5.13 with `landlock` in its lsm= list prevents more; without one, a container does: `examples/container`";

pub(super) fn checks(context: &Context, config: &Config) -> anyhow::Result<Vec<Check>> {
    let live = Sandbox::live(config);
    let mut checks = vec![level(context, &live)];
    if live.is_live() {
        checks.push(proof(live.kernel())?);
    }
    let ours = Ours { state_dir: context.state_dir()?.path().to_owned(), ..Ours::default() };
    checks.extend(settings(context, config, &ours));
    checks.extend(open_agents(config));
    Ok(checks)
}

fn level(context: &Context, live: &Sandbox) -> Check {
    let sentence = live.sentence();
    match (live.is_live(), live.mode(), Level::live(&context.env)) {
        (true, _, _)
        | (false, SandboxMode::Off, _)
        | (false, SandboxMode::Auto, Level::Contained) => Check::fine(NAME, sentence),
        (false, SandboxMode::Strict, _) => Check::wrong(NAME, sentence, NEWER),
        (false, SandboxMode::Auto, Level::SharedUser) => Check::fine(NAME, sentence).hint(NEWER),
    }
}

/// That the kernel accepted the rules proves nothing; that it denies does.
fn proof(kernel: Kernel) -> anyhow::Result<Check> {
    let fix = "do not rely on the sandbox here: report this with `uname -r`, and use a container";
    Ok(match probe::probe(&std::env::current_exe()?) {
        Ok(open) if !open.is_empty() => {
            Check::wrong("denial", format!("a probe in the sandbox could {}", open.join(", ")), fix)
        }
        Ok(_) if probe::scopes_signals(kernel) => Check::fine(
            "denial",
            "a probe in the sandbox could not write, rename or link outside, read a hidden file, or send a signal",
        ),
        Ok(_) => Check::fine(
            "denial",
            "a probe in the sandbox could not write, rename or link outside, or read a hidden file",
        )
        .hint("this kernel cannot keep signals inside (Landlock ABI 6, Linux 6.12, can)"),
        Err(error) => Check::wrong("denial", crate::apply::chain(&error), fix),
    })
}

fn settings(context: &Context, config: &Config, ours: &Ours) -> Vec<Check> {
    let opened = sandbox::opened(config, ours, &context.env).into_iter().map(|path| {
        let found = format!("`{path}` in sandbox.write opens what is hidden below it");
        Check::wrong(NAME, found, "name the folders in it that runs need")
    });
    let missing = sandbox::missing(config, &context.env).into_iter().map(|path| {
        let found = format!("`{path}` in sandbox.write does not exist, so no run can write there");
        Check::wrong(NAME, found, "make it, or take it out")
    });
    opened.chain(missing).collect()
}

/// Everything without asking is for agents that something keeps in.
fn open_agents(config: &Config) -> Vec<Check> {
    let seated = config.roles.values();
    let open = config.agents.iter().filter(|(name, agent)| {
        matches!(agent.start, Start::Profile(_))
            && agent.permissions == Permissions::Full
            && seated.clone().any(|seated| seated == *name)
            && !sandbox::is_confined(config, Some(agent), Kernel::here())
    });
    let check = |(name, _): (&String, _)| {
        let found = "permissions: full without a sandbox: it may change anything that you may";
        Check::wrong(name, found, "set permissions: test, or let the sandbox hold it")
    };
    open.map(check).collect()
}
