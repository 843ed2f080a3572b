//! All state files of a repository as they are at one moment: which tasks there are and where. Reading one task whole is
//! done on demand, so that a look costs what its lines cost. It judges nothing.

use super::config::Config;
use super::edit::{self, Edit, EditFault};
use super::finding::Finding;
use super::read;
use super::scan::{Item, List, scan};
use super::task::{Glance, Task};
use super::words::{Owner, State};
use super::yaml::{Fault, Meaning};
use crate::model::RelPath;
use std::collections::HashMap;
use std::sync::Arc;

/// One state file.
#[derive(Clone, Debug)]
pub struct StateFile {
    pub path: RelPath,
    pub text: Arc<str>,
    pub(super) items: Vec<Item>,
    pub(super) lists: Vec<List>,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(super) file: usize,
    pub(super) item: usize,
}

#[derive(Clone, Debug)]
pub struct Board {
    pub config: Arc<Config>,
    pub files: Vec<StateFile>,
    tasks: Vec<(Glance, Place)>,
    by_id: HashMap<String, usize>,
    /// What could not be read, and ids that are there twice.
    pub problems: Vec<Finding>,
}

impl Board {
    /// The files in the order in which they are scanned.
    pub fn read(config: &Arc<Config>, files: Vec<(RelPath, Vec<u8>)>) -> Self {
        let mut board = Self {
            config: config.clone(),
            files: Vec::new(),
            tasks: Vec::new(),
            by_id: HashMap::new(),
            problems: Vec::new(),
        };
        for (path, bytes) in files {
            board.add_file(path, bytes);
        }
        board
    }

    fn add_file(&mut self, path: RelPath, bytes: Vec<u8>) {
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count() as u64;
                let finding =
                    Finding::violation("CD-02", &path, "bytes that are not UTF-8", "UTF-8 text");
                self.problems.push(finding.at(line));
                String::new()
            }
        };
        let scan = scan(&path, &text);
        for fault in &scan.faults {
            self.problems.push(problem(&path, 1, fault));
        }
        let file = self.files.len();
        self.files.push(StateFile {
            path,
            text: text.into(),
            items: scan.items,
            lists: scan.lists,
        });
        for item in 0..self.files[file].items.len() {
            self.add_task(Place { file, item });
        }
    }

    fn add_task(&mut self, place: Place) {
        let glance = match read::glance(self.text_at(place)) {
            Some(glance) => glance,
            None => match self.task_at(place) {
                Ok(task) => Glance::from(&task),
                Err(mut findings) => {
                    self.problems.append(&mut findings);
                    return;
                }
            },
        };
        if let Some(first) = self.by_id.get(&glance.id) {
            let other = self.tasks[*first].1;
            let found = format!("the id a second time (first in {})", self.where_is(other));
            let finding = Finding::violation(
                "CD-04",
                self.path_at(place),
                found,
                "each id once in all state files",
            );
            self.problems.push(finding.at(self.line_at(place)).of(&glance.id));
            return;
        }
        self.by_id.insert(glance.id.clone(), self.tasks.len());
        self.tasks.push((glance, place));
    }

    /// In file order.
    pub fn glances(&self) -> impl Iterator<Item = &Glance> {
        self.tasks.iter().map(|(glance, _)| glance)
    }

    pub(super) fn placed(&self) -> impl Iterator<Item = (&Glance, Place)> {
        self.tasks.iter().map(|(glance, place)| (glance, *place))
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub fn glance(&self, id: &str) -> Option<&Glance> {
        self.by_id.get(id).map(|at| &self.tasks[*at].0)
    }

    pub fn place(&self, id: &str) -> Option<Place> {
        self.by_id.get(id).map(|at| self.tasks[*at].1)
    }

    /// The whole task; what is wrong with its fields otherwise.
    pub fn task(&self, id: &str) -> Option<Result<Task, Vec<Finding>>> {
        self.place(id).map(|place| self.task_at(place))
    }

    pub(super) fn task_at(&self, place: Place) -> Result<Task, Vec<Finding>> {
        let mut faults = Vec::new();
        let task = read::mapping(self.text_at(place)).map(|node| read::read(&node, &mut faults));
        let (path, line) = (self.path_at(place), self.line_at(place));
        match task {
            Ok(Some(task)) if faults.is_empty() => Ok(task),
            Ok(task) => {
                let id = task.map(|task| task.id);
                let finding =
                    |fault: &Fault| Finding { task: id.clone(), ..problem(path, line, fault) };
                Err(faults.iter().map(finding).collect())
            }
            Err(fault) => Err(vec![problem(path, line, &fault)]),
        }
    }

    pub(super) fn text_at(&self, place: Place) -> &str {
        let file = &self.files[place.file];
        &file.text[file.items[place.item].bytes.clone()]
    }

    pub(super) fn line_at(&self, place: Place) -> u64 {
        self.files[place.file].items[place.item].line
    }

    pub(super) fn path_at(&self, place: Place) -> &RelPath {
        &self.files[place.file].path
    }

    pub(super) fn where_is(&self, place: Place) -> String {
        format!("{}:{}", self.path_at(place), self.line_at(place))
    }

    /// `file:line` of a task, for people.
    pub fn spot(&self, id: &str) -> Option<String> {
        self.place(id).map(|place| self.where_is(place))
    }

    pub fn held_by(&self, agent: &str) -> u64 {
        let held = |glance: &&Glance| {
            glance.state == State::InProgress && glance.owner == Owner::Agent(agent.to_owned())
        };
        self.glances().filter(held).count() as u64
    }

    /// The same board after an edit of one task, and the file that changed. Every other byte is proven to be the same.
    pub fn edited(&self, id: &str, edits: &[Edit]) -> Result<(RelPath, Vec<u8>), EditFault> {
        let place = self.place(id).ok_or(EditFault::Unproven)?;
        let file = &self.files[place.file];
        let range = file.items[place.item].bytes.clone();
        let new = edit::apply(&file.text[range.clone()], edits, eol(&file.text))?;
        let text = format!("{}{new}{}", &file.text[..range.start], &file.text[range.end..]);
        let rescan = scan(&file.path, &text);
        let grown =
            |at: usize| if at >= range.end { at - range.end + range.start + new.len() } else { at };
        let moved = |item: &Item| grown(item.bytes.start)..grown(item.bytes.end);
        let fits = rescan.items.len() == file.items.len()
            && rescan.items.iter().zip(&file.items).all(|(now, before)| now.bytes == moved(before));
        if fits { Ok((file.path.clone(), text.into_bytes())) } else { Err(EditFault::Unproven) }
    }

    /// This board with one file's bytes replaced or added.
    pub fn with(&self, path: &RelPath, bytes: Vec<u8>) -> Self {
        let mut files: Vec<_> = self
            .files
            .iter()
            .map(|file| (file.path.clone(), file.text.as_bytes().to_vec()))
            .collect();
        match files.iter_mut().find(|(known, _)| known == path) {
            Some(file) => file.1 = bytes,
            None => files.push((path.clone(), bytes)),
        }
        Self::read(&self.config, files)
    }

    pub(super) fn meaning_at(&self, place: Place) -> Option<Meaning> {
        read::mapping(self.text_at(place)).ok().map(|node| node.meaning())
    }

    /// All fields of a task as they stand, unknown ones included, for machines.
    pub fn json(&self, id: &str) -> Option<serde_json::Value> {
        self.meaning_at(self.place(id)?).map(|meaning| meaning.json())
    }

    /// The task's own lines, as they stand.
    pub fn text(&self, id: &str) -> Option<&str> {
        self.place(id).map(|place| self.text_at(place))
    }
}

/// How a file ends its lines.
pub(super) fn eol(text: &str) -> &'static str {
    let first = text.find('\n');
    if first.is_some_and(|at| text[..at].ends_with('\r')) { "\r\n" } else { "\n" }
}

fn problem(path: &RelPath, line: u64, fault: &Fault) -> Finding {
    let rule = if fault.wanted.starts_with("a closing") || fault.wanted.contains("list: each") {
        "CD-02"
    } else {
        "CD-03"
    };
    Finding::violation(rule, path, fault.found.clone(), fault.wanted).at(line + fault.line - 1)
}
