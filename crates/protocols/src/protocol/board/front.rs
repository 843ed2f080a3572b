//! A Markdown document with frontmatter: where each part lies, and typed reads of its fields that list every problem at once.
//! It knows no field's name.

use super::names::Zone;
use crate::model::yaml::{self, Kind, Node};
use crate::model::{Digest, Rejection, RelPath, clip};
use chrono::{DateTime, FixedOffset};
use std::ops::Range;

/// A document in its parts. Lines are counted in the whole text.
#[derive(Clone, Debug)]
pub(super) struct Front<'a> {
    pub(super) text: &'a str,
    /// The bytes of the YAML, without its fences.
    pub(super) yaml: Range<usize>,
    pub(super) root: Node,
    pub(super) body: &'a str,
}

/// Reads a document of at least a frontmatter.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    rule: &'static str,
    file: &RelPath,
) -> Result<Front<'a>, Rejection> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = 1 + bytes[..error.valid_up_to()].iter().filter(|&&b| b == b'\n').count();
        Rejection::new(rule, file, "bytes that are not UTF-8", "UTF-8 text").at_line(line as u64)
    })?;
    let (yaml, body_at) = split(text).ok_or_else(|| {
        let found = clip(text.lines().next().unwrap_or("an empty file"), 60);
        let wanted = "frontmatter: a first line `---`, YAML, and a line `---` that ends it";
        Rejection::new(rule, file, format!("`{found}`"), wanted).at_line(1)
    })?;
    let root = yaml::parse(&text[yaml.clone()]).map_err(|trouble| {
        Rejection::new(rule, file, trouble.found, trouble.wanted).at_line(trouble.line + 1)
    })?;
    Ok(Front { text, yaml, root, body: &text[body_at..] })
}

/// The YAML's bytes, and where the body begins.
pub(super) fn split(text: &str) -> Option<(Range<usize>, usize)> {
    let mark = if text.starts_with('\u{feff}') { 3 } else { 0 };
    let first = text[mark..].split_inclusive('\n').next()?;
    if first.trim_end() != "---" || !first.ends_with('\n') {
        return None;
    }
    let start = mark + first.len();
    let mut at = start;
    for line in text[start..].split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((start..at, at + line.len()));
        }
        at += line.len();
    }
    None
}

impl Front<'_> {
    /// The whole text with one top-level value changed, and no other byte.
    pub(super) fn with(&self, key: &str, value: &str) -> Option<String> {
        let span = self.root.get(key)?.span.clone();
        let span = self.yaml.start + span.start..self.yaml.start + span.end;
        Some(yaml::splice(self.text, &span, value))
    }

    /// The raw line of a key: `issue: #123` is a comment to YAML, and a reference to people.
    pub(super) fn raw_value(&self, line: u64) -> Option<&str> {
        let line = self.text[self.yaml.clone()].lines().nth(usize::try_from(line).ok()? - 1)?;
        Some(line.split_once(':')?.1.trim())
    }
}

/// Collects what is wrong while the fields are read.
pub(super) struct Fields<'a> {
    rule: &'static str,
    file: &'a RelPath,
    root: &'a Node,
    /// How many lines stand before the YAML.
    above: u64,
    problems: Vec<Rejection>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(rule: &'static str, file: &'a RelPath, root: &'a Node, above: u64) -> Self {
        let mut fields = Self { rule, file, root, above, problems: Vec::new() };
        if !matches!(root.kind, Kind::Map(_)) {
            fields.refuse(root.line, root.words(), "a mapping of fields");
        }
        fields
    }

    pub(super) fn refuse(&mut self, line: u64, found: impl Into<String>, wanted: &str) {
        let rejection = Rejection::new(self.rule, self.file, found, wanted);
        self.problems.push(rejection.at_line(line + self.above));
    }

    /// A problem of a field that is there, else of the whole.
    pub(super) fn refuse_at(&mut self, key: &str, found: impl Into<String>, wanted: &str) {
        let line = self.root.entry(key).map_or(1, |entry| entry.line);
        self.refuse(line, format!("{key}: {}", found.into()), wanted);
    }

    pub(super) fn finish(self, digest: &Digest) -> Result<(), Vec<Rejection>> {
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(self.problems.into_iter().map(|problem| problem.with_digest(digest)).collect())
    }

    /// The node of a field that must be there.
    fn needed(&mut self, key: &str, wanted: &str) -> Option<&'a Node> {
        let node = find(self.root, key).filter(|node| node.kind != Kind::Null);
        if node.is_none() {
            let line = find(self.root, key).map_or(1, |node| node.line);
            self.refuse(line, format!("no `{key}`"), wanted);
        }
        node
    }

    /// One line of text that is not empty.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        const WANTED: &str = "one line of text";
        let node = self.needed(key, WANTED)?;
        self.line_of(node, key, WANTED)
    }

    fn line_of(&mut self, node: &Node, key: &str, wanted: &str) -> Option<String> {
        match node.text().map(str::trim) {
            Some(text) if !text.is_empty() && !text.contains(char::is_control) => {
                Some(text.to_owned())
            }
            Some(_) | None => {
                self.refuse(node.line, format!("{key}: {}", node.words()), wanted);
                None
            }
        }
    }

    pub(super) fn one_of<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let node = self.needed(key, wanted)?;
        let value = node.text().and_then(read);
        if value.is_none() {
            self.refuse(node.line, format!("{key}: {}", node.words()), wanted);
        }
        value
    }

    /// A field that may be missing, but not be wrong.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let node = find(self.root, key)?;
        let value = node.text().and_then(read);
        if value.is_none() {
            self.refuse(node.line, format!("{key}: {}", node.words()), wanted);
        }
        value
    }

    /// A time without a zone is read in the board's own.
    pub(super) fn time(&mut self, key: &str, zone: Zone) -> Option<DateTime<FixedOffset>> {
        let wanted = "an ISO time, such as 2026-01-31T16:10:00+01:00";
        self.one_of(key, wanted, |text| zone.read(text))
    }

    pub(super) fn truth(&mut self, key: &str) -> Option<bool> {
        self.one_of(key, "true or false", |text| match text {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A list that must be there; it may be empty.
    pub(super) fn needed_list(&mut self, key: &str) -> Vec<String> {
        if find(self.root, key).is_none() {
            self.refuse(1, format!("no `{key}`"), "a list, which may be empty");
            return Vec::new();
        }
        self.list(key)
    }

    /// A list of lines of text; empty when it is not there.
    pub(super) fn list(&mut self, key: &str) -> Vec<String> {
        let Some(node) = find(self.root, key) else { return Vec::new() };
        self.list_of(node, key)
    }

    pub(super) fn list_of(&mut self, node: &Node, key: &str) -> Vec<String> {
        const WANTED: &str = "a list of texts";
        match &node.kind {
            Kind::Null => Vec::new(),
            Kind::List(items) => {
                items.iter().filter_map(|item| self.line_of(item, key, WANTED)).collect()
            }
            Kind::Scalar { .. } | Kind::Map(_) => {
                self.refuse(node.line, format!("{key}: {}", node.words()), WANTED);
                Vec::new()
            }
        }
    }

    /// A list whose items must read as `T`.
    pub(super) fn list_that<T>(
        &mut self,
        key: &str,
        wanted: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Vec<T> {
        let line = find(self.root, key).map_or(1, |node| node.line);
        let mut good = Vec::new();
        for text in self.list(key) {
            match read(&text) {
                Some(value) => good.push(value),
                None => self.refuse(line, format!("{key}: `{}`", clip(&text, 60)), wanted),
            }
        }
        good
    }
}

/// `a.b` is the field `b` of the mapping `a`.
fn find<'a>(root: &'a Node, key: &str) -> Option<&'a Node> {
    key.split('.').try_fold(root, |node, part| node.get(part))
}

/// The section of a Markdown text under a `## ` heading, without the heading.
pub(super) fn section<'a>(body: &'a str, heading: &str) -> Option<&'a str> {
    let mut start = None;
    let mut at = 0;
    for line in body.split_inclusive('\n') {
        let title = line.trim_end().strip_prefix("## ");
        match (start, title) {
            (Some(start), Some(_)) => return Some(body[start..at].trim()),
            (None, Some(title)) if title.trim().eq_ignore_ascii_case(heading) => {
                start = Some(at + line.len());
            }
            _ => {}
        }
        at += line.len();
    }
    start.map(|start| body[start..].trim())
}
