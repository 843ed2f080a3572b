//! `feature_list.json`: what is to be built, and what passes. SPEC GAP: spec 5 names it without a schema; LG-01 has one.

use super::check::{At, Check, Need};
use super::json::{self, Object, shown};
use super::reviews::text;
use crate::model::{Rejection, RelPath, Timestamp, clip};
use serde_json::{Value, json};

pub const FEATURES: &str = "feature_list.json";

/// An object with `features`, or a bare list; it stays what it was.
#[derive(Clone, Debug, PartialEq)]
pub struct Features(Value);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Feature,
    Bug,
    Debt,
}

/// Numbers for `progress.json`. SPEC GAP: completed are those that ever passed, also if they fail again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub total: u64,
    pub completed: u64,
    pub passing: u64,
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

    pub fn of(feature: &Value) -> Self {
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

pub fn passes(feature: &Value) -> bool {
    feature.get("passes") == Some(&Value::Bool(true))
}

pub fn id(feature: &Value) -> &str {
    text(feature, "id").unwrap_or_default()
}

impl Features {
    /// LG-02: a list of something else is not ours.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>> {
        let file = RelPath::fixed(FEATURES);
        let value = json::parse(&file, bytes).map_err(|problem| vec![problem])?;
        let list = value.as_array().or_else(|| value.get("features").and_then(Value::as_array));
        let fits = |feature: &Value| {
            text(feature, "id").is_some_and(|id| !id.is_empty())
                && feature.get("passes").is_none_or(Value::is_boolean)
        };
        match list.map(|features| features.iter().position(|feature| !fits(feature))) {
            Some(None) => Ok(Self(value)),
            Some(Some(at)) => {
                let odd = list.and_then(|features| features.get(at));
                let found = format!("`features[{at}]` {}", shown(odd));
                let wanted = "an object with `id` as text and `passes` as true or false; this file is left alone";
                Err(vec![Rejection::new("LG-02", &file, found, wanted)])
            }
            None => {
                let found = format!("another shape: {}", clip(&value.to_string(), 60));
                let wanted =
                    "an object with the list `features`, or a bare list; this file is left alone";
                Err(vec![Rejection::new("LG-02", &file, found, wanted)])
            }
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        json::to_bytes(&self.0)
    }

    pub fn value(&self) -> &Value {
        &self.0
    }

    pub fn all(&self) -> &[Value] {
        let list = self.0.as_array().or_else(|| self.0.get("features").and_then(Value::as_array));
        list.map_or(&[], Vec::as_slice)
    }

    fn all_mut(&mut self) -> Option<&mut Vec<Value>> {
        match &mut self.0 {
            Value::Array(features) => Some(features),
            Value::Object(whole) => whole.get_mut("features").and_then(Value::as_array_mut),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    pub fn get(&self, wanted: &str) -> Option<&Value> {
        self.all().iter().find(|feature| id(feature) == wanted)
    }

    /// LG-13: what does not pass, bugs first, the rest in the order of the file.
    pub fn pending(&self) -> impl Iterator<Item = &Value> {
        let open = |feature: &&Value| !passes(feature);
        let bug = |feature: &&Value| Kind::of(feature) == Kind::Bug;
        let bugs = self.all().iter().filter(open).filter(bug);
        bugs.chain(self.all().iter().filter(open).filter(move |feature| !bug(feature)))
    }

    pub fn counts(&self) -> Counts {
        let count = |wanted: fn(&Value) -> bool| {
            self.all().iter().filter(|feature| wanted(feature)).count() as u64
        };
        Counts {
            total: self.all().len() as u64,
            completed: count(|f| passes(f) || f.get("passed_at").is_some_and(|at| !at.is_null())),
            passing: count(passes),
        }
    }

    /// The next free id. Ids of the old form `F001` count with `FEAT-001`.
    pub fn next_id(&self, kind: Kind) -> String {
        let prefix = format!("{}-", kind.word());
        let number = |feature: &Value| {
            let id = id(feature);
            let legacy = || (kind == Kind::Feature).then(|| id.strip_prefix('F')).flatten();
            id.strip_prefix(&prefix).or_else(legacy)?.parse::<u64>().ok()
        };
        let last = self.all().iter().filter_map(number).max().unwrap_or(0);
        format!("{prefix}{:03}", last.saturating_add(1))
    }

    /// False: it passed already, and nothing changed. `None`: there is no such feature.
    pub fn pass(&mut self, wanted: &str, at: Timestamp) -> Option<bool> {
        let feature = self.find_mut(wanted)?;
        if feature.get("passes") == Some(&Value::Bool(true)) {
            return Some(false);
        }
        feature.insert("passes".to_owned(), json!(true));
        feature.insert("passed_at".to_owned(), json!(json::stamp(at)));
        Some(true)
    }

    /// A regression. False: there is no such feature.
    pub fn fail(&mut self, wanted: &str, reason: &str, at: Timestamp) -> bool {
        let Some(feature) = self.find_mut(wanted) else { return false };
        feature.insert("passes".to_owned(), json!(false));
        feature.insert("failed_at".to_owned(), json!(json::stamp(at)));
        feature.insert("failure_reason".to_owned(), json!(reason));
        true
    }

    fn find_mut(&mut self, wanted: &str) -> Option<&mut Object> {
        let features = self.all_mut()?;
        let found = features.iter_mut().find(|feature| id(feature) == wanted);
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
            ids.push(id(&entry).to_owned());
            if let Some(features) = next.all_mut() {
                features.push(entry);
            }
        }
        check.finish()?;
        next.count_totals();
        *self = next;
        Ok(ids)
    }

    fn entry(&self, check: &mut Check<'_>, at: &At<'_>, source: Option<&str>) -> Value {
        check_feature(check, at, Need::May);
        let kind = Kind::of(&Value::Object(at.object.clone()));
        let mut entry = Object::new();
        let id = text(&Value::Object(at.object.clone()), "id").map(str::to_owned);
        if let Some(id) = id.as_deref().filter(|id| self.get(id).is_some()) {
            check.refuse("LG-01", format!("the id `{}` again", clip(id, 60)), "a new id, or none");
        }
        entry.insert("id".to_owned(), json!(id.unwrap_or_else(|| self.next_id(kind))));
        entry.extend(
            at.object.iter().filter(|(name, _)| *name != "id").map(|(n, v)| (n.clone(), v.clone())),
        );
        if at.get("passes") == &Value::Bool(true) {
            let found = format!("`{}.passes` true", at.place);
            check.refuse("LG-06", found, "false: only a REVIEW of the work makes a feature pass");
        }
        entry.insert("passes".to_owned(), json!(false));
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
        let count =
            |kind: Kind| self.all().iter().filter(|feature| Kind::of(feature) == kind).count();
        let (features, bugs) = (count(Kind::Feature), count(Kind::Bug));
        if let Value::Object(whole) = &mut self.0 {
            whole.insert("total_features".to_owned(), json!(features));
            if bugs > 0 || whole.contains_key("total_bugs") {
                whole.insert("total_bugs".to_owned(), json!(bugs));
            }
        }
    }

    /// Everything that the schema does not allow.
    pub fn problems(&self) -> Vec<Rejection> {
        let file = RelPath::fixed(FEATURES);
        let mut check = Check::new(&file);
        let mut seen: Vec<&str> = Vec::new();
        for at in check.items("features", self.all()) {
            check_feature(&mut check, &at, Need::Must);
            let id = at.get("id").as_str().unwrap_or_default();
            if seen.contains(&id) {
                check.refuse("LG-01", format!("the id `{}` twice", clip(id, 60)), "each id once");
            }
            seen.push(id);
        }
        check.problems
    }
}

fn check_feature(check: &mut Check<'_>, at: &At<'_>, id: Need) {
    check.text(at, "id", id);
    check.text(at, "name", Need::Must);
    check.text(at, "description", Need::May);
    check.text(at, "category", Need::May);
    check.list(at, "test_steps", Need::May);
    check.flag(at, "passes", id);
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
