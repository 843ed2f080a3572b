//! Finds the tasks of a state file by its lines alone: fenced YAML in Markdown, or a bare YAML list. It reads no value.
//!
//! With strict indentation no value of a list item may hold a line that begins at the item's own indent, so a line with a
//! dash there begins the next task. That makes a look at a file of ten thousand tasks as cheap as counting its lines.

use super::yaml::Fault;
use crate::model::RelPath;
use std::ops::Range;

/// One list of tasks: the inside of a fence, or a whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List {
    pub(super) bytes: Range<usize>,
    pub(super) line: u64,
}

/// One task's lines, up to the next task or the end of its list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) bytes: Range<usize>,
    /// From 1, in the file.
    pub(super) line: u64,
}

#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) lists: Vec<List>,
    pub(super) items: Vec<Item>,
    pub(super) faults: Vec<Fault>,
    /// Ids in text that holds tasks but cannot be split into them, with their lines: an id is taken there too (CD-04).
    pub(super) stray: Vec<(String, u64)>,
}

const BOM: &str = "\u{feff}";

pub(super) fn scan(path: &RelPath, text: &str) -> Scan {
    let start = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let mut scan = Scan::default();
    let is_yaml = [".yaml", ".yml"].iter().any(|ending| path.as_str().ends_with(ending));
    if is_yaml || (!fences(text, start, &mut scan) && is_bare(&text[start..])) {
        scan.faults.clear();
        scan.lists = vec![List { bytes: start..text.len(), line: 1 }];
    } else if scan.lists.is_empty() {
        unfenced(&text[start..], &mut scan);
    }
    for list in scan.lists.clone() {
        items(text, &list, &mut scan);
    }
    scan
}

/// A file without a fence that is a list of tasks as it stands.
fn is_bare(text: &str) -> bool {
    let first = text.lines().find(|line| is_content(line) && line.trim_end() != "---");
    first.is_some_and(|line| line.trim_start().starts_with("- id:"))
}

fn is_content(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with('#')
}

/// An open fence of Markdown.
struct Fence {
    mark: char,
    length: usize,
    yaml: bool,
    /// Of the line after it.
    start: usize,
    line: u64,
}

/// Finds the fenced YAML; true if there is any.
fn fences(text: &str, start: usize, scan: &mut Scan) -> bool {
    let (mut at, mut open) = (start, None::<Fence>);
    for (line, number) in text[start..].split_inclusive('\n').zip(1..) {
        let next = at + line.len();
        match &open {
            Some(fence) if closes(line, fence) => {
                if fence.yaml {
                    scan.lists.push(List { bytes: fence.start..at, line: fence.line });
                }
                open = None;
            }
            Some(_) => {}
            None => open = opens(line, next, number + 1),
        }
        at = next;
    }
    if let Some(fence) = open.filter(|fence| fence.yaml) {
        // Its tasks are read all the same: their ids are taken.
        scan.lists.push(List { bytes: fence.start..text.len(), line: fence.line });
        let found = "a fence that is never closed".to_owned();
        scan.faults.push(Fault { line: fence.line - 1, found, wanted: "a closing fence" });
        return true;
    }
    !scan.lists.is_empty()
}

/// At most three spaces, then at least three marks.
fn fence_marks(line: &str) -> Option<(char, usize, &str)> {
    let inner = line.trim_start_matches(' ');
    let mark = inner.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let rest = inner.trim_start_matches(mark);
    let length = inner.len() - rest.len();
    (line.len() - inner.len() <= 3 && length >= 3).then_some((mark, length, rest))
}

fn opens(line: &str, start: usize, number: u64) -> Option<Fence> {
    let (mark, length, rest) = fence_marks(line)?;
    if mark == '`' && rest.contains('`') {
        return None;
    }
    let word = rest.split_whitespace().next().unwrap_or_default();
    let yaml = ["yaml", "yml"].iter().any(|known| word.eq_ignore_ascii_case(known));
    Some(Fence { mark, length, yaml, start, line: number })
}

fn closes(line: &str, fence: &Fence) -> bool {
    fence_marks(line).is_some_and(|(mark, length, rest)| {
        mark == fence.mark && length >= fence.length && rest.trim().is_empty()
    })
}

/// Splits a list into its items. A fence that holds no list holds an example, and is prose.
fn items(text: &str, list: &List, scan: &mut Scan) {
    let (mut at, mut indent) = (list.bytes.start, None);
    let first = scan.items.len();
    for (line, number) in text[list.bytes.clone()].split_inclusive('\n').zip(list.line..) {
        let start = at;
        at += line.len();
        let inner = line.trim_start_matches(' ');
        let spaces = line.len() - inner.len();
        match indent {
            None if !is_content(line) || line.trim_end() == "---" => {}
            None if is_dash(inner) => {
                indent = Some(spaces);
                scan.items.push(Item { bytes: start..list.bytes.end, line: number });
            }
            None => {
                let rest = list.bytes.start..list.bytes.end;
                return other_than_list(&text[rest], list.line, number, scan);
            }
            Some(wanted) if spaces == wanted && is_dash(inner) => {
                if let Some(last) = scan.items[first..].last_mut() {
                    last.bytes.end = start;
                }
                scan.items.push(Item { bytes: start..list.bytes.end, line: number });
            }
            Some(_) => {}
        }
    }
}

fn is_dash(inner: &str) -> bool {
    inner
        .strip_prefix('-')
        .is_some_and(|rest| rest.starts_with([' ', '\n', '\r']) || rest.is_empty())
}

/// A block that is no list: tasks below a key such as `tasks:`, one task alone, or an example in prose.
fn other_than_list(text: &str, first: u64, line: u64, scan: &mut Scan) {
    let known = scan.stray.len();
    stray(text, first, &mut scan.stray);
    let starts = |sign: &&str| text.lines().any(|line| line.starts_with(*sign));
    let key = text.lines().zip(first..).find(|(line, _)| line.starts_with("tasks:"));
    let (line, found) = match key {
        Some((_, line)) => (line, "a mapping with the key `tasks:`"),
        None if scan.stray.len() > known || ["id:", "[{", "[ {"].iter().any(starts) => {
            (line, "tasks that are no list")
        }
        None => return,
    };
    let wanted = "a list: each task begins with `- id:`, without a key above it";
    scan.faults.push(Fault { line, found: found.to_owned(), wanted });
}

/// Tasks in Markdown outside of any fence are not prose.
fn unfenced(text: &str, scan: &mut Scan) {
    let mut lines = text.lines().zip(1..);
    let Some((_, line)) = lines.find(|(line, _)| line.trim_end() == "tasks:") else { return };
    stray(text, 1, &mut scan.stray);
    if !scan.stray.is_empty() {
        let found = "a mapping with the key `tasks:`, in no fence".to_owned();
        let wanted = "a list: each task begins with `- id:`, inside a ```yaml fence";
        scan.faults.push(Fault { line, found, wanted });
    }
}

/// Every line that names the id of a task, by its look alone.
pub(super) fn stray(text: &str, first: u64, found: &mut Vec<(String, u64)>) {
    for (line, number) in text.lines().zip(first..) {
        let rest = line.trim_start().strip_prefix('-').map(str::trim_start);
        let value = rest.and_then(|rest| rest.strip_prefix("id:")).unwrap_or_default();
        let value = value.split(" #").next().unwrap_or_default();
        let id = value.trim().trim_matches(['"', '\'']);
        if super::words::is_name(id) {
            found.push((id.to_owned(), number));
        }
    }
}
