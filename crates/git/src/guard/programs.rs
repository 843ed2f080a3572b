//! Which programs the owner's settings name, and where they lie: a namesake that is put into PATH later is not run.

use super::config;
use crate::refs::read_text;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub(super) const LFS: &str = "git-lfs";
/// Git starts these by itself.
const ALWAYS: [&str; 2] = [LFS, "ssh"];
const GLOBAL_MAX: u64 = 1 << 20;

/// The first word of each command, as far as PATH knows it.
pub(super) fn find(
    env: &[(OsString, OsString)],
    commands: &[String],
    home: Option<&Path>,
) -> BTreeMap<String, PathBuf> {
    let global = filters(env, home);
    let first = |command: &String| command.split_whitespace().next().map(str::to_owned);
    let named = commands.iter().chain(&global).filter_map(first);
    let names: BTreeSet<String> = named.chain(ALWAYS.map(str::to_owned)).collect();
    let plain = |name: &String| {
        name != "git" && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c))
    };
    let found = |name: String| Some((name.clone(), on_path(env, &name)?));
    names.into_iter().filter(plain).filter_map(found).collect()
}

fn on_path(env: &[(OsString, OsString)], name: &str) -> Option<PathBuf> {
    let path = variable(env, "PATH")?;
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| crate::command::is_program(file))
}

/// Commands of the filters in the owner's global settings, where `git lfs install` puts its own.
fn filters(env: &[(OsString, OsString)], home: Option<&Path>) -> Vec<String> {
    let files = match variable(env, "GIT_CONFIG_GLOBAL") {
        Some(file) => vec![PathBuf::from(file)],
        None => {
            let xdg = variable(env, "XDG_CONFIG_HOME").map(PathBuf::from);
            let xdg = xdg.or_else(|| home.map(|home| home.join(".config")));
            let own = home.map(|home| home.join(".gitconfig"));
            xdg.map(|dir| dir.join("git/config")).into_iter().chain(own).collect()
        }
    };
    let texts = files.iter().filter_map(|file| read_text(file, GLOBAL_MAX).ok().flatten());
    let entries = texts.filter_map(|text| config::parse(&text).ok()).flatten();
    let filters = entries.filter(|entry| entry.key.section == "filter");
    filters.filter_map(|entry| entry.value).collect()
}

/// The git that our git starts. `git add` asks it for the status of every repository inside the tree, which would run whatever
/// that one's settings say; it hears that there is nothing new. Filters of the owner's may ask it anything else.
pub(super) fn blind_git(real: &Path) -> String {
    let real = real.display().to_string().replace('\'', r"'\''");
    format!("#!/bin/sh\n[ \"$1\" = status ] && exit 0\nexec '{real}' \"$@\"\n")
}

pub(super) fn variable(env: &[(OsString, OsString)], name: &str) -> Option<OsString> {
    env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
}

/// A PATH with this folder before all others.
pub(super) fn in_front(dir: &Path, path: &OsStr) -> OsString {
    let dirs = std::iter::once(dir.to_owned()).chain(std::env::split_paths(path));
    std::env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
}
