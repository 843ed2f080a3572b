//! One YAML value that knows its bytes and lines. It refuses what a state file never needs; it knows no field.

use crate::model::clip;
use crate::model::yaml::{Mistake, usual_mistake, wanted_of};
use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle, options};
use std::ops::Range;

const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Node {
    /// From 1, in the text that was parsed.
    pub(super) line: u64,
    /// Where the value is written; what follows it (comments, blank lines) is not in it.
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Scalar { text: String, form: Form },
    List { items: Vec<Node>, style: StructureStyle },
    Map { entries: Vec<Entry>, style: StructureStyle },
}

/// How a scalar is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Quoted,
    /// `|` or `>`: whole lines.
    Block,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: u64,
    pub(super) key_span: Range<usize>,
    pub(super) value: Node,
}

/// What is wrong with a text, and on which of its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) line: u64,
    pub(super) found: String,
    pub(super) wanted: &'static str,
}

/// What a value means, without where and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    Null,
    Text(String),
    List(Vec<Meaning>),
    Map(Vec<(String, Meaning)>),
}

impl Node {
    pub(super) fn meaning(&self) -> Meaning {
        match &self.kind {
            Kind::Null => Meaning::Null,
            Kind::Scalar { text, .. } => Meaning::Text(text.clone()),
            Kind::List { items, .. } => Meaning::List(items.iter().map(Self::meaning).collect()),
            Kind::Map { entries, .. } => Meaning::Map(
                entries.iter().map(|entry| (entry.key.clone(), entry.value.meaning())).collect(),
            ),
        }
    }

    pub(super) fn entries(&self) -> Option<&[Entry]> {
        match &self.kind {
            Kind::Map { entries, .. } => Some(entries),
            Kind::Null | Kind::Scalar { .. } | Kind::List { .. } => None,
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::Null | Kind::List { .. } | Kind::Map { .. } => None,
        }
    }

    /// What it is, for a refusal.
    pub(super) fn words(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Scalar { text, .. } => format!("`{}`", clip(text, 60)),
            Kind::List { .. } => "a list".to_owned(),
            Kind::Map { .. } => "a mapping".to_owned(),
        }
    }
}

impl Meaning {
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => {
                entries.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            Self::Null | Self::Text(_) | Self::List(_) => None,
        }
    }

    pub(super) fn json(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Text(text) => text.clone().into(),
            Self::List(items) => items.iter().map(Self::json).collect(),
            Self::Map(entries) => serde_json::Value::Object(
                entries.iter().map(|(key, value)| (key.clone(), value.json())).collect(),
            ),
        }
    }
}

/// Reads one document. Indentation is strict, so that a line which begins an item never lies inside another value.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    let options = options! {
        strict_indentation: true,
        disallow_directives: true,
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut tree = Tree { text, open: Vec::new(), root: None, documents: 0 };
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) =
            next.map_err(|error| explain(text, error.marker().line() as u64, &error.info()))?;
        tree.take(event, span)?;
    }
    let empty = Node { line: 1, span: 0..0, kind: Kind::Null };
    Ok(tree.root.unwrap_or(empty))
}

fn explain(text: &str, line: u64, said: &str) -> Fault {
    match usual_mistake(text, line) {
        Some(Mistake { line, found, wanted }) => Fault { line, found, wanted },
        None => Fault { line, found: clip(said, 200), wanted: wanted_of(said) },
    }
}

struct Tree<'a> {
    text: &'a str,
    /// The collections that are open, outermost first.
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

struct Open {
    line: u64,
    start: usize,
    style: StructureStyle,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(String, u64, Range<usize>)> },
}

impl Tree<'_> {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's own enum, which may grow")]
    fn take(&mut self, event: Event, span: Span) -> Result<(), Fault> {
        let line = span.start.line() as u64;
        if let Some(found) = extra(&event) {
            return Err(fault(line, found, "plain values, each written out"));
        }
        let bytes = bytes(&span);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(fault(line, "a second document (`---`)", "one document"));
                }
            }
            Event::Scalar(text, style, ..) => {
                return self.add(scalar(self.text, text.into_owned(), style, line, bytes));
            }
            Event::SequenceStart(style, ..) => {
                self.start(line, bytes.start, style, Inside::List(Vec::new()))?;
            }
            Event::MappingStart(style, ..) => {
                let inside = Inside::Map { entries: Vec::new(), key: None };
                self.start(line, bytes.start, style, inside)?;
            }
            Event::SequenceEnd | Event::MappingEnd => return self.end(bytes.end),
            _ => {}
        }
        Ok(())
    }

    fn start(
        &mut self,
        line: u64,
        start: usize,
        style: StructureStyle,
        inside: Inside,
    ) -> Result<(), Fault> {
        if self.open.len() >= DEPTH_MAX {
            return Err(fault(line, "deeper nesting", "at most 64 levels"));
        }
        if let Some(Open { inside: Inside::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(fault(line, "a list or mapping as a key", "a word"));
        }
        self.open.push(Open { line, start, style, inside });
        Ok(())
    }

    fn end(&mut self, event_end: usize) -> Result<(), Fault> {
        let Some(Open { line, start, style, inside }) = self.open.pop() else { return Ok(()) };
        let (last, kind) = match inside {
            Inside::List(items) => {
                (items.last().map(|item| item.span.end), Kind::List { items, style })
            }
            Inside::Map { entries, .. } => {
                let last = entries.last().map(|entry| entry.value.span.end);
                (last, Kind::Map { entries, style })
            }
        };
        // A block collection ends where its last value does; what the parser skipped afterwards is not in it.
        let end = match style {
            StructureStyle::Flow => event_end,
            StructureStyle::Block => last.unwrap_or(start),
        };
        self.add(Node { line, span: start..end, kind })
    }

    /// Puts a finished node where it belongs: a key, a value, an item, or the whole document.
    fn add(&mut self, node: Node) -> Result<(), Fault> {
        let Some(Open { inside, .. }) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match inside {
            Inside::List(items) => items.push(node),
            Inside::Map { entries, key } => match key.take() {
                None => *key = Some(read_key(node, entries)?),
                Some((key, line, key_span)) => {
                    entries.push(Entry { key, line, key_span, value: node });
                }
            },
        }
        Ok(())
    }
}

fn read_key(node: Node, entries: &[Entry]) -> Result<(String, u64, Range<usize>), Fault> {
    let line = node.line;
    let Kind::Scalar { text: key, .. } = node.kind else {
        return Err(fault(line, "an empty key", "a word"));
    };
    if let Some(first) = entries.iter().find(|entry| entry.key == key) {
        let found = format!(
            "the key `{}` a second time (first {} lines above)",
            clip(&key, 60),
            line - first.line
        );
        return Err(Fault { line, found, wanted: "each key once" });
    }
    Ok((key, line, node.span))
}

fn scalar(all: &str, text: String, style: ScalarStyle, line: u64, span: Range<usize>) -> Node {
    let form = match style {
        ScalarStyle::Plain => Form::Plain,
        ScalarStyle::Literal | ScalarStyle::Folded => Form::Block,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => Form::Quoted,
    };
    if form == Form::Plain && (span.is_empty() || matches!(text.as_str(), "" | "~" | "null")) {
        return Node { line, span, kind: Kind::Null };
    }
    let span = if form == Form::Block { span.start..block_end(all, &span) } else { span };
    Node { line, span, kind: Kind::Scalar { text, form } }
}

/// Where the lines of a block scalar end. Blank lines after it belong to it only when it keeps them (`|+`).
fn block_end(all: &str, span: &Range<usize>) -> usize {
    let head = all[..span.start].trim_end().lines().next_back().unwrap_or_default();
    let keeps =
        head.split_whitespace().any(|mark| mark.starts_with(['|', '>']) && mark.contains('+'));
    let body = &all[span.start..span.end];
    let kept = if keeps {
        body.rfind('\n').map_or(body.len(), |at| at + 1)
    } else {
        body.trim_end().len()
    };
    span.start + kept
}

/// Anchors, aliases and tags: a small file could mean a huge tree, or another type than it shows.
fn extra(event: &Event) -> Option<&'static str> {
    if event.is_alias() {
        Some("an alias (`*name`)")
    } else if event.anchor_id().is_some() {
        Some("an anchor (`&name`)")
    } else {
        event.tag().map(|_| "a tag (`!name`)")
    }
}

fn bytes(span: &Span) -> Range<usize> {
    let at = |marker: &granit_parser::Marker| {
        marker.byte_offset().expect("BUG: text in memory has byte offsets")
    };
    at(&span.start)..at(&span.end)
}

fn fault(line: u64, found: &str, wanted: &'static str) -> Fault {
    Fault { line, found: found.to_owned(), wanted }
}
