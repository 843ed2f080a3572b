//! A JSON document together with the text that it was read from. Writing it back replaces only the bytes of values that changed, so
//! that an edit of one entry leaves every other entry, its spacing and its line endings alone (LG-17). It knows no document.

use super::json;
use crate::model::{BOM, Rejection, RelPath, without_bom};
use serde::Serialize as _;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};
use serde_json::{Map, Value};
use std::io;
use std::ops::{Deref, DerefMut};

/// A value, and the text that it had when it was read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sourced {
    value: Value,
    /// `None`: the document is new and is written in our own layout.
    source: Option<Source>,
}

#[derive(Clone, Debug, PartialEq)]
struct Source {
    text: String,
    marked: bool,
}

impl Sourced {
    pub(super) fn new(value: Value) -> Self {
        Self { value, source: None }
    }

    pub(super) fn read(file: &RelPath, bytes: &[u8]) -> Result<Self, Rejection> {
        let value = json::parse(file, bytes)?;
        let plain = without_bom(bytes);
        let text = String::from_utf8_lossy(plain).into_owned();
        Ok(Self { value, source: Some(Source { text, marked: plain.len() < bytes.len() }) })
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        match &self.source {
            None => json::to_bytes(&self.value),
            Some(Source { text, marked }) => {
                let mark = if *marked { BOM } else { &[] };
                [mark, rewrite(text, &self.value).as_bytes()].concat()
            }
        }
    }
}

impl Deref for Sourced {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl DerefMut for Sourced {
    fn deref_mut(&mut self) -> &mut Value {
        &mut self.value
    }
}

/// `text` with the smallest edits that make it say `value`. The text is JSON with each key once.
fn rewrite(text: &str, value: &Value) -> String {
    let mut scan = Scan { text, at: 0 };
    let root = scan.value();
    let mut writer = Writer { text, layout: Layout::of(text, &root), edits: Vec::new() };
    writer.value(&root, value, Line::of(text, &root));
    let mut written = String::with_capacity(text.len() + 256);
    let mut copied = 0;
    for (start, end, new) in &writer.edits {
        written.push_str(&text[copied..*start]);
        written.push_str(new);
        copied = *end;
    }
    written.push_str(&text[copied..]);
    written
}

/// One value in the text.
struct Node {
    start: usize,
    end: usize,
    parts: Parts,
}

enum Parts {
    Scalar,
    List(Vec<Node>),
    Object(Vec<Member>),
}

struct Member {
    key: String,
    key_start: usize,
    key_end: usize,
    value: Node,
}

impl Node {
    fn first_start(&self) -> Option<usize> {
        match &self.parts {
            Parts::Scalar => None,
            Parts::List(items) => items.first().map(|item| item.start),
            Parts::Object(members) => members.first().map(|member| member.key_start),
        }
    }
}

/// Finds where values begin and end. The parser has accepted the text before, so malformed text is not handled.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    fn byte(&self) -> u8 {
        self.text.as_bytes().get(self.at).copied().unwrap_or_default()
    }

    fn skip_space(&mut self) {
        while matches!(self.byte(), b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Node {
        self.skip_space();
        let start = self.at;
        let parts = match self.byte() {
            b'[' => Parts::List(self.parts(b']', Self::value)),
            b'{' => Parts::Object(self.parts(b'}', Self::member)),
            b'"' => {
                self.string();
                Parts::Scalar
            }
            _ => {
                while !matches!(self.byte(), 0 | b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
                {
                    self.at += 1;
                }
                Parts::Scalar
            }
        };
        Node { start, end: self.at, parts }
    }

    fn parts<T>(&mut self, close: u8, one: fn(&mut Self) -> T) -> Vec<T> {
        let mut parts = Vec::new();
        self.at += 1;
        self.skip_space();
        while self.byte() != close && self.at < self.text.len() {
            parts.push(one(self));
            self.skip_space();
            if self.byte() == b',' {
                self.at += 1;
                self.skip_space();
            }
        }
        self.at = (self.at + 1).min(self.text.len());
        parts
    }

    fn member(&mut self) -> Member {
        let key_start = self.at;
        self.string();
        let key_end = self.at;
        let key = serde_json::from_str(&self.text[key_start..key_end]).unwrap_or_default();
        self.skip_space();
        self.at += 1;
        Member { key, key_start, key_end, value: self.value() }
    }

    fn string(&mut self) {
        self.at += 1;
        while self.at < self.text.len() && self.byte() != b'"' {
            self.at += if self.byte() == b'\\' { 2 } else { 1 };
        }
        self.at = (self.at + 1).min(self.text.len());
    }
}

/// How the file as a whole is laid out.
struct Layout {
    newline: &'static str,
    /// One step of indentation.
    unit: String,
    /// The file has more than one line, or nothing yet that would show its layout.
    tall: bool,
}

impl Layout {
    fn of(text: &str, root: &Node) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = root.first_start();
        let lead = first.map_or("", |first| &text[root.start + 1..first]);
        let unit = lead.rsplit_once('\n').map_or("", |(_, indent)| indent);
        let unit = if unit.is_empty() { "  " } else { unit };
        let tall = first.is_none() || text[root.start..root.end].contains('\n');
        Self { newline, unit: unit.to_owned(), tall }
    }
}

/// Where a value stands.
#[derive(Clone, Copy)]
enum Line<'a> {
    /// It begins a line, or follows the key that does, behind this indentation.
    Own(&'a str),
    /// It shares its line with its neighbours.
    Shared,
}

impl<'a> Line<'a> {
    fn of(text: &str, root: &Node) -> Self {
        if text[root.start..root.end].contains('\n') { Self::Own("") } else { Self::Shared }
    }

    /// `lead` is the space in front of the value or of its key.
    fn after(lead: &'a str) -> Self {
        lead.rsplit_once('\n').map_or(Self::Shared, |(_, indent)| Self::Own(indent))
    }
}

struct Writer<'a> {
    text: &'a str,
    layout: Layout,
    /// Start, end and new text, in the order of the file.
    edits: Vec<(usize, usize, String)>,
}

impl<'a> Writer<'a> {
    fn value(&mut self, old: &Node, new: &Value, line: Line<'a>) {
        let same = match (&old.parts, new) {
            (Parts::List(items), Value::Array(wanted)) if items.len() <= wanted.len() => {
                return self.list(old, items, wanted, line);
            }
            (Parts::Object(members), Value::Object(wanted))
                if members.iter().all(|member| wanted.contains_key(&member.key)) =>
            {
                return self.object(old, members, wanted, line);
            }
            (Parts::Scalar, _) => serde_json::from_str::<Value>(&self.text[old.start..old.end])
                .is_ok_and(|v| v == *new),
            (Parts::List(_) | Parts::Object(_), _) => false,
        };
        if !same {
            let printed = self.print(new, line);
            self.edits.push((old.start, old.end, printed));
        }
    }

    fn list(&mut self, old: &Node, items: &[Node], wanted: &[Value], line: Line<'a>) {
        let mut before = old.start + 1;
        let mut lead = "";
        for (item, wanted) in items.iter().zip(wanted) {
            lead = self.lead(before, item.start);
            self.value(item, wanted, Line::after(lead));
            before = item.end;
        }
        let more = &wanted[items.len()..];
        let (Some(last), false) = (items.last(), more.is_empty()) else {
            if !more.is_empty() {
                let printed = self.print(&Value::Array(more.to_vec()), self.inside(line));
                self.edits.push((old.start, old.end, printed));
            }
            return;
        };
        let lead = if lead.is_empty() { " " } else { lead };
        // Entries are written on one line each where their neighbours are.
        let flat =
            !matches!(last.parts, Parts::Scalar) && !self.text[last.start..last.end].contains('\n');
        let line = if flat { Line::Shared } else { Line::after(lead) };
        let added: String =
            more.iter().map(|item| format!(",{lead}{}", self.print(item, line))).collect();
        self.edits.push((last.end, last.end, added));
    }

    fn object(
        &mut self,
        old: &Node,
        members: &[Member],
        wanted: &Map<String, Value>,
        line: Line<'a>,
    ) {
        let known = |key: &String| members.iter().any(|member| member.key == *key);
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            if !wanted.is_empty() {
                let printed = self.print(&Value::Object(wanted.clone()), self.inside(line));
                self.edits.push((old.start, old.end, printed));
            }
            return;
        };
        let colon = &self.text[last.key_end..last.value.start];
        let first_lead = &self.text[old.start + 1..first.key_start];
        let in_front: Vec<_> = wanted.iter().take_while(|(key, _)| !known(key)).collect();
        if !in_front.is_empty() {
            let lead = if first_lead.contains('\n') { first_lead } else { " " };
            let line = Line::after(first_lead);
            let member = |(key, value): &(&String, &Value)| {
                format!("{}{colon}{},{lead}", quoted(key), self.print(value, line))
            };
            let added = in_front.iter().map(member).collect();
            self.edits.push((first.key_start, first.key_start, added));
        }
        let mut before = old.start + 1;
        let mut lead = "";
        for member in members {
            lead = self.lead(before, member.key_start);
            if let Some(wanted) = wanted.get(&member.key) {
                self.value(&member.value, wanted, Line::after(lead));
            }
            before = member.value.end;
        }
        let lead = if lead.is_empty() { " " } else { lead };
        let line = Line::after(lead);
        let behind = wanted.iter().skip(in_front.len()).filter(|(key, _)| !known(key));
        let member = |(key, value): (&String, &Value)| {
            format!(",{lead}{}{colon}{}", quoted(key), self.print(value, line))
        };
        let added: String = behind.map(member).collect();
        if !added.is_empty() {
            self.edits.push((last.value.end, last.value.end, added));
        }
    }

    /// The space in front of a part: behind the bracket, or behind the comma after its neighbour.
    fn lead(&self, before: usize, start: usize) -> &'a str {
        let between = &self.text[before..start];
        between.split_once(',').map_or(between, |(_, lead)| lead)
    }

    /// For what is put into an empty list or object.
    fn inside(&self, line: Line<'a>) -> Line<'a> {
        match line {
            Line::Shared if self.layout.tall => Line::Own(""),
            Line::Own(_) | Line::Shared => line,
        }
    }

    fn print(&self, value: &Value, line: Line<'_>) -> String {
        match line {
            Line::Shared => printed(value, Inline),
            Line::Own(indent) => {
                let pretty = PrettyFormatter::with_indent(self.layout.unit.as_bytes());
                let newline = format!("{}{indent}", self.layout.newline);
                printed(value, pretty).replace('\n', &newline)
            }
        }
    }
}

fn quoted(key: &str) -> String {
    Value::from(key).to_string()
}

fn printed(value: &Value, formatter: impl Formatter) -> String {
    let mut bytes = Vec::new();
    value
        .serialize(&mut Serializer::with_formatter(&mut bytes, formatter))
        .expect("BUG: a JSON value can be printed");
    String::from_utf8(bytes).expect("BUG: JSON is printed as UTF-8")
}

/// One line, with a space behind commas and colons.
struct Inline;

impl Formatter for Inline {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

#[cfg(test)]
mod tests;
