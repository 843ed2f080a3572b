//! The board's files: is this repository compliant, item by item (spec 2 §19, §23)? The list of items goes to stderr.

use super::super::board::{archive, hidden, rules_file, signals, unchecked};
use super::{Finding, Level, Look};
use crate::model::{Digest, RelPath};
use crate::protocol::board::adapters::{AIDER_CONFIG, Tool};
use crate::protocol::board::check::{Files, Journal, check as judge};
use crate::protocol::board::manifest::{self, Manifest};
use crate::protocol::board::names::TaskId;
use crate::protocol::board::profile;
use crate::protocol::board::state::State;
use crate::protocol::board::table::Status;
use crate::protocol::board::{FILE_MAX, NAME};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeSet;

/// History, which was judged when it was the present.
const ARCHIVE: &str = ".kodingx/archive";

pub(super) fn check(look: &Look) -> Vec<Finding> {
    if !look.root.join(".kodingx").is_dir() {
        return Vec::new();
    }
    let (mut files, mut folders, mut findings) = (Files::new(), BTreeSet::new(), Vec::new());
    let mut open = vec![RelPath::fixed(".kodingx")];
    while let Some(folder) = open.pop() {
        folders.insert(folder.to_string());
        for (path, is_folder) in entries(look, &folder) {
            if !is_folder {
                read(look, &path, &mut files, &mut findings);
            } else if path.as_str() != ARCHIVE {
                open.push(path);
            }
        }
    }
    let others = Tool::ALL.into_iter().filter_map(Tool::other_file).chain([AIDER_CONFIG]);
    for path in Tool::ALL.map(Tool::file).into_iter().chain(others) {
        let real = rules_file(&look.root, path).and_then(|real| RelPath::new(real).ok());
        read(look, &real.unwrap_or(RelPath::fixed(path)), &mut files, &mut findings);
        link(look, path, &mut files);
    }
    let journal = journal(look);
    for item in judge(&files, &folders, &archive::ids(&look.root), journal.as_ref()) {
        let mark = if item.problems.is_empty() { "✓" } else { "✗" };
        anstream::eprintln!("{mark} {}", item.what);
        findings
            .extend(item.problems.into_iter().map(|(file, problem)| Finding::new(file, problem)));
    }
    if let Some(manifest) = files.get(manifest::PATH).and_then(|text| manifest::parse(text).ok()) {
        findings.extend(languages(look, &manifest, &files));
        let hidden = hidden::find(&look.root, &manifest);
        findings
            .extend(hidden.into_iter().map(|hidden| warning("AG-22", hidden.path, hidden.words)));
    }
    findings
}

fn warning(rule: &str, file: String, problem: String) -> Finding {
    Finding { rule: Some(rule.to_owned()), level: Level::Warning, ..Finding::new(file, problem) }
}

/// AG-42: what the board's own profile leaves out.
fn languages(look: &Look, manifest: &Manifest, files: &Files) -> Vec<Finding> {
    let detected = signals(&look.root, profile::detect);
    let names = match (manifest.dod_profile.as_str(), &detected) {
        (profile::AUTO, Some(detected)) => profile::auto_names(detected),
        (profile::AUTO, None) => Vec::new(),
        (name, _) => vec![name.to_owned()],
    };
    let kept = names.iter().filter_map(|name| profile::path_of(name)).find_map(|path| {
        let text = files.get(path.as_str())?;
        profile::parse(text, &path).ok()
    });
    let profile = kept.or(detected);
    let found = profile.map(|profile| unchecked(&look.root, &profile)).unwrap_or_default();
    found.into_iter().map(|missing| warning("AG-42", missing.file, missing.words)).collect()
}

/// The board as our journal remembers it; `None` if the journal does not know this board.
fn journal(look: &Look) -> Option<Journal> {
    let remembered = look.remembered(NAME);
    remembered.get("ours")?;
    let mut journal = Journal {
        state: remembered.get("state").and_then(|state| State::deserialize(state).ok()),
        ..Journal::default()
    };
    let adopted = remembered.get("adopted").and_then(Value::as_object).into_iter().flatten();
    let moved = remembered
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix("task/")?, &value["status"])));
    for (id, status) in adopted.map(|(id, status)| (id.as_str(), status)).chain(moved) {
        let status = status.as_str().and_then(Status::parse);
        journal.stands.extend(TaskId::parse(id).zip(status));
    }
    for task in remembered.iter().filter(|(name, _)| name.starts_with("task/")).map(|(_, v)| v) {
        let papers = task["papers"].as_object().into_iter().flatten();
        let papers = papers.map(|(path, digest)| (path.as_str(), digest));
        let artifact = &task["verified"]["artifact"];
        let last = artifact["path"].as_str().map(|path| (path, &artifact["digest"]));
        let artifacts = papers.chain(last).filter(|(path, _)| path.ends_with(".verify.json"));
        journal.artifacts.extend(artifacts.filter_map(|(path, digest)| {
            Some((path.to_owned(), Digest::deserialize(digest).ok()?))
        }));
    }
    Some(journal)
}

/// What lies in a folder; a link is a file that no safe read accepts.
fn entries(look: &Look, folder: &RelPath) -> Vec<(RelPath, bool)> {
    let entries = std::fs::read_dir(look.root.join(folder)).into_iter().flatten().flatten();
    let named = |entry: std::fs::DirEntry| {
        let path = folder.join(entry.file_name().to_str()?).ok()?;
        Some((path, entry.file_type().is_ok_and(|kind| kind.is_dir())))
    };
    entries.filter_map(named).collect()
}

/// What a link to a rules file of this repository names is read as the link's own text, as `install` writes it.
fn link(look: &Look, path: &str, files: &mut Files) {
    if let Some(bytes) = rules_file(&look.root, path).and_then(|real| files.get(&real).cloned()) {
        files.insert(path.to_owned(), bytes);
    }
}

fn read(look: &Look, path: &RelPath, files: &mut Files, findings: &mut Vec<Finding>) {
    match look.bytes(path, FILE_MAX) {
        Ok(Some(bytes)) => drop(files.insert(path.to_string(), bytes)),
        Ok(None) => {}
        Err(finding) => findings.push(finding),
    }
}
