//! Walks a tree of values and notes every problem on the way instead of stopping at the first. It knows no key.

use super::problem::{Problem, Problems, any_of, quote, suggest};
use super::yaml::{Entry, Kind, Node, join};

/// One value of the file, with its name and the place where problems go.
pub(super) struct Spot<'a> {
    pub(super) node: &'a Node,
    pub(super) path: String,
    problems: &'a mut Problems,
}

impl<'a> Spot<'a> {
    pub(super) fn new(node: &'a Node, path: String, problems: &'a mut Problems) -> Self {
        Self { node, path, problems }
    }

    /// A value inside this one.
    pub(super) fn inner<'b>(&'b mut self, node: &'b Node, path: String) -> Spot<'b> {
        Spot::new(node, path, self.problems)
    }

    /// Notes that this value is wrong; quotes it.
    pub(super) fn refuse(&mut self, wanted: impl Into<String>) {
        let found = describe(self.node);
        self.refuse_as(found, wanted, None);
    }

    /// As [`Spot::refuse`], for a word of a known list.
    pub(super) fn refuse_word(&mut self, known: &[&str], wanted: impl Into<String>) {
        let hint = match &self.node.kind {
            Kind::Scalar { text, .. } => suggest(text, known),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        };
        self.refuse_as(describe(self.node), wanted, hint);
    }

    /// For values that must not be quoted, or that are wrong for a reason of their own.
    pub(super) fn refuse_as(
        &mut self,
        found: impl Into<String>,
        wanted: impl Into<String>,
        hint: Option<String>,
    ) {
        let problem = Problem::new(self.path.clone(), Some(self.node.line), found, wanted);
        self.problems.push(problem.with_hint(hint));
    }
}

fn describe(node: &Node) -> String {
    match &node.kind {
        Kind::Null => "nothing".to_owned(),
        Kind::Scalar { text, .. } => quote(text),
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) => "a mapping".to_owned(),
    }
}

/// A mapping whose keys we know. It learns them by being asked for them.
pub(super) struct Section<'a> {
    entries: &'a [Entry],
    line: u64,
    path: String,
    known: Vec<&'static str>,
    forbidden: Option<(&'static [&'static str], &'static str)>,
    problems: &'a mut Problems,
}

/// Reads a mapping; a key that `read` did not ask for is a problem. An empty value is an empty mapping.
pub(super) fn section<T>(
    spot: &mut Spot<'_>,
    read: impl FnOnce(&mut Section<'_>) -> T,
) -> Option<T> {
    let entries: &[Entry] = match &spot.node.kind {
        Kind::Map(entries) => entries,
        Kind::Null => &[],
        Kind::Scalar { .. } | Kind::List(_) => {
            spot.refuse("a mapping (`key: value`)");
            return None;
        }
    };
    let mut section = Section {
        entries,
        line: spot.node.line,
        path: spot.path.clone(),
        known: Vec::new(),
        forbidden: None,
        problems: spot.problems,
    };
    let value = read(&mut section);
    section.refuse_unknown();
    Some(value)
}

impl Section<'_> {
    /// Reads `key` if it is there.
    pub(super) fn get<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Spot<'_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        read(&mut Spot::new(&entry.value, join(&self.path, key), self.problems))
    }

    /// Replaces a default, if `key` is there and right.
    pub(super) fn set<T>(
        &mut self,
        key: &'static str,
        into: &mut T,
        read: impl FnOnce(&mut Spot<'_>) -> Option<T>,
    ) {
        if let Some(value) = self.get(key, read) {
            *into = value;
        }
    }

    /// Reads `key`, which must be there. `wanted` says what it is.
    pub(super) fn need<T>(
        &mut self,
        key: &'static str,
        wanted: &str,
        read: impl FnOnce(&mut Spot<'_>) -> Option<T>,
    ) -> Option<T> {
        if !self.has(key) {
            let path = join(&self.path, key);
            self.problems.push(Problem::new(path, Some(self.line), "nothing", wanted));
        }
        self.get(key, read)
    }

    /// Notes that the section as a whole is wrong.
    pub(super) fn refuse(&mut self, found: impl Into<String>, wanted: &str) {
        self.problems.push(Problem::new(self.path.clone(), Some(self.line), found, wanted));
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Keys that are known elsewhere and must not be here; `wanted` says why.
    pub(super) fn forbid(&mut self, keys: &'static [&'static str], wanted: &'static str) {
        self.forbidden = Some((keys, wanted));
    }

    fn refuse_unknown(self) {
        let Self { entries, path, known, forbidden, problems, .. } = self;
        for Entry { key, line, .. } in entries {
            let (path, line) = (|| join(&path, key), Some(*line));
            match forbidden {
                Some((keys, wanted)) if keys.contains(&key.as_str()) => {
                    problems.push(Problem::new(path(), line, format!("the key `{key}`"), wanted));
                }
                _ if known.contains(&key.as_str()) => {}
                _ => problems.push_with(|| {
                    let found = format!("the unknown key {}", quote(key));
                    Problem::new(path(), line, found, any_of(&known))
                        .with_hint(suggest(key, &known))
                }),
            }
        }
    }
}
