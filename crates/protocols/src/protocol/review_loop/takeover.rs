//! A state file that upstream's scripts wrote: no `steps`, their words for phase and status (LP-35). It changes nothing.

use super::{
    STATE,
    memory::{LoopState, Step},
    steps,
    table::{Holder, Phase},
};
use crate::model::{Timestamp, clip, without_bom};
use serde_json::Value;

/// The state that the file describes, with the owner's steps where it names none.
pub(super) fn read(
    bytes: &[u8],
    list: Option<Vec<String>>,
    now: Timestamp,
) -> Result<LoopState, String> {
    let bytes = without_bom(bytes);
    let mut state = match LoopState::from_bytes(bytes) {
        Ok(state) => state,
        Err(why) => foreign(bytes, list.as_deref(), now)?.ok_or(format!("`{STATE}`: {why}"))?,
    };
    if let Some(list) = list {
        state.steps = list;
    }
    if !state.steps.iter().all(|step| steps::is_step(step))
        || !state.steps.contains(&state.current_step)
    {
        let step = clip(&state.current_step, 40);
        return Err(format!(
            "`{STATE}`: currentStep `{step}` is not one of the steps {}",
            state.steps.join(", ")
        ));
    }
    Ok(state)
}

/// `agency adopt` can take this file over, with steps that the owner names where the file has none. Else the error says what
/// is wrong with it.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let bytes = without_bom(bytes);
    let why = match LoopState::from_bytes(bytes) {
        Ok(_) => return Ok(()),
        Err(why) => why,
    };
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let has_place = word(&value["currentStep"]).is_some() && word(&value["phase"]).is_some();
    let phase = word(&value["phase"]).unwrap_or_default();
    let is_phase = phase == "advance" || Phase::parse(&phase).is_some();
    if value["steps"].is_null() && has_place && is_phase { Ok(()) } else { Err(why) }
}

/// The command that takes this file over.
pub(super) fn command(bytes: &[u8]) -> String {
    let value: Value = serde_json::from_slice(without_bom(bytes)).unwrap_or_default();
    if value["steps"].is_array() || !value.is_object() {
        return "agency adopt".to_owned();
    }
    let mut known = words(&value["stepsComplete"]);
    known.extend(word(&value["currentStep"]));
    known.dedup();
    known.retain(|step| steps::is_step(step));
    format!("agency adopt --steps {},…", known.join(","))
}

/// `None`: the file is not theirs either.
fn foreign(
    bytes: &[u8],
    list: Option<&[String]>,
    now: Timestamp,
) -> Result<Option<LoopState>, String> {
    let Ok(value) = serde_json::from_slice::<Value>(bytes) else { return Ok(None) };
    let (Some(step), Some(phase)) = (word(&value["currentStep"]), word(&value["phase"])) else {
        return Ok(None);
    };
    let Some(list) = list else {
        return Err(format!(
            "`{STATE}` names no steps, so say which there are: {}",
            command(bytes)
        ));
    };
    let status = word(&value["status"]).unwrap_or_else(|| "starting".to_owned());
    let complete = words(&value["stepsComplete"]);
    let place = place(&step, &phase, list)?;
    let Some((current_step, phase)) = place else {
        return Err(format!("`{STATE}`: `{}` is not a phase", clip(&phase, 40)));
    };
    let named = word(&value["activeAgent"]).and_then(|agent| Holder::parse(&agent));
    let round = value["currentRound"].as_u64().and_then(|round| u32::try_from(round).ok());
    let history = value["history"].as_array().into_iter().flatten();
    Ok(Some(LoopState {
        active_agent: named.unwrap_or_else(|| holder(phase, &status)),
        current_step,
        current_round: round.unwrap_or(1).max(1),
        phase,
        status,
        steps: list.to_vec(),
        steps_complete: complete,
        // Entries of another shape stay in the file's earlier versions.
        history: history
            .filter_map(|one| serde_json::from_value::<Step>(one.clone()).ok())
            .collect(),
        escalations: Vec::new(),
        last_updated: now,
    }))
}

/// Their scripts know `advance` as a phase between two steps.
fn place(step: &str, phase: &str, list: &[String]) -> Result<Option<(String, Phase)>, String> {
    if phase != "advance" {
        return Ok(Phase::parse(phase).map(|phase| (step.to_owned(), phase)));
    }
    let at = list.iter().position(|known| known == step);
    let at = at.ok_or_else(|| {
        format!("`{STATE}`: currentStep `{}` is not one of the steps", clip(step, 40))
    })?;
    Ok(Some(match list.get(at + 1) {
        Some(next) => (next.clone(), Phase::Propose),
        None => (step.to_owned(), Phase::Complete),
    }))
}

/// Who must act, where the file does not say: after change requests the builder, else the phase's own agent.
fn holder(phase: Phase, status: &str) -> Holder {
    let has_requests =
        ["reviewed", "not-approved", "conditional", "needs-revision"].contains(&status);
    match phase {
        Phase::Propose | Phase::Execute | Phase::Complete => Holder::Builder,
        Phase::Review | Phase::Verify if has_requests => Holder::Builder,
        Phase::Review | Phase::Verify => Holder::Reviewer,
    }
}

fn words(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(word).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The file as upstream's repository ships it.
    const SHIPPED: &str = r#"{
  "currentStep": "1",
  "currentRound": 1,
  "phase": "propose",
  "status": "starting",
  "activeAgent": "claude-code",
  "stepsComplete": [],
  "history": [],
  "escalations": [],
  "lastUpdated": "2026-01-01T00:00:00Z"
}
"#;

    fn taken(text: &str, steps: &str) -> Result<LoopState, String> {
        let list = (!steps.is_empty()).then(|| steps::from_list(steps).unwrap());
        read(text.as_bytes(), list, "2026-01-01T00:00:00Z".parse().unwrap())
    }

    // covers: LP-35
    #[test]
    fn a_file_without_steps_goes_on_with_the_owners() {
        let state = taken(SHIPPED, "1,2").unwrap();
        assert_eq!((state.phase, state.active_agent), (Phase::Propose, Holder::Builder));
        assert_eq!(state.steps, ["1", "2"]);
        let marked = format!("\u{feff}{SHIPPED}");
        assert_eq!(taken(&marked, "1,2").unwrap(), state, "a byte-order mark changes nothing");
        let why = taken(SHIPPED, "").unwrap_err();
        assert!(why.contains("agency adopt --steps 1,"), "{why}");
        assert!(
            taken(SHIPPED, "2,3")
                .unwrap_err()
                .contains("currentStep `1` is not one of the steps 2, 3")
        );
    }

    // covers: LP-35
    #[test]
    fn phases_and_statuses_are_read_as_they_are_written() {
        let with = |phase: &str, status: &str| {
            let text = SHIPPED.replace("propose", phase).replace("starting", status);
            let text = text.replace("  \"activeAgent\": \"claude-code\",\n", "");
            let state = taken(&text, "1,2").unwrap();
            (state.current_step, state.phase, state.active_agent)
        };
        let one = "1".to_owned();
        assert_eq!(with("review", "proposed"), (one.clone(), Phase::Review, Holder::Reviewer));
        assert_eq!(with("review", "not-approved"), (one.clone(), Phase::Review, Holder::Builder));
        assert_eq!(with("verify", "executed"), (one.clone(), Phase::Verify, Holder::Reviewer));
        assert_eq!(with("verify", "needs-revision"), (one, Phase::Verify, Holder::Builder));
        assert_eq!(
            with("advance", "verified-clean"),
            ("2".to_owned(), Phase::Propose, Holder::Builder)
        );
        assert!(
            taken(&SHIPPED.replace("propose", "ship"), "1")
                .unwrap_err()
                .contains("`ship` is not a phase")
        );
    }
}
