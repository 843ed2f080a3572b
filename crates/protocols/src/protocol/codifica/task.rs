//! The task model of spec 3 §5, typed. What a task has beyond it is kept as it stands.

use super::words::{Actor, Kind, Owner, Priority, State, Verdict};
use super::yaml::Meaning;
use crate::model::Timestamp;

/// One task as it stands in a state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: String,
    pub kind: Kind,
    pub state: State,
    pub owner: Owner,
    pub title: String,
    pub description: Option<String>,
    pub priority: Priority,
    pub depends_on: Vec<String>,
    pub labels: Vec<String>,
    pub acceptance: Vec<String>,
    pub checklist: Vec<String>,
    pub derived_from: Option<String>,
    pub context: Context,
    pub claimed_at: Option<Timestamp>,
    pub execution_notes: Vec<Note>,
    pub artifacts: Vec<Artifact>,
    pub human_review: Option<Review>,
    pub completed_at: Option<Timestamp>,
    pub blocked_reason: Option<String>,
    pub blocked_by: Option<String>,
    pub state_transitions: Vec<Transition>,
    /// Fields that the protocol does not know.
    pub unknown: Vec<(String, Meaning)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    pub files: Vec<String>,
    pub references: Vec<String>,
    pub constraints: Vec<String>,
    pub notes: Option<String>,
}

/// An entry of `execution_notes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub by: Actor,
    pub note: String,
    pub summary: Option<String>,
    pub timestamp: Option<Timestamp>,
    pub provenance: Provenance,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    pub path: String,
    pub kind: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    pub status: Option<Verdict>,
    pub reviewer: Option<String>,
    pub notes: Vec<String>,
    pub recorded_at: Option<Timestamp>,
}

/// An entry of `state_transitions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    pub from: State,
    pub to: State,
    pub by: Actor,
    pub reason: Option<String>,
    pub timestamp: Option<Timestamp>,
    pub provenance: Provenance,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    pub session_id: Option<String>,
    pub commit_sha: Option<String>,
}

/// What scanning for work needs of a task, read without reading all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glance {
    pub id: String,
    pub kind: Kind,
    pub state: State,
    pub owner: Owner,
    pub priority: Priority,
    pub depends_on: Vec<String>,
}

impl From<&Task> for Glance {
    fn from(task: &Task) -> Self {
        Self {
            id: task.id.clone(),
            kind: task.kind.clone(),
            state: task.state,
            owner: task.owner.clone(),
            priority: task.priority,
            depends_on: task.depends_on.clone(),
        }
    }
}

impl Task {
    /// The last sign of life: a claim, a note, a transition (spec 3 §8.1.1).
    pub fn last_activity(&self) -> Option<Timestamp> {
        let notes = self.execution_notes.iter().filter_map(|note| note.timestamp);
        let moves = self.state_transitions.iter().filter_map(|entry| entry.timestamp);
        notes.chain(moves).chain(self.claimed_at).max()
    }

    /// It was written for v0.2: new fields are not asked of older ones (spec 3 §12.3).
    pub fn is_legacy(&self) -> bool {
        self.claimed_at.is_none()
            && self.completed_at.is_none()
            && self.execution_notes.iter().all(|note| note.summary.is_none())
    }
}
