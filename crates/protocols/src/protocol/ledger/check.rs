//! Collects every problem of a document, so that all are told at once. It knows the kinds of values, no document.

use super::json::{Object, shown, utc};
use crate::model::{Rejection, RelPath};
use serde_json::Value;

/// At most so many are told: the rest follows when these are put right.
const PROBLEMS_MAX: usize = 50;

pub(super) struct Check<'a> {
    file: &'a RelPath,
    pub(super) problems: Vec<Rejection>,
}

/// May a field be missing?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Must,
    May,
}

impl<'a> Check<'a> {
    pub(super) fn new(file: &'a RelPath) -> Self {
        Self { file, problems: Vec::new() }
    }

    pub(super) fn refuse(&mut self, rule: &str, found: String, wanted: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Rejection::new(rule, self.file, found, wanted));
        }
    }

    pub(super) fn finish(self) -> Result<(), Vec<Rejection>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }

    fn field<'v>(
        &mut self,
        at: &At<'v>,
        name: &str,
        need: Need,
        wanted: &str,
    ) -> Option<&'v Value> {
        let value = at.object.get(name).filter(|value| !value.is_null());
        if value.is_none() && need == Need::Must {
            let found = format!("`{}.{name}` {}", at.place, shown(at.object.get(name)));
            self.refuse("LG-01", found, wanted);
        }
        value
    }

    fn wrong(&mut self, rule: &str, at: &At<'_>, name: &str, wanted: &str) {
        let found = format!("`{}.{name}` {}", at.place, shown(at.object.get(name)));
        self.refuse(rule, found, wanted);
    }

    pub(super) fn text<'v>(&mut self, at: &At<'v>, name: &str, need: Need) -> Option<&'v str> {
        let value = self.field(at, name, need, "text")?;
        let text = value.as_str();
        if text.is_none() {
            self.wrong("LG-01", at, name, "text");
        }
        text
    }

    pub(super) fn number(&mut self, at: &At<'_>, name: &str, need: Need) -> Option<u64> {
        let value = self.field(at, name, need, "a whole number")?;
        let number = value.as_u64();
        if number.is_none() {
            self.wrong("LG-01", at, name, "a whole number");
        }
        number
    }

    pub(super) fn flag(&mut self, at: &At<'_>, name: &str, need: Need) -> Option<bool> {
        let value = self.field(at, name, need, "true or false")?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.wrong("LG-01", at, name, "true or false");
        }
        flag
    }

    pub(super) fn list<'v>(&mut self, at: &At<'v>, name: &str, need: Need) -> &'v [Value] {
        match self.field(at, name, need, "a list") {
            Some(Value::Array(items)) => items,
            Some(_) => {
                self.wrong("LG-01", at, name, "a list");
                &[]
            }
            None => &[],
        }
    }

    pub(super) fn object<'v>(&mut self, at: &At<'v>, name: &str, need: Need) -> Option<At<'v>> {
        let object = self.field(at, name, need, "an object")?.as_object();
        if object.is_none() {
            self.wrong("LG-01", at, name, "an object");
        }
        object.map(|object| At { place: format!("{}.{name}", at.place), object })
    }

    /// Spec 5 §4, "Timestamps". Other zones are read (LG-10); what is no time at all is not.
    pub(super) fn time(&mut self, at: &At<'_>, name: &str, need: Need) {
        let text = self.text(at, name, need);
        if text.is_some_and(|text| utc(text).is_none()) {
            self.wrong("LG-10", at, name, "a time in UTC as 2026-01-01T00:00:00Z");
        }
    }

    /// One word of a list of words.
    pub(super) fn word<T>(
        &mut self,
        at: &At<'_>,
        name: &str,
        parse: fn(&str) -> Option<T>,
        all: &str,
    ) -> Option<T> {
        let word = parse(self.text(at, name, Need::Must)?);
        if word.is_none() {
            self.wrong("LG-05", at, name, all);
        }
        word
    }

    /// Each item of a list that must be objects.
    pub(super) fn items<'v>(&mut self, place: &str, items: &'v [Value]) -> Vec<At<'v>> {
        let mut found = Vec::new();
        for (n, item) in items.iter().enumerate() {
            let place = format!("{place}[{n}]");
            if let Value::Object(object) = item {
                found.push(At { place, object });
            } else {
                self.refuse("LG-01", format!("`{place}` {}", shown(Some(item))), "an object");
            }
        }
        found
    }
}

/// An object, and where it stands in its document.
#[derive(Clone)]
pub(super) struct At<'v> {
    pub(super) place: String,
    pub(super) object: &'v Object,
}

impl<'v> At<'v> {
    pub(super) fn new(place: impl Into<String>, object: &'v Object) -> Self {
        Self { place: place.into(), object }
    }

    pub(super) fn get(&self, name: &str) -> &'v Value {
        self.object.get(name).unwrap_or(&Value::Null)
    }
}
