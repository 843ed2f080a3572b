//! Codifica's contract and state files: all that `agency work validate` finds (CD-27).

use super::super::context::Context;
use super::super::work;
use super::{Finding, Level};
use crate::protocol::codifica::FILE;

pub(super) fn check(context: &Context) -> Vec<Finding> {
    let findings = match work::survey(context) {
        Ok(survey) => survey.map(|survey| survey.findings).unwrap_or_default(),
        Err(error) => return vec![Finding::new(FILE, format!("{error:#}"))],
    };
    let one = |finding: crate::protocol::codifica::Finding| {
        let level = if finding.is_violation() { Level::Problem } else { Level::Warning };
        let task = finding.task.map(|task| format!("{task}: ")).unwrap_or_default();
        let shown = Finding::from(finding.rejection);
        Finding { level, problem: format!("{task}{}", shown.problem), ..shown }
    };
    findings.into_iter().map(one).collect()
}
