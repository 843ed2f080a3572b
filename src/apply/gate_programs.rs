//! Programs outside the repository that gates name (LP-34). They count as they were when an agent first started beside them; a
//! change waits for `agency trust`. It runs none of them.

use super::{ApplyError, EffectRunner};
use crate::model::{Digest, Spawn};
use crate::read::open_plain;
use crate::store::write_atomic;
use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

const FILE: &str = "gate-programs.json";
/// Of a larger program its size and times count.
const READ_MAX: u64 = 32 << 20;
/// Only root writes here.
const SYSTEM: [&str; 7] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/snap"];

type Known = BTreeMap<PathBuf, String>;

impl EffectRunner {
    /// Before an agent starts, what is not known yet is remembered; before a gate, it must be what was remembered.
    pub(super) fn check_programs(&self, spawn: &Spawn, gates: &[String]) -> Result<(), ApplyError> {
        let file = self.places.folder.join(FILE);
        let mut known = read(&file)?;
        let Some(command) = &spawn.command else {
            let before = known.len();
            for path in gates.iter().flat_map(|gate| self.programs(gate)) {
                let seen = fingerprint(&path);
                known.entry(path).or_insert(seen);
            }
            if known.len() > before {
                write(&file, &known)?;
            }
            return Ok(());
        };
        let changed = |path: &PathBuf| known.get(path).is_some_and(|was| *was != fingerprint(path));
        match self.programs(&command.line).into_iter().find(changed) {
            Some(path) => Err(ApplyError::GateProgram { path }),
            None => Ok(()),
        }
    }

    /// The owner trusts them as they are now.
    pub fn trust_programs(&self) -> io::Result<()> {
        match std::fs::remove_file(self.places.folder.join(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Files outside the repository that a command line names, by path or by way of `PATH`.
    fn programs(&self, line: &str) -> Vec<PathBuf> {
        let value = |name: &str| {
            let found = self.launcher.env.iter().find(|(known, _)| known == name);
            found.map_or("", |(_, value)| value.as_str())
        };
        let found = named(line, value("HOME"), value("PATH"));
        found.into_iter().filter(|path| !path.starts_with(&self.places.root)).collect()
    }
}

fn named(line: &str, home: &str, search: &str) -> Vec<PathBuf> {
    let words = line.split(|c: char| c.is_whitespace() || "\"'`();&|<>=".contains(c));
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    // A file that a line reads or writes is no program.
    let runs = |at: usize, path: &PathBuf| is_executable(path) || is_interpreted(&words[..at]);
    let found = words.iter().enumerate().filter(|(_, word)| !word.starts_with('-'));
    let found = found.filter_map(|(at, word)| Some((at, resolve(word, home, search)?)));
    let mut found: Vec<PathBuf> =
        found.filter(|(at, path)| runs(*at, path)).map(|(_, path)| path).collect();
    found.sort();
    found.dedup();
    found
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.mode() & 0o111 != 0)
}

/// The word before, options aside, is a program that runs what its argument names.
fn is_interpreted(before: &[&str]) -> bool {
    let last = before.iter().rev().find(|word| !word.starts_with('-')).copied().unwrap_or("");
    let name = last.rsplit('/').next().unwrap_or(last);
    let known =
        ["sh", "bash", "dash", "zsh", "node", "perl", "ruby", "php", "deno", "bun", "source", "."];
    known.contains(&name) || name.starts_with("python")
}

fn resolve(word: &str, home: &str, search: &str) -> Option<PathBuf> {
    let in_home = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|start| word.strip_prefix(start));
    let path = match in_home {
        Some(rest) => Path::new(home).join(rest),
        None if word.contains('/') => PathBuf::from(word),
        None => {
            let folders = search.split(':').filter(|folder| folder.starts_with('/'));
            folders.map(|folder| Path::new(folder).join(word)).find(|path| path.is_file())?
        }
    };
    let real = path.is_absolute().then(|| path.canonicalize().ok())??;
    let is_system = SYSTEM.iter().any(|folder| real.starts_with(folder));
    (!is_system && real.is_file()).then_some(real)
}

fn fingerprint(path: &Path) -> String {
    let Ok(meta) = path.metadata() else { return "gone".to_owned() };
    if meta.len() > READ_MAX {
        return format!("{} {} {}", meta.len(), meta.mtime(), meta.ctime());
    }
    let mut bytes = Vec::new();
    let read = open_plain(path).and_then(|file| file.take(READ_MAX).read_to_end(&mut bytes));
    read.map_or_else(|_| "unreadable".to_owned(), |_| Digest::of(&bytes).to_string())
}

fn read(file: &Path) -> Result<Known, ApplyError> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Known::new()),
        Err(source) => Err(ApplyError::Prepare { path: file.to_owned(), source }),
    }
}

fn write(file: &Path, known: &Known) -> Result<(), ApplyError> {
    let bytes = serde_json::to_vec_pretty(known).expect("BUG: paths and text");
    Ok(write_atomic(file, &bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    // covers: LP-34
    #[test]
    fn programs_are_found_by_path_home_and_search_path() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap();
        for name in ["one", "two", "three", "script", "log"] {
            fs::write(home.join(name), "").unwrap();
            let mode = if ["script", "log"].contains(&name) { 0o644 } else { 0o755 };
            fs::set_permissions(home.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let (at, search) = (|name: &str| home.join(name), format!("bin:{}", home.display()));
        let line = format!(
            "\"$HOME/one\" && X=1 {}/two --three; three no-such sh; sh -e ~/script >> ~/log",
            home.display()
        );
        let found = named(&line, home.to_str().unwrap(), &search);
        assert_eq!(found, [at("one"), at("script"), at("three"), at("two")]);
    }
}
