//! The environment as a value, so that what depends on it can be tested. It reads no file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Environment variables. One that is empty counts as not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<OsString, OsString>);

impl Env {
    pub fn of_this_process() -> Self {
        std::env::vars_os().collect()
    }

    /// Every name that is plain text.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter_map(|name| name.to_str())
    }

    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A path that a variable holds; a relative one would mean something else in each directory, and is not taken.
    pub fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.absolute("HOME")
    }

    /// An XDG base directory: the variable, else `default` below the home directory.
    pub fn base(&self, name: &str, default: &str) -> Option<PathBuf> {
        self.absolute(name).or_else(|| Some(self.home()?.join(default)))
    }

    /// `~` and `~/x` from `HOME`; other paths as they are. `None`: no home is known.
    pub fn expand(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix('~') {
            Some("") => self.home(),
            Some(rest) if rest.starts_with('/') => {
                Some(self.home()?.join(Path::new(rest.trim_start_matches('/'))))
            }
            _ => Some(PathBuf::from(path)),
        }
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Env {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn home_stands_for_the_tilde_only_at_the_start() {
        let env = Env::from_iter([("HOME", "/home/ann")]);
        assert_eq!(env.expand("~/src"), Some(PathBuf::from("/home/ann/src")));
        assert_eq!(env.expand("~"), Some(PathBuf::from("/home/ann")));
        assert_eq!(env.expand("~bob/src"), Some(PathBuf::from("~bob/src")));
        assert_eq!(env.expand("/a/~"), Some(PathBuf::from("/a/~")));
        assert_eq!(Env::default().expand("~/src"), None);
    }

    #[test]
    fn empty_and_relative_values_do_not_count() {
        let env = Env::from_iter([("HOME", "/h"), ("XDG_STATE_HOME", "rel"), ("EMPTY", "")]);
        assert_eq!(env.base("XDG_STATE_HOME", ".local/state"), Some("/h/.local/state".into()));
        assert_eq!(env.get("EMPTY"), None);
    }
}
