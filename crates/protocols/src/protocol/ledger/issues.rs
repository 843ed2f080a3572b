//! The issues of one review: read in both forms, written in groups with their ids (spec 5 §2). It judges no verdict.

use super::check::{At, Check, Need};
use super::json::{Object, shown};
use super::words::Severity;
use crate::model::{Rejection, RelPath, clip};
use serde_json::{Value, json};

/// The first letter of an id: whose review it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdLetter {
    Review,
    Architecture,
}

impl IdLetter {
    fn letter(self) -> char {
        match self {
            Self::Review => 'R',
            Self::Architecture => 'A',
        }
    }
}

/// Every issue with its severity, the worst first: from groups, or from the flat list of the scripts in the wild.
pub fn of(review: &Value) -> Vec<(Severity, &Value)> {
    let mut found: Vec<(Severity, &Value)> = match review.get("issues") {
        Some(Value::Object(groups)) => groups
            .iter()
            .filter_map(|(name, items)| Some((Severity::parse(name)?, items.as_array()?)))
            .flat_map(|(severity, items)| items.iter().map(move |item| (severity, item)))
            .collect(),
        Some(Value::Array(items)) => {
            items.iter().filter_map(|item| Some((severity_of(item)?, item))).collect()
        }
        _ => Vec::new(),
    };
    found.sort_by_key(|(severity, _)| *severity);
    found
}

/// How many of them stand in the way of a merge.
pub fn blocking(review: &Value) -> usize {
    of(review).iter().filter(|(severity, _)| severity.blocks()).count()
}

pub fn id_of(issue: &Value) -> Option<&str> {
    issue.get("id").and_then(Value::as_str)
}

fn severity_of(issue: &Value) -> Option<Severity> {
    Severity::parse(&issue.get("severity")?.as_str()?.to_lowercase())
}

/// What an agent gave, in the spec's form: four groups, each issue with its id.
pub(super) fn group(
    file: &RelPath,
    given: &Value,
    letter: IdLetter,
    review: u64,
) -> Result<Value, Vec<Rejection>> {
    let mut check = Check::new(file);
    let mut groups: Vec<(Severity, Vec<Value>)> =
        Severity::ALL.iter().map(|severity| (*severity, Vec::new())).collect();
    for (severity, issue) in sorted(&mut check, given) {
        let group = &mut groups.iter_mut().find(|(known, _)| *known == severity);
        if let Some((_, items)) = group {
            let id =
                format!("{}{review}-{}{}", letter.letter(), severity.letter(), items.len() + 1);
            items.push(with_id(issue, &id));
        }
    }
    let groups =
        groups.into_iter().map(|(severity, items)| (severity.word().to_owned(), items.into()));
    let grouped = Value::Object(groups.collect());
    check.finish()?;
    Ok(grouped)
}

/// The items with their severity, whichever form they came in.
fn sorted<'v>(check: &mut Check<'_>, given: &'v Value) -> Vec<(Severity, &'v Object)> {
    let mut found = Vec::new();
    match given {
        Value::Null => {}
        Value::Array(items) => {
            for at in check.items("issues", items) {
                match severity_of(&Value::Object(at.object.clone())) {
                    Some(severity) => found.push((severity, at.object)),
                    None => check.refuse(
                        "LG-05",
                        format!("`{}.severity` {}", at.place, shown(at.object.get("severity"))),
                        "critical, major, minor or suggestion",
                    ),
                }
            }
        }
        Value::Object(groups) => {
            for (name, items) in groups {
                match (Severity::parse(name), items) {
                    (Some(severity), Value::Array(items)) => {
                        let at = check.items(&format!("issues.{name}"), items);
                        found.extend(at.into_iter().map(|at| (severity, at.object)));
                    }
                    _ => check.refuse(
                        "LG-05",
                        format!("`issues.{}` {}", clip(name, 40), shown(Some(items))),
                        "lists named critical, major, minor and suggestions",
                    ),
                }
            }
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            let found = format!("`issues` {}", shown(Some(given)));
            check.refuse("LG-01", found, "a list, or lists by severity");
        }
    }
    found
}

/// The spec's order of fields. An id that was given stays: `check` says whether it is right.
fn with_id(issue: &Object, id: &str) -> Value {
    let mut made = Object::new();
    made.insert("id".to_owned(), issue.get("id").cloned().unwrap_or_else(|| json!(id)));
    let rest = issue.iter().filter(|(name, _)| !matches!(name.as_str(), "id" | "severity"));
    made.extend(rest.map(|(name, value)| (name.clone(), value.clone())));
    Value::Object(made)
}

/// LG-05: the letter and the number of each id fit its severity and its review, and no id stands twice.
pub(super) fn check(check: &mut Check<'_>, at: &At<'_>, letter: IdLetter, review: u64) {
    let whole = Value::Object(at.object.clone());
    let mut seen: Vec<&str> = Vec::new();
    let issues = of(&whole);
    for (severity, issue) in &issues {
        let prefix = format!("{}{review}-{}", letter.letter(), severity.letter());
        let id = id_of(issue).unwrap_or_default();
        let number = id.strip_prefix(&prefix).and_then(|rest| rest.parse::<u32>().ok());
        let place = format!("{}.issues", at.place);
        if number.is_none_or(|number| number == 0) {
            let found = format!("the id {} in `{place}`", shown(issue.get("id")));
            let n =
                issues.iter().filter(|(s, i)| s == severity && !std::ptr::eq(*i, *issue)).count();
            check.refuse("LG-05", found, &format!("`{prefix}1` (up to `{prefix}{}`)", n + 1));
        } else if seen.contains(&id) {
            check.refuse("LG-05", format!("the id `{id}` twice in `{place}`"), "each id once");
        }
        seen.push(id);
        if let Value::Object(object) = issue {
            check.text(&At::new(place, object), "description", Need::Must);
        }
    }
}
