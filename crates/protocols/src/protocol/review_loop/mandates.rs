//! The owner's mandates: which steps are directed by the owner (spec 1 §3). It enforces nothing by itself.

use crate::model::{Rejection, RelPath, clip, without_bom};
use serde_json::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mandates {
    steps: Vec<String>,
}

impl Mandates {
    pub(super) fn binds(&self, step: &str) -> bool {
        self.steps.iter().any(|mandated| mandated == step)
    }
}

/// LP-29: `mandatedDecisions` may have any shape; `mandatedSteps` must be a list of steps.
pub(super) fn parse(bytes: &[u8]) -> Result<Mandates, Rejection> {
    let wrong = |found: String, wanted: &str| {
        Rejection::new("LP-29", &RelPath::fixed(super::MANDATES), found, wanted)
    };
    let value: Value = serde_json::from_slice(without_bom(bytes)).map_err(|error| {
        wrong(clip(&error.to_string(), 120), "one JSON object").at_line(error.line() as u64)
    })?;
    let Value::Object(fields) = value else {
        return Err(wrong("no object".to_owned(), "one JSON object"));
    };
    let steps = match fields.get("mandatedSteps") {
        None => Vec::new(),
        Some(Value::Array(steps)) => {
            steps.iter().map(step).collect::<Option<Vec<_>>>().ok_or_else(|| {
                wrong(
                    "a step that is neither text nor a number".to_owned(),
                    "steps such as \"6.5\"",
                )
            })?
        }
        Some(_) => {
            return Err(wrong("`mandatedSteps` that is no list".to_owned(), "a list of steps"));
        }
    };
    Ok(Mandates { steps })
}

/// As in a flag, a number is the step that prints the same.
fn step(value: &Value) -> Option<String> {
    match value {
        Value::String(step) => Some(step.clone()),
        Value::Number(step) => Some(step.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: LP-29
    #[test]
    fn steps_bind_and_decisions_may_have_any_shape() {
        let mandates =
            parse(br#"{"mandatedSteps": ["6.5", 11], "mandatedDecisions": [{"x": [1]}, "y"]}"#)
                .unwrap();
        assert!(mandates.binds("6.5") && mandates.binds("11") && !mandates.binds("6"));
        assert!(!parse(b"{}").unwrap().binds("1"));
        for bad in
            [&b"{"[..], b"[]", br#"{"mandatedSteps": "6.5"}"#, br#"{"mandatedSteps": [null]}"#]
        {
            assert_eq!(parse(bad).unwrap_err().rule.as_str(), "LP-29");
        }
    }
}
