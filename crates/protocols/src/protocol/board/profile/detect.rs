//! Which environments a repository has, by the files in its top folder, and what such a repository checks (spec 2 §10.2, AG-16).
//! A repository of several languages is checked in all of them; `unchecked.rs` names those that a profile leaves out (AG-42).

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
pub(super) enum Environment {
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
    /// Those that are a language, in the order in which their commands run and their names are joined.
    pub(super) const LANGUAGES: [Self; 7] =
        [Self::Flutter, Self::Rust, Self::Go, Self::Node, Self::Python, Self::Java, Self::Dotnet];

    fn parse(word: &str) -> Option<Self> {
        let mut all = Self::LANGUAGES.into_iter().chain([Self::Generic]);
        all.find(|one| one.word() == word)
    }

    pub(super) fn word(self) -> &'static str {
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
            Self::Dotnet => DOTNET.iter().any(|ending| signals.has_ending(ending)),
            Self::Generic => any(&MAKEFILES),
            Self::Flutter | Self::Rust | Self::Go | Self::Node | Self::Python | Self::Java => {
                any(self.markers())
            }
        }
    }

    /// The files that show it.
    pub(super) fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Flutter => &["pubspec.yaml"],
            Self::Rust => &["Cargo.toml"],
            Self::Go => &["go.mod"],
            Self::Node => &["package.json"],
            Self::Python => &["pyproject.toml", "requirements.txt"],
            Self::Java => &["gradlew", "build.gradle", "build.gradle.kts", "pom.xml"],
            Self::Dotnet => &["*.sln", "*.slnx", "*.csproj", "*.fsproj", "*.vbproj"],
            Self::Generic => &[],
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

/// The default profile of a repository, named after its environments. `None`: nothing is known, and nothing never passes.
pub fn detect(signals: &Signals<'_>) -> Option<Profile> {
    let here = Environment::LANGUAGES.into_iter().filter(|one| one.is_here(signals));
    let here: Vec<Environment> = here.collect();
    joined(&here, signals)
        .or_else(|| {
            let commands = make(signals);
            (!commands.is_empty()).then(|| named(&[Environment::Generic], commands))
        })
        .or_else(|| {
            // A repository with a `package.json` is Node (§10.2). npm says which script is missing, and that is no pass.
            let node = here.contains(&Environment::Node);
            node.then(|| named(&[Environment::Node], vec![format!("{} test", runner(signals))]))
        })
}

/// The profile of what the owner says this is, such as `python` or `node-python`; the generic one, where nothing is known to
/// check it by.
pub fn detect_as(word: &str, signals: &Signals<'_>) -> Profile {
    let said: Option<Vec<Environment>> = word.split('-').map(Environment::parse).collect();
    let found = said.and_then(|said| joined(&said, signals));
    found.or_else(|| detect(signals).filter(|found| found.name == word)).unwrap_or_else(generic)
}

/// The commands of all of these in one profile; environments without a command are left out.
fn joined(here: &[Environment], signals: &Signals<'_>) -> Option<Profile> {
    let checked: Vec<(Environment, Vec<String>)> = here
        .iter()
        .map(|one| (*one, one.commands(signals)))
        .filter(|(_, commands)| !commands.is_empty())
        .collect();
    let (here, commands): (Vec<Environment>, Vec<Vec<String>>) = checked.into_iter().unzip();
    (!here.is_empty()).then(|| named(&here, commands.concat()))
}

/// The names of profiles that `auto` means, best first: the one of all languages, then the one of a single language, which a
/// board may have from before.
pub fn auto_names(detected: &Profile) -> Vec<String> {
    let parts = detected.name.split('-').map(str::to_owned);
    let mut names = vec![detected.name.clone()];
    names.extend(parts.filter(|part| *part != detected.name));
    names
}

/// Can it be found again where files are asked for by name, as in a commit?
pub fn has_fixed_names(profile: &Profile) -> bool {
    profile.name.split('-').all(|word| word != Environment::Dotnet.word())
}

fn named(environments: &[Environment], commands: Vec<String>) -> Profile {
    if environments == [Environment::Generic] {
        return Profile { commands, ..generic() };
    }
    let words: Vec<&str> = environments.iter().map(|one| one.word()).collect();
    let (name, list) = (words.join("-"), words.join(" and "));
    Profile {
        description: format!("What a {list} repository checks before a task is done"),
        commands,
        environment: Some(name.clone()),
        name,
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

fn package(signals: &Signals<'_>) -> Value {
    let text = signals.text("package.json");
    serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_default()
}

fn runner(signals: &Signals<'_>) -> &'static str {
    node_runner(signals, &package(signals))
}

/// Only scripts that are there; npm's placeholder for a missing test is none.
fn node(signals: &Signals<'_>) -> Vec<String> {
    let package = package(signals);
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
        assert_eq!(found(&[("Makefile", "all:\n\ttrue\ntest := x\nlint:\n")]), None);
    }

    // covers: AG-16, AG-42, AG-31
    #[test]
    fn a_package_without_scripts_is_node_and_fails_by_the_script_that_is_missing() {
        let placeholder = r#"{"scripts":{"test":"echo \"Error: no test specified\" && exit 1"}}"#;
        for text in [placeholder, "{}", "{ not json"] {
            let profile = with(&[("package.json", text), ("yarn.lock", "")], detect).unwrap();
            assert_eq!(
                (profile.name.as_str(), &profile.commands[..]),
                ("node", &["yarn run test".to_owned()][..])
            );
            assert_eq!(
                with(&[("package.json", text), ("yarn.lock", "")], |s| detect_as("node", s)),
                profile
            );
        }
        let tested = [("package.json", "{}"), ("Makefile", "test:\n\ttrue\n")];
        assert_eq!(found(&tested).unwrap(), ["make test"], "what tests it is what is run");
    }

    // covers: AG-42
    #[test]
    fn a_repository_of_several_languages_is_checked_in_all_of_them() {
        let package = r#"{"scripts":{"test":"vitest"}}"#;
        let files = [("package.json", package), ("requirements.txt", ""), ("go.mod", "")];
        let profile = with(&files, detect).unwrap();
        assert_eq!(profile.name, "go-node-python");
        assert_eq!(profile.environment.as_deref(), Some("go-node-python"));
        for command in ["go test ./...", "npm run test", "python3 -m pytest"] {
            assert!(profile.commands.iter().any(|found| found == command), "{profile:?}");
        }
        assert_eq!(with(&files, |signals| detect_as("go-node-python", signals)), profile);
        assert_eq!(auto_names(&profile), ["go-node-python", "go", "node", "python"]);
        // Tools of another language without a script of their own are no language to check.
        let tools = [("package.json", "{}"), ("Cargo.toml", "")];
        assert_eq!(with(&tools, detect).unwrap().name, "rust");
        let dotnet = with(&[("shop.sln", ""), ("package.json", package)], detect).unwrap();
        assert!(dotnet.name == "node-dotnet" && !has_fixed_names(&dotnet), "{dotnet:?}");
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
        assert_eq!(with(&files, |signals| detect_as("node-cobol", signals)), generic());
    }
}
