//! Which files an agent may change (`file_scope`), matched against what really changed (CD-12), and evidence (CD-16).

use super::config::{Config, FILE};
use super::finding::Finding;
use crate::model::{Change, RelPath};

/// Everything in a change set that an agent must not do to files.
pub fn judge_changes(config: &Config, task: &str, changes: &[Change]) -> Vec<Finding> {
    changes
        .iter()
        .filter_map(|change| astray(config, change))
        .map(|finding| finding.of(task))
        .collect()
}

fn astray(config: &Config, change: &Change) -> Option<Finding> {
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
        let what = if change.to.is_some() {
            "an image that was changed"
        } else {
            "an image that was deleted"
        };
        return Some(Finding::violation(
            "CD-16",
            path,
            what,
            "images as they are: they are evidence",
        ));
    }
    // State files and evidence are always in scope (CD-26).
    if config.is_state(path) || config.is_asset(path) {
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
    let included = config.rules.include.iter().any(|pattern| pattern.matches(path));
    (!included).then(|| {
        let patterns: Vec<_> =
            config.rules.include.iter().map(|pattern| pattern.text.as_str()).collect();
        let wanted = format!("files that match {} (`file_scope.include`)", patterns.join(", "));
        Finding::violation("CD-12", path, "a changed file outside the scope", &wanted)
    })
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

pub fn is_image(path: &RelPath) -> bool {
    const ENDINGS: [&str; 10] =
        [".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".bmp", ".avif", ".heic", ".tiff"];
    let name = path.file_name().to_ascii_lowercase();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}
