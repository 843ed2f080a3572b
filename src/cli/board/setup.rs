//! `agency init`, `install`, `upgrade` and `migrate`: the board comes into a repository, beside what is there (spec 2 §12, §22).

use super::super::ask::tell;
use super::super::context::Context;
use super::super::exit::{Exit, Misused, Refused};
use super::new::asked;
use super::{bytes, refused};
use crate::clock;
use crate::model::{RelPath, Verb};
use crate::protocol::board::adapters::{self, Tool};
use crate::protocol::board::manifest::{self, IdStrategy, LicenseMode, Manifest};
use crate::protocol::board::names::{Zone, is_agent};
use crate::protocol::board::profile::{self, Profile, Signals};
use crate::protocol::board::region::{self, Comments};
use crate::protocol::board::scaffold::{self, Existing, Part};
use crate::protocol::board::{NAME, PROTOCOL};
use crate::run::run_around;
use crate::store::{self, Edited};
use std::path::Path;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(10);
/// The largest file of somebody's that gets a section of ours.
const TEXT_MAX: u64 = 8 << 20;

#[derive(clap::Args)]
pub(crate) struct Wishes {
    /// cursor, claude_code, aider, continue, windsurf, antigravity or other
    #[arg(long, value_name = "TOOL")]
    orchestrator: Option<String>,
    /// The agents that build, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    builders: Vec<String>,
    /// lexaplus, community or dual
    #[arg(long, value_name = "MODE")]
    license_mode: Option<String>,
    /// solo, tech_lead or ai_first
    #[arg(long, value_name = "MODE")]
    role_mode: Option<String>,
    /// What kind of repository it is (default: found from its files)
    #[arg(long, value_name = "WORD")]
    environment: Option<String>,
    /// The zone of all dates, such as Europe/Zurich (default: this machine's)
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// sequential or ulid
    #[arg(long, value_name = "HOW")]
    id_strategy: Option<String>,
    /// The project's name (default: the folder's)
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Also write .github/workflows/agency.yml
    #[arg(long)]
    ci: bool,
}

/// Begin a task board here: `.kodingx/` and the rules for your tool
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  agency init --orchestrator cursor --builders claude-code,codex,gemini\n  agency init        (asks, at a terminal)"
)]
pub(crate) struct InitArgs {
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

fn part(text: &str) -> Result<Part, String> {
    let words: Vec<&str> = Part::ALL.iter().map(|part| part.word()).collect();
    Part::parse(text).ok_or_else(|| format!("wanted one of {}", words.join(", ")))
}

/// SE-04: a board is the owner's to make.
pub(super) fn refuse_agents() -> anyhow::Result<()> {
    match run_around(std::process::id()) {
        Some(run) => {
            Err(Refused(format!("agents may not do this: we are inside the run `{run}` (SE-04)"))
                .into())
        }
        None => Ok(()),
    }
}

pub(crate) fn init(context: &Context, args: &InitArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    let root = context.root()?;
    let old = match bytes(&root, manifest::PATH)? {
        Some(bytes) => Some(manifest::parse(&bytes).map_err(|problems| refused(&problems))?),
        None => None,
    };
    let detected = detect(&root);
    let manifest = make_manifest(&root, &args.wishes, old, detected.as_ref())?;
    let mut scribe = Scribe { root: &root, done: Vec::new() };
    scribe.scaffold(&manifest, detected.as_ref(), &Part::ALL, Existing::Regenerate)?;
    scribe.adapters(&manifest)?;
    if args.wishes.ci {
        scribe.write(
            scaffold::WORKFLOW,
            &scaffold::workflow(&manifest.header()),
            Existing::Keep,
        )?;
    }
    scribe.tell();
    tell(context, Verb::Init, Some(NAME), &[])
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
    let detected = detect(&root);
    let manifest = make_manifest(&root, &args.wishes, None, detected.as_ref())?;
    let parts: &[Part] = if args.minimal { &[Part::Core] } else { &Part::ALL };
    let existing = if args.force { Existing::Regenerate } else { Existing::Keep };
    let mut scribe = Scribe { root: &root, done: Vec::new() };
    scribe.scaffold(&manifest, detected.as_ref(), parts, existing)?;
    if !args.minimal {
        scribe.adapters(&manifest)?;
    }
    if args.wishes.ci {
        scribe.write(
            scaffold::WORKFLOW,
            &scaffold::workflow(&manifest.header()),
            Existing::Keep,
        )?;
    }
    scribe.tell();
    tell(context, Verb::Init, Some(NAME), &[])
}

pub(crate) fn upgrade(context: &Context, args: &UpgradeArgs) -> anyhow::Result<Exit> {
    refuse_agents()?;
    if args.add.is_empty() && !args.full {
        return Err(Misused("what to add? --add PART, or --full".to_owned()).into());
    }
    let place = super::Place::of(context)?;
    let parts: Vec<Part> = if args.full { Part::ALL.to_vec() } else { args.add.clone() };
    let mut scribe = Scribe { root: &place.root, done: Vec::new() };
    scribe.scaffold(&place.manifest, detect(&place.root).as_ref(), &parts, Existing::Keep)?;
    if args.full {
        scribe.adapters(&place.manifest)?;
    }
    scribe.tell();
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
    let text = String::from_utf8_lossy(&text).replacen(
        &format!("\"{found}\""),
        &format!("\"{PROTOCOL}\""),
        1,
    );
    let mut scribe = Scribe { root: &root, done: Vec::new() };
    scribe.write(manifest::PATH, &text, Existing::Regenerate)?;
    scribe.tell();
    Ok(Exit::Fine)
}

/// What this repository is, by its files.
fn detect(root: &Path) -> Option<Profile> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let read = |name: &str| {
        bytes(root, name).ok().flatten().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    };
    profile::detect(&Signals { names: &names, read: &read })
}

/// From flags, from what was there before, from questions at a terminal, else from defaults.
fn make_manifest(
    root: &Path,
    wishes: &Wishes,
    old: Option<Manifest>,
    detected: Option<&Profile>,
) -> anyhow::Result<Manifest> {
    let known = old.as_ref();
    let orchestrator =
        wishes.orchestrator.clone().or_else(|| known.map(|old| old.orchestrator.clone()));
    let orchestrator = asked("Orchestrator", orchestrator, Some(guess_tool(root).word()))?;
    let tool = Tool::parse(&orchestrator).ok_or_else(|| {
        Misused(format!("`{orchestrator}` is no orchestrator; wanted {}", Tool::WORDS))
    })?;
    let builders = builders_of(wishes, known)?;
    let license =
        wishes.license_mode.clone().or_else(|| known.map(|old| old.license_mode.word().to_owned()));
    let license = asked("License mode", license, Some("lexaplus"))?;
    let license_mode = LicenseMode::parse(&license).ok_or_else(|| {
        Misused(format!("`{license}` is no license mode; wanted lexaplus, community or dual"))
    })?;
    let role = wishes.role_mode.clone().or_else(|| known.map(|old| old.role_mode.clone()));
    let role_mode = asked("Role mode", role, Some("tech_lead"))?;
    if !["solo", "tech_lead", "ai_first"].contains(&role_mode.as_str()) {
        return Err(Misused(format!(
            "`{role_mode}` is no role mode; wanted solo, tech_lead or ai_first"
        ))
        .into());
    }
    let zone = wishes
        .timezone
        .clone()
        .or_else(|| known.map(|old| old.zone.name().to_owned()))
        .unwrap_or_else(local_zone);
    let zone = Zone::parse(&zone).ok_or_else(|| {
        Misused(format!("`{zone}` is no time zone; wanted one such as Europe/Zurich"))
    })?;
    let ids = ids_of(wishes, known)?;
    let folder =
        root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let environment =
        wishes.environment.clone().or_else(|| detected.and_then(|found| found.environment.clone()));
    Ok(Manifest {
        protocol: PROTOCOL.to_owned(),
        project: wishes
            .project
            .clone()
            .or_else(|| known.map(|old| old.project.clone()))
            .unwrap_or(folder),
        created_at: known
            .map_or_else(|| zone.stamp(clock::now().wall), |old| old.created_at.clone()),
        license_mode,
        orchestrator: tool.word().to_owned(),
        builders,
        ids,
        dod_profile: known.map_or_else(|| profile::AUTO.to_owned(), |old| old.dod_profile.clone()),
        zone,
        role_mode,
        environment,
        max_lines: known.map_or(200, |old| old.max_lines),
        max_files: known.map_or(5, |old| old.max_files),
    })
}

/// Named by flag, kept from before, or asked for.
fn builders_of(wishes: &Wishes, known: Option<&Manifest>) -> anyhow::Result<Vec<String>> {
    let builders = match (wishes.builders.is_empty(), known) {
        (false, _) => wishes.builders.clone(),
        (true, Some(old)) => old.builders.clone(),
        (true, None) => {
            let line = asked("Builders", None, Some("claude-code,codex,gemini"))?;
            line.split(',').map(|name| name.trim().to_owned()).collect()
        }
    };
    if let Some(bad) = builders.iter().find(|name| !is_agent(name)) {
        return Err(Misused(format!(
            "`{bad}` is not an agent's name: lower case letters, digits, `.`, `_`, `-`"
        ))
        .into());
    }
    Ok(builders)
}

fn ids_of(wishes: &Wishes, known: Option<&Manifest>) -> anyhow::Result<IdStrategy> {
    let ids = match wishes.id_strategy.as_deref() {
        None => known.map_or(IdStrategy::Sequential, |old| old.ids),
        Some("sequential") => IdStrategy::Sequential,
        Some("ulid") => IdStrategy::Ulid,
        Some(other) => {
            return Err(
                Misused(format!("`{other}` is no id strategy; wanted sequential or ulid")).into()
            );
        }
    };
    Ok(ids)
}

/// The tool whose files are here.
fn guess_tool(root: &Path) -> Tool {
    let signs = [
        (".cursor", Tool::Cursor),
        (".cursorrules", Tool::Cursor),
        ("CLAUDE.md", Tool::ClaudeCode),
        (adapters::AIDER_CONFIG, Tool::Aider),
        (".continue", Tool::Continue),
        (".windsurf", Tool::Windsurf),
        (".agents", Tool::Antigravity),
    ];
    signs.iter().find(|(name, _)| root.join(name).exists()).map_or(Tool::Other, |(_, tool)| *tool)
}

fn local_zone() -> String {
    let named = std::env::var("TZ").ok().map(|zone| zone.trim_start_matches(':').to_owned());
    let linked = || {
        let link = std::fs::read_link("/etc/localtime").ok()?;
        let link = link.to_string_lossy().into_owned();
        link.split_once("zoneinfo/").map(|(_, zone)| zone.to_owned())
    };
    let zone = named.or_else(linked).filter(|zone| Zone::parse(zone).is_some());
    zone.unwrap_or_else(|| Zone::UTC.name().to_owned())
}

/// Writes the files, and remembers what it did to which.
struct Scribe<'a> {
    root: &'a Path,
    done: Vec<(String, &'static str)>,
}

impl Scribe<'_> {
    fn scaffold(
        &mut self,
        manifest: &Manifest,
        detected: Option<&Profile>,
        parts: &[Part],
        most: Existing,
    ) -> anyhow::Result<()> {
        for planned in scaffold::files(manifest, detected, parts) {
            let existing = if most == Existing::Keep { Existing::Keep } else { planned.existing };
            self.write(&planned.path, &planned.text, existing)?;
        }
        for folder in scaffold::folders(manifest, parts) {
            self.folder(&folder)?;
        }
        Ok(())
    }

    /// A folder of ours; a link in its place would lead out of the repository.
    fn folder(&self, path: &str) -> anyhow::Result<()> {
        let mut at = self.root.to_owned();
        for name in path.split('/') {
            at.push(name);
            match at.symlink_metadata() {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => return Err(Refused(format!("`{}` is not a folder", at.display())).into()),
                Err(_) => std::fs::create_dir(&at)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, path: &str, text: &str, existing: Existing) -> anyhow::Result<()> {
        self.edit(path, |old| match (old, existing) {
            (Some(_), Existing::Keep) => Ok(None),
            (None, _) | (Some(_), Existing::Regenerate) => Ok(Some(text.to_owned())),
        })
    }

    /// Changes one text file; what is not UTF-8 is left alone and told.
    fn edit(
        &mut self,
        path: &str,
        change: impl FnOnce(Option<&str>) -> Result<Option<String>, String>,
    ) -> anyhow::Result<()> {
        let rel = RelPath::new(path)?;
        let mut was_there = false;
        let edited = store::edit(self.root, &rel, TEXT_MAX, WAIT, |old| {
            was_there = old.is_some();
            let old = old
                .map(std::str::from_utf8)
                .transpose()
                .map_err(|_| format!("`{path}` is not UTF-8 text"))?;
            Ok::<_, String>(change(old)?.map(String::into_bytes))
        });
        match edited {
            Ok(Edited::Written) if was_there => self.done.push((path.to_owned(), "changed")),
            Ok(Edited::Written) => self.done.push((path.to_owned(), "new")),
            Ok(Edited::Same) => {}
            Err(store::EditError::Refused(why)) => return Err(Refused(why).into()),
            Err(error) => return Err(Refused(error.to_string()).into()),
        }
        Ok(())
    }

    /// The chosen tool's file, and those of §22.3 that are here: each gets our section and keeps its own text.
    fn adapters(&mut self, manifest: &Manifest) -> anyhow::Result<()> {
        let chosen = Tool::parse(&manifest.orchestrator).unwrap_or(Tool::Other);
        let here = |path: &str| self.root.join(path).exists();
        let mut tools = vec![chosen];
        tools.extend(
            [(Tool::Cursor, ".cursor/rules"), (Tool::ClaudeCode, "CLAUDE.md")]
                .into_iter()
                .filter(|(_, path)| here(path))
                .map(|(tool, _)| tool),
        );
        let legacy = here(adapters::LEGACY_CURSOR);
        tools.dedup();
        for tool in tools {
            self.edit(tool.file(), |old| {
                adapters::render(tool, manifest, old)
                    .map(Some)
                    .map_err(|torn| format!("`{}`: {torn}", tool.file()))
            })?;
            if tool == Tool::Aider {
                self.edit(adapters::AIDER_CONFIG, adapters::aider_config)?;
            }
        }
        if legacy {
            let block = adapters::contract(manifest);
            self.edit(adapters::LEGACY_CURSOR, |old| {
                region::place(old, "", &block, Comments::Markdown)
                    .map(Some)
                    .map_err(|torn| format!("`{}`: {torn}", adapters::LEGACY_CURSOR))
            })?;
        }
        Ok(())
    }

    fn tell(&self) {
        for (path, what) in &self.done {
            anstream::println!("{what:<8} {path}");
        }
        if self.done.is_empty() {
            anstream::println!("nothing to change");
        }
    }
}
