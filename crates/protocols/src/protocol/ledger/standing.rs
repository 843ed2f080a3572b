//! Whether one entry of a feature list is done, in the field and the words that its author uses (LG-17). It knows no list.

use super::json::{Object, shown};
use serde_json::{Value, json};

/// The words that mean a state, in the order in which they are listed in a refusal.
const DONE: [&str; 4] = ["done", "pass", "passing", "completed"];
const OPEN: [&str; 5] = ["pending", "todo", "not-started", "not_started", "incomplete"];
const UNDER_WAY: [&str; 2] = ["in-progress", "in_progress"];

/// Fields that hold such a word, where there is no `passes`.
const FIELDS: [&str; 2] = ["status", "state"];

/// Fields by which other tools say that an entry is done. They are not read, but must not be taken for "not done" either.
const OTHER_FIELDS: [&str; 6] =
    ["done", "completed", "complete", "implemented", "passed", "passing"];

/// Where an entry says whether it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark<'a> {
    Passes(bool),
    Word {
        field: &'static str,
        word: &'a str,
    },
    /// Nowhere: it is not done yet.
    Missing,
}

impl<'a> Mark<'a> {
    /// Or what is wrong with it: the field and its value, and what would be right.
    pub(super) fn of(entry: &'a Value) -> Result<Self, (String, String)> {
        let given = |name: &str| entry.get(name).filter(|value| !value.is_null());
        match given("passes") {
            Some(Value::Bool(passes)) => return Ok(Self::Passes(*passes)),
            Some(other) => {
                let found = format!("`passes` {}", shown(Some(other)));
                return Err((found, "true or false".to_owned()));
            }
            None => {}
        }
        for field in FIELDS {
            let Some(value) = given(field) else { continue };
            return match value.as_str().filter(|word| means(word).is_some()) {
                Some(word) => Ok(Self::Word { field, word }),
                None => {
                    let all = [&DONE[..], &OPEN, &UNDER_WAY].concat().join(", ");
                    Err((format!("`{field}` {}", shown(Some(value))), format!("one of {all}")))
                }
            };
        }
        let other = OTHER_FIELDS.iter().find(|name| entry.get(**name) == Some(&Value::Bool(true)));
        match other {
            Some(name) => {
                let wanted = "`passes`, or a `status` or `state` word such as done".to_owned();
                Err((format!("`{name}` `true`"), wanted))
            }
            None => Ok(Self::Missing),
        }
    }

    pub(super) fn is_done(self) -> bool {
        match self {
            Self::Passes(passes) => passes,
            Self::Word { word, .. } => means(word) == Some(true),
            Self::Missing => false,
        }
    }
}

/// Done or not; `None`: the word is unknown.
fn means(word: &str) -> Option<bool> {
    let is = |known: &&str| known.eq_ignore_ascii_case(word);
    if DONE.iter().any(&is) {
        Some(true)
    } else {
        OPEN.iter().chain(&UNDER_WAY).any(is).then_some(false)
    }
}

/// The field `name` holds one of the words that say whether an entry is done.
pub(super) fn is_mark(name: &str, value: &Value) -> bool {
    name == "passes" || FIELDS.contains(&name) && value.as_str().is_some_and(|w| means(w).is_some())
}

/// How a list writes that an entry is done, and that it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Custom {
    field: &'static str,
    done: String,
    open: String,
}

impl Custom {
    /// As the entries do it. `None`: by `passes`, which is also the way of a list that shows none.
    pub(super) fn of(entries: &[Value]) -> Option<Self> {
        let words = || {
            entries.iter().filter_map(|entry| match Mark::of(entry) {
                Ok(Mark::Word { field, word }) => Some((field, word)),
                Ok(Mark::Passes(_) | Mark::Missing) | Err(_) => None,
            })
        };
        let (field, any) = words().next()?;
        let said = |wanted: bool| {
            let fits = |word: &&str| means(word) == Some(wanted) && !is_under_way(word);
            let word = words().map(|(_, word)| word).find(fits);
            word.map_or_else(|| counterpart(any, wanted), str::to_owned)
        };
        Some(Self { field, done: said(true), open: said(false) })
    }

    fn word(&self, done: bool) -> &str {
        if done { &self.done } else { &self.open }
    }
}

fn is_under_way(word: &str) -> bool {
    UNDER_WAY.iter().any(|known| known.eq_ignore_ascii_case(word))
}

/// The word for the other state, for a list that has used only one so far, in the same case.
fn counterpart(word: &str, done: bool) -> String {
    let partner = match (word.to_ascii_lowercase().as_str(), done) {
        ("pending" | "incomplete", true) => "completed",
        (_, true) => "done",
        ("done", false) => "todo",
        (_, false) => "pending",
    };
    let upper = |c: char| c.is_ascii_uppercase();
    if word.chars().all(|c| upper(c) || !c.is_ascii_alphabetic()) {
        partner.to_ascii_uppercase()
    } else if word.starts_with(upper) {
        partner[..1].to_ascii_uppercase() + &partner[1..]
    } else {
        partner.to_owned()
    }
}

/// Writes the state to the field that holds it already; to a new one by the custom of the list.
pub(super) fn set(entry: &mut Object, done: bool, custom: Option<&Custom>) {
    let whole = Value::Object(entry.clone());
    let has_passes = matches!(Mark::of(&whole), Ok(Mark::Passes(_)));
    let field = FIELDS.into_iter().find(|name| entry.get(*name).is_some_and(|v| is_mark(name, v)));
    if let Some(field) = field
        && let Some(word) = whole[field].as_str().filter(|word| means(word) != Some(done))
    {
        let word =
            custom.map_or_else(|| counterpart(word, done), |known| known.word(done).to_owned());
        entry.insert(field.to_owned(), json!(word));
    }
    match (has_passes || field.is_none(), custom.filter(|_| !has_passes)) {
        (true, Some(custom)) => {
            entry.insert(custom.field.to_owned(), json!(custom.word(done)));
        }
        (true, None) => drop(entry.insert("passes".to_owned(), json!(done))),
        (false, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: LG-17
    #[test]
    fn the_listed_words_are_known_and_others_are_refused_by_name() {
        let done = ["done", "pass", "passing", "completed"];
        let open = [
            "pending",
            "todo",
            "not-started",
            "not_started",
            "incomplete",
            "in-progress",
            "in_progress",
        ];
        for field in ["status", "state"] {
            for (words, wanted) in [(&done[..], true), (&open[..], false)] {
                for word in words {
                    let entry = json!({field: word});
                    assert_eq!(Mark::of(&entry).unwrap().is_done(), wanted, "{field} {word}");
                }
            }
            let odd = json!({field: "shipped"});
            let (found, wanted) = Mark::of(&odd).unwrap_err();
            assert!(found.contains(field) && found.contains("shipped"), "{found}");
            assert!(done.iter().chain(&open).all(|word| wanted.contains(word)), "{wanted}");
        }
        assert!(Mark::of(&json!({"done": true})).is_err(), "finished work is not taken for open");
    }

    // covers: LG-17
    #[test]
    fn the_state_is_written_to_the_field_that_held_it() {
        let rows = [
            (json!({"passes": false}), true, json!({"passes": true})),
            (json!({"status": "pending"}), true, json!({"status": "completed"})),
            (json!({"status": "TODO"}), true, json!({"status": "DONE"})),
            (json!({"state": "Done"}), false, json!({"state": "Todo"})),
            (json!({"state": "in-progress"}), false, json!({"state": "in-progress"})),
            (
                json!({"status": "todo", "passes": false}),
                true,
                json!({"status": "done", "passes": true}),
            ),
            (
                json!({"status": "beta", "passes": false}),
                true,
                json!({"status": "beta", "passes": true}),
            ),
            (json!({"name": "n"}), true, json!({"name": "n", "passes": true})),
        ];
        for (entry, done, wanted) in rows {
            let mut object = entry.as_object().unwrap().clone();
            set(&mut object, done, None);
            assert_eq!(Value::Object(object), wanted, "{entry}");
        }
        let list =
            [json!({"status": "passing"}), json!({"status": "not-started"}), json!({"id": 3})];
        let custom = Custom::of(&list);
        let mut bare = list[2].as_object().unwrap().clone();
        set(&mut bare, true, custom.as_ref());
        assert_eq!(Value::Object(bare), json!({"id": 3, "status": "passing"}));
    }
}
