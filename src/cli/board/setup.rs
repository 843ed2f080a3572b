//! `agency init`, `install`, `upgrade` and `migrate`: the board comes into a repository, beside what is there (spec 2 §12, §22).

mod offer;
mod scribe;
mod wishes;

use super::super::ask::tell;
use super::super::context::Context;
use super::super::exit::{Exit, Misused, Refused};
use super::{bytes, hidden, refused, signals, unchecked};
use crate::model::Verb;
use crate::protocol::board::manifest::{self, Manifest};
use crate::protocol::board::profile::{self, Profile};
use crate::protocol::board::scaffold::{Existing, Part};
use crate::protocol::board::{NAME, PROTOCOL, state};
use scribe::{Order, Scribe};
use std::path::Path;
use wishes::{Checks, Wishes};

/// Begin a task board here: `.kodingx/` and the rules for your tool
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency init --orchestrator cursor --builders claude-code,codex,gemini\n  agency init --commit --builders codex\n  agency init        (asks, at a terminal)"
)]
pub(crate) struct InitArgs {
    /// Commit `.kodingx/` and the new rules files, which builders wait for (asked for, at a terminal)
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    wishes: Wishes,
}

/// Put a board into an existing repository without changing what is there
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency install --minimal\n  agency install --orchestrator claude_code --builders codex\n  agency install --force      (says what it replaces)"
)]
pub(crate) struct InstallArgs {
    /// Only inbox, outbox and STATE.md
    #[arg(long)]
    minimal: bool,
    /// Although `.kodingx/` is there already
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    wishes: Wishes,
}

/// Add parts that a minimal board lacks
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency upgrade --add dod-profiles\n  agency upgrade --full\n\nParts: docs, risks, decisions, dod-profiles, verify, agents, templates"
)]
pub(crate) struct UpgradeArgs {
    /// A part to add
    #[arg(long, value_name = "PART", value_parser = part)]
    add: Vec<Part>,
    /// Everything
    #[arg(long)]
    full: bool,
}

/// Take the board to another version of the protocol
#[derive(clap::Args)]
#[command(after_help = "Example:\n  agency migrate --to agency/1.0")]
pub(crate) struct MigrateArgs {
    #[arg(long, value_name = "VERSION")]
    to: String,
}

/// Without a check nothing is ever merged (AG-31), which the owner should not learn after the first task is built.
const NO_CHECKS: &str = "note: no checks were found for this repository, and nothing is merged unchecked. Put the commands that must pass \
     into `.kodingx/dod/profiles/generic.yml`, commit `.kodingx`, and make tasks with `--dod-profile generic` (AG-31)";

fn part(text: &str) -> Result<Part, String> {
    let words: Vec<&str> = Part::ALL.iter().map(|part| part.word()).collect();
    Part::parse(text).ok_or_else(|| format!("wanted one of {}", words.join(", ")))
}

/// SE-04: a board is the owner's to make.
pub(super) fn refuse_agents() -> anyhow::Result<()> {
    Ok(crate::cli::escalations::refuse_agents()?)
}

pub(crate) fn init(context: &Context, args: &InitArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    let root = context.root()?;
    let old = match bytes(&root, manifest::PATH)? {
        Some(bytes) => Some(manifest::parse(&bytes).map_err(|problems| refused(&problems))?),
        None => None,
    };
    let made =
        begin(context, &root, &args.wishes, old.as_ref(), (Existing::Regenerate, &Part::ALL))?;
    let wish = match (args.commit, made.is_empty()) {
        (true, _) => offer::Wish::Commit,
        (false, false) => offer::Wish::Ask,
        (false, true) => offer::Wish::Tell,
    };
    // All of `.kodingx/` belongs to the commit anyway.
    let new = made
        .into_iter()
        .filter(|(path, what)| *what == scribe::NEW && !path.starts_with(".kodingx/"));
    let new: Vec<String> = new.map(|(path, _)| path).collect();
    offer::offer(&root, &new, wish)?;
    Ok(Exit::Fine)
}

pub(crate) fn install(context: &Context, args: &InstallArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    let root = context.root()?;
    if root.join(".kodingx").symlink_metadata().is_ok() && !args.force {
        return Err(Refused(
            "`.kodingx/` is here already and nothing was changed; `agency upgrade --add …` adds parts, `agency install --force` replaces generated files (AG-22)".to_owned(),
        )
        .into());
    }
    // By force a manifest that nobody can read is replaced; one that can be read still says what the owner chose.
    let old = bytes(&root, manifest::PATH)?.and_then(|bytes| manifest::parse(&bytes).ok());
    let parts: &[Part] = if args.minimal { &[Part::Core] } else { &Part::ALL };
    let existing = if args.force { Existing::Regenerate } else { Existing::Keep };
    begin(context, &root, &args.wishes, old.as_ref(), (existing, parts))?;
    offer::offer(&root, &[], offer::Wish::Tell)?;
    Ok(Exit::Fine)
}

/// Writes the parts, and says what became of which file.
fn begin(
    context: &Context,
    root: &Path,
    wishes: &Wishes,
    old: Option<&Manifest>,
    (existing, parts): (Existing, &[Part]),
) -> anyhow::Result<Vec<(String, &'static str)>> {
    let checks = signals(root, |found| Checks {
        detected: profile::detect(found),
        named: wishes.environment(old).map(|word| profile::detect_as(&word, found)),
    });
    let manifest = wishes.manifest(root, old, &checks)?;
    let order = Order {
        manifest: &manifest,
        profile: checks.profile(),
        parts,
        existing,
        adapters: parts == Part::ALL,
        ci: wishes.ci,
    };
    let has_checks = order.profile.is_some();
    let scribe = Scribe::carry_out(root, &order)?;
    scribe.tell();
    name_unchecked(root, checks.profile().filter(|_| parts == Part::ALL));
    hidden::tell(root, &manifest);
    tell(context, Verb::Init, Some(NAME), &[])?;
    if !has_checks {
        anstream::eprintln!("{NO_CHECKS}");
    }
    Ok(scribe.done)
}

/// AG-42: languages that the profile does not check.
fn name_unchecked(root: &Path, profile: Option<&Profile>) {
    let missing = profile.map(|profile| unchecked(root, profile)).unwrap_or_default();
    for missing in missing {
        anstream::eprintln!("note: {}; put its checks into the profile", missing.note());
    }
}

pub(crate) fn upgrade(context: &Context, args: &UpgradeArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    if args.add.is_empty() && !args.full {
        return Err(Misused("what to add? --add PART, or --full".to_owned()).into());
    }
    let place = super::Place::of(context)?;
    let parts: Vec<Part> = if args.full { Part::ALL.to_vec() } else { args.add.clone() };
    let word = place.manifest.environment.as_deref();
    let profile = signals(&place.root, |found| {
        let named = word.map(|word| profile::detect_as(word, found));
        named.or_else(|| profile::detect(found))
    });
    let order = Order {
        manifest: &place.manifest,
        profile: profile.as_ref(),
        parts: &parts,
        existing: Existing::Keep,
        adapters: args.full,
        ci: false,
    };
    Scribe::carry_out(&place.root, &order)?.tell();
    name_unchecked(&place.root, profile.as_ref().filter(|_| parts.contains(&Part::DodProfiles)));
    hidden::tell(&place.root, &place.manifest);
    Ok(Exit::Fine)
}

pub(crate) fn migrate(context: &Context, args: &MigrateArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    let root = context.root()?;
    if args.to != PROTOCOL {
        return Err(Misused(format!(
            "this version knows no way to `{}`; it works with {PROTOCOL}",
            crate::model::clip(&args.to, 40)
        ))
        .into());
    }
    let text = bytes(&root, manifest::PATH)?
        .ok_or_else(|| Misused("there is no board here; `agency init` makes one".to_owned()))?;
    let value: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| Refused(format!("`{}` is not JSON: {error}", manifest::PATH)))?;
    let found = value["protocol"].as_str().unwrap_or_default();
    if found == PROTOCOL {
        anstream::println!("the board is at {PROTOCOL} already");
        return Ok(Exit::Fine);
    }
    if !manifest::is_supported(found) {
        return Err(Refused(format!(
            "the board is at `{}`, which this version cannot read; a newer `agency` can",
            crate::model::clip(found, 40)
        ))
        .into());
    }
    let text = manifest::with_protocol(&text, PROTOCOL)
        .ok_or_else(|| Refused(format!("`{}` has no protocol to change", manifest::PATH)))?;
    let scribe = Scribe::replace(&root, manifest::PATH, &text)?;
    scribe.tell();
    if let Some(found) = bytes(&root, state::PATH)?.and_then(|bytes| state::parse(&bytes).ok())
        && found.protocol != PROTOCOL
    {
        anstream::eprintln!(
            "note: `{}` names {} still; the next command that moves a task writes it anew",
            state::PATH,
            crate::model::clip(&found.protocol, 40)
        );
    }
    Ok(Exit::Fine)
}
