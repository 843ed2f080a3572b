//! Which environment a repository is, by the files in its top folder, and what such a repository checks (spec 2 §10.2, AG-16).

use super::{Platform, Profile};
use serde_json::Value;

/// What detection may look at: names in the repository's top folder, and the text of some of them.
pub struct Signals<'a> {
    pub names: &'a [String],
    pub read: &'a dyn Fn(&str) -> Option<String>,
}

impl Signals<'_> {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|found| found == name)
    }

    fn has_ending(&self, ending: &str) -> bool {
        self.names.iter().any(|found| found.ends_with(ending))
    }

    fn text(&self, name: &str) -> String {
        (self.read)(name).unwrap_or_default()
    }

    /// The first of these that is here.
    fn first<'b>(&self, names: &[&'b str]) -> Option<&'b str> {
        names.iter().find(|name| self.has(name)).copied()
    }
}

/// The files whose text or presence decides, where they can be asked for by name.
pub const SIGNALS: &[&str] = &[
    "package.json",
    "pnpm-lock.yaml",
    "yarn.lock",
    "bun.lock",
    "bun.lockb",
    "package-lock.json",
    "pyproject.toml",
    "requirements.txt",
    "uv.lock",
    "poetry.lock",
    "pubspec.yaml",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "mvnw",
    "gradlew",
    "build.gradle",
    "build.gradle.kts",
    "GNUmakefile",
    "makefile",
    "Makefile",
];

const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
const DOTNET: [&str; 5] = [".sln", ".slnx", ".csproj", ".fsproj", ".vbproj"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Environment {
    Flutter,
    Rust,
    Go,
    Node,
    Python,
    Java,
    Dotnet,
    /// Nothing of the above; a Makefile may know how to test it.
    Generic,
}

impl Environment {
    /// In this order: a Flutter or Rust project often has a `package.json` for its tools, seldom the other way round.
    const ALL: [Self; 8] = [
        Self::Flutter,
        Self::Rust,
        Self::Go,
        Self::Node,
        Self::Python,
        Self::Java,
        Self::Dotnet,
        Self::Generic,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Flutter => "flutter",
            Self::Rust => "rust",
            Self::Go => "go",
            Self::Node => "node",
            Self::Python => "python",
            Self::Java => "java",
            Self::Dotnet => "dotnet",
            Self::Generic => "generic",
        }
    }

    fn is_here(self, signals: &Signals<'_>) -> bool {
        let any = |names: &[&str]| signals.first(names).is_some();
        match self {
            Self::Flutter => any(&["pubspec.yaml"]),
            Self::Rust => any(&["Cargo.toml"]),
            Self::Go => any(&["go.mod"]),
            Self::Node => any(&["package.json"]),
            Self::Python => any(&["pyproject.toml", "requirements.txt"]),
            Self::Java => any(&["gradlew", "build.gradle", "build.gradle.kts", "pom.xml"]),
            Self::Dotnet => DOTNET.iter().any(|ending| signals.has_ending(ending)),
            Self::Generic => any(&MAKEFILES),
        }
    }

    fn commands(self, signals: &Signals<'_>) -> Vec<String> {
        match self {
            Self::Flutter => flutter(&signals.text("pubspec.yaml")),
            Self::Rust => words(&[
                "cargo fmt --check",
                "cargo clippy --all-targets -- -D warnings",
                "cargo test",
            ]),
            Self::Go => words(&["test -z \"$(gofmt -l .)\"", "go vet ./...", "go test ./..."]),
            Self::Node => node(signals),
            Self::Python => python(signals),
            Self::Java => java(signals),
            Self::Dotnet => words(&["dotnet build --nologo", "dotnet test --nologo"]),
            Self::Generic => make(signals),
        }
    }
}

/// The default profile of a repository, named after its environment. `None`: nothing is known, and nothing never passes.
pub fn detect(signals: &Signals<'_>) -> Option<Profile> {
    let found = Environment::ALL.into_iter().find(|one| one.is_here(signals))?;
    let commands = found.commands(signals);
    (!commands.is_empty()).then(|| named(found, commands))
}

/// The profile of what the owner says this is; the generic one, where nothing is known to check it by.
pub fn detect_as(word: &str, signals: &Signals<'_>) -> Profile {
    let found = Environment::ALL.into_iter().find(|one| one.word() == word);
    let commands = found.map(|found| (found, found.commands(signals)));
    match commands {
        Some((found, commands)) if !commands.is_empty() => named(found, commands),
        Some(_) | None => generic(),
    }
}

/// Can it be found again where files are asked for by name, as in a commit?
pub fn has_fixed_names(profile: &Profile) -> bool {
    profile.name != Environment::Dotnet.word()
}

fn named(environment: Environment, commands: Vec<String>) -> Profile {
    if environment == Environment::Generic {
        return Profile { commands, ..generic() };
    }
    let word = environment.word();
    Profile {
        name: word.to_owned(),
        description: format!("What a {word} repository checks before a task is done"),
        commands,
        environment: Some(word.to_owned()),
        platform: Platform::Any,
    }
}

/// For a repository that is nothing that we know; the owner puts their own commands in.
pub fn generic() -> Profile {
    Profile {
        name: Environment::Generic.word().to_owned(),
        description: "Put your own checks here".to_owned(),
        commands: words(&["make test"]),
        environment: None,
        platform: Platform::Any,
    }
}

fn words(commands: &[&str]) -> Vec<String> {
    commands.iter().map(|&command| command.to_owned()).collect()
}

/// By lock file; without one by the field that corepack goes by.
fn node_runner(signals: &Signals<'_>, package: &Value) -> &'static str {
    let manager = package["packageManager"].as_str().unwrap_or_default();
    let manager = manager.split('@').next().unwrap_or_default();
    let locks = ["pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb", "package-lock.json"];
    match (signals.first(&locks), manager) {
        (Some("pnpm-lock.yaml"), _) | (None, "pnpm") => "pnpm run",
        (Some("yarn.lock"), _) | (None, "yarn") => "yarn run",
        (Some("bun.lock" | "bun.lockb"), _) | (None, "bun") => "bun run",
        (Some(_) | None, _) => "npm run",
    }
}

/// Only scripts that are there; npm's placeholder for a missing test is none.
fn node(signals: &Signals<'_>) -> Vec<String> {
    let package: Value =
        serde_json::from_str(signals.text("package.json").trim_start_matches('\u{feff}'))
            .unwrap_or_default();
    let runner = node_runner(signals, &package);
    let script = |name: &&str| {
        package["scripts"][*name].as_str().is_some_and(|text| !text.contains("no test specified"))
    };
    let wanted = ["typecheck", "lint", "test", "build"];
    wanted.iter().filter(|name| script(name)).map(|name| format!("{runner} {name}")).collect()
}

fn python(signals: &Signals<'_>) -> Vec<String> {
    let project = signals.text("pyproject.toml");
    let before = if signals.has("uv.lock") || project.contains("[tool.uv]") {
        "uv run "
    } else if signals.has("poetry.lock") || project.contains("[tool.poetry]") {
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

fn java(signals: &Signals<'_>) -> Vec<String> {
    if signals.has("gradlew") {
        words(&["./gradlew check"])
    } else if signals.first(&["build.gradle", "build.gradle.kts"]).is_some() {
        words(&["gradle check"])
    } else if signals.has("mvnw") {
        words(&["./mvnw --batch-mode --quiet verify"])
    } else {
        words(&["mvn --batch-mode --quiet verify"])
    }
}

/// The targets of a Makefile that are named after a check; in the file that make itself would take.
fn make(signals: &Signals<'_>) -> Vec<String> {
    let text = signals.first(&MAKEFILES).map(|name| signals.text(name)).unwrap_or_default();
    let target = |name: &str| {
        text.lines().any(|line| {
            line.split_once(':').is_some_and(|(names, rest)| {
                !rest.starts_with('=') && names.split_whitespace().any(|found| found == name)
            })
        })
    };
    // `check` is what GNU calls it; where there is `test`, that is meant.
    let wanted = ["lint", if target("test") { "test" } else { "check" }];
    let found: Vec<&str> = wanted.into_iter().filter(|name| target(name)).collect();
    // A linter alone tests nothing.
    let tests = found.iter().any(|name| *name != "lint");
    found.into_iter().filter(|_| tests).map(|name| format!("make {name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Files<'a> = &'a [(&'a str, &'a str)];

    fn with<T>(files: Files<'_>, look: impl FnOnce(&Signals<'_>) -> T) -> T {
        let names: Vec<String> = files.iter().map(|(name, _)| (*name).to_owned()).collect();
        let read = |wanted: &str| {
            files.iter().find(|(name, _)| *name == wanted).map(|(_, text)| (*text).to_owned())
        };
        look(&Signals { names: &names, read: &read })
    }

    fn found(files: Files<'_>) -> Option<Vec<String>> {
        with(files, detect).map(|profile| profile.commands)
    }

    // covers: AG-16
    #[test]
    fn each_environment_is_known_by_its_files() {
        let package = r#"{"scripts":{"test":"vitest","lint":"eslint .","dev":"vite"}}"#;
        for (lock, runner) in [
            ("pnpm-lock.yaml", "pnpm run"),
            ("yarn.lock", "yarn run"),
            ("bun.lock", "bun run"),
            ("bun.lockb", "bun run"),
            ("package-lock.json", "npm run"),
            ("x", "npm run"),
        ] {
            let commands = found(&[("package.json", package), (lock, "")]).unwrap();
            assert_eq!(commands, [format!("{runner} lint"), format!("{runner} test")]);
        }
        for (manager, runner) in
            [("pnpm@9.1.0", "pnpm run"), ("yarn@4", "yarn run"), ("bun@1", "bun run")]
        {
            let package = format!(r#"{{"packageManager":"{manager}","scripts":{{"test":"x"}}}}"#);
            assert_eq!(found(&[("package.json", &package)]).unwrap(), [format!("{runner} test")]);
            let locked = found(&[("package.json", &package), ("package-lock.json", "")]).unwrap();
            assert_eq!(locked, ["npm run test"], "what is locked is what is used");
        }
        for (files, name, first) in [
            (&[("Cargo.toml", "")][..], "rust", "cargo fmt --check"),
            (&[("go.mod", "")], "go", "test -z \"$(gofmt -l .)\""),
            (&[("pubspec.yaml", "flutter:\n")], "flutter", "flutter analyze"),
            (&[("pubspec.yaml", "name: x\n")], "flutter", "dart analyze"),
            (
                &[("pyproject.toml", "[tool.ruff]\n"), ("uv.lock", "")],
                "python",
                "uv run ruff check .",
            ),
            (&[("pyproject.toml", "[tool.uv]\n")], "python", "uv run pytest"),
            (&[("requirements.txt", "")], "python", "python3 -m pytest"),
            (&[("pyproject.toml", ""), ("poetry.lock", "")], "python", "poetry run pytest"),
            (&[("pyproject.toml", "[tool.poetry]\n")], "python", "poetry run pytest"),
            (&[("pom.xml", "")], "java", "mvn --batch-mode --quiet verify"),
            (&[("pom.xml", ""), ("mvnw", "")], "java", "./mvnw --batch-mode --quiet verify"),
            (&[("gradlew", "")], "java", "./gradlew check"),
            (&[("build.gradle.kts", "")], "java", "gradle check"),
            (&[("shop.sln", "")], "dotnet", "dotnet build --nologo"),
            (&[("shop.csproj", "")], "dotnet", "dotnet build --nologo"),
            (&[("Makefile", "all:\n\ttrue\ntest: all\n\ttrue\n")], "generic", "make test"),
            (&[("GNUmakefile", "lint check:\n\ttrue\n")], "generic", "make lint"),
        ] {
            let profile = with(files, detect).unwrap();
            assert_eq!(
                (profile.name.as_str(), profile.commands[0].as_str()),
                (name, first),
                "{files:?}"
            );
            let fixed = files.iter().all(|(file, _)| SIGNALS.contains(file));
            assert_eq!(fixed, has_fixed_names(&profile), "a daemon asks for names: {files:?}");
        }
    }

    // covers: AG-31
    #[test]
    fn nothing_found_is_nothing_and_no_pass() {
        assert_eq!(found(&[("README.md", "")]), None);
        let placeholder = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        assert_eq!(found(&[("package.json", placeholder)]), None);
        assert_eq!(found(&[("package.json", "{ not json")]), None);
        assert_eq!(found(&[("Makefile", "all:\n\ttrue\ntest := x\nlint:\n")]), None);
    }

    // covers: AG-02
    #[test]
    fn the_owners_word_on_what_it_is_counts() {
        let files = [("package.json", r#"{"scripts":{"test":"x"}}"#), ("requirements.txt", "")];
        assert_eq!(
            with(&files, |signals| detect_as("python", signals)).commands,
            ["python3 -m pytest"]
        );
        assert_eq!(with(&files, |signals| detect_as("cobol", signals)), generic());
        assert_eq!(with(&[("x", "")], |signals| detect_as("node", signals)), generic());
    }
}
