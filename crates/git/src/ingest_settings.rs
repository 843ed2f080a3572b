//! What outside of a work tree says how git takes in its files: the owner's settings, and lists of what is converted or ignored.
//! It starts git only to ask for the settings, and only when one of their files changed.

use super::checkout::{is_old, stamp};
use super::patterns::{LIST_MAX, Patterns};
use super::{Call, GitError, Repo};
use agency_host::clock;
use agency_host::read::{Stamp, open_plain};
use agency_protocols::model::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Settings under which a file is more than its bytes, or a name more than its letters.
const ODD: &[(&str, bool)] = &[
    ("core.filemode", false),
    ("core.symlinks", false),
    ("core.ignorecase", true),
    ("core.precomposeunicode", true),
    ("core.protecthfs", true),
    ("core.sparsecheckout", true),
];

/// What git does to a file on its way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Conversion {
    /// It keeps the bytes.
    None,
    /// It changes line ends and `$Id$`, where a file has them.
    Text,
    /// Only git can tell.
    Any,
}

/// As it was read, and when.
pub(super) struct Ground {
    pub(super) conversion: Conversion,
    /// What is ignored everywhere.
    pub(super) ignored: Vec<Patterns>,
    files: Vec<(PathBuf, Option<Stamp>)>,
    at: Timestamp,
}

impl Ground {
    /// As long as its files stand as they were read, what they say stands too.
    pub(super) fn stands(&self) -> bool {
        let same = |(path, then): &(PathBuf, Option<Stamp>)| {
            is_old(*then, self.at) && stamp(path) == *then
        };
        self.files.iter().all(same)
    }
}

impl Repo {
    pub(super) async fn ingest_settings(&self) -> Result<Ground, GitError> {
        let at = clock::wall();
        // Their stamps before what they say: a change in between is seen at the next look.
        let mut files = stamped(self.places_of_settings());
        let call = Call::local("config").args(["--list", "--show-origin", "-z"]);
        let Listed { settings, origins, includes } = parse(&self.git(call).await?.stdout);
        let home = self.variable("HOME").map(PathBuf::from).unwrap_or_default();
        // One that is not there says something as soon as it comes.
        let includes = includes.iter().map(|(by, path)| included(&home, by, path));
        files.extend(stamped(origins.into_iter().chain(includes).collect()));
        let Some((excludes, attributes)) = self.lists(&settings) else {
            return Ok(Ground { conversion: Conversion::Any, ignored: Vec::new(), files, at });
        };
        files.extend(stamped(excludes.clone()));
        files.extend(stamped(attributes.clone()));
        let ignored = excludes.iter().map(|list| {
            read_list(list).map_or_else(Patterns::anything, |list| Patterns::parse(&list))
        });
        let conversions = attributes
            .iter()
            .map(|list| read_list(list).map_or(Conversion::Any, |list| conversion(&list)));
        let conversion = conversions.fold(asked(&settings), Conversion::max);
        Ok(Ground { conversion, ignored: ignored.collect(), files, at })
    }

    fn places_of_settings(&self) -> Vec<PathBuf> {
        let system = self.system_places("gitconfig");
        let named = ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].into_iter();
        let named = named.filter_map(|name| self.variable(name)).map(PathBuf::from);
        let home = self.variable("HOME").map(|home| Path::new(&home).join(".gitconfig"));
        let own = [self.0.common_dir.join("config"), self.0.git_dir.join("config.worktree")];
        let places = system.into_iter().chain(named).chain(home).chain(self.in_config("config"));
        places.chain(own).collect()
    }

    /// What is ignored and what is converted, by files outside of the tree. `None`: only git knows where one of them lies.
    fn lists(&self, settings: &BTreeMap<String, String>) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
        let mut excludes = self.named(settings, "core.excludesfile", "ignore")?;
        excludes.push(self.0.common_dir.join("info/exclude"));
        let mut attributes = self.named(settings, "core.attributesfile", "attributes")?;
        attributes.push(self.0.common_dir.join("info/attributes"));
        attributes.extend(self.system_places("gitattributes"));
        Some((excludes, attributes))
    }

    /// The file that a setting names, else the one of this name beside the owner's settings.
    fn named(
        &self,
        settings: &BTreeMap<String, String>,
        key: &str,
        name: &str,
    ) -> Option<Vec<PathBuf>> {
        let Some(path) = settings.get(key) else {
            return Some(self.in_config(name).into_iter().collect());
        };
        match path.strip_prefix("~/") {
            Some(rest) => Some(vec![Path::new(&self.variable("HOME")?).join(rest)]),
            None if path.is_empty() => Some(Vec::new()),
            None => path.starts_with('/').then(|| vec![path.into()]),
        }
    }

    fn in_config(&self, name: &str) -> Option<PathBuf> {
        let named = self.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        let home = || Some(Path::new(&self.variable("HOME")?).join(".config"));
        Some(named.or_else(home)?.join("git").join(name))
    }

    /// Git's own folder for the machine's settings depends on how it was built.
    fn system_places(&self, name: &str) -> Vec<PathBuf> {
        let prefix = self.0.git.program().parent().and_then(Path::parent);
        let beside = prefix.map(|prefix| prefix.join("etc").join(name));
        [Path::new("/etc").join(name)].into_iter().chain(beside).collect()
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        let mut found = self.0.git.env().iter().filter(|(found, _)| found == name);
        found.next().map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }
}

fn stamped(files: Vec<PathBuf>) -> Vec<(PathBuf, Option<Stamp>)> {
    files.into_iter().map(|path| (path.clone(), stamp(&path))).collect()
}

#[derive(Default)]
struct Listed {
    settings: BTreeMap<String, String>,
    /// The files that they stand in.
    origins: BTreeSet<PathBuf>,
    /// Files that others include: by which, and under which name.
    includes: Vec<(PathBuf, String)>,
}

/// `origin NUL key LF value NUL`, again and again. The last word on a key counts.
fn parse(output: &[u8]) -> Listed {
    let text = String::from_utf8_lossy(output);
    let mut fields = text.split('\0');
    let mut listed = Listed::default();
    while let (Some(origin), Some(setting)) = (fields.next(), fields.next()) {
        // A key without a value says yes.
        let (key, value) = setting.split_once('\n').unwrap_or((setting, "true"));
        listed.settings.insert(key.to_owned(), value.to_owned());
        let file = origin.strip_prefix("file:").map(PathBuf::from).filter(|f| f.is_absolute());
        let includes = key.starts_with("include") && key.ends_with(".path");
        listed.includes.extend(file.clone().filter(|_| includes).map(|by| (by, value.to_owned())));
        listed.origins.extend(file);
    }
    listed
}

fn included(home: &Path, by: &Path, path: &str) -> PathBuf {
    match path.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => by.parent().unwrap_or(by).join(path),
    }
}

fn asked(settings: &BTreeMap<String, String>) -> Conversion {
    let yes = |value: &String| {
        !["false", "no", "off", "0", ""].iter().any(|no| value.eq_ignore_ascii_case(no))
    };
    let odd =
        |(key, odd): &(&str, bool)| settings.get(*key).is_some_and(|value| yes(value) == *odd);
    // What counts on one branch only, no stamp tells.
    let by_branch = settings.keys().any(|key| key.starts_with("includeif.onbranch:"));
    if by_branch || ODD.iter().any(odd) {
        Conversion::Any
    } else if settings.get("core.autocrlf").is_some_and(yes) {
        Conversion::Text
    } else {
        Conversion::None
    }
}

/// `None`: it cannot be read. One that is not there says nothing.
fn read_list(file: &Path) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    match open_plain(file) {
        Ok(file) => file.take(LIST_MAX as u64 + 1).read_to_end(&mut text).ok().map(|_| text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(text),
        Err(_) => None,
    }
}

/// What a list of attributes may ask for. Only where these words stand does git run or decode anything.
pub(super) fn conversion(list: &[u8]) -> Conversion {
    let has = |word: &[u8]| list.windows(word.len()).any(|part| part == word);
    if list.len() > LIST_MAX || has(b"filter") || has(b"working-tree-encoding") {
        Conversion::Any
    } else if list.iter().all(u8::is_ascii_whitespace) {
        Conversion::None
    } else {
        Conversion::Text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_taken_from_what_git_lists() {
        let listed = parse(
            b"file:/home/o/.gitconfig\0core.autocrlf\ninput\0command line:\0core.bare\0\
              file:/home/o/.gitconfig\0include.path\nmore\0\
              file:/home/o/.gitconfig\0core.autocrlf\nfalse\0",
        );
        assert_eq!(listed.origins, [PathBuf::from("/home/o/.gitconfig")].into());
        let Listed { settings, includes, .. } = listed;
        assert_eq!(settings["core.autocrlf"], "false");
        assert_eq!(settings["core.bare"], "true");
        let (by, path) = &includes[0];
        assert_eq!(included(Path::new("/h"), by, path), Path::new("/home/o/more"));
        assert_eq!(included(Path::new("/h"), by, "~/x"), Path::new("/h/x"));
        assert_eq!(asked(&settings), Conversion::None);
    }

    #[test]
    fn a_setting_that_makes_more_of_a_file_than_its_bytes_is_known() {
        let asked = |key: &str, value: &str| asked(&[(key.to_owned(), value.to_owned())].into());
        assert_eq!(asked("core.autocrlf", "input"), Conversion::Text);
        assert_eq!(asked("core.filemode", "true"), Conversion::None);
        assert_eq!(asked("core.filemode", "False"), Conversion::Any);
        assert_eq!(asked("core.ignorecase", "true"), Conversion::Any);
        assert_eq!(asked("includeif.onbranch:x.path", "more"), Conversion::Any);
    }

    #[test]
    fn a_list_of_attributes_says_what_it_can_do() {
        assert_eq!(conversion(b"\n"), Conversion::None);
        assert_eq!(conversion(b"* text=auto\n"), Conversion::Text);
        assert_eq!(conversion(b"*.bin filter=lfs -text\n"), Conversion::Any);
        assert_eq!(conversion(b"[attr]x working-tree-encoding=UTF-16\n"), Conversion::Any);
    }
}
