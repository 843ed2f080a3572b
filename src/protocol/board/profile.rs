//! DoD profiles (spec 2 §10): read and checked; found for a repository by the files in it. It runs nothing.

use super::front::Fields;
use crate::model::yaml::{self, quote};
use crate::model::{Digest, Rejection, RelPath};
use serde_json::Value;

const RULE: &str = "AG-16";
pub const FOLDER: &str = ".kodingx/dod/profiles";
pub const AUTO: &str = "auto";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    pub description: String,
    /// Each for `sh -c`.
    pub commands: Vec<String>,
    pub environment: Option<String>,
    pub platform: Platform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Darwin,
    Linux,
    Windows,
    Any,
}

impl Platform {
    const ALL: [Self; 4] = [Self::Darwin, Self::Linux, Self::Windows, Self::Any];

    pub fn word(self) -> &'static str {
        match self {
            Self::Darwin => "darwin",
            Self::Linux => "linux",
            Self::Windows => "windows",
            Self::Any => "any",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|platform| platform.word() == word)
    }

    /// `os` as the compiler names it.
    pub fn fits(self, os: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Darwin => os == "macos",
            Self::Linux => os == "linux",
            Self::Windows => os == "windows",
        }
    }
}

/// A name that may be a file's.
pub fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

pub fn path_of(name: &str) -> Option<RelPath> {
    is_name(name).then(|| RelPath::new(format!("{FOLDER}/{name}.yml")).ok()).flatten()
}

pub fn parse(bytes: &[u8], path: &RelPath) -> Result<Profile, Vec<Rejection>> {
    let digest = Digest::of(bytes);
    let one = |found: String, wanted: &str, line: u64| {
        vec![Rejection::new(RULE, path, found, wanted).at_line(line).with_digest(&digest)]
    };
    let text = std::str::from_utf8(bytes)
        .map_err(|_| one("bytes that are not UTF-8".to_owned(), "UTF-8 text", 1))?;
    let root = yaml::parse(text).map_err(|t| one(t.found, t.wanted, t.line))?;
    let mut fields = Fields::new(RULE, path, &root, 0);
    let stem = path.file_name().strip_suffix(".yml").unwrap_or(path.file_name());
    let name = fields.one_of("name", "the file's name without .yml", |name| {
        (name == stem).then(|| name.to_owned())
    });
    let description = fields.text("description");
    let commands = fields.needed_list("commands");
    if root.get("commands").is_some() && commands.is_empty() {
        fields.refuse_at(
            "commands",
            "no command",
            "at least one: nothing checked never passes (AG-31)",
        );
    }
    let environment = root.get("environment").and_then(|_| fields.text("environment"));
    let platform = match root.get("platform") {
        None => Some(Platform::Any),
        Some(_) => fields.one_of("platform", "darwin, linux, windows or any", Platform::parse),
    };
    fields.finish(&digest)?;
    let (Some(name), Some(description), Some(platform)) = (name, description, platform) else {
        unreachable!("BUG: a field that is missing is a problem")
    };
    Ok(Profile { name, description, commands, environment, platform })
}

impl Profile {
    pub fn render(&self, header: &str) -> String {
        let mut text =
            format!("# {header}\nname: {}\ndescription: {}\n", self.name, quote(&self.description));
        if let Some(environment) = &self.environment {
            text.push_str(&format!("environment: {environment}\n"));
        }
        text.push_str("commands:\n");
        for command in &self.commands {
            text.push_str(&format!("  - {}\n", quote(command)));
        }
        text
    }
}

/// What detection may look at: names in the repository's top folder, and the text of some of them.
pub struct Signals<'a> {
    pub names: &'a [String],
    pub read: &'a dyn Fn(&str) -> Option<String>,
}

/// The files whose text or presence decides.
pub const SIGNALS: &[&str] = &[
    "package.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "bun.lockb",
    "pyproject.toml",
    "requirements.txt",
    "uv.lock",
    "poetry.lock",
    "pubspec.yaml",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "gradlew",
    "build.gradle",
    "build.gradle.kts",
];

/// The default profile of a repository, named after its environment. `None`: nothing is known, and nothing never passes.
pub fn detect(signals: &Signals<'_>) -> Option<Profile> {
    let has = |name: &str| signals.names.iter().any(|found| found == name);
    let text = |name: &str| (signals.read)(name).unwrap_or_default();
    let ends = |ending: &str| signals.names.iter().any(|name| name.ends_with(ending));
    let (environment, commands) = if has("pubspec.yaml") {
        ("flutter", flutter(&text("pubspec.yaml")))
    } else if has("Cargo.toml") {
        (
            "rust",
            words(&[
                "cargo fmt --check",
                "cargo clippy --all-targets -- -D warnings",
                "cargo test",
            ]),
        )
    } else if has("go.mod") {
        ("go", words(&["test -z \"$(gofmt -l .)\"", "go vet ./...", "go test ./..."]))
    } else if has("package.json") {
        ("node", node(&text("package.json"), node_runner(&has)))
    } else if has("pyproject.toml") || has("requirements.txt") {
        ("python", python(&text("pyproject.toml"), &has))
    } else if has("gradlew") {
        ("java", words(&["./gradlew check"]))
    } else if has("build.gradle") || has("build.gradle.kts") {
        ("java", words(&["gradle check"]))
    } else if has("pom.xml") {
        ("java", words(&["mvn --batch-mode --quiet verify"]))
    } else if ends(".sln") || ends(".slnx") || ends(".csproj") || ends(".fsproj") {
        ("dotnet", words(&["dotnet build --nologo", "dotnet test --nologo"]))
    } else {
        return None;
    };
    (!commands.is_empty()).then(|| named(environment, commands))
}

fn named(environment: &str, commands: Vec<String>) -> Profile {
    Profile {
        name: environment.to_owned(),
        description: format!("What a {environment} repository checks before a task is done"),
        commands,
        environment: Some(environment.to_owned()),
        platform: Platform::Any,
    }
}

/// For a repository that is nothing of the above; the owner puts their own commands in.
pub fn generic() -> Profile {
    Profile {
        name: "generic".to_owned(),
        description: "Put your own checks here".to_owned(),
        commands: words(&["make test"]),
        environment: None,
        platform: Platform::Any,
    }
}

fn words(commands: &[&str]) -> Vec<String> {
    commands.iter().map(|&command| command.to_owned()).collect()
}

fn node_runner(has: &impl Fn(&str) -> bool) -> &'static str {
    if has("pnpm-lock.yaml") {
        "pnpm run"
    } else if has("yarn.lock") {
        "yarn run"
    } else if has("bun.lock") || has("bun.lockb") {
        "bun run"
    } else {
        "npm run"
    }
}

/// Only scripts that are there; npm's placeholder for a missing test is none.
fn node(package: &str, runner: &str) -> Vec<String> {
    let package: Value = serde_json::from_str(package).unwrap_or_default();
    let script = |name: &&str| {
        package["scripts"][*name].as_str().is_some_and(|text| !text.contains("no test specified"))
    };
    let wanted = ["typecheck", "lint", "test", "build"];
    wanted.iter().filter(|name| script(name)).map(|name| format!("{runner} {name}")).collect()
}

fn python(project: &str, has: &impl Fn(&str) -> bool) -> Vec<String> {
    let before = if has("uv.lock") {
        "uv run "
    } else if has("poetry.lock") {
        "poetry run "
    } else {
        "python3 -m "
    };
    let tools = [("[tool.ruff", "ruff check ."), ("[tool.mypy", "mypy .")];
    let mut commands: Vec<String> = tools
        .iter()
        .filter(|(sign, _)| project.contains(sign))
        .map(|(_, command)| format!("{before}{command}"))
        .collect();
    commands.push(format!("{before}pytest"));
    commands
}

fn flutter(pubspec: &str) -> Vec<String> {
    if pubspec.lines().any(|line| line.starts_with("flutter:") || line.trim() == "sdk: flutter") {
        words(&["flutter analyze", "flutter test"])
    } else {
        words(&["dart analyze", "dart test"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Option<Vec<String>> {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let read = |wanted: &str| {
            files.iter().find(|(name, _)| *name == wanted).map(|(_, text)| (*text).to_owned())
        };
        detect(&Signals { names: &names, read: &read }).map(|profile| profile.commands)
    }

    // covers: AG-16
    #[test]
    fn each_environment_is_known_by_its_files() {
        let package = r#"{"scripts":{"test":"vitest","lint":"eslint .","dev":"vite"}}"#;
        for (lock, runner) in [
            ("pnpm-lock.yaml", "pnpm run"),
            ("yarn.lock", "yarn run"),
            ("bun.lock", "bun run"),
            ("x", "npm run"),
        ] {
            let commands = found(&[("package.json", package), (lock, "")]).unwrap();
            assert_eq!(commands, [format!("{runner} lint"), format!("{runner} test")]);
        }
        for (files, first) in [
            (&[("Cargo.toml", "")][..], "cargo fmt --check"),
            (&[("go.mod", "")], "test -z \"$(gofmt -l .)\""),
            (&[("pubspec.yaml", "flutter:\n")], "flutter analyze"),
            (&[("pyproject.toml", "[tool.ruff]\n"), ("uv.lock", "")], "uv run ruff check ."),
            (&[("requirements.txt", "")], "python3 -m pytest"),
            (&[("pyproject.toml", ""), ("poetry.lock", "")], "poetry run pytest"),
            (&[("pom.xml", "")], "mvn --batch-mode --quiet verify"),
            (&[("gradlew", "")], "./gradlew check"),
            (&[("shop.sln", "")], "dotnet build --nologo"),
        ] {
            assert_eq!(found(files).unwrap()[0], first, "{files:?}");
        }
    }

    // covers: AG-31
    #[test]
    fn nothing_found_is_nothing_and_no_pass() {
        assert_eq!(found(&[("README.md", "")]), None);
        let placeholder = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(found(&[("package.json", placeholder)]), None);
        assert_eq!(found(&[("package.json", "{ not json")]), None);
    }

    // covers: AG-16
    #[test]
    fn a_profile_is_read_and_its_errors_are_named() {
        let path = RelPath::fixed(".kodingx/dod/profiles/node_strict.yml");
        let text = "name: node_strict\ndescription: \"Typecheck, lint, test, build\"\nenvironment: node\n\
            commands:\n  - \"pnpm typecheck\"\n  - \"pnpm lint\"\n  - \"pnpm test\"\n  - \"pnpm build\"\n";
        let profile = parse(text.as_bytes(), &path).unwrap();
        assert_eq!(profile.commands.len(), 4);
        assert_eq!(parse(profile.render("x").as_bytes(), &path).unwrap(), profile);
        let bad = "name: other\ncommands: []\nplatform: solaris\n";
        let problems = parse(bad.as_bytes(), &path).unwrap_err();
        let text: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 4, "{text:#?}");
        assert!(text.iter().any(|p| p.contains(":3") && p.contains("solaris")), "{text:#?}");
        assert!(!Platform::Darwin.fits("linux") && Platform::Any.fits("linux"));
    }
}
