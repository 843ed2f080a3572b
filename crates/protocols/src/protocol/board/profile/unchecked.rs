//! AG-42: languages of a repository that a profile does not check, by the files that show them and the programs that its commands
//! call. A command that calls none of these programs, such as `make test` or a script, may check anything, and nothing is said of it.

use super::Profile;
use super::detect::Environment;

/// How many are named.
const NAMED: usize = 20;
/// Folders whose files are somebody else's, or examples.
const ELSEWHERE: [&str; 15] = [
    "node_modules",
    "vendor",
    "third_party",
    "target",
    "dist",
    "build",
    "out",
    "venv",
    "env",
    "fixtures",
    "testdata",
    "test",
    "tests",
    "examples",
    "docs",
];

impl Environment {
    /// The programs that check it.
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Flutter => &["flutter", "dart"],
            Self::Rust => &["cargo", "cross"],
            Self::Go => &["go", "gofmt", "golangci-lint", "gotestsum"],
            Self::Node => &[
                "npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node", "deno", "tsc",
                "eslint", "vitest", "jest", "turbo", "nx",
            ],
            Self::Python => &[
                "python", "python3", "pytest", "uv", "poetry", "tox", "nox", "ruff", "mypy",
                "pipenv", "hatch", "pdm",
            ],
            Self::Java => &["gradle", "gradlew", "mvn", "mvnw"],
            Self::Dotnet => &["dotnet"],
            Self::Generic => &[],
        }
    }

    fn is_called_by(self, command: &str) -> bool {
        let mut words = command.split(|c: char| c.is_whitespace() || "();&|\"'`$".contains(c));
        words.any(|word| self.programs().contains(&word.rsplit('/').next().unwrap_or_default()))
    }
}

/// The names of files that show a language; `*.sln` means every name with that ending.
pub fn markers() -> Vec<String> {
    let all = Environment::LANGUAGES.into_iter().flat_map(Environment::markers);
    all.map(|name| (*name).to_owned()).collect()
}

/// May a file of this path show a language of this repository?
pub fn is_own(path: &str) -> bool {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.split('/').all(|name| !name.starts_with('.') && !ELSEWHERE.contains(&name))
}

/// Does this name match one of `markers`?
pub fn matches(name: &str, markers: &[String]) -> bool {
    markers.iter().any(|marker| match marker.strip_prefix('*') {
        Some(ending) => name.ends_with(ending),
        None => name == marker,
    })
}

/// Can it be told what this profile checks?
pub fn can_be_told(profile: &Profile) -> bool {
    let known = |command: &String| {
        Environment::LANGUAGES.into_iter().any(|language| language.is_called_by(command))
    };
    profile.commands.iter().all(known)
}

/// A sentence for each language that none of the commands checks. `files`: those of the repository that show languages.
pub fn unchecked(profile: &Profile, files: &[String]) -> Vec<Unchecked> {
    if !can_be_told(profile) {
        return Vec::new();
    }
    let checked = |language: Environment| {
        profile.commands.iter().any(|command| language.is_called_by(command))
    };
    let languages = Environment::LANGUAGES.into_iter().filter(|language| !checked(*language));
    let first = |language: Environment| {
        let names: Vec<String> = language.markers().iter().map(|name| (*name).to_owned()).collect();
        let shows = |path: &&String| {
            is_own(path) && matches(path.rsplit('/').next().unwrap_or_default(), &names)
        };
        let depth = |path: &&String| (path.matches('/').count(), (*path).clone());
        let file = files.iter().filter(shows).min_by_key(depth)?;
        Some(Unchecked {
            file: file.clone(),
            words: format!(
                "{} is here, and no command of the profile `{}` checks it",
                language.word(),
                profile.name
            ),
        })
    };
    languages.filter_map(first).take(NAMED).collect()
}

/// A language that is not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unchecked {
    /// The file that shows it.
    pub file: String,
    pub words: String,
}

impl Unchecked {
    /// For the artifact.
    pub fn note(&self) -> String {
        format!("`{}`: {} (AG-42)", self.file, self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Platform;
    use super::*;

    fn named(commands: &[&str], files: &[&str]) -> Vec<String> {
        let profile = Profile {
            name: "own".to_owned(),
            description: String::new(),
            commands: commands.iter().map(|&line| line.to_owned()).collect(),
            environment: None,
            platform: Platform::Any,
        };
        let files: Vec<String> = files.iter().map(|&path| path.to_owned()).collect();
        unchecked(&profile, &files).iter().map(Unchecked::note).collect()
    }

    // covers: AG-42
    #[test]
    fn a_language_that_no_command_checks_is_named_with_the_file_that_shows_it() {
        let files = ["pyproject.toml", "web/package.json", "web/admin/package.json", "api/go.mod"];
        assert_eq!(
            named(&["python3 -m pytest", "cd web && npm run test"], &files),
            ["`api/go.mod`: go is here, and no command of the profile `own` checks it (AG-42)"]
        );
        let both = named(&["uv run pytest"], &files);
        assert!(both.len() == 2 && both[1].starts_with("`web/package.json`: node"), "{both:?}");
        assert_eq!(
            named(&["go test ./...", "$(npm bin)/x", "./venv/bin/python -m x"], &files),
            [""; 0]
        );
    }

    #[test]
    fn nothing_is_said_of_scripts_and_of_what_is_somebody_elses() {
        assert_eq!(named(&["make test"], &["package.json", "go.mod"]), [""; 0]);
        assert_eq!(named(&["npm test", "./ci.sh"], &["package.json", "go.mod"]), [""; 0]);
        let elsewhere = ["node_modules/x/package.json", "tests/fixtures/go.mod", ".ci/Cargo.toml"];
        assert_eq!(named(&["pytest"], &elsewhere), [""; 0]);
        assert_eq!(named(&["pytest"], &["shop.sln"]).len(), 1);
    }
}
