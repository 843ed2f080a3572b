//! New tasks, and finished ones moved to an archive file. The bytes of every other task, and of a moved one, stay the same.

use super::board::{Board, StateFile, eol};
use super::emit::{self, Layout, Long};
use super::read::mapping;
use super::scan::scan;
use super::yaml::Meaning;
use crate::model::RelPath;
use std::ops::Range;

/// A task that does not exist yet.
#[derive(Clone, Debug, Default)]
pub struct NewTask {
    pub id: String,
    pub kind: String,
    pub title: String,
    pub owner: String,
    pub description: Option<String>,
    pub priority: Option<String>,
    pub depends_on: Vec<String>,
    pub labels: Vec<String>,
    pub acceptance: Vec<String>,
    pub checklist: Vec<String>,
    pub derived_from: Option<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddFault {
    #[error("`{0}` matches nothing in `state`")]
    NotState(RelPath),
    #[error("there is already a task `{id}` ({at})")]
    Taken { id: String, at: String },
    #[error("the file would not read back as exactly what was asked")]
    Unproven,
    #[error("`{0}` is not done or rejected")]
    NotFinished(String),
    #[error("`{0}` is in the archive already")]
    There(String),
}

impl NewTask {
    fn meaning(&self) -> Meaning {
        let text = |text: &String| Meaning::Text(text.clone());
        let list = |items: &[String]| {
            (!items.is_empty()).then(|| Meaning::List(items.iter().map(text).collect()))
        };
        let fields = [
            ("id", Some(text(&self.id))),
            ("type", Some(text(&self.kind))),
            ("state", Some(Meaning::Text("todo".to_owned()))),
            ("owner", Some(text(&self.owner))),
            ("title", Some(text(&self.title))),
            ("description", self.description.as_ref().map(text)),
            ("priority", self.priority.as_ref().map(text)),
            ("depends_on", list(&self.depends_on)),
            ("labels", list(&self.labels)),
            ("acceptance", list(&self.acceptance)),
            ("checklist", list(&self.checklist)),
            ("derived_from", self.derived_from.as_ref().map(text)),
        ];
        Meaning::Map(
            fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect(),
        )
    }
}

/// The file with the new task at its end.
pub fn add(board: &Board, path: &RelPath, task: &NewTask) -> Result<Vec<u8>, AddFault> {
    if !board.config.is_state(path) {
        return Err(AddFault::NotState(path.clone()));
    }
    if let Some(at) = board.spot(&task.id) {
        return Err(AddFault::Taken { id: task.id.clone(), at });
    }
    let file = board.files.iter().find(|file| file.path == *path);
    let text = file.map_or("", |file| &file.text);
    let indent = file.and_then(last_indent).unwrap_or(0);
    let block = emit::item(&task.meaning(), Layout { eol: eol(text), indent, long: Long::Lines });
    let new = put(path, file, &format!("{}{block}{}", " ".repeat(indent), eol(text)));
    proven(board, path, &new, &task.id)
}

/// Both files after a finished task was moved from its own to `path`.
pub fn archive(
    board: &Board,
    id: &str,
    path: &RelPath,
) -> Result<[(RelPath, Vec<u8>); 2], AddFault> {
    if !board.config.is_state(path) {
        return Err(AddFault::NotState(path.clone()));
    }
    let finished = board.glance(id).filter(|task| task.state.is_terminal());
    let place =
        finished.and(board.place(id)).ok_or_else(|| AddFault::NotFinished(id.to_owned()))?;
    let file = &board.files[place.file];
    if file.path == *path {
        return Err(AddFault::There(id.to_owned()));
    }
    let range = content(file, place.item).ok_or(AddFault::Unproven)?;
    let (block, mut rest) = (&file.text[range.clone()], &file.text[range.end..]);
    // The blank lines that set it apart go with it.
    while let Some(next) = rest.strip_prefix("\r\n").or_else(|| rest.strip_prefix('\n')) {
        rest = next;
    }
    let old = format!("{}{rest}", &file.text[..range.start]);
    let target = board.files.iter().find(|file| file.path == *path);
    let same_indent = target.and_then(last_indent) == Some(indent_of(block));
    let new = put(path, target.filter(|_| same_indent), block);
    let new = match target {
        Some(target) if !same_indent => format!("{}{}", joint(&target.text), fenced(path, block)),
        Some(_) | None => new,
    };
    let moved =
        board.with(&file.path, old.clone().into_bytes()).with(path, new.clone().into_bytes());
    let same =
        moved.text(id).map(str::trim_end) == Some(block.trim_end()) && moved.len() == board.len();
    if same {
        Ok([(file.path.clone(), old.into_bytes()), (path.clone(), new.into_bytes())])
    } else {
        Err(AddFault::Unproven)
    }
}

/// The lines that are the task, without comments and blank lines after it.
fn content(file: &StateFile, item: usize) -> Option<Range<usize>> {
    let range = file.items.get(item)?.bytes.clone();
    let text = &file.text[range.clone()];
    let end = mapping(text).ok()?.span.end;
    let end = if text[..end].ends_with('\n') {
        end
    } else {
        text[end..].find('\n').map_or(text.len(), |at| end + at + 1)
    };
    Some(range.start..range.start + end)
}

fn last_indent(file: &StateFile) -> Option<usize> {
    let last = file.items.last()?;
    Some(indent_of(&file.text[last.bytes.clone()]))
}

fn indent_of(block: &str) -> usize {
    block.len() - block.trim_start_matches(' ').len()
}

/// After the file's last task, or in a new list at its end.
fn put(path: &RelPath, file: Option<&StateFile>, block: &str) -> String {
    let last = file.and_then(|file| Some((file, content(file, file.items.len().checked_sub(1)?)?)));
    match (last, file) {
        (Some((file, range)), _) => {
            let (before, after) = file.text.split_at(range.end);
            let gap = if before.ends_with('\n') { "" } else { eol(&file.text) };
            format!("{before}{gap}{}{block}{after}", eol(&file.text))
        }
        (None, Some(file)) => match empty_list(path, &file.text) {
            Some(line) => {
                format!("{}{block}{}", &file.text[..line.start], &file.text[line.end..])
            }
            None => format!("{}{}", joint(&file.text), fenced(path, block)),
        },
        (None, None) => fenced(path, block),
    }
}

/// The line of a bare file that says that there is no task: the first one takes its place.
fn empty_list(path: &RelPath, text: &str) -> Option<Range<usize>> {
    let mut at = 0;
    let mut lines = text.split_inclusive('\n').map(|line| {
        let start = at;
        at += line.len();
        (start..at, line.trim())
    });
    is_bare(path).then(|| lines.find(|(_, line)| *line == "[]").map(|(range, _)| range))?
}

fn is_bare(path: &RelPath) -> bool {
    [".yaml", ".yml"].iter().any(|ending| path.as_str().ends_with(ending))
}

/// The text, with one blank line at its end.
fn joint(text: &str) -> String {
    let eol = eol(text);
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { eol };
    let gap = if text.is_empty() { "" } else { eol };
    format!("{text}{end}{gap}")
}

fn fenced(path: &RelPath, block: &str) -> String {
    let eol = eol(block);
    let bare = is_bare(path);
    let end = if block.ends_with('\n') { "" } else { eol };
    if bare { block.to_owned() } else { format!("```yaml{eol}{block}{end}```{eol}") }
}

/// The new file has all the old tasks, byte for byte, and exactly this one more.
fn proven(board: &Board, path: &RelPath, text: &str, id: &str) -> Result<Vec<u8>, AddFault> {
    let after = board.with(path, text.as_bytes().to_vec());
    let before =
        board.files.iter().find(|file| file.path == *path).map_or(0, |file| file.items.len());
    let fits = scan(path, text).items.len() == before + 1
        && after.len() == board.len() + 1
        && after.glance(id).is_some()
        && board.glances().all(|task| {
            after.text(&task.id).map(str::trim_end) == board.text(&task.id).map(str::trim_end)
        });
    if fits { Ok(text.as_bytes().to_vec()) } else { Err(AddFault::Unproven) }
}
