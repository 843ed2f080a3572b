//! YAML text → a tree that knows its lines and byte spans, and edits that keep every byte outside a changed value. It knows no key.
//!
//! Refused: anchors, aliases, tags, directives, a second document, a key that is there twice, more than 64 levels.

mod mistake;

use super::clip;
use granit_parser::{Event, Parser, ScalarStyle, Span, options};
use std::collections::BTreeMap;
use std::ops::Range;

pub use mistake::{Mistake, usual_mistake, wanted_of};

const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Counted from 1 in the text that was parsed.
    pub line: u64,
    /// The bytes of a scalar or a flow collection; of a block collection only the start is meant.
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    /// `plain` text has no quotes: only that may be a number or a yes/no.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub line: u64,
    pub value: Node,
}

/// Why a text is not usable YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub line: u64,
    pub found: String,
    pub wanted: &'static str,
}

impl Node {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Kind::Null | Kind::Scalar { .. } | Kind::List(_) => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// What it is, for a refusal.
    pub fn words(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Scalar { text, .. } => format!("`{}`", clip(text, 60)),
            Kind::List(items) => format!("a list of {}", items.len()),
            Kind::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Reads one document. An empty one is `Null`.
pub fn parse(text: &str) -> Result<Node, Trouble> {
    let options = options! {
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
    Ok(tree.root.unwrap_or(Node { line: 1, span: 0..0, kind: Kind::Null }))
}

fn explain(text: &str, line: u64, said: &str) -> Trouble {
    match usual_mistake(text, line) {
        Some(Mistake { line, found, wanted }) => Trouble { line, found, wanted },
        None => Trouble { line, found: clip(said, 200), wanted: wanted_of(said) },
    }
}

/// Text as a YAML value that reads back as exactly this text, whatever is in it.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if needs_escape(c) => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// What YAML does not allow to stand there as it is, or takes for a line's end.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with the bytes of `span` replaced. A value that was left out gets a space before it.
pub fn splice(text: &str, span: &Range<usize>, value: &str) -> String {
    let (before, after) = (&text[..span.start], &text[span.end..]);
    let space = if span.is_empty() && before.ends_with(':') { " " } else { "" };
    format!("{before}{space}{value}{after}")
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
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: BTreeMap<String, u64>, key: Option<Key> },
}

/// A key whose value is awaited, and where it ends.
struct Key {
    text: String,
    line: u64,
    end: usize,
}

impl Tree<'_> {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Trouble> {
        let line = span.start.line() as u64;
        let bytes = span.byte_range().unwrap_or_default();
        if let Some(found) = extra(&event) {
            return Err(trouble(line, found, "plain values, each written out"));
        }
        match event {
            Event::DocumentStart(..) => self.start_document(line),
            Event::Scalar(text, style, ..) => {
                self.add(scalar(text.into_owned(), style, line, bytes))
            }
            Event::SequenceStart(..) => self.start(line, bytes.start, Inside::List(Vec::new())),
            Event::MappingStart(..) => {
                let (entries, seen) = (Vec::new(), BTreeMap::new());
                self.start(line, bytes.start, Inside::Map { entries, seen, key: None })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(bytes.end),
            // The parser's own enum may grow; whatever else it says has no place in the tree.
            Event::StreamStart | Event::StreamEnd | Event::DocumentEnd | _ => Ok(()),
        }
    }

    fn start_document(&mut self, line: u64) -> Result<(), Trouble> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        Err(trouble(line, "a second document (`---`)", "one document"))
    }

    fn start(&mut self, line: u64, start: usize, inside: Inside) -> Result<(), Trouble> {
        if self.open.len() >= DEPTH_MAX {
            return Err(trouble(line, "deeper nesting", "at most 64 levels"));
        }
        if let Some(Open { inside: Inside::Map { key: None, .. }, .. }) = self.open.last() {
            return Err(trouble(line, "a list or mapping as a key", "a word"));
        }
        self.open.push(Open { line, start, inside });
        Ok(())
    }

    fn end(&mut self, end: usize) -> Result<(), Trouble> {
        let Some(Open { line, start, inside }) = self.open.pop() else { return Ok(()) };
        let kind = match inside {
            Inside::List(items) => Kind::List(items),
            Inside::Map { entries, .. } => Kind::Map(entries),
        };
        self.add(Node { line, span: start..end.max(start), kind })
    }

    /// Puts a finished node where it belongs: a key, a value, an item, or the whole document.
    fn add(&mut self, node: Node) -> Result<(), Trouble> {
        let Some(Open { inside, .. }) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match inside {
            Inside::List(items) => items.push(node),
            Inside::Map { entries, seen, key } => match key.take() {
                None => *key = Some(read_key(node, seen)?),
                Some(key) => {
                    let value = Node { span: place_of(&node, self.text, key.end), ..node };
                    entries.push(Entry { key: key.text, line: key.line, value });
                }
            },
        }
        Ok(())
    }
}

/// A value that was left out has no place of its own: it belongs right after its key's colon.
fn place_of(node: &Node, text: &str, key_end: usize) -> Range<usize> {
    let colon = text.get(key_end..).and_then(|rest| rest.find(':'));
    match colon {
        Some(colon) if node.span.is_empty() => key_end + colon + 1..key_end + colon + 1,
        Some(_) | None => node.span.clone(),
    }
}

fn read_key(node: Node, seen: &mut BTreeMap<String, u64>) -> Result<Key, Trouble> {
    let (line, end) = (node.line, node.span.end);
    let Kind::Scalar { text: key, .. } = node.kind else {
        return Err(trouble(line, "an empty key", "a word"));
    };
    if let Some(first) = seen.insert(key.clone(), line) {
        let found = format!("the key `{}` a second time (first on line {first})", clip(&key, 60));
        return Err(Trouble { line, found, wanted: "each key once" });
    }
    Ok(Key { text: key, line, end })
}

fn trouble(line: u64, found: &str, wanted: &'static str) -> Trouble {
    Trouble { line, found: found.to_owned(), wanted }
}

/// Anchors, aliases and tags: a small file could mean a huge tree, or another type than it shows.
fn extra(event: &Event<'_>) -> Option<&'static str> {
    if event.is_alias() {
        Some("an alias (`*name`)")
    } else if event.anchor_id().is_some() {
        Some("an anchor (`&name`)")
    } else {
        event.tag().map(|_| "a tag (`!name`)")
    }
}

fn scalar(text: String, style: ScalarStyle, line: u64, span: Range<usize>) -> Node {
    let plain = style == ScalarStyle::Plain;
    let kind = if plain && matches!(text.as_str(), "" | "~" | "null") {
        Kind::Null
    } else {
        Kind::Scalar { text, plain }
    };
    Node { line, span, kind }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_is_replaced_and_every_other_byte_stays() {
        let text = "a: 1 # one\r\nstatus:   NEW  # keep\r\nlist: [x,  y]\r\nempty:\r\nlast: \"q\"";
        let node = parse(text).unwrap();
        let span = |key: &str| node.get(key).unwrap().span.clone();
        assert_eq!(&text[span("status")], "NEW");
        assert_eq!(&text[span("list")], "[x,  y]");
        assert_eq!(&text[span("last")], "\"q\"");
        let changed = splice(text, &span("status"), "DONE");
        assert_eq!(changed, text.replace("NEW", "DONE"));
        let filled = splice(text, &span("empty"), "now");
        assert_eq!(parse(&filled).unwrap().get("empty").unwrap().text(), Some("now"), "{filled}");
    }

    // covers: DM-12
    #[test]
    fn what_could_mean_more_than_it_shows_is_refused() {
        for (text, found) in [
            ("a: &x 1", "an anchor"),
            ("a: *x", "an alias"),
            ("a: !!binary aGk=", "a tag"),
            ("a: 1\na: 2", "first on line 1"),
            ("a: 1\n---\nb: 2", "a second document"),
            ("? [a]\n: b", "as a key"),
        ] {
            let trouble = parse(text).unwrap_err();
            assert!(trouble.found.contains(found), "{text}: {trouble:?}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn quoted_text_reads_back_as_itself(text in any::<String>(), other in "[a-z]{0,8}") {
            let yaml = format!("a: {}\nb: {}\n", quote(&text), quote(&other));
            let node = parse(&yaml).unwrap();
            prop_assert_eq!(node.get("a").unwrap().text(), Some(text.as_str()));
            let changed = splice(&yaml, &node.get("b").unwrap().span, "\"new\"");
            let again = parse(&changed).unwrap();
            prop_assert_eq!(again.get("a").unwrap().text(), Some(text.as_str()));
            prop_assert_eq!(again.get("b").unwrap().text(), Some("new"));
        }
    }
}
