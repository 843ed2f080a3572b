//! YAML text → a tree that knows its lines. It refuses what a configuration never needs; it does not know any key.

use super::problem::{Problem, Problems};
use crate::model::clip;
use crate::model::yaml::{Mistake, usual_mistake, wanted_of};
use granit_parser::{Event, Parser, ScalarStyle, Span, options};
use std::collections::BTreeMap;

/// The largest file that is read, in bytes.
pub(super) const SIZE_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) line: u64,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: u64,
    pub(super) value: Node,
}

/// Reads one document. `None`: the text is not usable at all, and `problems` says why.
pub(super) fn parse(bytes: &[u8], problems: &mut Problems) -> Option<Node> {
    match text_of(bytes).and_then(|text| build(text, problems)) {
        Ok(node) => Some(node),
        Err(problem) => {
            problems.push(problem);
            None
        }
    }
}

fn text_of(bytes: &[u8]) -> Result<&str, Problem> {
    if bytes.len() > SIZE_MAX {
        let found = format!("{} bytes", bytes.len());
        return Err(Problem::new("", None, found, format!("at most {SIZE_MAX} bytes")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count() as u64;
        Problem::new("", Some(line), "bytes that are not UTF-8", "UTF-8 text")
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

fn build(text: &str, problems: &mut Problems) -> Result<Node, Problem> {
    let options = options! {
        disallow_directives: true,
        emit_comments: false,
        emit_unresolved_aliases: true,
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    let mut tree = Tree::default();
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = next.map_err(|error| {
            let line = error.marker().line() as u64;
            match usual_mistake(text, line) {
                Some(Mistake { line, found, wanted }) => {
                    Problem::new("", Some(line), found, wanted)
                }
                None => {
                    let said = error.info();
                    Problem::new("", Some(line), clip(&said, 200), wanted_of(&said))
                }
            }
        })?;
        tree.take(event, span, problems)?;
    }
    let empty = Node { line: 1, kind: Kind::Null };
    Ok(tree.root.unwrap_or(empty))
}

#[derive(Default)]
struct Tree {
    /// The collections that are open, outermost first.
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

struct Open {
    line: u64,
    path: String,
    inside: Inside,
}

enum Inside {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: BTreeMap<String, u64>, key: Key },
}

/// What a mapping waits for.
enum Key {
    Awaited,
    Read {
        key: String,
        line: u64,
    },
    /// The value of a key that we have already: read, reported and dropped.
    Again,
}

impl Tree {
    fn take(&mut self, event: Event, span: Span, problems: &mut Problems) -> Result<(), Problem> {
        let line = span.start.line() as u64;
        if let Some(found) = extra(&event) {
            let wanted = "plain values, each written out";
            return Err(Problem::new(self.path(), Some(line), found, wanted));
        }
        match event {
            Event::DocumentStart(..) => self.start_document(line),
            Event::Scalar(text, style, ..) => {
                self.add(scalar(text.into_owned(), style, line), problems)
            }
            Event::SequenceStart(..) => self.start(line, Inside::List(Vec::new())),
            Event::MappingStart(..) => {
                let (entries, seen) = (Vec::new(), BTreeMap::new());
                self.start(line, Inside::Map { entries, seen, key: Key::Awaited })
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(problems),
            _ => Ok(()),
        }
    }

    fn start_document(&mut self, line: u64) -> Result<(), Problem> {
        self.documents += 1;
        if self.documents == 1 {
            return Ok(());
        }
        Err(Problem::new("", Some(line), "a second document (`---`)", "one document"))
    }

    fn start(&mut self, line: u64, inside: Inside) -> Result<(), Problem> {
        let path = self.path();
        if self.open.len() >= DEPTH_MAX {
            let wanted = format!("at most {DEPTH_MAX} levels");
            return Err(Problem::new(path, Some(line), "deeper nesting", wanted));
        }
        if let Some(Open { inside: Inside::Map { key: Key::Awaited, .. }, .. }) = self.open.last() {
            return Err(Problem::new(path, Some(line), "a list or mapping as a key", "a word"));
        }
        self.open.push(Open { line, path, inside });
        Ok(())
    }

    fn end(&mut self, problems: &mut Problems) -> Result<(), Problem> {
        let Some(Open { line, inside, .. }) = self.open.pop() else { return Ok(()) };
        let kind = match inside {
            Inside::List(items) => Kind::List(items),
            Inside::Map { entries, .. } => Kind::Map(entries),
        };
        self.add(Node { line, kind }, problems)
    }

    /// Puts a finished node where it belongs: a key, a value, an item, or the whole document.
    fn add(&mut self, node: Node, problems: &mut Problems) -> Result<(), Problem> {
        let Some(Open { path, inside, .. }) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match inside {
            Inside::List(items) => items.push(node),
            Inside::Map { entries, seen, key } => match std::mem::replace(key, Key::Awaited) {
                Key::Awaited => *key = read_key(node, seen, path, problems)?,
                Key::Read { key, line } => entries.push(Entry { key, line, value: node }),
                Key::Again => {}
            },
        }
        Ok(())
    }

    /// Where the next node will be, in the words of [`Problem::path`].
    fn path(&self) -> String {
        let Some(Open { path, inside, .. }) = self.open.last() else { return String::new() };
        match inside {
            Inside::List(items) => format!("{path}[{}]", items.len()),
            Inside::Map { key: Key::Read { key, .. }, .. } => join(path, key),
            Inside::Map { .. } => path.clone(),
        }
    }
}

fn read_key(
    node: Node,
    seen: &mut BTreeMap<String, u64>,
    path: &str,
    problems: &mut Problems,
) -> Result<Key, Problem> {
    let line = node.line;
    let Kind::Scalar { text: key, .. } = node.kind else {
        return Err(Problem::new(path, Some(line), "an empty key", "a word"));
    };
    if let Some(first) = seen.get(&key) {
        let found = format!("the key a second time (first on line {first})");
        problems.push(Problem::new(join(path, &key), Some(line), found, "each key once"));
        return Ok(Key::Again);
    }
    seen.insert(key.clone(), line);
    Ok(Key::Read { key, line })
}

/// `a` + `b` → `a.b`. Keys may come from a hostile file, so they are cut.
pub(super) fn join(path: &str, key: &str) -> String {
    let key = clip(key, 60);
    if path.is_empty() { key } else { format!("{path}.{key}") }
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

fn scalar(text: String, style: ScalarStyle, line: u64) -> Node {
    let plain = style == ScalarStyle::Plain;
    let kind = if plain && matches!(text.as_str(), "" | "~" | "null") {
        Kind::Null
    } else {
        Kind::Scalar { text, plain }
    };
    Node { line, kind }
}

#[cfg(test)]
mod tests {
    use super::super::tests::cpu_time;
    use super::*;
    use std::time::Duration;

    fn refused(text: &str) -> Problem {
        let mut problems = Problems::default();
        let start = cpu_time();
        let node = parse(text.as_bytes(), &mut problems);
        let took = cpu_time() - start;
        assert!(took < Duration::from_secs(1), "{took:?}");
        assert!(!problems.is_empty(), "must be refused, was {node:?}");
        problems.iter().next().unwrap().clone()
    }

    // covers: DM-12
    #[test]
    fn bombs_are_refused_quickly() {
        let laughs = (1..30).fold("a0: &a0 [x]\n".to_owned(), |text, n| {
            format!("{text}a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(", "))
        });
        assert_eq!(refused(&laughs).found, "an anchor (`&name`)");
        assert_eq!(refused("a: *gone").found, "an alias (`*name`)");
        assert_eq!(refused("a: !!binary aGk=").found, "a tag (`!name`)");
        for deep in ["[", "{a: ", "- ", "? "] {
            assert!(refused(&deep.repeat(100_000)).line.is_some(), "{deep:?}");
        }
        let block: String = (0..100).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
        assert!(refused(&block).wanted.contains("64 levels"));
        let mixed = format!("{}{}", "- ".repeat(40), "[".repeat(40) + &"]".repeat(40));
        assert!(refused(&mixed).wanted.contains("64 levels"));
        assert!(refused(&"x".repeat(SIZE_MAX + 1)).wanted.contains("1048576 bytes"));
    }

    #[test]
    fn the_largest_file_is_read_quickly() {
        for line in ["a: 1\n", "- {a: b}\n"] {
            let text = line.repeat(SIZE_MAX / line.len());
            let start = cpu_time();
            parse(text.as_bytes(), &mut Problems::default());
            let took = cpu_time() - start;
            assert!(took < Duration::from_secs(10), "{line:?}: {took:?}");
        }
    }

    #[test]
    fn a_second_key_is_named_with_both_lines() {
        let problem = refused("a: 1\nb:\n  c: 1\n  d: 2\n  c: [x, {y: z}]\n");
        assert_eq!((problem.path.as_str(), problem.line), ("b.c", Some(5)));
        assert!(problem.found.contains("first on line 3"), "{problem}");
    }

    #[test]
    fn odd_documents_are_refused_with_their_line() {
        assert_eq!(refused("a: 1\n---\nb: 2\n").line, Some(2));
        let open = refused("a: 1\nb: [x\n");
        assert_eq!((open.path.as_str(), open.line), ("", Some(2)));
        assert_eq!(open.found, "`[`, which is never closed");
        assert_eq!(refused("a:\n\tb: 1\n").found, "a line that is indented with a tab");
        assert_eq!(refused("a: 1\n[x, y]: 2\n").line, Some(2));
        assert_eq!(refused("%YAML 1.2\n---\na: 1\n").line, Some(1));
        let mut problems = Problems::default();
        assert_eq!(parse(b"a: 1\nb: \xff\n", &mut problems), None);
        assert_eq!(problems.iter().next().unwrap().line, Some(2));
    }

    #[test]
    fn every_node_knows_its_line() {
        let mut problems = Problems::default();
        let node = parse(b"\xef\xbb\xbf# x\r\na:\r\n  - 'b'\r\n  - ~\r\n", &mut problems).unwrap();
        assert!(problems.is_empty());
        let Kind::Map(entries) = node.kind else { panic!("not a mapping") };
        let Kind::List(items) = &entries[0].value.kind else { panic!("not a list") };
        assert_eq!((entries[0].line, items[0].line, items[1].line), (2, 3, 4));
        assert_eq!(items[0].kind, Kind::Scalar { text: "b".into(), plain: false });
        assert_eq!(items[1].kind, Kind::Null);
        assert_eq!(parse(b"", &mut problems).unwrap().kind, Kind::Null);
    }
}
