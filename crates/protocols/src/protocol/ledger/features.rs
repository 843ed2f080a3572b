//! `feature_list.json`: what is to be built, and what passes. SPEC GAP: spec 5 names it without a schema; LG-01 has one.

use super::check::{At, Check, Need};
use super::json::{self, Object, shown};
use super::reviews::text;
use super::splice::Sourced;
use super::standing::{self, Custom, Mark};
use crate::model::{Rejection, RelPath, Timestamp, clip};
use serde_json::{Value, json};

pub const FEATURES: &str = "feature_list.json";

/// An object with `features`, or a bare list; it stays what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Features(Sourced);

/// One entry of the list.
#[derive(Clone, Copy, Debug)]
pub struct Feature<'a> {
    place: usize,
    value: &'a Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Feature,
    Bug,
    Debt,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Feature, Self::Bug, Self::Debt];

    /// As the command line and ids name it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Feature => "FEAT",
            Self::Bug => "BUG",
            Self::Debt => "DEBT",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word().eq_ignore_ascii_case(word))
    }

    fn of(feature: &Value) -> Self {
        match text(feature, "type") {
            Some("bug") => Self::Bug,
            Some("tech_debt") => Self::Debt,
            Some(_) | None => Self::Feature,
        }
    }

    fn type_word(self) -> Option<&'static str> {
        match self {
            Self::Feature => None,
            Self::Bug => Some("bug"),
            Self::Debt => Some("tech_debt"),
        }
    }
}

impl<'a> Feature<'a> {
    pub fn value(self) -> &'a Value {
        self.value
    }

    /// Text; an integer as text; `#3` for the third entry if it has none (LG-17).
    pub fn id(self) -> String {
        own_id(self.value).unwrap_or_else(|| format!("#{}", self.place + 1))
    }

    pub fn has_id(self) -> bool {
        own_id(self.value).is_some()
    }

    pub fn passes(self) -> bool {
        Mark::of(self.value).is_ok_and(Mark::is_done)
    }

    /// `name`, else `title`, else `description`.
    pub fn label(self) -> &'a str {
        label(self.value).unwrap_or_default()
    }

    pub fn kind(self) -> Kind {
        Kind::of(self.value)
    }
}

fn own_id(entry: &Value) -> Option<String> {
    match entry.get("id")? {
        Value::String(id) => Some(id.clone()).filter(|id| !id.is_empty()),
        Value::Number(id) => Some(id.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn label(entry: &Value) -> Option<&str> {
    let given = |name| text(entry, name).filter(|label| !label.is_empty());
    ["name", "title", "description"].into_iter().find_map(given)
}

/// Marks an entry as not done, in its own field.
pub(super) fn reopen(entry: &mut Value) {
    if let Value::Object(entry) = entry {
        standing::set(entry, false, None);
    }
}

impl Features {
    /// LG-02: a list of something else is not ours. LG-17: the shapes that people have are.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>> {
        let file = RelPath::fixed(FEATURES);
        let value = Sourced::read(&file, bytes).map_err(|problem| vec![problem])?;
        let list = value.as_array().or_else(|| value.get("features").and_then(Value::as_array));
        let Some(list) = list else {
            let found = format!("another shape: {}", clip(&value.to_string(), 60));
            let wanted =
                "an object with the list `features`, or a bare list; this file is left alone";
            return Err(vec![Rejection::new("LG-02", &file, found, wanted)]);
        };
        let problems =
            list.iter().enumerate().filter_map(|(at, entry)| problem_of(&file, at, entry));
        let problems: Vec<Rejection> = problems.take(PROBLEMS_MAX).collect();
        if problems.is_empty() { Ok(Self(value)) } else { Err(problems) }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    pub fn value(&self) -> &Value {
        &self.0
    }

    fn entries(&self) -> &[Value] {
        let list = self.0.as_array().or_else(|| self.0.get("features").and_then(Value::as_array));
        list.map_or(&[], Vec::as_slice)
    }

    pub fn all(&self) -> impl DoubleEndedIterator<Item = Feature<'_>> {
        self.entries().iter().enumerate().map(|(place, value)| Feature { place, value })
    }

    pub fn len(&self) -> usize {
        self.entries().len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    fn entries_mut(&mut self) -> Option<&mut Vec<Value>> {
        match &mut *self.0 {
            Value::Array(features) => Some(features),
            Value::Object(whole) => whole.get_mut("features").and_then(Value::as_array_mut),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    pub fn get(&self, wanted: &str) -> Option<Feature<'_>> {
        self.all().find(|feature| feature.id() == wanted)
    }

    /// The name that the list gives to the project.
    pub fn project_name(&self) -> Option<&str> {
        let project = || text(self.0.get("project")?, "name");
        let names = [
            text(&self.0, "project_name"),
            text(&self.0, "project"),
            project(),
            text(&self.0, "name"),
        ];
        names.into_iter().flatten().map(str::trim).find(|name| !name.is_empty())
    }

    /// Why no session may work by this list although it can be read: an entry without an id, or an id that stands twice.
    pub fn unusable(&self) -> Option<Rejection> {
        let file = RelPath::fixed(FEATURES);
        let missing = self.all().filter(|feature| !feature.has_id()).count();
        if missing > 0 {
            let first = self.all().find(|feature| !feature.has_id())?;
            let found = format!(
                "{missing} of {} entries without an id (the first: {})",
                self.len(),
                first.id()
            );
            return Some(Rejection::new(
                "LG-17",
                &file,
                found,
                "an id in each; `agency ledger adopt` writes them",
            ));
        }
        let mut seen = std::collections::BTreeSet::new();
        let twice = self.all().map(Feature::id).find(|id| !seen.insert(id.clone()))?;
        let found = format!("the id `{}` twice", clip(&twice, 60));
        Some(Rejection::new("LG-01", &file, found, "each id once"))
    }

    /// LG-17: gives each entry without an id the next one of its kind. The ids that were given.
    pub fn write_ids(&mut self) -> Vec<String> {
        let missing: Vec<usize> =
            self.all().filter(|feature| !feature.has_id()).map(|feature| feature.place).collect();
        let mut ids = Vec::new();
        for place in missing {
            let (id, text) =
                self.free_id(self.entries().get(place).map_or(Kind::Feature, Kind::of));
            let entry = self.entries_mut().and_then(|all| all.get_mut(place)?.as_object_mut());
            if let Some(entry) = entry {
                let mut whole = Object::new();
                whole.insert("id".to_owned(), id);
                whole.extend(std::mem::take(entry).into_iter().filter(|(name, _)| name != "id"));
                *entry = whole;
                ids.push(text);
            }
        }
        ids
    }

    pub(super) fn reopen_all(&mut self) {
        let custom = Custom::of(self.entries());
        for entry in self.entries_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            standing::set(entry, false, custom.as_ref());
        }
    }

    /// LG-13: what does not pass, bugs first, the rest in the order of the file.
    pub fn pending(&self) -> impl Iterator<Item = Feature<'_>> {
        let open = |feature: &Feature<'_>| !feature.passes();
        let bug = |feature: &Feature<'_>| feature.kind() == Kind::Bug;
        let bugs = self.all().filter(open).filter(bug);
        bugs.chain(self.all().filter(open).filter(move |feature| !bug(feature)))
    }

    pub fn passing(&self) -> usize {
        self.all().filter(|feature| feature.passes()).count()
    }

    /// The next free id. Ids of the old form `F001` count with `FEAT-001`.
    pub fn next_id(&self, kind: Kind) -> String {
        self.free_id(kind).1
    }

    /// As it is written, and as text. Where all ids are integers, so is the next one.
    fn free_id(&self, kind: Kind) -> (Value, String) {
        let mut ids = self.entries().iter().filter_map(|entry| entry.get("id")).peekable();
        if ids.peek().is_some() && ids.all(|id| id.is_u64() || id.is_null()) {
            let last = self.entries().iter().filter_map(|entry| entry.get("id")?.as_u64()).max();
            let next = last.unwrap_or(0).saturating_add(1);
            return (json!(next), next.to_string());
        }
        let prefix = format!("{}-", kind.word());
        let number = |id: String| {
            let legacy = || (kind == Kind::Feature).then(|| id.strip_prefix('F')).flatten();
            id.strip_prefix(&prefix).or_else(legacy)?.parse::<u64>().ok()
        };
        let last = self.all().map(Feature::id).filter_map(number).max().unwrap_or(0);
        let next = format!("{prefix}{:03}", last.saturating_add(1));
        (json!(next), next)
    }

    /// False: it passed already, and nothing changed. `None`: there is no such feature.
    pub fn pass(&mut self, wanted: &str, at: Timestamp) -> Option<bool> {
        if self.get(wanted)?.passes() {
            return Some(false);
        }
        let custom = Custom::of(self.entries());
        let feature = self.find_mut(wanted)?;
        standing::set(feature, true, custom.as_ref());
        feature.insert("passed_at".to_owned(), json!(json::stamp(at)));
        Some(true)
    }

    /// A regression. False: there is no such feature.
    pub fn fail(&mut self, wanted: &str, reason: &str, at: Timestamp) -> bool {
        let custom = Custom::of(self.entries());
        let Some(feature) = self.find_mut(wanted) else { return false };
        standing::set(feature, false, custom.as_ref());
        feature.insert("failed_at".to_owned(), json!(json::stamp(at)));
        feature.insert("failure_reason".to_owned(), json!(reason));
        true
    }

    /// Only by an id of its own: a place in the file is no name that lasts.
    fn find_mut(&mut self, wanted: &str) -> Option<&mut Object> {
        let features = self.entries_mut()?;
        let found = features.iter_mut().find(|entry| own_id(entry).as_deref() == Some(wanted));
        found.and_then(Value::as_object_mut)
    }

    /// Adds entries, all or none; those without an id get the next one of their kind. The ids that were added.
    pub fn append(
        &mut self,
        entries: &Value,
        source: Option<&str>,
    ) -> Result<Vec<String>, Vec<Rejection>> {
        let file = RelPath::fixed(FEATURES);
        let mut check = Check::new(&file);
        let mut next = self.clone();
        let mut ids = Vec::new();
        let none = Vec::new();
        let entries = entries.as_array().unwrap_or_else(|| {
            check.refuse("LG-01", format!("entries {}", shown(Some(entries))), "a JSON list");
            &none
        });
        for at in check.items("entries", entries) {
            let entry = next.entry(&mut check, &at, source);
            ids.push(own_id(&entry).unwrap_or_default());
            if let Some(features) = next.entries_mut() {
                features.push(entry);
            }
        }
        check.finish()?;
        next.count_totals();
        *self = next;
        Ok(ids)
    }

    fn entry(&self, check: &mut Check<'_>, at: &At<'_>, source: Option<&str>) -> Value {
        check_feature(check, at);
        let given = Value::Object(at.object.clone());
        let kind = Kind::of(&given);
        let mut entry = Object::new();
        let id = own_id(&given);
        if let Some(id) = id.as_deref().filter(|id| self.get(id).is_some()) {
            check.refuse("LG-01", format!("the id `{}` again", clip(id, 60)), "a new id, or none");
        }
        let written = if id.is_some() { at.get("id").clone() } else { self.free_id(kind).0 };
        entry.insert("id".to_owned(), written);
        entry.extend(
            at.object.iter().filter(|(name, _)| *name != "id").map(|(n, v)| (n.clone(), v.clone())),
        );
        if Mark::of(&given).is_ok_and(Mark::is_done) {
            let found = format!("`{}` as done already", at.place);
            check.refuse("LG-06", found, "false: only a REVIEW of the work makes a feature pass");
        }
        standing::set(&mut entry, false, Custom::of(self.entries()).as_ref());
        if let Some(word) = kind.type_word() {
            entry.insert("type".to_owned(), json!(word));
        }
        if let Some(source) = source {
            entry.insert("source_appspec".to_owned(), json!(source));
        }
        Value::Object(entry)
    }

    /// Totals that the file carries are ours to compute (LG-13).
    fn count_totals(&mut self) {
        let count = |kind: Kind| self.all().filter(|feature| feature.kind() == kind).count();
        let counts = [("total_features", count(Kind::Feature)), ("total_bugs", count(Kind::Bug))];
        if let Value::Object(whole) = &mut *self.0 {
            for (name, count) in counts {
                if whole.contains_key(name) {
                    whole.insert(name.to_owned(), json!(count));
                }
            }
        }
    }

    /// Everything that the schema does not allow.
    pub fn problems(&self) -> Vec<Rejection> {
        let file = RelPath::fixed(FEATURES);
        let mut check = Check::new(&file);
        for at in check.items("features", self.entries()) {
            check_feature(&mut check, &at);
            if Mark::of(&Value::Object(at.object.clone())) == Ok(Mark::Missing) {
                let found = format!("`{}` without `passes`, `status` or `state`", at.place);
                check.refuse("LG-17", found, "one of them; an entry without counts as not done");
            }
        }
        check.problems.extend(self.unusable());
        check.problems
    }
}

/// At most so many entries of a refused list are named.
const PROBLEMS_MAX: usize = 20;

/// Why this entry cannot be one of a feature list.
fn problem_of(file: &RelPath, at: usize, entry: &Value) -> Option<Rejection> {
    let refused = |rule: &str, found: String, wanted: &str| {
        let wanted = format!("{wanted}; this file is left alone");
        Some(Rejection::new(rule, file, found, &wanted))
    };
    let place = format!("features[{at}]");
    let Value::Object(fields) = entry else {
        return refused("LG-02", format!("`{place}` {}", shown(Some(entry))), "an object");
    };
    let id = fields.get("id").filter(|id| !id.is_null());
    if let Some(id) = id.filter(|id| !(id.is_string() || id.is_i64() || id.is_u64())) {
        let found = format!("`{place}.id` {}", shown(Some(id)));
        return refused("LG-02", found, "text or a whole number");
    }
    if id.is_none() && label(entry).is_none() {
        let found = format!("`{place}` {}", shown(Some(entry)));
        return refused("LG-02", found, "an object with id, name, title or description");
    }
    let (found, wanted) = Mark::of(entry).err()?;
    refused("LG-17", format!("{found} in `{place}`"), &wanted)
}

fn check_feature(check: &mut Check<'_>, at: &At<'_>) {
    if label(&Value::Object(at.object.clone())).is_none() {
        let found = format!("`{}` without a name", at.place);
        check.refuse("LG-01", found, "`name`, `title` or `description` as text");
    }
    if let Err((found, wanted)) = Mark::of(&Value::Object(at.object.clone())) {
        check.refuse("LG-17", format!("{found} in `{}`", at.place), &wanted);
    }
    check.text(at, "description", Need::May);
    check.text(at, "category", Need::May);
    check.list(at, "test_steps", Need::May);
    check.time(at, "passed_at", Need::May);
    check.time(at, "failed_at", Need::May);
    check.text(at, "failure_reason", Need::May);
    if let Some(word) = check.text(at, "type", Need::May)
        && !matches!(word, "bug" | "tech_debt" | "feature")
    {
        let found = format!("`{}.type` `{}`", at.place, clip(word, 40));
        check.refuse("LG-01", found, "bug, tech_debt or feature");
    }
}
