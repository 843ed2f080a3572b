//! Reads everything in a repository by which git runs, includes or redirects, and what git may read in its place.
//! It starts no process and judges nothing.

mod around;

use super::config::{self, Setting};
use super::files::read_bytes;
use super::harmless;
use super::stamp::Stamp;
use super::view::{Value, View};
use agency_host::clock;
use agency_protocols::model::Timestamp;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const CONFIG_MAX: u64 = 1 << 20;
/// Sections whose commands our own git may start.
const STARTED: &[&str] = &["core", "credential", "filter", "merge", "remote"];
/// As deep as git itself follows includes.
const DEPTH_MAX: usize = 10;

/// Where the repository lies, and its owner's home.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) root: PathBuf,
    pub(super) git_dir: PathBuf,
    pub(super) common_dir: PathBuf,
    pub(super) home: Option<PathBuf>,
    /// Where checked configuration is laid down for git.
    pub(super) checked_git_dir: PathBuf,
}

/// One reading, with the stamps under which it was made.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) view: View,
    pub(super) branches: BTreeMap<String, String>,
    /// The configuration as it was read, for the vault.
    pub(super) files: BTreeMap<String, String>,
    /// Values that may name programs.
    pub(super) commands: Vec<String>,
    pub(super) stamps: Vec<(PathBuf, Stamp)>,
    /// When it was begun.
    pub(super) at: Timestamp,
    /// The owner's own hook sends what git-lfs keeps before a push.
    pub(super) sends_lfs: bool,
}

/// Why something cannot be read, for people.
pub(super) struct Unreadable(pub(super) String);

type Step = Result<(), Unreadable>;

pub(super) fn read(site: &Site) -> Result<Reading, Unreadable> {
    let reading = Reading { at: clock::wall(), ..Reading::default() };
    let mut reader = Reader { site, reading, hooks: Vec::new() };
    reader.read_all()?;
    Ok(reader.reading)
}

/// The settings of a `config.worktree` that count, for a work tree beside the one that is pinned.
pub(super) fn read_worktree_config(site: &Site, git_dir: &Path) -> Result<View, Unreadable> {
    let mut reader = Reader { site, reading: Reading::default(), hooks: Vec::new() };
    reader.config(&git_dir.join("config.worktree"), 0)?;
    Ok(reader.reading.view)
}

struct Reader<'a> {
    site: &'a Site,
    reading: Reading,
    /// Folders that `core.hooksPath` names.
    hooks: Vec<PathBuf>,
}

impl Reader<'_> {
    fn read_all(&mut self) -> Step {
        let Site { root, git_dir, common_dir, .. } = self.site.clone();
        let main = self.config(&common_dir.join("config"), 0)?.unwrap_or_default();
        let own = self.config(&git_dir.join("config.worktree"), 0)?;
        self.lay_down(main, own);
        self.hooks.push(common_dir.join("hooks"));
        for folder in std::mem::take(&mut self.hooks) {
            self.folder(&folder)?;
        }
        self.attributes(&common_dir.join("info/attributes"))?;
        let whole = ["info/grafts", "objects/info/alternates", "objects/info/http-alternates"];
        let whole = whole.map(|name| common_dir.join(name));
        let pointers = [git_dir.join("commondir"), git_dir.join("gitdir")];
        for file in whole.iter().chain(&pointers) {
            self.whole(file)?;
        }
        self.dot_git(&root.join(".git"))?;
        self.modules(&common_dir.join("modules"), 0)?;
        self.programs_inside()
    }

    /// The repository's own file, and the work tree's where it is switched on: git must not look for it by itself.
    fn lay_down(&mut self, main: Vec<Setting>, own: Option<Vec<Setting>>) {
        let asks = |entry: &Setting| {
            entry.key.kind() == ("extensions", "worktreeconfig")
                && !["false", "no", "off", "0", ""]
                    .iter()
                    .any(|no| entry.text().eq_ignore_ascii_case(no))
        };
        let own = own.filter(|_| main.iter().any(asks)).unwrap_or_default();
        let text =
            config::render(&main.into_iter().filter(|e| !asks(e)).chain(own).collect::<Vec<_>>());
        self.reading.files.insert("config".to_owned(), text);
    }

    /// What git may read in the place of this file; `None` if there is none.
    fn config(&mut self, file: &Path, depth: usize) -> Result<Option<Vec<Setting>>, Unreadable> {
        let name = self.name(file);
        let Some(text) = self.text(file, CONFIG_MAX)? else { return Ok(None) };
        let entries = config::parse(&text).map_err(|config::BadLine(line)| {
            Unreadable(format!("`{name}`: line {line} is not git configuration"))
        })?;
        let mut checked = Vec::new();
        for entry in entries {
            let setting = entry.key.to_string();
            if harmless::counts(&entry.key) {
                self.reading.view.add(&name, &setting, Value::of(&setting, entry.text()));
                if STARTED.contains(&entry.key.section.as_str()) {
                    self.reading.commands.push(entry.text().to_owned());
                }
            }
            match entry.key.kind() {
                ("include" | "includeif", "path") => {
                    checked.extend(self.included(file, entry, depth)?);
                }
                // The work tree is named outright in every call.
                ("core", "worktree") => {}
                ("core", "hookspath") => {
                    let folder = self.expand(entry.text()).map(|path| self.site.root.join(path));
                    self.hooks.extend(folder.filter(|folder| *folder != self.site.root));
                }
                ("branch", "remote" | "pushremote") => {
                    self.reading.branches.insert(setting, entry.text().to_owned());
                    checked.push(entry);
                }
                _ => checked.push(entry),
            }
        }
        Ok(Some(checked))
    }

    /// An included file is checked like the one that names it, and laid down beside it.
    fn included(
        &mut self,
        by: &Path,
        entry: Setting,
        depth: usize,
    ) -> Result<Option<Setting>, Unreadable> {
        let near = by.parent().unwrap_or(by);
        // Somebody else's home, or git's own folder: the name is pinned, what lies there is not ours to read.
        let Some(path) = self.expand(entry.text()) else { return Ok(Some(entry)) };
        if depth == DEPTH_MAX {
            return Err(Unreadable(format!("`{}` includes too deeply", self.name(by))));
        }
        let Some(entries) = self.config(&near.join(path), depth + 1)? else { return Ok(None) };
        let name = format!("included-{}", self.reading.files.len());
        self.reading.files.insert(name.clone(), config::render(&entries));
        let mut entry = entry;
        entry.value = Some(self.site.checked_git_dir.join(name).display().to_string());
        entry.key.subsection = entry.key.subsection.map(|condition| anchored(&condition, near));
        Ok(Some(entry))
    }

    /// `~/` is the owner's home; other people's homes and git's own prefix are not followed.
    fn expand(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix('~') {
            Some(rest) => Some(self.site.home.as_ref()?.join(rest.strip_prefix('/')?)),
            None if path.starts_with("%(") => None,
            None => Some(PathBuf::from(path)),
        }
    }

    fn text(&mut self, file: &Path, max: u64) -> Result<Option<String>, Unreadable> {
        self.stamp(file);
        let bytes = read_bytes(file, max).map_err(|error| {
            Unreadable(format!("`{}` cannot be read: {error}", self.name(file)))
        })?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn stamp(&mut self, path: &Path) {
        self.reading.stamps.push((path.to_owned(), Stamp::of(path)));
    }

    /// As people know the file.
    fn name(&self, file: &Path) -> String {
        file.strip_prefix(&self.site.root).unwrap_or(file).display().to_string()
    }
}

/// A condition that is relative to the file it stands in, said without that file.
fn anchored(condition: &str, near: &Path) -> String {
    for kind in ["gitdir:", "gitdir/i:"] {
        if let Some(rest) = condition.strip_prefix(kind).and_then(|rest| rest.strip_prefix("./")) {
            return format!("{kind}{}/{rest}", near.display());
        }
    }
    condition.to_owned()
}
