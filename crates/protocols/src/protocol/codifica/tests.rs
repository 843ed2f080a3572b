//! The pure part of Codifica, by the conformance list.

mod contract;
mod property;
mod reading;
mod ruling;
mod spec;

use super::*;
use crate::model::RelPath;
use std::sync::Arc;

pub(super) fn config() -> Arc<Config> {
    config_with("{}")
}

pub(super) fn config_with(rules: &str) -> Arc<Config> {
    let text = format!(
        r#"{{"protocol":"codifica","version":"0.2","spec":"spec.md","state":["work.md","done.md","more.yaml"],"rules":{rules}}}"#
    );
    Arc::new(Config::read(text.as_bytes()).unwrap())
}

pub(super) fn board(text: &str) -> Board {
    board_with(&config(), text)
}

pub(super) fn board_with(config: &Arc<Config>, text: &str) -> Board {
    Board::read(config, vec![(RelPath::fixed("work.md"), text.as_bytes().to_vec())])
}

pub(super) fn fenced(tasks: &str) -> String {
    format!("# Work\n\nSome prose.\n\n```yaml\n{tasks}```\n\nMore prose.\n")
}

pub(super) fn stamp() -> Stamp {
    Stamp {
        at: "2026-01-02T03:04:05Z".parse().unwrap(),
        session: Some("s-1".to_owned()),
        commit: Some("c0ffee".to_owned()),
    }
}

pub(super) fn agent(name: &str) -> Actor {
    Actor::Agent(name.to_owned())
}

/// The rules that a refusal names.
pub(super) fn rules(result: Result<Acted, Refusal>) -> Vec<String> {
    match result {
        Ok(_) => Vec::new(),
        Err(Refusal::Rules(findings)) => {
            findings.iter().map(|finding| finding.rejection.rule.to_string()).collect()
        }
        Err(Refusal::Claimed(_)) => vec!["CD-08".to_owned()],
        Err(other) => panic!("{other}"),
    }
}

pub(super) fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.rejection.rule.as_str()).collect()
}
