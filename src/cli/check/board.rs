//! The board's files: is this repository compliant, item by item (spec 2 §19, §23)? The list of items goes to stderr.

use super::super::board::archive;
use super::{Finding, Look};
use crate::model::RelPath;
use crate::protocol::board::FILE_MAX;
use crate::protocol::board::adapters::{AIDER_CONFIG, Tool};
use crate::protocol::board::check::{Files, check as judge};
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
        read(look, &RelPath::fixed(path), &mut files, &mut findings);
    }
    for item in judge(&files, &folders, &archive::ids(&look.root)) {
        let mark = if item.problems.is_empty() { "✓" } else { "✗" };
        anstream::eprintln!("{mark} {}", item.what);
        findings
            .extend(item.problems.into_iter().map(|(file, problem)| Finding::new(file, problem)));
    }
    findings
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

fn read(look: &Look, path: &RelPath, files: &mut Files, findings: &mut Vec<Finding>) {
    match look.bytes(path, FILE_MAX) {
        Ok(Some(bytes)) => drop(files.insert(path.to_string(), bytes)),
        Ok(None) => {}
        Err(finding) => findings.push(finding),
    }
}
