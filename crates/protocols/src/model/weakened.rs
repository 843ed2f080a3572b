//! Did a change loosen the checks that are to judge it (LP-30, AG-18)? Looks at both sides of each changed file; runs nothing.
//!
//! What counts: changed CI, lint or test configuration, changed scripts that a gate calls, fewer tests or more skipped ones than
//! before. Tests that moved to another file are still there: they are counted over the whole change.

mod callers;
mod manifest;
mod markers;
mod shadows;

pub use callers::further;
pub use shadows::SHADOWS;

use super::{Change, RelPath};
use callers::{Caller, callers};
use markers::Count;
use serde::{Deserialize, Serialize};

/// One file before and after a change; `None`: it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sides {
    pub path: RelPath,
    pub before: Option<super::Bytes>,
    pub after: Option<super::Bytes>,
}

/// Files that are looked at whether they changed or not: they say which scripts a gate calls.
const ALWAYS: [&str; 3] = ["package.json", "Makefile", "justfile"];

/// Files whose whole content is configuration of a check. A final or first `*` stands for anything.
const CONFIGURATION: &[&str] = &[
    ".eslintrc*",
    "eslint.config.*",
    ".eslintignore",
    "biome.json*",
    ".prettierrc*",
    ".prettierignore",
    "tsconfig*.json",
    "jest.config.*",
    "vitest.config.*",
    "vite.config.*",
    "playwright.config.*",
    "karma.conf.*",
    ".mocharc*",
    ".nycrc*",
    "ruff.toml",
    ".ruff.toml",
    ".flake8",
    ".pylintrc",
    "mypy.ini",
    "pytest.ini",
    "tox.ini",
    "setup.cfg",
    "conftest.py",
    ".coveragerc",
    "noxfile.py",
    "clippy.toml",
    ".clippy.toml",
    "rustfmt.toml",
    ".rustfmt.toml",
    "deny.toml",
    ".golangci.*",
    "analysis_options.yaml",
    ".pre-commit-config.yaml",
    ".gitlab-ci.yml",
    ".travis.yml",
    "azure-pipelines.yml",
    "Jenkinsfile",
    "codecov.yml",
    ".codecov.yml",
];
const CI_FOLDERS: [&str; 4] = [".github/workflows/", ".github/actions/", ".circleci/", ".ci/"];
/// The files of a change that must be looked at, and those that say what a gate calls.
pub fn to_compare(changes: &[Change], gates: &[String]) -> Vec<RelPath> {
    let touched = changes.iter().map(|change| &change.path);
    let mut paths: Vec<RelPath> = touched.filter(|path| counts(path, gates)).cloned().collect();
    if paths.is_empty() {
        return paths;
    }
    paths.extend(ALWAYS.map(RelPath::fixed));
    paths.extend(callers::named_by(gates));
    paths.sort();
    paths.dedup();
    paths
}

fn counts(path: &RelPath, gates: &[String]) -> bool {
    // What a script of a manifest calls is known only when the manifest has been read.
    is_configuration(path)
        || shadows::is_shadow(path)
        || !path.file_name().contains('.')
        || manifest::is_manifest(path)
        || markers::is_code(path)
        || is_script(path)
        || callers(&[], gates).iter().any(|gate| gate.calls(path))
}

fn is_script(path: &RelPath) -> bool {
    path.as_str().rsplit('.').next().is_some_and(|end| SCRIPTS.contains(&end))
}

const SCRIPTS: [&str; 6] = ["sh", "bash", "mk", "inc", "ps1", "bat"];

/// What was loosened, one line each; nothing: the checks are what they were.
pub fn weakened(sides: &[Sides], gates: &[String]) -> Vec<String> {
    let callers = callers(sides, gates);
    let mut found: Vec<String> =
        sides.iter().filter_map(|side| weakened_file(side, &callers)).collect();
    found.extend(fewer_tests(sides));
    found
}

fn weakened_file(side: &Sides, callers: &[Caller<'_>]) -> Option<String> {
    let path = &side.path;
    if side.before == side.after {
        return None;
    }
    let Some(before) = &side.before else {
        let lines = callers.iter().map(|caller| caller.text.as_ref());
        let named = is_script(path) && callers.iter().any(|caller| caller.calls(path));
        let named = named.then(|| format!("`{path}`, which a gate calls, is new"));
        return shadows::why_new(path, lines).or(named);
    };
    let done = if side.after.is_some() { "changed" } else { "deleted" };
    if is_configuration(path) || shadows::is_shadow(path) {
        return Some(format!("`{path}` was {done}"));
    }
    if manifest::is_manifest(path) {
        let after = side.after.as_ref().map(text).unwrap_or_default();
        return manifest::loosened(path, &text(before), &after);
    }
    let called = callers.iter().any(|caller| caller.calls(path));
    called.then(|| format!("`{path}`, which a gate calls, was {done}"))
}

/// Over the whole change: tests may move, but not vanish.
fn fewer_tests(sides: &[Sides]) -> Vec<String> {
    let code = sides.iter().filter(|side| markers::is_code(&side.path));
    let counts: Vec<(&RelPath, Count, Count)> = code
        .map(|side| {
            let count = |bytes: &Option<super::Bytes>| {
                bytes
                    .as_ref()
                    .map(|bytes| markers::count(&side.path, &text(bytes)))
                    .unwrap_or_default()
            };
            (&side.path, count(&side.before), count(&side.after))
        })
        .collect();
    let sum = |of: fn(&Count) -> usize| {
        let total =
            |at: &dyn Fn(&(&RelPath, Count, Count)) -> usize| counts.iter().map(at).sum::<usize>();
        (total(&|side| of(&side.1)), total(&|side| of(&side.2)))
    };
    let named = |lost: &dyn Fn(&Count, &Count) -> bool| {
        let files = counts.iter().filter(|(_, before, after)| lost(before, after));
        files.take(5).map(|(path, ..)| format!("`{path}`")).collect::<Vec<_>>().join(", ")
    };
    let mut found = Vec::new();
    let (before, after) = sum(|count| count.tests);
    if after < before {
        let files = named(&|before, after| after.tests < before.tests);
        found.push(format!("{} tests are gone ({files})", before - after));
    }
    let (before, after) = sum(|count| count.skipped);
    if after > before {
        let files = named(&|before, after| after.skipped > before.skipped);
        found.push(format!("{} more tests are skipped ({files})", after - before));
    }
    found
}

fn is_configuration(path: &RelPath) -> bool {
    let name = path.file_name();
    CI_FOLDERS.iter().any(|folder| path.as_str().starts_with(folder))
        || CONFIGURATION.iter().any(|pattern| fits(pattern, name))
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => pattern == name,
    }
}

fn text(bytes: &super::Bytes) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&bytes.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Bytes;

    fn side(path: &str, before: Option<&str>, after: Option<&str>) -> Sides {
        let bytes = |text: Option<&str>| text.map(|text| Bytes(text.as_bytes().to_vec()));
        Sides { path: RelPath::new(path).unwrap(), before: bytes(before), after: bytes(after) }
    }

    fn found(sides: &[Sides]) -> Vec<String> {
        weakened(sides, &["npm test".to_owned(), "./scripts/gate.sh --all".to_owned()])
    }

    // covers: LP-30, AG-18
    #[test]
    fn changed_configuration_and_scripts_of_gates_are_named() {
        for path in
            [".eslintrc.json", "tsconfig.build.json", ".github/workflows/ci.yml", "scripts/gate.sh"]
        {
            let changed = found(&[side(path, Some("a"), Some("b"))]);
            assert!(matches!(&changed[..], [one] if one.contains(path)), "{path}: {changed:?}");
            assert_eq!(found(&[side(path, Some("a"), None)]).len(), 1, "{path}");
            assert!(found(&[side(path, Some("a"), Some("a"))]).is_empty(), "{path}");
        }
        assert!(found(&[side("tsconfig.json", None, Some("{}"))]).is_empty(), "a new project");
        assert_eq!(found(&[side(".eslintignore", None, Some("src"))]).len(), 1);
        assert!(found(&[side("src/gate.sh", Some("a"), Some("b"))]).is_empty());
    }

    // covers: LP-30, AG-18
    #[test]
    fn a_script_that_the_manifest_calls_counts_as_the_manifest_was() {
        let manifest = r#"{"scripts":{"test":"bash tools/t.sh"}}"#;
        let sides = [
            side("package.json", Some(manifest), Some(manifest)),
            side("tools/t.sh", Some("run"), Some("exit 0")),
        ];
        assert_eq!(found(&sides).len(), 1);
        let changes = [Change { path: RelPath::fixed("tools/t.sh"), to: None, new: false }];
        let wanted = to_compare(&changes, &[]);
        assert!(wanted.contains(&RelPath::fixed("tools/t.sh")) && wanted.len() == 4, "{wanted:?}");
        let prose = [Change { path: RelPath::fixed("README.md"), to: None, new: false }];
        assert!(to_compare(&prose, &[]).is_empty());
    }

    // covers: LP-34, LP-30
    #[test]
    fn a_new_file_that_shadows_what_a_gate_runs_is_named() {
        let gates = ["make check".to_owned(), "python3 -m pytest -q".to_owned()];
        for path in [
            "GNUmakefile",
            "makefile",
            ".npmrc",
            "web/.npmrc",
            "sitecustomize.py",
            "conftest.py",
            "pytest.py",
            "pytest/__init__.py",
            "node_modules/.bin/eslint",
        ] {
            let changed = weakened(&[side(path, None, Some("x"))], &gates);
            assert!(matches!(&changed[..], [one] if one.contains(path)), "{path}: {changed:?}");
            let change = [Change { path: RelPath::new(path).unwrap(), to: None, new: true }];
            assert!(to_compare(&change, &gates).contains(&change[0].path), "{path}");
        }
        assert!(weakened(&[side("src/pytest.py", None, Some("x"))], &gates).is_empty());
        assert!(weakened(&[side("src/shop.py", None, Some("x"))], &gates).is_empty());
    }

    // covers: LP-34, LP-30
    #[test]
    fn what_a_gate_script_sources_counts_however_deep() {
        let gates = ["sh ci/check.sh".to_owned()];
        let same = |path, text| side(path, Some(text), Some(text));
        let sides = [
            same("ci/check.sh", ". \"$(dirname \"$0\")/lib.sh\"\n"),
            same("ci/lib.sh", "source tools/more\n"),
            side("tools/more", Some("test -e x"), Some("true")),
        ];
        assert_eq!(weakened(&sides, &gates), ["`tools/more`, which a gate calls, was changed"]);
        let change = [Change { path: RelPath::fixed("tools/more"), to: None, new: false }];
        let first = to_compare(&change, &gates);
        assert!(first.contains(&RelPath::fixed("ci/check.sh")), "{first:?}");
        let then = further(&sides[..1], &gates, &first);
        assert!(then.contains(&RelPath::fixed("ci/lib.sh")), "{then:?}");
        let make = [
            side("Makefile", Some("include config.mk\n-include local.mk\n"), None),
            side("config.mk", Some("X=1"), Some("X=0")),
            side("local.mk", None, Some("X=0")),
        ];
        let found = weakened(&make, &["make check".to_owned()]);
        assert_eq!(found.len(), 3, "{found:?}");
    }

    // covers: LP-30, AG-18
    #[test]
    fn tests_may_move_but_not_vanish_or_fall_asleep() {
        let one = "it('a', f)\nit('b', f)\n";
        let gone = found(&[side("a.test.js", Some(one), Some("it('a', f)\n"))]);
        assert_eq!(gone, ["1 tests are gone (`a.test.js`)"]);
        assert_eq!(
            found(&[side("a.test.js", Some(one), None)]),
            ["2 tests are gone (`a.test.js`)"]
        );
        let moved = [side("a.test.js", Some(one), None), side("b.test.js", None, Some(one))];
        assert!(found(&moved).is_empty());
        let asleep = found(&[side("a.test.js", Some(one), Some("it('a', f)\nit.skip('b', f)\n"))]);
        assert!(asleep.iter().any(|line| line.contains("skipped")), "{asleep:?}");
    }
}
