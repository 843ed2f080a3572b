//! `agency check`: looks at one repository's files without changing anything, and lists what is wrong.
//! Each protocol has its own list of findings in `check/`; a new one is a file there and a line in [`CHECKS`].

mod board;
mod codifica;
mod handoff;
mod ledger;
mod review_loop;

use super::context::Context;
use super::exit::Exit;
use crate::apply::chain;
use crate::clock;
use crate::config::Config;
use crate::model::{FileState, Rejection, RelPath};
use crate::read;
use crate::repository::Places;
use crate::store;
use crate::workspace;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Look for problems in a repository's protocol files, settings and journal
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency check\n  agency check ~/src/shop --json")]
pub(super) struct Args {
    /// The repository
    #[arg(value_name = "REPO")]
    at: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Every protocol's own look. Each returns all that it finds, and nothing where its protocol is not in use.
const CHECKS: &[fn(&Look) -> Vec<Finding>] =
    &[review_loop::check, board::check, handoff::check, ledger::check];

/// Which file, where in it, and what is wrong.
#[derive(serde::Serialize)]
struct Finding {
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    problem: String,
    #[serde(skip_serializing_if = "Level::is_problem")]
    level: Level,
}

/// Warnings alone end with 0.
#[derive(Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Problem,
    Warning,
}

impl Level {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
    fn is_problem(&self) -> bool {
        *self == Self::Problem
    }
}

impl Finding {
    fn new(file: impl Into<String>, problem: String) -> Self {
        Self { rule: None, file: file.into(), line: None, problem, level: Level::Problem }
    }
}

impl From<Rejection> for Finding {
    fn from(rejection: Rejection) -> Self {
        let Rejection { rule, file, line, found, wanted, .. } = rejection;
        let problem = format!("found {found}; wanted {wanted}");
        let rule = Some(rule.to_string());
        Self { rule, line, ..Self::new(file.to_string(), problem) }
    }
}

/// One repository, to look at only.
struct Look {
    root: PathBuf,
    places: Option<Places>,
}

impl Look {
    /// `None` when there is no such file; what no safe read accepts is a finding.
    fn bytes(&self, file: &RelPath, limit: u64) -> Result<Option<Vec<u8>>, Finding> {
        let reading = read::read(&self.root, file, limit, clock::now());
        let reading = reading.map_err(|error| Finding::new(file.as_str(), chain(&error)))?;
        match reading.state {
            FileState::Absent => Ok(None),
            FileState::Whole(file) => Ok(Some(file.bytes.to_vec())),
            FileState::Unreadable(odd) => {
                let problem = format!("is {}; wanted {}", odd.found, odd.wanted);
                Err(Finding {
                    rule: Some("DM-04".to_owned()),
                    ..Finding::new(file.as_str(), problem)
                })
            }
        }
    }

    /// What our journal says that a protocol remembers; empty where there is no journal.
    fn remembered(&self, protocol: &str) -> BTreeMap<String, Value> {
        let Some(places) = &self.places else { return BTreeMap::new() };
        workspace::remembered(&store::latest(&places.journal()), protocol)
    }
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let at = args.at.clone().map(|at| context.at(at));
    let context = at.as_ref().unwrap_or(context);
    let look = Look { root: context.root()?, places: context.places()? };
    let mut findings = check_settings(&look, &context.config()?);
    findings.extend(look.places.as_ref().and_then(check_journal));
    findings.extend(CHECKS.iter().flat_map(|check| check(&look)));
    findings.extend(codifica::check(context));
    if args.json {
        super::show::json(&findings)?;
    } else {
        print(&findings);
    }
    let wrong = findings.iter().any(|finding| finding.level == Level::Problem);
    Ok(if wrong { Exit::Finding } else { Exit::Fine })
}

fn print(findings: &[Finding]) {
    for Finding { rule, file, line, problem, level } in findings {
        let warning = if *level == Level::Warning { "warning: " } else { "" };
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        let rule = rule.as_ref().map(|rule| format!(" ({rule})")).unwrap_or_default();
        anstream::println!("{warning}{file}{line}: {problem}{rule}");
    }
    if findings.is_empty() {
        anstream::println!("nothing is wrong here");
    } else {
        anstream::eprintln!("hint: `agency explain RULE` says what a rule wants");
    }
}

fn check_settings(look: &Look, owner: &Config) -> Vec<Finding> {
    let file = "agency.yaml";
    match look.bytes(&RelPath::fixed(file), 1 << 20) {
        Err(finding) => vec![finding],
        Ok(None) => Vec::new(),
        Ok(Some(bytes)) => {
            let wrong = Config::overlay(owner, &bytes).err();
            wrong.map(|error| Finding::new(file, chain(&error))).into_iter().collect()
        }
    }
}

fn check_journal(places: &Places) -> Option<Finding> {
    let error = super::journal::verify_journal(places).err()?;
    Some(Finding {
        rule: Some("DM-08".to_owned()),
        ..Finding::new(places.journal().display().to_string(), chain(&error))
    })
}
