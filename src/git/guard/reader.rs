//! Reads everything in a repository by which git runs, includes or redirects, and what git may read in its place.
//! It starts no process and judges nothing.

use super::config::{self, Entry};
use super::harmless;
use super::stamp::Stamp;
use super::view::{Value, View};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

const CONFIG_MAX: u64 = 1 << 20;
const PROGRAM_MAX: u64 = 8 << 20;
/// What the hook says that `git lfs install` makes.
const LFS_PUSH: &[u8] = b"git lfs pre-push";
/// As deep as git itself follows includes.
const DEPTH_MAX: usize = 10;
const MODULES_MAX: usize = 4096;

/// Where the repository lies, and its owner's home.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) root: PathBuf,
    pub(super) git_dir: PathBuf,
    pub(super) common_dir: PathBuf,
    pub(super) home: Option<PathBuf>,
    /// Where checked configuration is laid down for git.
    pub(super) vault: PathBuf,
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
    /// The owner's own hook sends what git-lfs keeps before a push.
    pub(super) sends_lfs: bool,
}

/// Why something cannot be read, for people.
pub(super) struct Unreadable(pub(super) String);

type Step = Result<(), Unreadable>;

pub(super) fn read(site: &Site) -> Result<Reading, Unreadable> {
    let mut reader = Reader { site, reading: Reading::default(), hooks: Vec::new() };
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
    fn lay_down(&mut self, main: Vec<Entry>, own: Option<Vec<Entry>>) {
        let asks = |entry: &Entry| {
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
    fn config(&mut self, file: &Path, depth: usize) -> Result<Option<Vec<Entry>>, Unreadable> {
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
                self.reading.commands.push(entry.text().to_owned());
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
        entry: Entry,
        depth: usize,
    ) -> Result<Option<Entry>, Unreadable> {
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
        entry.value = Some(self.site.vault.join(name).display().to_string());
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

    /// Every file of a folder of hooks, but git's own samples.
    fn folder(&mut self, dir: &Path) -> Step {
        self.stamp(dir);
        for file in children(dir) {
            let sample = file.extension().is_some_and(|ending| ending == "sample");
            if !sample && !file.is_dir() {
                self.program(&file)?;
            }
        }
        Ok(())
    }

    fn program(&mut self, file: &Path) -> Step {
        self.stamp(file);
        let name = self.name(file);
        let bytes = read_bytes(file, PROGRAM_MAX)
            .map_err(|error| Unreadable(format!("`{name}` cannot be read: {error}")))?;
        let bytes = bytes.unwrap_or_default();
        let sends = |bytes: &[u8]| bytes.windows(LFS_PUSH.len()).any(|text| text == LFS_PUSH);
        self.reading.sends_lfs |= file.ends_with("pre-push") && sends(&bytes);
        self.reading.view.add(&name, "", Value::of_file(&bytes));
        Ok(())
    }

    /// Only lines that switch a driver on or off.
    fn attributes(&mut self, file: &Path) -> Step {
        let name = self.name(file);
        let text = self.text(file, CONFIG_MAX)?.unwrap_or_default();
        let driver = |word: &str| {
            let word = word.trim_start_matches(['-', '!']);
            ["filter", "diff", "merge"].iter().any(|driver| word.starts_with(driver))
        };
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.iter().skip(1).any(|word| driver(word)) {
                self.reading.view.add(&name, "", Value::of("", &words.join(" ")));
            }
        }
        Ok(())
    }

    fn whole(&mut self, file: &Path) -> Step {
        if let Some(text) = self.text(file, CONFIG_MAX)? {
            self.reading.view.add(&self.name(file), "", Value::of("", text.trim_end()));
        }
        Ok(())
    }

    /// Where the git directory is: a folder, or a file that leads to it.
    fn dot_git(&mut self, path: &Path) -> Step {
        if path.is_dir() {
            let value = Value::of("", "a folder");
            self.reading.view.add(&self.name(path), "", value);
            return Ok(());
        }
        self.whole(path)
    }

    /// Git directories of submodules, wherever their names put them.
    fn modules(&mut self, dir: &Path, depth: usize) -> Step {
        self.stamp(dir);
        let found = children(dir);
        if depth > DEPTH_MAX || found.len() > MODULES_MAX {
            return Err(Unreadable(format!("`{}` holds too much", self.name(dir))));
        }
        for module in found.into_iter().filter(|path| path.is_dir()) {
            if !module.join("HEAD").exists() {
                self.modules(&module, depth + 1)?;
                continue;
            }
            self.module_config(&module.join("config"))?;
            self.folder(&module.join("hooks"))?;
            self.attributes(&module.join("info/attributes"))?;
            self.modules(&module.join("modules"), depth + 1)?;
        }
        Ok(())
    }

    /// It counts, but is no part of what git reads for the repository itself.
    fn module_config(&mut self, file: &Path) -> Step {
        let kept = (self.reading.branches.clone(), self.reading.files.clone());
        self.config(file, 0)?;
        (self.reading.branches, self.reading.files) = kept;
        Ok(())
    }

    /// A command of the owner's may name files that lie in the repository, where agents write.
    fn programs_inside(&mut self) -> Step {
        let mut files = Vec::new();
        for command in std::mem::take(&mut self.reading.commands) {
            let words = command.split(|c: char| c.is_whitespace() || "'\"|&;<>()`$=".contains(c));
            for (at, word) in words.filter(|word| !word.is_empty()).enumerate() {
                let path = self.site.root.join(self.expand(word).unwrap_or_default());
                // The first word without a slash is looked up in PATH, never here.
                if (at > 0 || word.contains('/')) && self.is_inside(&path) {
                    files.push(path);
                }
            }
            self.reading.commands.push(command);
        }
        files.sort();
        files.dedup();
        for file in files {
            self.stamp(&file);
            if file.is_file() {
                self.program(&file)?;
            }
        }
        Ok(())
    }

    fn is_inside(&self, path: &Path) -> bool {
        let found = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        [&self.site.root, &self.site.common_dir]
            .iter()
            .any(|dir| found.starts_with(dir) && found != **dir)
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

fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// `None` if there is none. Links are followed, as git follows them.
fn read_bytes(file: &Path, max: u64) -> io::Result<Option<Vec<u8>>> {
    let gone = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    match fs::metadata(file) {
        Ok(meta) if meta.is_file() => {}
        // Opening a pipe would wait for its writer.
        Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
        Err(error) if gone.contains(&error.kind()) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(file)?.take(max + 1).read_to_end(&mut bytes)?;
    if read as u64 > max { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(Some(bytes)) }
}
