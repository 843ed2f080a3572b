//! What the owner wants of a board (spec 2 §12.2): flags, what was there before, answers at a terminal, else the usual. It writes nothing.

use super::super::super::exit::Misused;
use super::super::prompt::Question;
use crate::clock;
use crate::protocol::board::PROTOCOL;
use crate::protocol::board::adapters::{self, Tool};
use crate::protocol::board::manifest::{self, IdStrategy, LicenseMode, Manifest};
use crate::protocol::board::names::{Zone, is_agent};
use crate::protocol::board::profile::{self, Profile};
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Wishes {
    /// cursor, claude_code, aider, continue, windsurf, antigravity or other
    #[arg(long, value_name = "TOOL")]
    orchestrator: Option<String>,
    /// The agents that build, separated by commas
    #[arg(long, value_name = "LIST")]
    builders: Option<String>,
    /// lexaplus, community or dual
    #[arg(long, value_name = "MODE")]
    license_mode: Option<String>,
    /// solo, tech_lead or ai_first
    #[arg(long, value_name = "MODE")]
    role_mode: Option<String>,
    /// What kind of repository it is: node, python, flutter, go, rust, java, dotnet … (default: found from its files)
    #[arg(long, value_name = "WORD", value_parser = environment)]
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
    pub(super) ci: bool,
}

fn environment(text: &str) -> Result<String, String> {
    let fits = profile::is_name(text) && text != profile::AUTO;
    fits.then(|| text.to_owned()).ok_or_else(|| "wanted a word such as node or python".to_owned())
}

/// What `auto` finds here, and what shall be checked by.
pub(super) struct Checks {
    pub(super) detected: Option<Profile>,
    /// The owner's own word on what this is.
    pub(super) named: Option<Profile>,
}

impl Checks {
    /// The profile that the board begins with.
    pub(super) fn profile(&self) -> Option<&Profile> {
        self.named.as_ref().or(self.detected.as_ref())
    }

    /// `auto`, unless that would find something else than what is meant, or could not find it in a commit.
    fn default(&self) -> String {
        let found = self.detected.as_ref().map(|profile| &profile.name);
        match self.profile() {
            Some(profile) if Some(&profile.name) != found || !profile::has_fixed_names(profile) => {
                profile.name.clone()
            }
            Some(_) | None => profile::AUTO.to_owned(),
        }
    }
}

impl Wishes {
    pub(super) fn manifest(
        &self,
        root: &Path,
        old: Option<&Manifest>,
        checks: &Checks,
    ) -> anyhow::Result<Manifest> {
        let tool = self.tool(root, old)?;
        let builders = self.builders(old)?;
        let license = Question {
            what: "License mode",
            flag: "license-mode",
            wanted: "lexaplus, community or dual",
            usual: Some("lexaplus"),
        };
        let before = old.map(|old| old.license_mode.word().to_owned());
        let license_mode = license.ask(self.license_mode.clone().or(before), LicenseMode::parse)?;
        let role = Question {
            what: "Role mode",
            flag: "role-mode",
            wanted: "solo, tech_lead or ai_first",
            usual: Some("tech_lead"),
        };
        let before = old.map(|old| old.role_mode.clone());
        let role_mode = role.ask(self.role_mode.clone().or(before), |word| {
            manifest::ROLE_MODES.contains(&word).then(|| word.to_owned())
        })?;
        let zone = self.zone(old)?;
        let dod_profile = match (old, &self.environment) {
            (Some(old), None) => old.dod_profile.clone(),
            (Some(_), Some(_)) | (None, _) => checks.default(),
        };
        let detected = checks.detected.as_ref().and_then(|found| found.environment.clone());
        let folder =
            root.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let before = old.map(|old| old.project.clone());
        Ok(Manifest {
            protocol: PROTOCOL.to_owned(),
            project: self.project.clone().or(before).unwrap_or(folder),
            created_at: old
                .map_or_else(|| zone.stamp(clock::now().wall), |old| old.created_at.clone()),
            license_mode,
            orchestrator: tool.word().to_owned(),
            builders,
            ids: self.ids(old)?,
            dod_profile,
            zone,
            role_mode,
            environment: self.environment(old).or(detected),
            max_lines: old.map_or(manifest::MAX_LINES, |old| old.max_lines),
            max_files: old.map_or(manifest::MAX_FILES, |old| old.max_files),
        })
    }

    /// The owner's word on what kind of repository this is, now or before.
    pub(super) fn environment(&self, old: Option<&Manifest>) -> Option<String> {
        self.environment.clone().or_else(|| old.and_then(|old| old.environment.clone()))
    }

    fn tool(&self, root: &Path, old: Option<&Manifest>) -> anyhow::Result<Tool> {
        let usual = guess_tool(root);
        let question = Question {
            what: "Orchestrator",
            flag: "orchestrator",
            wanted: Tool::WORDS,
            usual: Some(usual.word()),
        };
        let before = old.map(|old| old.orchestrator.clone());
        question.ask(self.orchestrator.clone().or(before), Tool::parse)
    }

    fn builders(&self, old: Option<&Manifest>) -> anyhow::Result<Vec<String>> {
        let question = Question {
            what: "Builders",
            flag: "builders",
            wanted: "agents' names, separated by commas: lower case letters, digits, `.`, `_`, `-`",
            usual: Some("claude-code,codex,gemini"),
        };
        let before = old.map(|old| old.builders.join(","));
        question.ask(self.builders.clone().or(before), |line| {
            let names: Vec<String> = line.split(',').map(|name| name.trim().to_owned()).collect();
            names.iter().all(|name| is_agent(name)).then_some(names)
        })
    }

    fn zone(&self, old: Option<&Manifest>) -> anyhow::Result<Zone> {
        let before = old.map(|old| old.zone.name().to_owned());
        let zone = self.timezone.clone().or(before).unwrap_or_else(local_zone);
        Zone::parse(&zone).ok_or_else(|| {
            Misused(format!("`{zone}` is no time zone; wanted one such as Europe/Zurich")).into()
        })
    }

    fn ids(&self, old: Option<&Manifest>) -> anyhow::Result<IdStrategy> {
        match self.id_strategy.as_deref() {
            None => Ok(old.map_or(IdStrategy::Sequential, |old| old.ids)),
            Some("sequential") => Ok(IdStrategy::Sequential),
            Some("ulid") => Ok(IdStrategy::Ulid),
            Some(other) => {
                Err(Misused(format!("`{other}` is no id strategy; wanted sequential or ulid"))
                    .into())
            }
        }
    }
}

/// The tool whose files are here.
fn guess_tool(root: &Path) -> Tool {
    let signs = [
        (".cursor", Tool::Cursor),
        (adapters::LEGACY_CURSOR, Tool::Cursor),
        ("CLAUDE.md", Tool::ClaudeCode),
        (adapters::AIDER_CONFIG, Tool::Aider),
        (".continue", Tool::Continue),
        (".windsurf", Tool::Windsurf),
        (".agents/rules", Tool::Antigravity),
        (".agent/rules", Tool::Antigravity),
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
