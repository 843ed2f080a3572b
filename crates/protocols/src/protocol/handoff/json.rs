//! JSON objects read strictly: each key once, and the line of a key for people. It knows no field.

use crate::model::{Rejection, RelPath, clip, without_bom};
use serde_json::{Map, Value, error::Category};

/// An object whose keys are unique, at the top; serde_json alone would keep the last of two. Depth is bounded by the parser.
pub(super) fn read_object(
    rule: &str,
    file: &RelPath,
    bytes: &[u8],
) -> Result<Map<String, Value>, Rejection> {
    let wanted = "one JSON object in UTF-8 with each key once";
    let text = std::str::from_utf8(without_bom(bytes)).map_err(|_| {
        let found = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16 text with a byte-order mark",
            _ => "bytes that are not UTF-8",
        };
        Rejection::new(rule, file, found, wanted)
    })?;
    serde_json::from_str::<Unique>(text).map(|unique| unique.0).map_err(|error| {
        let place = format!("(line {}, column {})", error.line(), error.column());
        let found = match error.classify() {
            Category::Eof => format!("JSON that is cut off {place}"),
            Category::Data => clip(&error.to_string(), 120),
            Category::Syntax | Category::Io => format!("text that is not JSON {place}"),
        };
        Rejection::new(rule, file, found, wanted).at_line(error.line().max(1) as u64)
    })
}

struct Unique(Map<String, Value>);
struct Visit;

impl<'de> serde::de::Visitor<'de> for Visit {
    type Value = Unique;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
        let mut fields = Map::new();
        while let Some((name, value)) = map.next_entry::<String, Value>()? {
            if fields.insert(name.clone(), value).is_some() {
                let twice = format!("the key `{}` twice", clip(&name, 40));
                return Err(serde::de::Error::custom(twice));
            }
        }
        Ok(Unique(fields))
    }
}

impl<'de> serde::Deserialize<'de> for Unique {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Visit)
    }
}

/// Collects everything that is wrong with the fields of one file.
pub(super) struct Fields<'a> {
    rule: &'static str,
    file: &'a RelPath,
    text: &'a str,
    problems: Vec<Rejection>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(rule: &'static str, file: &'a RelPath, bytes: &'a [u8]) -> Self {
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        Self { rule, file, text, problems: Vec::new() }
    }

    /// `name` is the last key on the way to the field, for its line.
    pub(super) fn refuse(&mut self, name: &str, found: impl Into<String>, wanted: &str) {
        let mut problem = Rejection::new(self.rule, self.file, found, wanted);
        problem.line = line_of(self.text, name);
        self.problems.push(problem);
    }

    /// A value that must be a non-empty text.
    pub(super) fn text(
        &mut self,
        within: &str,
        object: &Map<String, Value>,
        name: &str,
    ) -> Option<String> {
        let shown = path(within, name);
        let wanted = format!("`{shown}` as a non-empty text");
        match object.get(name) {
            Some(Value::String(text)) if !text.trim().is_empty() => return Some(text.clone()),
            None => self.refuse(within, format!("no `{shown}`"), &wanted),
            Some(other) => self.refuse(name, show(&shown, other), &wanted),
        }
        None
    }

    /// A text that one of our words must be.
    pub(super) fn word<T>(
        &mut self,
        within: &str,
        object: &Map<String, Value>,
        name: &str,
        parse: fn(&str) -> Option<T>,
        words: &str,
    ) -> Option<T> {
        let shown = path(within, name);
        let wanted = format!("`{shown}` as one of {words}");
        match object.get(name) {
            None => self.refuse(within, format!("no `{shown}`"), &wanted),
            Some(value) => match value.as_str().and_then(parse) {
                Some(word) => return Some(word),
                None => self.refuse(name, show(&shown, value), &wanted),
            },
        }
        None
    }

    pub(super) fn object(
        &mut self,
        object: &'a Map<String, Value>,
        name: &str,
    ) -> Option<&'a Map<String, Value>> {
        let wanted = format!("`{name}` as an object");
        match object.get(name) {
            Some(Value::Object(inner)) => return Some(inner),
            None => self.refuse("", format!("no `{name}`"), &wanted),
            Some(other) => self.refuse(name, show(name, other), &wanted),
        }
        None
    }

    pub(super) fn is_fine(&self) -> bool {
        self.problems.is_empty()
    }

    pub(super) fn into_problems(self) -> Vec<Rejection> {
        self.problems
    }
}

fn path(within: &str, name: &str) -> String {
    if within.is_empty() { name.to_owned() } else { format!("{within}.{name}") }
}

/// A refusal in one short sentence, without the file and the rule.
pub(super) fn sentence(problem: &Rejection) -> String {
    let found = match problem.found.strip_prefix("no ") {
        Some(name) => format!("{name} is missing"),
        None => problem.found.clone(),
    };
    format!("{found}; write {}", problem.wanted)
}

/// A value as it is quoted in a refusal.
pub(super) fn show(name: &str, value: &Value) -> String {
    format!("`{name}` = {}", clip(&value.to_string(), 60))
}

/// Where a key stands first; good enough to find it.
fn line_of(text: &str, name: &str) -> Option<u64> {
    if name.is_empty() {
        return None;
    }
    let at = text.find(&format!("\"{name}\""))?;
    Some(text[..at].matches('\n').count() as u64 + 1)
}
