//! `agency doctor`: what this machine lacks for the work, each with the fix. It changes nothing.

mod agents;
mod machine;
mod sandbox;

use super::context::Context;
use super::exit::Exit;
use super::show;
use crate::config::Config;
use crate::escalate;
use serde::Serialize;

/// Look for what would be in the way, and say how to mend it
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency doctor\n  agency doctor --json")]
pub(super) struct Args {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
#[derive(Clone, Serialize)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) fine: bool,
    pub(crate) found: String,
    /// What to do about it, if something is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Check {
    fn fine(name: &str, found: impl Into<String>) -> Self {
        Self { name: name.to_owned(), fine: true, found: found.into(), fix: None }
    }

    fn wrong(name: &str, found: impl Into<String>, fix: &str) -> Self {
        let fix = Some(fix.to_owned());
        Self { name: name.to_owned(), fine: false, found: found.into(), fix }
    }

    /// Fine, with a word of advice.
    fn hint(mut self, fix: &str) -> Self {
        self.fix = Some(fix.to_owned());
        self
    }
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let checks = checks(context)?;
    if args.json {
        show::json(&checks)?;
    } else {
        checks.iter().for_each(print);
    }
    let fine = checks.iter().all(|check| check.fine);
    Ok(if fine { Exit::Fine } else { Exit::Finding })
}

/// All that is looked at.
pub(crate) fn checks(context: &Context) -> anyhow::Result<Vec<Check>> {
    let (config, check) = config(context);
    let mut checks = vec![channels(context, &config), check];
    checks.extend(machine::checks(context)?);
    checks.extend(sandbox::checks(context, &config)?);
    checks.extend(agents::checks(context, &config));
    checks.extend(agents::seats(&config));
    Ok(checks)
}

fn print(check: &Check) {
    let mark = if check.fine { "ok" } else { "!!" };
    anstream::println!("{mark}  {:<12} {}", check.name, check.found);
    if let Some(fix) = &check.fix {
        anstream::println!("    {:<12} {fix}", "");
    }
}

/// A configuration that is wrong is one finding more; the rest is looked at with the defaults.
fn config(context: &Context) -> (Config, Check) {
    let path = context.config_path().ok().flatten();
    match context.config() {
        Ok(config) => {
            let found = path.map(|path| path.display().to_string());
            let found = found
                .unwrap_or_else(|| "no ~/.config/agency/agency.yaml: the defaults hold".to_owned());
            (config, Check::fine("config", found))
        }
        Err(error) => {
            let fix = "mend the file; `config/agency.yaml` shows every setting with its default";
            (Config::default(), Check::wrong("config", format!("{error:#}"), fix))
        }
    }
}

/// First of all: an owner who cannot be reached is the worst that can be wrong.
fn channels(context: &Context, config: &Config) -> Check {
    let channels = escalate::channels(config, &context.env);
    let names = channels.names().join(", ");
    let broken: Vec<_> =
        channels.problems().iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let fix = "set `escalation: { webhooks: [ { url: \"https://…\" } ] }` in ~/.config/agency/agency.yaml (or `email`, see README), then run `agency escalate --test`";
    match (names.is_empty(), broken.is_empty()) {
        (_, false) => Check::wrong("channels", broken.join("; "), fix),
        (true, true) => {
            let found = "no channel is configured: what is wrong is only shown by `agency status`";
            Check::wrong("channels", found, fix)
        }
        (false, true) => Check::fine("channels", names),
    }
}
