//! The rules of the house that a machine can check: who imports what, how files begin, what the README promises.

use crate::scenarios::{folders, protocols, root};
use std::collections::BTreeSet;
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

/// The sources of the whole program: the root package and its crates.
fn program() -> Vec<(PathBuf, String)> {
    CRATES.iter().flat_map(|(_, below)| sources(below)).collect()
}

/// What the program may say: its sources without tests and comments.
pub(crate) fn texts() -> Vec<(PathBuf, String)> {
    let plain = |text: &str| -> String {
        let lines = code(text).lines().filter(|line| {
            let line = line.trim_start();
            !line.starts_with("//") || line.starts_with("///")
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    let files = program().into_iter().filter(|(path, _)| !is_test(path));
    files.map(|(path, text)| (path, plain(&text))).collect()
}

/// Where the crates keep their sources, and what stands before a path in each: `crates/git/src/index.rs` is `git/index.rs`.
const CRATES: [(&str, &str); 6] = [
    ("", "src"),
    ("dashboard", "crates/dashboard/src"),
    ("git", "crates/git/src"),
    ("", "crates/host/src"),
    ("supervisor", "crates/supervisor/src"),
    ("", PURE),
];

/// The crate that only decides.
const PURE: &str = "crates/protocols/src";

/// Every file that is compiled into the program as text.
pub(crate) fn included() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (path, text) in program().into_iter().filter(|(path, _)| !is_test(path)) {
        for name in code(&text).split("include_str!(\"").skip(1) {
            let name = name.split('"').next().unwrap();
            let file = path.parent().unwrap().join(name).canonicalize();
            found.push(file.unwrap_or_else(|_| panic!("{} includes {name}", path.display())));
        }
    }
    found
}

/// Code without its tests: the part before `#[cfg(test)]`.
fn code(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap()
}

/// The path as its crate's module tree has it; a crate's own name comes first where it has one module.
fn module_path(path: &Path) -> PathBuf {
    let found = CRATES.iter().find_map(|(name, below)| {
        path.strip_prefix(root(below)).ok().map(|inside| Path::new(name).join(inside))
    });
    found.unwrap_or_else(|| panic!("{} is in no crate", path.display()))
}

fn is_test(path: &Path) -> bool {
    let path = module_path(path);
    path.components().any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name))
}

fn is_below(path: &Path, dirs: &[&str]) -> bool {
    let path = module_path(path);
    dirs.iter().any(|dir| path.starts_with(dir) || path == Path::new(&format!("{dir}.rs")))
}

#[test]
fn the_pure_part_does_nothing_but_decide() {
    let forbidden =
        ["tokio", "std::fs", "std::process", "std::env", "std::net", "notify", "now()", "tracing"];
    for (path, text) in sources(PURE) {
        for word in forbidden {
            assert!(!code(&text).contains(word), "{} mentions {word}", path.display());
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
    for (path, text) in program() {
        if is_test(&path) {
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
    for (path, text) in program().into_iter().chain(sources("tests/it")) {
        assert!(text.starts_with("//! "), "{} has no head", path.display());
    }
}

#[test]
fn no_test_is_switched_off() {
    for (path, text) in program().into_iter().chain(sources("tests/it")) {
        let ignored = concat!("#[ig", "nore");
        assert!(!text.contains(ignored), "{} has a test that never runs", path.display());
    }
}

#[test]
fn every_scenario_is_complete_and_numbered_in_order() {
    for protocol in protocols() {
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

/// Ids such as `LP-06` or `CD-07a` in a text.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| {
        let is_id = |(area, number): (&str, &str)| {
            area.len() == 2
                && area.bytes().all(|byte| byte.is_ascii_uppercase())
                && number.bytes().take(2).filter(u8::is_ascii_digit).count() == 2
                && number.bytes().skip(2).all(|byte| byte.is_ascii_lowercase())
        };
        word.split_once('-').is_some_and(is_id)
    })
}

#[test]
fn every_rule_that_a_test_names_can_be_explained_and_every_rule_has_a_test() {
    let mut named: BTreeSet<String> = BTreeSet::new();
    let texts = program().into_iter().chain(sources("tests/it")).map(|(_, text)| text);
    let wakes = protocols().into_iter().flat_map(|protocol| {
        let folders = folders(&protocol).into_iter();
        folders.map(|dir| fs::read_to_string(dir.join("wake.yaml")).unwrap())
    });
    for text in texts.chain(wakes) {
        let lines = text.lines().filter_map(|line| line.split_once("covers:"));
        named.extend(lines.flat_map(|(_, rest)| ids(rest)).map(str::to_owned));
    }
    for id in &named {
        assert!(agency::rules::find(id).is_some(), "`agency explain {id}` knows nothing");
    }
    for rule in agency::rules::RULES {
        // A part such as CD-07a is proven with its whole.
        assert!(named.contains(&rule.id[..5]), "{}: no test covers it", rule.id);
    }
    // What a refusal may name in the code is in the list, too.
    for (path, text) in program() {
        for quoted in code(&text).split('"').skip(1).step_by(2).filter(|text| text.len() <= 6) {
            let mut unknown = ids(quoted).filter(|id| agency::rules::find(id).is_none());
            assert!(unknown.next().is_none(), "{} names {quoted}", path.display());
        }
    }
}

/// Files and folders that a text names in backticks; `NAME` stands for one that a reader makes.
fn named_paths(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let first =
        ["crates/", "src/", "tests/", "config/", "examples/", "systemd/", "benches/", "packaging/"];
    quoted
        .filter(move |word| first.iter().any(|dir| word.starts_with(dir)))
        .filter(|word| !word.contains("NAME") && !word.contains(' '))
}

#[test]
fn what_the_pages_name_is_there() {
    for page in ["README.md", "examples/README.md"] {
        let text = fs::read_to_string(root(page)).unwrap();
        let missing: Vec<_> = named_paths(&text).filter(|path| !root(path).exists()).collect();
        assert!(missing.is_empty(), "{page} names {missing:?}");
        assert!(named_paths(&text).count() > 5, "{page} names no files");
    }
}

#[test]
fn the_package_holds_what_is_there() {
    let manifest = fs::read_to_string(root("Cargo.toml")).unwrap();
    let assets = manifest.split("\nassets = [").nth(1).unwrap().split("\n]").next().unwrap();
    let sources: Vec<&str> = assets
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[\"")?.split('"').next())
        .collect();
    assert!(sources.len() > 4, "{sources:?}");
    for source in sources.iter().filter(|source| !source.starts_with("target/")) {
        let (dir, name) = source.rsplit_once('/').unwrap_or(("", source));
        let mut files = fs::read_dir(root(dir)).unwrap().map(|entry| entry.unwrap().file_name());
        let ending = name.strip_prefix('*').unwrap_or(name);
        assert!(files.any(|file| file.to_str().unwrap().ends_with(ending)), "{source}");
    }
    for script in ["postinst", "prerm"] {
        let text = fs::read_to_string(root("packaging/debian").join(script)).unwrap();
        assert!(text.starts_with("#!/bin/sh\n") && text.contains("\nset -e\n"), "{script}");
    }
}
