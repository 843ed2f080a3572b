//! All state files of a repository as they are at one moment: which tasks there are and where. Reading one task whole is
//! done on demand, so that a look costs what its lines cost. It judges nothing.

use super::config::Config;
use super::edit::{self, Edit, EditFault};
use super::finding::Finding;
use super::read;
use super::scan::{Item, List, scan, stray};
use super::task::{Glance, Task};
use super::words::{Owner, State};
use super::yaml::{Fault, Meaning};
use crate::model::{RelPath, other_encoding};
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
pub struct TaskPosition {
    pub(super) file: usize,
    pub(super) item: usize,
}

/// One place that an id stands at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Spot {
    path: RelPath,
    line: u64,
}

#[derive(Clone, Debug)]
pub struct Board {
    pub config: Arc<Config>,
    pub files: Vec<StateFile>,
    tasks: Vec<(Glance, TaskPosition)>,
    by_id: HashMap<String, usize>,
    /// Where each id stands, also in tasks and files that cannot be read.
    spots: HashMap<String, Vec<Spot>>,
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
            spots: HashMap::new(),
            problems: Vec::new(),
        };
        for (path, bytes) in files {
            board.add_file(path, bytes);
        }
        board
    }

    fn add_file(&mut self, path: RelPath, bytes: Vec<u8>) {
        let text = self.decoded(&path, bytes);
        let scan = scan(&path, &text);
        for fault in &scan.faults {
            self.problems.push(problem(&path, 1, fault));
        }
        for (id, line) in &scan.stray {
            self.take_id(id, &path, *line);
        }
        let file = self.files.len();
        self.files.push(StateFile {
            path,
            text: text.into(),
            items: scan.items,
            lists: scan.lists,
        });
        for item in 0..self.files[file].items.len() {
            self.add_task(TaskPosition { file, item });
        }
    }

    /// The text of a file; of one that is not UTF-8 only the ids are known, since it must not be written back.
    fn decoded(&mut self, path: &RelPath, bytes: Vec<u8>) -> String {
        let error = match String::from_utf8(bytes) {
            Ok(text) => return text,
            Err(error) => error,
        };
        let bytes = error.as_bytes();
        let valid = &bytes[..error.utf8_error().valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count() as u64;
        let found = other_encoding(bytes).unwrap_or("bytes that are not UTF-8");
        self.problems.push(Finding::violation("CD-02", path, found, "UTF-8 text").at(line));
        let mut ids = Vec::new();
        stray(&String::from_utf8_lossy(bytes), 1, &mut ids);
        for (id, line) in ids {
            self.take_id(&id, path, line);
        }
        String::new()
    }

    fn add_task(&mut self, place: TaskPosition) {
        let (glance, id) = match read::glance(self.text_at(place)) {
            Some(glance) => (Some(glance.clone()), glance.id),
            None => match self.task_at(place) {
                Ok(task) => (Some(Glance::from(&task)), task.id),
                Err(mut findings) => {
                    self.problems.append(&mut findings);
                    (None, self.written_id(place))
                }
            },
        };
        let (path, line) = (self.path_at(place).clone(), self.line_at(place));
        let first = id.is_empty() || self.take_id(&id, &path, line);
        if let Some(glance) = glance.filter(|_| first || !self.by_id.contains_key(&id)) {
            self.by_id.insert(id, self.tasks.len());
            self.tasks.push((glance, place));
        }
    }

    /// The id of a task that cannot be read whole; empty: it has none.
    fn written_id(&self, place: TaskPosition) -> String {
        let text = self.text_at(place);
        if let Ok(node) = read::mapping(text) {
            let task = read::read(&node, &mut Vec::new());
            return task.map(|task| task.id).unwrap_or_default();
        }
        let mut ids = Vec::new();
        stray(text, 1, &mut ids);
        ids.into_iter().next().map(|(id, _)| id).unwrap_or_default()
    }

    /// True for the first place of an id; each further one is a problem (CD-04).
    fn take_id(&mut self, id: &str, path: &RelPath, line: u64) -> bool {
        let spots = self.spots.entry(id.to_owned()).or_default();
        let first = spots.first().cloned();
        spots.push(Spot { path: path.clone(), line });
        let Some(Spot { path: known, line: at }) = first else { return true };
        let found = format!("the id a second time (first in {known}:{at})");
        let finding = Finding::violation("CD-04", path, found, "each id once in all state files");
        self.problems.push(finding.at(line).of(id));
        false
    }

    /// CD-04: an id that stands in several places is nobody's to change.
    pub(super) fn ambiguous(&self, id: &str) -> Option<Finding> {
        let spots = self.spots.get(id).filter(|spots| spots.len() > 1)?;
        let all: Vec<_> = spots.iter().map(|at| format!("{}:{}", at.path, at.line)).collect();
        let found = format!("the id in {} places: {}", all.len(), all.join(", "));
        let wanted = "each id once in all state files: give one of them another id first";
        let first = &spots[0];
        Some(Finding::violation("CD-04", &first.path, found, wanted).at(first.line).of(id))
    }

    /// Every item of every file, read or not, in file order.
    pub(super) fn places(&self) -> impl Iterator<Item = TaskPosition> {
        let files = self.files.iter().enumerate();
        files
            .flat_map(|(file, it)| (0..it.items.len()).map(move |item| TaskPosition { file, item }))
    }

    /// In file order.
    pub fn glances(&self) -> impl Iterator<Item = &Glance> {
        self.tasks.iter().map(|(glance, _)| glance)
    }

    pub(super) fn placed(&self) -> impl Iterator<Item = (&Glance, TaskPosition)> {
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

    pub fn place(&self, id: &str) -> Option<TaskPosition> {
        self.by_id.get(id).map(|at| self.tasks[*at].1)
    }

    /// The whole task; what is wrong with its fields otherwise.
    pub fn task(&self, id: &str) -> Option<Result<Task, Vec<Finding>>> {
        self.place(id).map(|place| self.task_at(place))
    }

    pub(super) fn task_at(&self, place: TaskPosition) -> Result<Task, Vec<Finding>> {
        match self.partly_at(place) {
            (Some(task), faults) if faults.is_empty() => Ok(task),
            (_, faults) => Err(faults),
        }
    }

    /// As much of a task as can be read, and what is wrong with its fields.
    pub(super) fn partly_at(&self, place: TaskPosition) -> (Option<Task>, Vec<Finding>) {
        let mut faults = Vec::new();
        let task = read::mapping(self.text_at(place)).map(|node| read::read(&node, &mut faults));
        let (path, line) = (self.path_at(place), self.line_at(place));
        match task {
            Ok(task) => {
                let id = task.as_ref().map(|task| task.id.clone()).filter(|id| !id.is_empty());
                let finding =
                    |fault: &Fault| Finding { task: id.clone(), ..problem(path, line, fault) };
                let findings = faults.iter().map(finding).collect();
                (task, findings)
            }
            Err(fault) => (None, vec![problem(path, line, &fault)]),
        }
    }

    pub(super) fn text_at(&self, place: TaskPosition) -> &str {
        let file = &self.files[place.file];
        &file.text[file.items[place.item].bytes.clone()]
    }

    pub(super) fn line_at(&self, place: TaskPosition) -> u64 {
        self.files[place.file].items[place.item].line
    }

    pub(super) fn path_at(&self, place: TaskPosition) -> &RelPath {
        &self.files[place.file].path
    }

    pub(super) fn where_is(&self, place: TaskPosition) -> String {
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

    /// The files that are not as the other board has them.
    pub fn changed_since(&self, other: &Self) -> Vec<(RelPath, Vec<u8>)> {
        let same = |file: &&StateFile| {
            other.files.iter().any(|old| old.path == file.path && old.text == file.text)
        };
        let changed = self.files.iter().filter(|file| !same(file));
        changed.map(|file| (file.path.clone(), file.text.as_bytes().to_vec())).collect()
    }

    pub(super) fn meaning_at(&self, place: TaskPosition) -> Option<Meaning> {
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
