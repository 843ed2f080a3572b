//! `agency check`: looks at one repository's files without changing anything, and lists what is wrong.

use super::context::Context;
use super::exit::Exit;
use crate::apply::chain;
use crate::clock;
use crate::config::Config;
use crate::model::{FileState, RelPath, clip};
use crate::protocol::review_loop;
use crate::read;
use crate::route;
use crate::store;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Look for problems in a repository's protocol files, settings and journal
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  agency check\n  agency check ~/src/shop --json")]
pub(super) struct Args {
    /// The repository
    #[arg(value_name = "REPO")]
    at: Option<PathBuf>,
    /// For machines
    #[arg(long)]
    json: bool,
}

/// Which file, and what is wrong with it.
#[derive(serde::Serialize)]
struct Finding {
    file: String,
    problem: String,
}

pub(super) fn run(context: &Context, args: &Args) -> anyhow::Result<Exit> {
    let at = args.at.clone().map(|at| context.at(at));
    let context = at.as_ref().unwrap_or(context);
    let root = context.root()?;
    let mut findings = Vec::new();
    check_state(&root, &mut findings);
    check_json(&root, review_loop::MANDATES, &mut findings);
    check_settings(&root, &context.config()?, &mut findings);
    if let Some(places) = context.places()?
        && let Err(error) = store::verify(&places.journal(), &places.pins())
        && places.journal().exists()
    {
        findings
            .push(Finding { file: places.journal().display().to_string(), problem: chain(&error) });
    }
    if args.json {
        super::show::json(&findings)?;
    } else {
        for finding in &findings {
            anstream::println!("{}: {}", finding.file, finding.problem);
        }
        if findings.is_empty() {
            anstream::println!("nothing is wrong here");
        }
    }
    Ok(if findings.is_empty() { Exit::Fine } else { Exit::Finding })
}

fn check_state(root: &Path, findings: &mut Vec<Finding>) {
    let Some(bytes) = bytes_of(root, review_loop::STATE, findings) else { return };
    if route::protocol_of(&RelPath::fixed(review_loop::STATE), &bytes).is_none() {
        let problem = "is not the state of a review loop: wanted an object with currentStep, phase and activeAgent";
        findings.push(Finding { file: review_loop::STATE.to_owned(), problem: problem.to_owned() });
    }
}

fn check_json(root: &Path, file: &'static str, findings: &mut Vec<Finding>) {
    let Some(bytes) = bytes_of(root, file, findings) else { return };
    if let Err(error) = serde_json::from_slice::<Value>(&bytes) {
        let problem = format!("is not JSON: {}", clip(&error.to_string(), 160));
        findings.push(Finding { file: file.to_owned(), problem });
    }
}

fn check_settings(root: &Path, owner: &Config, findings: &mut Vec<Finding>) {
    let Some(bytes) = bytes_of(root, "agency.yaml", findings) else { return };
    if let Err(error) = Config::overlay(owner, &bytes) {
        findings.push(Finding { file: "agency.yaml".to_owned(), problem: chain(&error) });
    }
}

/// `None` when there is nothing to check, or nothing that we read.
fn bytes_of(root: &Path, file: &'static str, findings: &mut Vec<Finding>) -> Option<Vec<u8>> {
    match read::read(root, &RelPath::fixed(file), 1 << 20, clock::now()).ok()?.state {
        FileState::Absent => None,
        FileState::Whole(file) => Some(file.bytes.to_vec()),
        FileState::Unreadable(odd) => {
            let problem = format!("is {}; wanted {}", odd.found, odd.wanted);
            findings.push(Finding { file: file.to_owned(), problem });
            None
        }
    }
}
