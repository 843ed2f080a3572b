//! Writes the files of a board beside what is there, and remembers what it did to which. It never writes through a link, and
//! a first time only looks whether everything can be written.

use super::super::super::exit::Refused;
use crate::clock;
use crate::model::{FileState, RelPath};
use crate::protocol::board::adapters::{self, Tool};
use crate::protocol::board::manifest::Manifest;
use crate::protocol::board::profile::Profile;
use crate::protocol::board::region::{self, Comments};
use crate::protocol::board::scaffold::{self, Existing, Part, Planned};
use crate::protocol::board::state;
use crate::read;
use crate::store::{self, Edited};
use std::path::Path;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(10);
/// The largest file of somebody's that gets a section of ours.
const TEXT_MAX: u64 = 8 << 20;

/// What is to be written.
pub(super) struct Order<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) profile: Option<&'a Profile>,
    pub(super) parts: &'a [Part],
    /// What may become of generated files that are there.
    pub(super) existing: Existing,
    pub(super) adapters: bool,
    pub(super) ci: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pen {
    /// Everything is read and worked out; nothing is written.
    Rehearsal,
    Ink,
}

pub(super) struct Scribe<'a> {
    root: &'a Path,
    pen: Pen,
    pub(super) done: Vec<(String, &'static str)>,
}

/// What became of a file that was not there before.
pub(super) const NEW: &str = "new";

impl<'a> Scribe<'a> {
    /// All of it, or nothing where a part of it cannot be written.
    pub(super) fn carry_out(root: &'a Path, order: &Order<'_>) -> anyhow::Result<Self> {
        Self { root, pen: Pen::Rehearsal, done: Vec::new() }.all(order)?;
        let mut scribe = Self { root, pen: Pen::Ink, done: Vec::new() };
        scribe.all(order)?;
        Ok(scribe)
    }

    /// One file alone.
    pub(super) fn replace(root: &'a Path, path: &str, text: &str) -> anyhow::Result<Self> {
        let mut scribe = Self { root, pen: Pen::Ink, done: Vec::new() };
        scribe.write(path, text, Existing::Regenerate)?;
        Ok(scribe)
    }

    fn all(&mut self, order: &Order<'_>) -> anyhow::Result<()> {
        for planned in scaffold::files(order.manifest, order.profile, order.parts) {
            self.plan(&planned, order)?;
        }
        if order.existing == Existing::Regenerate {
            let header = order.manifest.header();
            let renew = |old: &str| scaffold::with_header(old, &header);
            self.edit(state::PATH, |old| Ok(old.map(renew)))?;
            self.edit(scaffold::WORKFLOW, |old| Ok(old.map(renew)))?;
        }
        for folder in scaffold::folders(order.manifest, order.parts) {
            self.refuse_link(&folder)?;
            if self.pen == Pen::Ink {
                let is_new = self.root.join(&folder).symlink_metadata().is_err();
                super::super::folder(self.root, &folder)?;
                self.done.extend(is_new.then(|| (format!("{folder}/"), NEW)));
            }
        }
        if order.adapters {
            self.adapters(order.manifest)?;
        }
        if order.ci {
            let text = scaffold::workflow(&order.manifest.header());
            self.write(scaffold::WORKFLOW, &text, Existing::Keep)?;
        }
        Ok(())
    }

    fn refuse_link(&self, folder: &str) -> anyhow::Result<()> {
        let mut at = self.root.to_owned();
        for name in folder.split('/') {
            at.push(name);
            if at.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
                let at = at.display();
                return Err(Refused(format!("`{at}` is not a folder; nothing was changed")).into());
            }
        }
        Ok(())
    }

    /// A new file, or our own part of one that is there.
    fn plan(&mut self, planned: &Planned, order: &Order<'_>) -> anyhow::Result<()> {
        let (path, header) = (&planned.path, order.manifest.header());
        self.edit(path, |old| match (old, order.existing) {
            (None, _) => Ok(Some(planned.text.clone())),
            (Some(_), Existing::Keep) => Ok(None),
            (Some(old), Existing::Regenerate) => {
                let text = planned.onto(old, &header);
                text.map(Some).map_err(|torn| format!("`{path}`: {torn}"))
            }
        })
    }

    fn write(&mut self, path: &str, text: &str, existing: Existing) -> anyhow::Result<()> {
        self.edit(path, |old| match (old, existing) {
            (Some(_), Existing::Keep) => Ok(None),
            (None, _) | (Some(_), Existing::Regenerate) => Ok(Some(text.to_owned())),
        })
    }

    /// Changes one text file; what is not UTF-8 is left alone and told.
    fn edit(
        &mut self,
        path: &str,
        change: impl FnOnce(Option<&str>) -> Result<Option<String>, String>,
    ) -> anyhow::Result<()> {
        let rel = RelPath::new(path)?;
        let mut was_there = false;
        let new = |old: Option<&[u8]>| {
            was_there = old.is_some();
            let old = old
                .map(std::str::from_utf8)
                .transpose()
                .map_err(|_| format!("`{path}` is not UTF-8 text"))?;
            Ok::<_, String>(change(old)?.map(String::into_bytes))
        };
        if self.pen == Pen::Rehearsal {
            let old = self.look(&rel)?;
            new(old.as_deref()).map_err(Refused)?;
            return Ok(());
        }
        match store::edit(self.root, &rel, TEXT_MAX, WAIT, new) {
            Ok(Edited::Written) if was_there => self.done.push((path.to_owned(), "changed")),
            Ok(Edited::Written) => self.done.push((path.to_owned(), NEW)),
            Ok(Edited::Same) => {}
            Err(store::EditError::Refused(why)) => return Err(Refused(why).into()),
            Err(error) => return Err(Refused(error.to_string()).into()),
        }
        Ok(())
    }

    fn look(&self, path: &RelPath) -> anyhow::Result<Option<Vec<u8>>> {
        match read::read(self.root, path, TEXT_MAX, clock::now())?.state {
            FileState::Absent => Ok(None),
            FileState::Whole(file) => Ok(Some(file.bytes.to_vec())),
            FileState::Unreadable(odd) => {
                let why = format!("`{path}` is {}; wanted {}", odd.found, odd.wanted);
                Err(Refused(format!("{why}; nothing was changed (AG-22)")).into())
            }
        }
    }

    /// The chosen tool's file, and those of §22.3 that are here: each gets our section and keeps its own text.
    fn adapters(&mut self, manifest: &Manifest) -> anyhow::Result<()> {
        let root = self.root;
        let here = |path: &str| root.join(path).symlink_metadata().is_ok();
        let chosen = Tool::parse(&manifest.orchestrator).unwrap_or(Tool::Other);
        let besides = [(Tool::Cursor, ".cursor/rules"), (Tool::ClaudeCode, "CLAUDE.md")];
        let besides = besides.into_iter().filter(|(tool, path)| *tool != chosen && here(path));
        let tools: Vec<Tool> = [chosen].into_iter().chain(besides.map(|(tool, _)| tool)).collect();
        for tool in tools {
            let file = tool.file_here(here);
            if let Some(path) = self.place(file) {
                self.edit(&path, |old| {
                    let text = adapters::render(tool, manifest, old);
                    text.map(Some).map_err(|torn| format!("`{path}`: {torn}"))
                })?;
            }
            if tool == Tool::Aider {
                self.edit(adapters::AIDER_CONFIG, adapters::aider_config)?;
            }
        }
        if here(adapters::LEGACY_CURSOR)
            && let Some(path) = self.place(adapters::LEGACY_CURSOR)
        {
            let block = adapters::contract(manifest);
            self.edit(&path, |old| {
                let text = region::place(old, "", &block, Comments::Markdown);
                text.map(Some).map_err(|torn| format!("`{path}`: {torn}"))
            })?;
        }
        Ok(())
    }

    /// Where our section goes; a link that leads elsewhere is left alone and told.
    fn place(&mut self, path: &str) -> Option<String> {
        let inside = super::super::rules_file(self.root, path);
        if inside.is_none() {
            self.done.push((path.to_owned(), "a link"));
        }
        inside
    }

    pub(super) fn tell(&self) {
        for (path, what) in &self.done {
            anstream::println!("{what:<8} {path}");
        }
        if self.done.is_empty() {
            anstream::println!("nothing to change");
        }
        for (path, _) in self.done.iter().filter(|(_, what)| *what == "a link") {
            anstream::eprintln!(
                "note: `{path}` is a link to something that is no rules file of this repository, and was left alone; \
                 put `.kodingx/PROTOCOL.md` into what your tool reads yourself"
            );
        }
    }
}
