//! A committed state, as far as it can be read: older scripts wrote fewer fields, and numbers for words.

use crate::model::{clip, without_bom};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) step: String,
    pub(super) phase: String,
    pub(super) agent: Option<String>,
    pub(super) round: Option<u32>,
    pub(super) steps: Vec<String>,
}

impl Seen {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(without_bom(bytes))
            .map_err(|error| format!("not JSON: {}", clip(&error.to_string(), 120)))?;
        let step = word(&value["currentStep"]).ok_or("no `currentStep`")?;
        let phase = word(&value["phase"]).ok_or("no `phase`")?;
        let round = value["currentRound"].as_u64().and_then(|round| u32::try_from(round).ok());
        let steps = value["steps"].as_array().map(|steps| steps.iter().filter_map(word).collect());
        let agent = word(&value["activeAgent"]);
        Ok(Self { step, phase, agent, round, steps: steps.unwrap_or_default() })
    }

    /// For people.
    pub(super) fn place(&self) -> String {
        let agent = self.agent.as_deref().unwrap_or("nobody named");
        let (step, phase) = (clip(&self.step, 40), clip(&self.phase, 20));
        format!("{step}/{phase} ({})", clip(agent, 40))
    }
}

fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(word) if !word.is_empty() => Some(word.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}
