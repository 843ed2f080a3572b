//! Sets fields of a JSON object that others write too, under its folder's lock. All that is not named stays as it is.

use super::{EditError, Edited, edit};
use crate::model::{Field, RelPath, without_bom};
use serde_json::{Map, Value};
use std::path::Path;
use std::time::Duration;

const LIMIT: u64 = 1 << 20;
const WAIT: Duration = Duration::from_secs(5);

/// The file, or something on the way to a field, is no JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not a JSON object; it is left as it is")]
pub struct NotAnObject {
    what: String,
}

pub fn amend(
    root: &Path,
    path: &RelPath,
    fields: &[Field],
) -> Result<Edited, EditError<NotAnObject>> {
    edit(root, path, LIMIT, WAIT, |old| {
        let no_object = || NotAnObject { what: format!("`{path}`") };
        let mut object = match old {
            None => Map::new(),
            Some(bytes) => serde_json::from_slice(without_bom(bytes)).map_err(|_| no_object())?,
        };
        for field in fields {
            set(&mut object, &field.at, field.value.as_ref())?;
        }
        Ok(Some(pretty(&object)))
    })
}

/// As people read it, with an end of line.
fn pretty(object: &Map<String, Value>) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(object).expect("BUG: JSON is plain data");
    bytes.push(b'\n');
    bytes
}

fn set(
    object: &mut Map<String, Value>,
    at: &[String],
    value: Option<&Value>,
) -> Result<(), NotAnObject> {
    match (at, value) {
        ([], _) => Ok(()),
        ([name], Some(value)) => {
            object.insert(name.clone(), value.clone());
            Ok(())
        }
        ([name], None) => {
            object.remove(name);
            Ok(())
        }
        ([name, rest @ ..], value) => {
            let below = object.entry(name.clone()).or_insert_with(|| Map::new().into());
            match below {
                Value::Object(below) => set(below, rest, value),
                Value::Null => {
                    *below = Map::new().into();
                    set(below.as_object_mut().expect("BUG: just made one"), rest, value)
                }
                _ => Err(NotAnObject { what: format!("`{name}`") }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    fn field(at: &[&str], value: Value) -> Field {
        Field { at: at.iter().map(|&name| name.to_owned()).collect(), value: Some(value) }
    }

    // covers: HO-04
    #[test]
    fn what_is_not_named_stays() {
        let root = tempfile::tempdir().unwrap();
        let path = RelPath::fixed(".claude/state.json");
        let file = root.path().join(".claude/state.json");
        amend(root.path(), &path, &[field(&["a"], json!(1))]).unwrap();
        fs::write(&file, r#"{"a": 1, "theirs": [1, {"x": 2}], "agents": {"own": 3}}"#).unwrap();
        let gone = Field { at: vec!["a".to_owned()], value: None };
        let fields = [field(&["agents", "builder", "status"], json!("active")), gone];
        assert_eq!(amend(root.path(), &path, &fields).unwrap(), Edited::Written);
        assert_eq!(amend(root.path(), &path, &fields).unwrap(), Edited::Same);
        let now: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let wanted =
            json!({"theirs": [1, {"x": 2}], "agents": {"own": 3, "builder": {"status": "active"}}});
        assert_eq!(now, wanted);
    }

    // covers: HO-04
    #[test]
    fn another_shape_is_never_overwritten() {
        let root = tempfile::tempdir().unwrap();
        let path = RelPath::fixed("state.json");
        let file = root.path().join("state.json");
        for other in ["[]", "7", "not json", "", r#"{"agents": [1]}"#, r#"{"agents": "x"}"#] {
            fs::write(&file, other).unwrap();
            let fields = [field(&["agents", "builder"], json!(1))];
            assert!(amend(root.path(), &path, &fields).is_err(), "{other}");
            assert_eq!(fs::read_to_string(&file).unwrap(), other);
        }
    }
}
