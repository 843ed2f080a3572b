//! The owner's pause (OP-10): no agent is started in this repository until `agency unpause`. Runs that are alive end and are
//! judged. The journal keeps the pause, so a restart does not end it. It stops no run.

use super::record::Entry;
use super::{ConditionStatus, Kind, Workspace, WorkspaceError};
use crate::apply::chain;
use crate::clock;
use crate::model::{Answer, Command, Condition, Effect, Escalation, Key, Timestamp, clip};
use crate::store::Durability;
use serde::{Deserialize, Serialize};

/// The command that ends a pause.
pub(super) const RESOLVE: &str = "agency unpause";

/// Since when no run is started, who asked for it, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub since: Timestamp,
    pub by: String,
    #[serde(default)]
    pub reason: Option<String>,
}

impl Pause {
    pub fn words(&self) -> String {
        let since = self.since.format("%Y-%m-%d %H:%MZ");
        match &self.reason {
            Some(reason) => format!("paused by the owner since {since} ({})", clip(reason, 160)),
            None => format!("paused by the owner since {since}"),
        }
    }
}

impl Workspace {
    /// In a paused repository, and without a daemon, an agent gets no place; a protocol that waits for one still answers
    /// commands. A start that was decided before waits for the end of the pause. A command of the gates belongs to the
    /// judgement of a run and goes on.
    pub(super) fn start_waits(&self, effect: &Effect) -> bool {
        match effect {
            Effect::Lease { seat, role, .. } => {
                let waits = self.pause.is_some() || !self.starts_runs;
                waits && self.runner.launcher.config.agent_for(seat, role).is_some()
            }
            Effect::Spawn(spawn) => self.pause.is_some() && spawn.command.is_none(),
            _ => false,
        }
    }

    /// A second pause changes nothing.
    pub(super) fn pause_starts(&mut self, command: &Command) -> Result<Answer, WorkspaceError> {
        if let Some(pause) = &self.pause {
            let text = format!("already {}; to end it: {RESOLVE}", pause.words());
            return Ok(Answer { accepted: true, text });
        }
        let reason = command.arg("reason").map(str::to_owned);
        let pause = Pause { since: clock::now().wall, by: command.by.clone(), reason };
        self.note(&Entry::Paused(pause.clone()), Durability::Synced)?;
        self.pause = Some(pause);
        let text = format!("paused: {}; to end it: {RESOLVE}", self.what_goes_on());
        Ok(Answer { accepted: true, text })
    }

    fn what_goes_on(&self) -> String {
        match self.running.len() {
            0 => "no run starts here".to_owned(),
            1 => "no new run starts here; 1 run is alive, ends normally and is judged".to_owned(),
            alive => format!(
                "no new run starts here; {alive} runs are alive, end normally and are judged"
            ),
        }
    }

    pub(super) fn unpause(&mut self, command: &Command) -> Result<Answer, WorkspaceError> {
        let Some(pause) = self.pause.clone() else {
            let text = "this repository is not paused; why nothing starts: agency status";
            return Ok(Answer { accepted: false, text: text.to_owned() });
        };
        let text = format!("no longer {}; runs start again", pause.words());
        // SE-04: the announcement comes first. If it cannot be written, the pause stays.
        let announced = Escalation::announcement("agency", &command.id, "unpause", &text);
        let key = Key::new(format!("unpause-{}", command.id));
        if let Err(error) = self.announce(&announced, &key) {
            return Ok(Answer { accepted: false, text: chain(&error) });
        }
        self.note(&Entry::Unpaused { by: command.by.clone() }, Durability::Synced)?;
        self.pause = None;
        for (claim, tree) in std::mem::take(&mut self.paused_claims) {
            self.ask_for_room(claim, &tree)?;
        }
        Ok(Answer { accepted: true, text })
    }

    /// A condition as views show it: whatever would start next waits for the end of the pause.
    pub(super) fn shown(&self, condition: &Condition) -> ConditionStatus {
        let status = ConditionStatus::from(condition);
        let Some(pause) = &self.pause else { return status };
        let is_live = condition.run().is_none_or(|run| self.running.contains_key(&run.run));
        match status.kind {
            Kind::Working if is_live => status,
            Kind::Held | Kind::Frozen | Kind::Idle | Kind::Done => status,
            Kind::Working | Kind::Waiting => ConditionStatus {
                resolve: Some(RESOLVE.to_owned()),
                ..ConditionStatus::from(&Condition::waits_for(pause.words()))
            },
        }
    }
}
