//! The parts of a reading that are no settings: hooks, attributes, pointers to other places, submodules, programs in the tree.

use super::{CONFIG_MAX, DEPTH_MAX, Reader, Step, Unreadable};
use crate::guard::files::{children, read_start};
use crate::guard::view::Value;
use std::path::Path;

/// Of a program that is longer, its beginning counts.
const PROGRAM_MAX: u64 = 8 << 20;
/// What the hook says that `git lfs install` makes.
const LFS_PUSH: &[u8] = b"git lfs pre-push";
const MODULES_MAX: usize = 4096;

impl Reader<'_> {
    /// Every file of a folder of hooks, but git's own samples.
    pub(super) fn folder(&mut self, dir: &Path) -> Step {
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
        let bytes = read_start(file, PROGRAM_MAX)
            .map_err(|error| Unreadable(format!("`{name}` cannot be read: {error}")))?;
        let bytes = bytes.unwrap_or_default();
        let sends = |bytes: &[u8]| bytes.windows(LFS_PUSH.len()).any(|text| text == LFS_PUSH);
        self.reading.sends_lfs |= file.ends_with("pre-push") && sends(&bytes);
        self.reading.view.add(&name, "", Value::of_file(&bytes));
        Ok(())
    }

    /// Only lines that switch a driver on or off.
    pub(super) fn attributes(&mut self, file: &Path) -> Step {
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

    pub(super) fn whole(&mut self, file: &Path) -> Step {
        if let Some(text) = self.text(file, CONFIG_MAX)? {
            self.reading.view.add(&self.name(file), "", Value::of("", text.trim_end()));
        }
        Ok(())
    }

    /// Where the git directory is: a folder, or a file that leads to it.
    pub(super) fn dot_git(&mut self, path: &Path) -> Step {
        if path.is_dir() {
            let value = Value::of("", "a folder");
            self.reading.view.add(&self.name(path), "", value);
            return Ok(());
        }
        self.whole(path)
    }

    /// Git directories of submodules, wherever their names put them.
    pub(super) fn modules(&mut self, dir: &Path, depth: usize) -> Step {
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
    pub(super) fn programs_inside(&mut self) -> Step {
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
}
