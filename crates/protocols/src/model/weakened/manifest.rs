//! Manifests hold dependencies, which change every day, beside the configuration of checks, which must not. Only the latter counts.

use crate::model::RelPath;
use serde_json::{Map, Value};

/// Parts of a `package.json` that configure a check.
const CHECKS: [&str; 8] =
    ["jest", "vitest", "mocha", "ava", "nyc", "c8", "eslintConfig", "lint-staged"];
/// Tables of a TOML manifest that configure a check, by how their names begin.
const TABLES: [&str; 9] = [
    "[tool.pytest",
    "[tool.ruff",
    "[tool.mypy",
    "[tool.coverage",
    "[tool.pylint",
    "[tool.tox",
    "[lints",
    "[[test",
    "[workspace.lints",
];

pub(super) fn is_manifest(path: &RelPath) -> bool {
    matches!(
        path.file_name(),
        "package.json" | "pyproject.toml" | "Cargo.toml" | "Makefile" | "justfile"
    )
}

/// What was loosened, in a line.
pub(super) fn loosened(path: &RelPath, before: &str, after: &str) -> Option<String> {
    match path.file_name() {
        "package.json" => package_json(path, before, after),
        "Makefile" | "justfile" => (before != after).then(|| format!("`{path}` was changed")),
        _ => {
            let changed = tables(before) != tables(after);
            changed.then(|| format!("the checks configured in `{path}` were changed"))
        }
    }
}

fn package_json(path: &RelPath, before: &str, after: &str) -> Option<String> {
    let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let before = object(before)?;
    let Some(after) = object(after) else {
        return Some(format!("`{path}` cannot be read any more"));
    };
    let script = scripts(&before).find(|(name, line)| {
        scripts(&after).find(|(other, _)| other == name).is_none_or(|(_, now)| now != *line)
    });
    if let Some((name, _)) = script {
        return Some(format!("the script `{name}` of `{path}` was changed"));
    }
    let changed = CHECKS.iter().find(|key| before.get(**key) != after.get(**key))?;
    Some(format!("`{changed}` of `{path}` was changed"))
}

fn scripts(manifest: &Map<String, Value>) -> impl Iterator<Item = (&str, &Value)> {
    let scripts = manifest.get("scripts").and_then(Value::as_object);
    scripts.into_iter().flatten().map(|(name, line)| (name.as_str(), line))
}

/// The lines of all tables that configure a check.
fn tables(text: &str) -> Vec<&str> {
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('[') {
            inside = TABLES.iter().any(|table| line.starts_with(table));
        }
        if inside || line.starts_with("autotests") {
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: LP-30, AG-18
    #[test]
    fn dependencies_may_change_and_checks_may_not() {
        let path = RelPath::fixed("package.json");
        let before = r#"{"scripts":{"test":"jest"},"jest":{"bail":1},"dependencies":{"a":"1"}}"#;
        let fine =
            r#"{"scripts":{"test":"jest","dev":"x"},"jest":{"bail":1},"dependencies":{"a":"2"}}"#;
        assert_eq!(loosened(&path, before, fine), None);
        for (after, named) in [
            (r#"{"scripts":{"test":"true"},"jest":{"bail":1}}"#, "script `test`"),
            (r#"{"jest":{"bail":1}}"#, "script `test`"),
            (r#"{"scripts":{"test":"jest"}}"#, "`jest`"),
            ("{", "cannot be read"),
        ] {
            let found = loosened(&path, before, after).unwrap_or_default();
            assert!(found.contains(named), "{after}: {found}");
        }
        let path = RelPath::fixed("pyproject.toml");
        let before = "[project]\nname='a'\n[tool.ruff]\nline-length = 99\n[tool.poetry.dependencies]\nx = 1\n";
        assert_eq!(loosened(&path, before, &before.replace("x = 1", "x = 2")), None);
        assert!(loosened(&path, before, &before.replace("99", "999")).is_some());
    }
}
