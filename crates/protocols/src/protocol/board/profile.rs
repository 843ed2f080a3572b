//! DoD profiles (spec 2 §10): read and checked. `detect` finds one for a repository by its files. It runs nothing.

mod detect;
mod unchecked;

use super::front::Fields;
use crate::model::yaml::{self, quote};
use crate::model::{Digest, Rejection, RelPath, without_bom};
pub use detect::{SIGNALS, Signals, auto_names, detect, detect_as, generic, has_fixed_names};
pub use unchecked::{Unchecked, can_be_told, is_own, markers, matches, unchecked};

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
    let text = std::str::from_utf8(without_bom(bytes))
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
        if self.platform != Platform::Any {
            text.push_str(&format!("platform: {}\n", self.platform.word()));
        }
        text.push_str("commands:\n");
        for command in &self.commands {
            text.push_str(&format!("  - {}\n", quote(command)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
