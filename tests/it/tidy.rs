//! The rules of the house that a machine can check: who imports what, how files begin, what the README promises.

use crate::scenarios::{folders, root};
use std::fs;
use std::path::{Path, PathBuf};

fn sources(below: &str) -> Vec<(PathBuf, String)> {
    let mut open = vec![root(below)];
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push((path.clone(), fs::read_to_string(&path).unwrap()));
        }
    }
    assert!(!found.is_empty(), "nothing below {below}");
    found
}

/// Code without its tests: the part before `#[cfg(test)]`.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

fn is_below(path: &Path, dirs: &[&str]) -> bool {
    let path = path.strip_prefix(root("src")).unwrap();
    dirs.iter().any(|dir| path.starts_with(dir) || path == Path::new(&format!("{dir}.rs")))
}

#[test]
fn the_pure_part_does_nothing_but_decide() {
    let forbidden = [
        "tokio",
        "std::fs",
        "std::process",
        "std::env",
        "std::net",
        "notify",
        "now()",
        "crate::clock",
        "crate::store",
        "crate::git",
        "crate::run",
        "tracing",
    ];
    for (path, text) in sources("src") {
        if is_below(&path, &["model", "protocol", "route"]) {
            for word in forbidden {
                assert!(!code(&text).contains(word), "{} mentions {word}", path.display());
            }
        }
    }
}

#[test]
fn one_place_for_each_dangerous_thing() {
    // What, and where it may be said.
    let places: &[(&str, &[&str])] = &[
        ("Utc::now", &["clock"]),
        ("SystemTime::now", &["clock"]),
        ("println!", &["cli"]),
        ("eprintln!", &["cli"]),
        ("Command::new(\"git\")", &["git", "cli/demo"]),
        ("process::exit", &[]),
        (".review-loop-state", &["protocol", "rules", "cli/demo"]),
        ("\"claude-code\"", &["protocol", "config", "cli"]),
    ];
    for (path, text) in sources("src") {
        if path.file_name().is_some_and(|name| name == "tests.rs")
            || path.components().any(|c| c.as_os_str() == "tests")
        {
            continue;
        }
        for (word, allowed) in places {
            let fine = is_below(&path, allowed) || !code(&text).contains(word);
            assert!(fine, "{} mentions {word}", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for (path, text) in sources("src").into_iter().chain(sources("tests/it")) {
        assert!(text.starts_with("//! "), "{} has no head", path.display());
    }
}

#[test]
fn no_test_is_switched_off() {
    for (path, text) in sources("src").into_iter().chain(sources("tests/it")) {
        let ignored = concat!("#[ig", "nore");
        assert!(!text.contains(ignored), "{} has a test that never runs", path.display());
    }
}

#[test]
fn every_scenario_is_complete_and_numbered_in_order() {
    for protocol in fs::read_dir(root("tests/scenarios")).unwrap() {
        let protocol = protocol.unwrap().file_name().into_string().unwrap();
        for (at, folder) in folders(&protocol).iter().enumerate() {
            let name = folder.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with(&format!("{:03}-", at + 1)), "{name} is out of order");
            for file in ["wake.yaml", "decision.txt"] {
                assert!(folder.join(file).is_file(), "{name} has no {file}");
            }
        }
    }
}

#[test]
fn the_readmes_commands_are_the_ones_that_ci_runs() {
    let readme = fs::read_to_string(root("README.md")).unwrap();
    let ci = fs::read_to_string(root(".ci/run")).unwrap();
    for command in ["cargo run --release -- demo", "cargo test"] {
        assert!(readme.contains(command), "README.md lacks `{command}`");
    }
    for line in ["cargo test", "cargo fmt --check", "cargo clippy", "cargo doc"] {
        assert!(ci.contains(line), ".ci/run lacks `{line}`");
    }
}
