//! The durable list of escalations of one repository: one file per cause. Sending is not done here.

use crate::model::{Cause, Escalation, Key, Severity, Timestamp};
use crate::store::{StoreError, write_atomic};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug)]
pub struct Outbox {
    dir: PathBuf,
    /// Part of every id, so that two repositories never share one.
    repo_key: String,
    repo: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum EscalateError {
    #[error("cannot write the escalation `{id}`")]
    Write { id: String, source: StoreError },
    #[error("cannot use the outbox `{}`", path.display())]
    Dir { path: PathBuf, source: std::io::Error },
    #[error("there is no escalation `{id}`")]
    Unknown { id: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Open,
    Acked,
    Resolved,
}

/// One cause, from its first sighting to its end (DESIGN §10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub id: String,
    pub rule: String,
    pub severity: Severity,
    pub repo: PathBuf,
    pub protocol: String,
    pub summary: String,
    pub state: State,
    /// The repository waits until it is resolved.
    pub holds: bool,
    pub count: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub what: String,
    pub did: String,
    pub wont: String,
    pub resolve: String,
    pub evidence: Vec<String>,
    /// The effect that touched it last: doing that one again changes nothing.
    last_key: Key,
}

impl Outbox {
    pub fn open(dir: PathBuf, repo_key: &str, repo: &Path) -> Result<Self, EscalateError> {
        fs::create_dir_all(&dir)
            .map_err(|source| EscalateError::Dir { path: dir.clone(), source })?;
        Ok(Self { dir, repo_key: repo_key.to_owned(), repo: repo.to_owned() })
    }

    /// Opens a cause, or counts it once more. Idempotent by key.
    pub fn raise(
        &self,
        escalation: &Escalation,
        key: &Key,
        at: Timestamp,
    ) -> Result<String, EscalateError> {
        let id = escalation.cause.id(&self.repo_key);
        let known = read(&self.file(&id));
        if known.as_ref().is_some_and(|record| record.last_key == *key) {
            return Ok(id);
        }
        let record = Record {
            id: id.clone(),
            rule: escalation.cause.rule.to_string(),
            severity: escalation.severity,
            repo: self.repo.clone(),
            protocol: escalation.cause.protocol.clone(),
            summary: escalation.summary.clone(),
            state: known.as_ref().map_or(State::Open, |known| known.state),
            holds: escalation.holds,
            count: known.as_ref().map_or(0, |known| known.count) + 1,
            first_seen: known.as_ref().map_or(at, |known| known.first_seen),
            last_seen: at,
            what: escalation.what.clone(),
            did: escalation.did.clone(),
            wont: escalation.wont.clone(),
            resolve: escalation.resolve.clone(),
            evidence: escalation.evidence.clone(),
            last_key: key.clone(),
        };
        self.write(&record)?;
        Ok(id)
    }

    pub fn resolve(&self, cause: &Cause, key: &Key, at: Timestamp) -> Result<(), EscalateError> {
        let id = cause.id(&self.repo_key);
        let Some(record) = read(&self.file(&id)) else { return Ok(()) };
        let (state, last_key) = (State::Resolved, key.clone());
        self.write(&Record { state, last_key, last_seen: at, ..record })
    }

    /// The owner has seen it; it is not repeated as often.
    pub fn acknowledge(&self, id: &str) -> Result<(), EscalateError> {
        let is_id = id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let record = is_id.then(|| read(&self.file(id))).flatten();
        let record = record.ok_or_else(|| EscalateError::Unknown { id: id.to_owned() })?;
        let state = if record.state == State::Open { State::Acked } else { record.state };
        self.write(&Record { state, ..record })
    }

    /// Oldest first. A file that cannot be read is left out.
    pub fn list(dir: &Path) -> Vec<Record> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let mut records: Vec<Record> = entries.filter_map(|entry| read(&entry.path())).collect();
        records.sort_by(|a, b| (a.first_seen, &a.id).cmp(&(b.first_seen, &b.id)));
        records
    }

    fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn write(&self, record: &Record) -> Result<(), EscalateError> {
        let text = serde_json::to_vec_pretty(record).expect("BUG: a record is plain data");
        let failed = |source| EscalateError::Write { id: record.id.clone(), source };
        write_atomic(&self.file(&record.id), &text).map_err(failed)
    }
}

fn read(file: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RuleId;

    fn escalation(subject: &str) -> Escalation {
        let text = || "text".to_owned();
        Escalation {
            cause: Cause {
                protocol: "loop".to_owned(),
                rule: RuleId::new("LP-03"),
                subject: subject.to_owned(),
                epoch: 0,
            },
            severity: Severity::Critical,
            holds: true,
            summary: text(),
            what: text(),
            did: text(),
            wont: text(),
            resolve: text(),
            evidence: Vec::new(),
        }
    }

    #[test]
    fn one_cause_is_one_record_and_the_same_effect_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(dir.path().to_owned(), "a1b2c3d4", Path::new("/r")).unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let (one, two) = (Key::new("loop-1.0"), Key::new("loop-2.0"));
        let id = outbox.raise(&escalation("a"), &one, at).unwrap();
        outbox.raise(&escalation("a"), &one, at).unwrap();
        assert_eq!(Outbox::list(dir.path())[0].count, 1, "a redone effect must not count twice");
        outbox.raise(&escalation("a"), &two, at).unwrap();
        outbox.raise(&escalation("b"), &two, at).unwrap();
        let records = Outbox::list(dir.path());
        assert_eq!(records.len(), 2);
        assert_eq!(records.iter().find(|record| record.id == id).unwrap().count, 2);
    }

    #[test]
    fn a_cause_is_acknowledged_and_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(dir.path().to_owned(), "a1b2c3d4", Path::new("/r")).unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let id = outbox.raise(&escalation("a"), &Key::new("loop-1.0"), at).unwrap();
        outbox.acknowledge(&id).unwrap();
        assert_eq!(Outbox::list(dir.path())[0].state, State::Acked);
        outbox.resolve(&escalation("a").cause, &Key::new("loop-2.0"), at).unwrap();
        assert_eq!(Outbox::list(dir.path())[0].state, State::Resolved);
        assert!(outbox.acknowledge("../../etc/passwd").is_err());
    }
}
