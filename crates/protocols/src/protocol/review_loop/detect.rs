//! Which gates a repository has, found from what lies at its root (LP-22). It runs nothing.

use super::ReviewLoop;
use serde_json::Value;

const PACKAGE: &str = "package.json";
const TSCONFIG: &str = "tsconfig.json";
const CARGO: &str = "Cargo.toml";
const PYPROJECT: &str = "pyproject.toml";
const GO: &str = "go.mod";
const PUBSPEC: &str = "pubspec.yaml";

/// The files that say so.
pub(super) const FILES: [&str; 6] = [PACKAGE, TSCONFIG, CARGO, PYPROJECT, GO, PUBSPEC];

/// What npm itself writes for a project without tests.
const NO_TEST: &str = "no test specified";

/// In the order in which they are run: the quick ones first.
pub(super) fn gates(review_loop: &ReviewLoop) -> Vec<String> {
    let text = |path: &'static str| review_loop.index.text(path);
    let mut gates = Vec::new();
    if let Some(manifest) = text(PACKAGE) {
        gates.extend(node(&manifest, text(TSCONFIG).is_some()));
    }
    if text(CARGO).is_some() {
        gates.extend(["cargo check --all-targets", "cargo test"]);
    }
    if let Some(project) = text(PYPROJECT) {
        gates.extend(python(&project));
    }
    if text(GO).is_some() {
        gates.extend(["go vet ./...", "go test ./..."]);
    }
    if let Some(pubspec) = text(PUBSPEC) {
        let flutter = pubspec.lines().any(|line| line.trim_start().starts_with("flutter:"));
        gates.extend(if flutter {
            ["flutter analyze", "flutter test"]
        } else {
            ["dart analyze", "dart test"]
        });
    }
    gates.into_iter().map(str::to_owned).collect()
}

fn node(manifest: &str, typescript: bool) -> Vec<&'static str> {
    let manifest: Value = serde_json::from_str(manifest).unwrap_or_default();
    let script = |name: &str| manifest["scripts"][name].as_str();
    let mut gates = Vec::new();
    if typescript {
        gates.push("npx --no-install tsc --noEmit");
    }
    if script("lint").is_some() {
        gates.push("npm run lint");
    }
    if script("test").is_some_and(|line| !line.contains(NO_TEST)) {
        gates.push("npm test");
    }
    gates
}

fn python(project: &str) -> Vec<&'static str> {
    let tools = [
        ("[tool.mypy", "python3 -m mypy ."),
        ("[tool.ruff", "python3 -m ruff check ."),
        ("pytest", "python3 -m pytest -q"),
    ];
    tools.iter().filter(|(word, _)| project.contains(word)).map(|(_, gate)| *gate).collect()
}
