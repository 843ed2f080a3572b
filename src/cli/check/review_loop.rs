//! The review loop's files: state, mandates, review files, and the map of the code with everything that it points at.

use super::{Finding, Look};
use crate::model::RelPath;
use crate::protocol::review_loop::{self as review, check};
use std::collections::BTreeMap;

const FILE_MAX: u64 = 1 << 20;
/// Sources are larger than what agents write about them.
const SOURCE_MAX: u64 = 64 << 20;

pub(super) fn check(look: &Look) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut read = |file: &'static str| {
        look.bytes(&RelPath::fixed(file), FILE_MAX).unwrap_or_else(|finding| {
            findings.push(finding);
            None
        })
    };
    let state = read(review::STATE);
    let (mandates, comments) = (read(review::MANDATES), read(review::COMMENTS));
    let (map, response) = (read(review::CODEBASE), read(review::RESPONSE));
    drop(response);
    if state.is_none() {
        return findings;
    }
    let remembered = look.remembered(review::NAME);
    let files = check::Files {
        state: state.as_deref(),
        remembered: remembered.get("state"),
        mandates: mandates.as_deref(),
        comments: comments.as_deref(),
        map: map.as_deref(),
    };
    let mut counted = BTreeMap::new();
    let mut lines = |path: &RelPath| {
        counted.entry(path.clone()).or_insert_with(|| count_lines(look, path)).clone()
    };
    findings.extend(check::problems(&files, &mut lines).into_iter().map(Finding::from));
    findings
}

fn count_lines(look: &Look, path: &RelPath) -> Result<u64, String> {
    match look.bytes(path, SOURCE_MAX) {
        Err(finding) => Err(finding.problem),
        Ok(None) => Err("there is no such file".to_owned()),
        Ok(Some(bytes)) => Ok(bytes.split_inclusive(|&byte| byte == b'\n').count() as u64),
    }
}
