//! Which files an agent may change (`file_scope`), matched against what really changed (CD-12), and evidence (CD-16).

use super::board::Board;
use super::config::{Config, FILE};
use super::finding::Finding;
use super::task::Task;
use super::words::{Actor, State};
use crate::model::{Change, RelPath, counted};

/// Everything in a change set that an agent must not do to files.
pub fn judge_changes(config: &Config, task: &str, changes: &[Change]) -> Vec<Finding> {
    changes
        .iter()
        .filter_map(|change| astray(config, task, change))
        .map(|finding| finding.of(task))
        .collect()
}

/// What a commit did to files that are not tasks: an agent's is matched against the scope, and evidence is everybody's.
pub fn judge_commit(board: &Board, actor: &Actor, changes: &[Change]) -> Vec<Finding> {
    let config = &board.config;
    let scope = if actor.is_agent() { judge_changes(config, "", changes) } else { Vec::new() };
    let mut findings: Vec<Finding> =
        scope.into_iter().map(|finding| Finding { task: None, ..finding }).collect();
    for change in changes.iter().filter(|change| config.is_asset(&change.path)) {
        if change.to.is_some() && change.new {
            findings.extend(misplaced(board, &change.path));
        } else if !actor.is_agent() && is_image(&change.path) {
            findings.push(tampered(change));
        }
    }
    findings
}

/// spec 3 §9: below `<assets>/<ID>/`, of a task that there is.
pub(super) fn misplaced(board: &Board, path: &RelPath) -> Option<Finding> {
    let rest = path.as_str().strip_prefix(board.config.assets.as_str())?.strip_prefix('/')?;
    let of_task = rest.split_once('/').is_some_and(|(id, _)| board.glance(id).is_some());
    let wanted = format!("a file below `{}/<ID>/`, of a task that exists", board.config.assets);
    let wrong = is_image(path) && !of_task;
    wrong.then(|| Finding::violation("CD-16", path, "an image that belongs to no task", &wanted))
}

/// spec 3 §8.2: whoever builds on a task finds its files by its artifacts. Work without any is worth a word.
pub(super) fn unrecorded(config: &Config, task: &Task, changes: &[Change]) -> Option<Finding> {
    let work = |change: &&Change| change.to.is_some() && !config.is_state(&change.path);
    let made = changes.iter().filter(work).count();
    let first = changes.iter().find(work)?;
    let handed_on = matches!(task.state, State::ToBeTested | State::Done);
    (handed_on && task.artifacts.is_empty()).then(|| {
        let found = format!(
            "{} made for a task in {} without artifacts",
            counted(made, "file"),
            task.state
        );
        let wanted = "what was made in `artifacts`: `agency work artifact`";
        Finding::warning("CD-15", &first.path, found, wanted).of(&task.id)
    })
}

fn tampered(change: &Change) -> Finding {
    let what =
        if change.to.is_some() { "an image that was changed" } else { "an image that was deleted" };
    Finding::violation("CD-16", &change.path, what, "images as they are: they are evidence")
}

/// SPEC GAP: §9 knows images as evidence only. Where the owner's `file_scope.include` names the place, an image is the product.
fn is_elsewhere(config: &Config, task: &str, change: &Change) -> bool {
    let named = |path: &RelPath| {
        config.rules.include.iter().any(|pattern| pattern.text != "**" && pattern.matches(path))
    };
    let home = format!("{}/{task}", config.assets);
    let at_home = change.path.as_str().strip_prefix(home.as_str());
    let at_home = at_home.is_some_and(|rest| task.is_empty() || rest.starts_with('/'));
    let in_assets = config.is_asset(&change.path);
    !at_home && (in_assets || !named(&change.path))
}

fn astray(config: &Config, task: &str, change: &Change) -> Option<Finding> {
    let path = &change.path;
    if path.as_str() == FILE || *path == config.spec {
        return Some(Finding::violation(
            "CD-12",
            path,
            "the contract itself changed by an agent",
            "a human's decision",
        ));
    }
    if is_image(path) && !change.new {
        return Some(tampered(change));
    }
    if is_image(path) && is_elsewhere(config, task, change) {
        let home = if task.is_empty() { "<ID>" } else { task };
        let wanted = format!("a file below `{}/{home}/`", config.assets);
        return Some(Finding::violation("CD-16", path, "an image elsewhere", &wanted));
    }
    if !is_out_of_scope(config, path) {
        return None;
    }
    if let Some(pattern) = excluded(config, path) {
        let wanted = format!("no file that matches `{pattern}` (`file_scope.exclude`)");
        return Some(Finding::violation(
            "CD-12",
            path,
            "a changed file outside the scope",
            &wanted,
        ));
    }
    let patterns: Vec<_> =
        config.rules.include.iter().map(|pattern| pattern.text.as_str()).collect();
    let wanted = format!("files that match {} (`file_scope.include`)", patterns.join(", "));
    Some(Finding::violation("CD-12", path, "a changed file outside the scope", &wanted))
}

/// CD-30: a file that no task's branch takes in. State files and evidence are always in scope (CD-26), the contract never is.
pub(super) fn is_out_of_scope(config: &Config, path: &RelPath) -> bool {
    if path.as_str() == FILE || *path == config.spec {
        return true;
    }
    let always = config.is_state(path) || config.is_asset(path);
    let included = config.rules.include.iter().any(|pattern| pattern.matches(path));
    !always && (!included || excluded(config, path).is_some())
}

/// SPEC GAP: minimatch takes `*.key` for the top folder only. An exclusion without a slash holds in every folder: it names secrets.
fn excluded<'a>(config: &'a Config, path: &RelPath) -> Option<&'a str> {
    let name = RelPath::new(path.file_name()).ok();
    let hit = config.rules.exclude.iter().find(|pattern| {
        let anywhere =
            !pattern.text.contains('/') && name.as_ref().is_some_and(|name| pattern.matches(name));
        anywhere || pattern.matches(path)
    });
    hit.map(|pattern| pattern.text.as_str())
}

pub(super) const IMAGES: [&str; 10] =
    [".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".bmp", ".avif", ".heic", ".tiff"];

pub fn is_image(path: &RelPath) -> bool {
    let name = path.file_name().to_ascii_lowercase();
    IMAGES.iter().any(|ending| name.ends_with(ending))
}
