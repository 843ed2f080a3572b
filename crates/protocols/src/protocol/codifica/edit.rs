//! Changes one task's text and nothing else (CD-09): find the value's bytes, splice, read again, and prove that the meaning
//! changed by exactly the edit. It does not judge whether the edit is allowed.

use super::emit::{self, Layout, Long};
use super::read::mapping;
use super::yaml::{Entry, Form, Kind, Meaning, Node};
use granit_parser::StructureStyle::{Block, Flow};
use std::ops::Range;

/// One change of a task's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    Set {
        key: &'static str,
        value: Meaning,
    },
    Remove {
        key: &'static str,
    },
    /// One more entry of a list.
    Append {
        key: &'static str,
        item: Meaning,
    },
}

/// Why a task's text cannot be edited by us. Nothing was changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditFault {
    #[error("line {line} of the task cannot be read: {found}")]
    Unreadable { line: u64, found: String },
    #[error("`{key}` is written in a form that cannot be changed without touching other lines")]
    Form { key: String },
    #[error("the edit would not read back as exactly what was asked")]
    Unproven,
}

/// The order in which the protocol lists its fields; new ones are put where they belong.
const ORDER: [&str; 21] = [
    "id",
    "type",
    "state",
    "owner",
    "title",
    "description",
    "priority",
    "depends_on",
    "labels",
    "acceptance",
    "checklist",
    "derived_from",
    "context",
    "claimed_at",
    "execution_notes",
    "artifacts",
    "human_review",
    "completed_at",
    "blocked_reason",
    "blocked_by",
    "state_transitions",
];

/// The task's new text. `eol` is how the file ends its lines.
pub(super) fn apply(text: &str, edits: &[Edit], eol: &str) -> Result<String, EditFault> {
    let mut wanted = meaning(text)?;
    let mut now = text.to_owned();
    for edit in edits {
        change_meaning(&mut wanted, edit);
        now = splice(&now, edit, eol)?;
    }
    let proven = meaning(&now).is_ok_and(|meaning| same(&meaning, &wanted));
    if proven { Ok(now) } else { Err(EditFault::Unproven) }
}

fn parsed(text: &str) -> Result<Node, EditFault> {
    mapping(text).map_err(|fault| EditFault::Unreadable { line: fault.line, found: fault.found })
}

fn meaning(text: &str) -> Result<Meaning, EditFault> {
    parsed(text).map(|node| node.meaning())
}

/// Equal but for the order of fields.
pub(super) fn same(a: &Meaning, b: &Meaning) -> bool {
    match (a, b) {
        (Meaning::Map(a), Meaning::Map(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| {
                    b.iter().any(|(other, theirs)| key == other && same(value, theirs))
                })
        }
        (Meaning::List(a), Meaning::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (a, b) => a == b,
    }
}

/// The edit as it is meant.
pub(super) fn change_meaning(task: &mut Meaning, edit: &Edit) {
    let Meaning::Map(entries) = task else { return };
    let find =
        |entries: &[(String, Meaning)], key: &str| entries.iter().position(|(name, _)| name == key);
    match edit {
        Edit::Set { key, value } => match find(entries, key) {
            Some(at) => entries[at].1 = value.clone(),
            None => entries.push(((*key).to_owned(), value.clone())),
        },
        Edit::Remove { key } => entries.retain(|(name, _)| name != key),
        Edit::Append { key, item } => match find(entries, key).map(|at| &mut entries[at].1) {
            Some(Meaning::List(items)) => items.push(item.clone()),
            Some(other) => *other = Meaning::List(vec![item.clone()]),
            None => entries.push(((*key).to_owned(), Meaning::List(vec![item.clone()]))),
        },
    }
}

fn splice(text: &str, edit: &Edit, eol: &str) -> Result<String, EditFault> {
    let node = parsed(text)?;
    let Kind::Map { entries, style } = &node.kind else {
        return Err(EditFault::Form { key: "the task".to_owned() });
    };
    let task = Written { text, entries, indent: column(text, node.span.start), eol };
    let (range, new) = match (style, edit) {
        (Block, Edit::Set { key, value }) => task.set(key, value)?,
        (Block, Edit::Remove { key }) => task.remove(key)?,
        (Block, Edit::Append { key, item }) => task.append(key, item)?,
        (Flow, Edit::Set { key, value }) => task.flow_set(key, value)?,
        (Flow, Edit::Remove { key }) => task.flow_remove(key),
        (Flow, Edit::Append { key, item }) => task.flow_append(key, item)?,
    };
    Ok(format!("{}{new}{}", &text[..range.start], &text[range.end..]))
}

type Splice = (Range<usize>, String);

/// A task as it is written.
struct Written<'a> {
    text: &'a str,
    entries: &'a [Entry],
    /// Where its keys stand.
    indent: usize,
    eol: &'a str,
}

impl Written<'_> {
    fn find(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    fn layout(&self, long: Long) -> Layout<'_> {
        Layout { eol: self.eol, indent: self.indent, long }
    }

    fn set(&self, key: &str, value: &Meaning) -> Result<Splice, EditFault> {
        let Some(entry) = self.find(key) else { return Ok(self.insert(key, value)) };
        let inline = matches!(value, Meaning::Text(_));
        let flat = match &entry.value.kind {
            Kind::Scalar { form, .. } => *form != Form::Block,
            Kind::List { style, .. } | Kind::Map { style, .. } => *style == Flow,
            Kind::Null => false,
        };
        // A comment may follow on the same line.
        let new = emit::after_colon(value, self.layout(Long::Quoted));
        if inline && flat {
            return Ok((entry.value.span.clone(), new.trim_start().to_owned()));
        }
        let colon = self.colon(entry)?;
        let end = self.value_end(entry)?;
        // Lines of a block end with their line break, which stays.
        let end =
            if self.text[..end].ends_with('\n') { self.text[..end].trim_end().len() } else { end };
        Ok((colon..end.max(colon), new))
    }

    /// A new field, after the last one that the protocol lists before it.
    fn insert(&self, key: &str, value: &Meaning) -> Splice {
        let rank = |key: &str| ORDER.iter().position(|known| *known == key);
        let before = self
            .entries
            .iter()
            .rfind(|entry| rank(&entry.key).is_some_and(|at| Some(at) < rank(key)));
        let at =
            before.or(self.entries.last()).map_or(self.text.len(), |entry| self.line_end(entry));
        let layout = self.layout(self.long_at(at, self.indent));
        self.line_at(at, &emit::entry(key, value, layout), self.indent)
    }

    /// A comment that follows and stands deeper would become the last of the lines.
    fn long_at(&self, at: usize, indent: usize) -> Long {
        let next = self.text[at..].lines().find(|line| !line.trim().is_empty());
        let depth = next.map_or(0, |line| line.len() - line.trim_start_matches(' ').len());
        if depth > indent { Long::Quoted } else { Long::Lines }
    }

    /// A whole line put in at a place where a line begins, or after a last line that has no end.
    fn line_at(&self, at: usize, line: &str, indent: usize) -> Splice {
        let spaces = " ".repeat(indent);
        let begins = at == 0 || self.text[..at].ends_with('\n');
        let new = if begins {
            format!("{spaces}{line}{}", self.eol)
        } else {
            format!("{}{spaces}{line}", self.eol)
        };
        (at..at, new)
    }

    fn remove(&self, key: &str) -> Result<Splice, EditFault> {
        let Some(entry) = self.find(key) else { return Ok((0..0, String::new())) };
        let start = self.text[..entry.key_span.start].rfind('\n').map_or(0, |at| at + 1);
        if !self.text[start..entry.key_span.start].trim().is_empty() {
            return Err(EditFault::Form { key: key.to_owned() });
        }
        let end = self.line_end(entry);
        if self.text[..end].ends_with('\n') {
            return Ok((start..end, String::new()));
        }
        // The last line of a file without a last line break: the break before it goes instead.
        Ok((self.text[..start].trim_end_matches(['\r', '\n']).len()..end, String::new()))
    }

    fn append(&self, key: &str, item: &Meaning) -> Result<Splice, EditFault> {
        let Some(entry) = self.find(key) else {
            return Ok(self.insert(key, &Meaning::List(vec![item.clone()])));
        };
        match &entry.value.kind {
            Kind::List { items, style: Block } => {
                let at = items.first().and_then(|first| self.dash(first));
                let indent = at.ok_or_else(|| EditFault::Form { key: key.to_owned() })?;
                let at = self.line_end(entry);
                let long = self.long_at(at, indent);
                let line = emit::item(item, Layout { eol: self.eol, indent, long });
                Ok(self.line_at(at, &line, indent))
            }
            Kind::List { items, style: Flow } if !items.is_empty() => Ok(flow_item(items, item)),
            Kind::Null | Kind::List { .. } => {
                let list = Meaning::List(vec![item.clone()]);
                let colon = self.colon(entry)?;
                Ok((
                    colon..self.value_end(entry)?.max(colon),
                    emit::after_colon(&list, self.layout(Long::Quoted)),
                ))
            }
            Kind::Scalar { .. } | Kind::Map { .. } => Err(EditFault::Form { key: key.to_owned() }),
        }
    }

    /// The column of a list item's dash.
    fn dash(&self, item: &Node) -> Option<usize> {
        let start = if item.span.is_empty() { return None } else { item.span.start };
        let before = self.text[..start].trim_end_matches([' ', '\r', '\n']);
        let before = before.strip_suffix('-')?;
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        before[line..].bytes().all(|byte| byte == b' ').then_some(before.len() - line)
    }

    /// Just after the colon of a key.
    fn colon(&self, entry: &Entry) -> Result<usize, EditFault> {
        let rest = &self.text[entry.key_span.end..];
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let at = entry.key_span.end + spaces;
        if self.text[at..].starts_with(':') {
            Ok(at + 1)
        } else {
            Err(EditFault::Form { key: entry.key.clone() })
        }
    }

    /// Where the value ends; of nothing, where it would begin.
    fn value_end(&self, entry: &Entry) -> Result<usize, EditFault> {
        if entry.value.span.is_empty() { self.colon(entry) } else { Ok(entry.value.span.end) }
    }

    /// Where the next line after an entry begins, its comment included.
    fn line_end(&self, entry: &Entry) -> usize {
        let end = self.value_end(entry).unwrap_or(entry.key_span.end).max(entry.key_span.end);
        if self.text[..end].ends_with('\n') {
            return end;
        }
        self.text[end..].find('\n').map_or(self.text.len(), |at| end + at + 1)
    }

    fn flow_set(&self, key: &str, value: &Meaning) -> Result<Splice, EditFault> {
        match self.find(key) {
            Some(entry) if entry.value.span.is_empty() => {
                let colon = self.colon(entry)?;
                Ok((colon..colon, format!(" {}", emit::flow(value))))
            }
            Some(entry) => Ok((entry.value.span.clone(), emit::flow(value))),
            None => self.flow_insert(key, value),
        }
    }

    fn flow_insert(&self, key: &str, value: &Meaning) -> Result<Splice, EditFault> {
        let last = self.entries.last().ok_or_else(|| EditFault::Form { key: key.to_owned() })?;
        let at = self.value_end(last).unwrap_or(last.key_span.end);
        Ok((at..at, format!(", {}: {}", emit::flow_key(key), emit::flow(value))))
    }

    fn flow_append(&self, key: &str, item: &Meaning) -> Result<Splice, EditFault> {
        match self.find(key).map(|entry| &entry.value.kind) {
            Some(Kind::List { items, .. }) if !items.is_empty() => Ok(flow_item(items, item)),
            Some(Kind::Scalar { .. } | Kind::Map { .. }) => {
                Err(EditFault::Form { key: key.to_owned() })
            }
            None | Some(Kind::Null | Kind::List { .. }) => {
                self.flow_set(key, &Meaning::List(vec![item.clone()]))
            }
        }
    }

    fn flow_remove(&self, key: &str) -> Splice {
        let Some(at) = self.entries.iter().position(|entry| entry.key == key) else {
            return (0..0, String::new());
        };
        let end = |entry: &Entry| self.value_end(entry).unwrap_or(entry.key_span.end);
        let range = match (at.checked_sub(1), self.entries.get(at + 1)) {
            (_, Some(next)) => self.entries[at].key_span.start..next.key_span.start,
            (Some(before), None) => end(&self.entries[before])..end(&self.entries[at]),
            (None, None) => self.entries[at].key_span.start..end(&self.entries[at]),
        };
        (range, String::new())
    }
}

/// After the last item of a list in brackets.
fn flow_item(items: &[Node], item: &Meaning) -> Splice {
    let at = items.last().map_or(0, |last| last.span.end);
    (at..at, format!(", {}", emit::flow(item)))
}

fn column(text: &str, at: usize) -> usize {
    at - text[..at].rfind('\n').map_or(0, |line| line + 1)
}
