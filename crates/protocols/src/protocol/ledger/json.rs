//! JSON as the ledger keeps it: every key once, in its order, two spaces. It knows no document.

use crate::model::{Rejection, RelPath, Timestamp, clip, without_bom};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

pub type Object = Map<String, Value>;

/// The document, or why it is none. Depth is bounded by the parser (128).
pub fn parse(file: &RelPath, bytes: &[u8]) -> Result<Value, Rejection> {
    let text = std::str::from_utf8(without_bom(bytes)).map_err(|_| {
        let found = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16 (its byte-order mark)",
            _ => "bytes that are not UTF-8",
        };
        Rejection::new("LG-01", file, found, "JSON in UTF-8")
    })?;
    serde_json::from_str::<Unique>(text).map(|whole| whole.0).map_err(|error| {
        let (line, column) = (error.line() as u64, error.column());
        let said = error.to_string();
        let why = said.rsplit_once(" at line").map_or(said.as_str(), |(why, _)| why);
        let found = format!("not JSON (line {line}, column {column}): {}", clip(why, 200));
        Rejection::new("LG-01", file, found, "JSON with each key once").at_line(line)
    })
}

/// Stable: the same value is always the same bytes.
pub fn print(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("BUG: a JSON value can be printed")
}

pub fn to_bytes(value: &Value) -> Vec<u8> {
    let mut text = print(value);
    text.push('\n');
    text.into_bytes()
}

/// Spec 5 §4, "Timestamps".
pub fn stamp(at: Timestamp) -> String {
    at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Any RFC 3339 time, in the form that we write; `None`: it is no time.
pub fn utc(text: &str) -> Option<String> {
    chrono::DateTime::parse_from_rfc3339(text).ok().map(|time| stamp(time.to_utc()))
}

/// A value as a person or a shell wants it: text without quotes, nothing for null.
pub fn raw(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => print(value),
    }
}

/// `commit_range.from` and the like.
pub fn field<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |at, name| at.get(name))
}

/// What was found in place of something else, short enough for one line.
pub fn shown(value: Option<&Value>) -> String {
    value
        .map_or_else(|| "nothing".to_owned(), |value| format!("`{}`", clip(&value.to_string(), 60)))
}

/// serde_json alone keeps the last of two equal keys, and the next reader may keep the first.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Build).map(Self)
    }
}

struct Build;

impl<'de> Visitor<'de> for Build {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Object::new();
        while let Some((key, Unique(value))) = entries.next_entry::<String, _>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key `{}` twice", clip(&key, 60))));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> RelPath {
        RelPath::fixed("progress.json")
    }

    // covers: LG-01
    #[test]
    fn printing_what_was_parsed_changes_nothing() {
        let text = "{\n  \"z\": 1,\n  \"a\": {\n    \"unknown\": [],\n    \"ä\": 1.5\n  },\n  \"m\": null\n}\n";
        let value = parse(&file(), text.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(to_bytes(&value)).unwrap(), text);
    }

    // covers: LG-01
    #[test]
    fn two_equal_keys_and_odd_bytes_are_refused_with_their_line() {
        let twice = parse(&file(), b"{\"features\": [\n{\"passes\": false, \"passes\": true}]}");
        let twice = twice.unwrap_err();
        assert_eq!((twice.line, twice.found.contains("`passes` twice")), (Some(2), true));
        for bad in [&b"\xff\xfe{\x00"[..], b"", b"{", b"[1,]"] {
            assert_eq!(parse(&file(), bad).unwrap_err().rule.as_str(), "LG-01");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&file(), deep.as_bytes()).is_err());
    }

    // covers: LG-10
    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(utc("2025-01-29T12:00:00+02:00").as_deref(), Some("2025-01-29T10:00:00Z"));
        assert_eq!(
            utc("2025-01-29T10:00:00.123456+00:00").as_deref(),
            Some("2025-01-29T10:00:00Z")
        );
        assert_eq!(utc("yesterday"), None);
    }
}
