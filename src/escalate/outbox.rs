//! The durable list of escalations of one repository: one file per cause. Sending is not done here.

use super::damaged::{self, Loss};
use super::message::cut;
use super::redact::Redactor;
use super::track::{Delivery, deliveries_in, forget};
use super::unwritten::Unwritten;
use crate::model::{Cause, Escalation, Key, Severity, Timestamp, clip};
use crate::store::StoreError;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Bounds of what a record keeps; a message shows less.
const SUMMARY_MAX: usize = 500;
const TEXT_MAX: usize = 8_000;
const EVIDENCE_MAX: usize = 100;
/// Effects that may come again after a crash are the last ones.
const KEYS_MAX: usize = 16;

#[derive(Clone, Debug)]
pub struct Outbox {
    dir: PathBuf,
    /// Part of every id, so that two repositories never share one.
    repo_key: String,
    repo: PathBuf,
    redactor: Redactor,
    unwritten: Unwritten,
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
    /// What `agency answer` takes.
    #[serde(default)]
    pub options: Vec<String>,
    pub evidence: Vec<String>,
    /// It goes to every channel, whatever the routes say.
    #[serde(default)]
    pub everywhere: bool,
    /// What each channel has done with it. Not kept in the record's file: the courier has files of its own.
    #[serde(default)]
    pub deliveries: Vec<Delivery>,
    /// How often it was opened: a cause that comes back after its end is told again.
    #[serde(default = "once")]
    pub(super) openings: u32,
    /// The effects that touched it last: doing one of them again changes nothing.
    pub(super) keys: Vec<Key>,
}

fn once() -> u32 {
    1
}

impl Outbox {
    pub fn open(dir: PathBuf, repo_key: &str, repo: &Path) -> Result<Self, EscalateError> {
        crate::store::private_dir(&dir)
            .map_err(|source| EscalateError::Dir { path: dir.clone(), source })?;
        let (redactor, unwritten) = (Redactor::default(), Unwritten::default());
        let (repo_key, repo) = (repo_key.to_owned(), repo.to_owned());
        Ok(Self { dir, repo_key, repo, redactor, unwritten })
    }

    /// The same outbox for its courier, which knows only where it lies.
    pub(super) fn of_courier(dir: &Path, repo: &Path, unwritten: Unwritten) -> Self {
        let (dir, repo, repo_key) = (dir.to_owned(), repo.to_owned(), String::new());
        Self { dir, repo_key, repo, redactor: Redactor::default(), unwritten }
    }

    /// Keeps every record that cannot be read aside, and tells of it.
    pub fn mend(&self, at: Timestamp) {
        for file in damaged::find(&self.dir) {
            self.mend_file(&file, at);
        }
    }

    pub(super) fn mend_file(&self, file: &Path, at: Timestamp) {
        if let Some(kept) = damaged::set_aside(file) {
            self.tell_loss(&kept, Loss::Unreadable, at);
        }
    }

    pub(super) fn tell_loss(&self, file: &Path, loss: Loss, at: Timestamp) {
        let key = Key::new(format!("loss-{}", at.timestamp_millis()));
        if let Err(error) = self.raise(&damaged::escalation(file, loss), &key, at) {
            tracing::error!(%error, "a lost message cannot be told");
        }
    }

    /// Keeps these values out of records, too, and not only what looks like a token.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Self {
        Self { redactor, ..self }
    }

    /// Opens a cause, or counts it once more. Idempotent by key; one write.
    pub fn raise(
        &self,
        escalation: &Escalation,
        key: &Key,
        at: Timestamp,
    ) -> Result<String, EscalateError> {
        let id = escalation.cause.id(&self.repo_key);
        if damaged::is_damaged(&self.file(&id)) {
            self.mend_file(&self.file(&id), at);
        }
        let known = self.known(&id);
        if known.as_ref().is_some_and(|record| record.keys.contains(key)) {
            return Ok(id);
        }
        let mut record = self.fresh(&id, escalation, at);
        if let Some(known) = known {
            let again = u32::from(!known.is_for_owner());
            record.state = if again == 1 { State::Open } else { known.state };
            record.openings = known.openings.saturating_add(again);
            record.count = known.count.saturating_add(1);
            record.first_seen = known.first_seen;
            record.keys = known.keys;
        }
        record.remember(key);
        self.write(&record)?;
        Ok(id)
    }

    /// Keeps a record that is listed and sent to nobody: the owner did this themselves.
    pub fn note(
        &self,
        escalation: &Escalation,
        key: &Key,
        at: Timestamp,
    ) -> Result<(), EscalateError> {
        let id = escalation.cause.id(&self.repo_key);
        let fresh = self.fresh(&id, escalation, at);
        let mut record = Record { state: State::Resolved, openings: 0, ..fresh };
        record.remember(key);
        self.write(&record)
    }

    /// Keeps a record that is sent once and never open: a report asks for nothing.
    pub fn report(
        &self,
        escalation: &Escalation,
        key: &Key,
        at: Timestamp,
    ) -> Result<(), EscalateError> {
        let id = escalation.cause.id(&self.repo_key);
        let mut record = Record { state: State::Resolved, ..self.fresh(&id, escalation, at) };
        record.remember(key);
        self.write(&record)
    }

    pub fn resolve(&self, cause: &Cause, key: &Key, at: Timestamp) -> Result<(), EscalateError> {
        let id = cause.id(&self.repo_key);
        let Some(record) = self.known(&id) else { return Ok(()) };
        self.resolve_record(record, key, at)
    }

    fn resolve_record(
        &self,
        mut record: Record,
        key: &Key,
        at: Timestamp,
    ) -> Result<(), EscalateError> {
        if record.keys.contains(key) {
            return Ok(());
        }
        record.state = State::Resolved;
        record.last_seen = at;
        record.remember(key);
        self.write(&record)
    }

    /// Ends everything that is open and fits.
    pub fn resolve_all(
        &self,
        fits: impl Fn(&Record) -> bool,
        key: &Key,
        at: Timestamp,
    ) -> Result<(), EscalateError> {
        let open = |record: &Record| record.state != State::Resolved && fits(record);
        let mut records = self.all().into_iter().filter(open);
        records.try_for_each(|record| self.resolve_record(record, key, at))
    }

    /// What is on disk, and what the disk does not take for now.
    pub fn all(&self) -> Vec<Record> {
        let mut records = Self::list(&self.dir);
        for unwritten in self.unwritten.all() {
            records.retain(|record| record.id != unwritten.id);
            records.push(unwritten);
        }
        records
    }

    /// Writes what the disk did not take before.
    pub fn flush(&self) {
        self.unwritten.flush(&self.dir);
    }

    /// For the courier, which sends also what is not on disk.
    pub(super) fn shared(&self) -> (PathBuf, Unwritten) {
        (self.dir.clone(), self.unwritten.clone())
    }

    fn known(&self, id: &str) -> Option<Record> {
        self.unwritten.get(id).or_else(|| read(&self.file(id)))
    }

    /// The owner has seen it; it is not repeated as often.
    pub fn acknowledge(&self, id: &str) -> Result<(), EscalateError> {
        let record = is_id(id).then(|| self.known(id)).flatten();
        let record = record.ok_or_else(|| EscalateError::Unknown { id: id.to_owned() })?;
        let state = if record.state == State::Open { State::Acked } else { record.state };
        self.write(&Record { state, ..record })
    }

    /// Oldest first, with what has become of each. A file that cannot be read is left out, and so is one that a crash left
    /// before it had its name.
    pub fn list(dir: &Path) -> Vec<Record> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let named = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
        let files = entries.map(|entry| entry.path()).filter(named);
        let mut records: Vec<Record> = files.filter_map(|file| read(&file)).collect();
        records.sort_by(|a, b| (a.first_seen, &a.id).cmp(&(b.first_seen, &b.id)));
        let mut deliveries = deliveries_in(dir);
        for record in &mut records {
            record.deliveries = deliveries.remove(&record.id).unwrap_or_default();
        }
        records
    }

    /// Forgets what was resolved before `before` and is not on its way any more. Says how many.
    pub fn prune(&self, before: Timestamp) -> usize {
        let ended = |record: &Record| record.state == State::Resolved && record.last_seen < before;
        let settled = |record: &Record| !record.deliveries.iter().any(Delivery::is_waiting);
        let old = Self::list(&self.dir).into_iter().filter(|r| ended(r) && settled(r));
        let gone = old.filter(|record| fs::remove_file(self.file(&record.id)).is_ok());
        let gone: Vec<String> = gone.map(|record| record.id).collect();
        forget(&self.dir, &gone);
        gone.len()
    }

    fn fresh(&self, id: &str, escalation: &Escalation, at: Timestamp) -> Record {
        let text = |text: &str| cut(&self.redactor.clean(text), TEXT_MAX);
        let line = |text: &str| clip(&self.redactor.clean(text), SUMMARY_MAX);
        Record {
            id: id.to_owned(),
            rule: escalation.cause.rule.to_string(),
            severity: escalation.severity,
            repo: self.repo.clone(),
            protocol: escalation.cause.protocol.clone(),
            summary: line(&escalation.summary),
            state: State::Open,
            holds: escalation.holds,
            count: 1,
            first_seen: at,
            last_seen: at,
            what: text(&escalation.what),
            did: text(&escalation.did),
            wont: text(&escalation.wont),
            resolve: text(&resolve_of(&escalation.resolve, id, &self.repo)),
            options: escalation.options.clone(),
            evidence: escalation
                .evidence
                .iter()
                .take(EVIDENCE_MAX)
                .map(|item| line(item))
                .collect(),
            everywhere: escalation.everywhere,
            deliveries: Vec::new(),
            openings: 1,
            keys: Vec::new(),
        }
    }

    fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    fn write(&self, record: &Record) -> Result<(), EscalateError> {
        let failed = |source| EscalateError::Write { id: record.id.clone(), source };
        self.unwritten.write(&self.dir, record).map_err(failed)
    }
}

impl Record {
    /// It tells what happened, and there is nothing to resolve.
    pub(crate) fn is_report(&self) -> bool {
        self.rule == "OP-09"
    }

    pub(super) fn is_open(&self) -> bool {
        self.state != State::Resolved
    }

    /// It is shown as open. A notice that the owner has acknowledged is not, until its cause comes again; what holds work is
    /// shown for as long as it holds.
    pub fn is_for_owner(&self) -> bool {
        match self.state {
            State::Open => true,
            State::Acked => self.holds,
            State::Resolved => false,
        }
    }

    /// As it is written again after somebody removed its file, which the owner hears of.
    pub(super) fn put_back(&self) -> Self {
        let mut record = self.clone();
        let lost = "The file of this message was removed from the outbox; the daemon put it back.";
        if !record.evidence.iter().any(|line| line == lost) {
            record.evidence.insert(0, lost.to_owned());
        }
        record
    }

    fn remember(&mut self, key: &Key) {
        if self.keys.len() >= KEYS_MAX {
            self.keys.remove(0);
        }
        self.keys.push(key.clone());
    }
}

pub(super) fn is_id(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// ES-06: the exact command, whatever folder the owner reads the message in. Words in brackets explain it.
/// A message that asks for nothing names the command that closes it.
fn resolve_of(resolve: &str, id: &str, repo: &Path) -> String {
    match resolve {
        "nothing to do" => format!("nothing to do; `agency ack {id}` closes it"),
        other => in_repo(other, repo),
    }
}

pub fn in_repo(command: &str, repo: &Path) -> String {
    if !command.starts_with("agency ") || command.contains("--repo") {
        return command.to_owned();
    }
    let quoted = repo.display().to_string().replace('\'', r"'\''");
    let there = format!(" --repo '{quoted}'");
    if command.contains(" (") {
        command.replace(" (", &format!("{there} ("))
    } else {
        format!("{command}{there}")
    }
}

/// A record's file; `None` for everything else that lies in the directory.
pub(super) fn read(file: &Path) -> Option<Record> {
    let id = file.file_name()?.to_str()?.strip_suffix(".json").filter(|id| is_id(id))?;
    let record: Record = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    (record.id == id).then_some(record)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::model::RuleId;

    /// A record as a critical hold of the loop leaves it.
    pub(in crate::escalate) fn record(id: &str) -> Record {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(dir.path().to_owned(), "k", Path::new("/src/shop")).unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        Record { id: id.to_owned(), ..outbox.fresh(id, &escalation("a"), at) }
    }

    pub(in crate::escalate) fn escalation(subject: &str) -> Escalation {
        Escalation {
            cause: Cause {
                protocol: "loop".to_owned(),
                rule: RuleId::new("LP-03"),
                subject: subject.to_owned(),
                epoch: 0,
            },
            severity: Severity::Critical,
            holds: true,
            summary: "a flag was refused".to_owned(),
            what: "The builder approved its own work.".to_owned(),
            did: "The flag was refused.".to_owned(),
            wont: "Go on.".to_owned(),
            options: vec!["resume".to_owned()],
            resolve: "agency resume --repo /src/shop".to_owned(),
            evidence: vec![".agent-status.json says `approved`".to_owned()],
            everywhere: false,
        }
    }

    // covers: ES-06
    #[test]
    fn the_command_that_resolves_works_in_any_folder() {
        let there = |command| in_repo(command, Path::new("/src/owner's shop"));
        assert_eq!(there("agency resume"), r"agency resume --repo '/src/owner'\''s shop'");
        assert!(there("agency adopt (it is right)").starts_with("agency adopt --repo '/src/"));
        assert_eq!(there("agency resume --repo /x"), "agency resume --repo /x");
        assert_eq!(
            there("raise limits in agency.yaml, or wait"),
            "raise limits in agency.yaml, or wait"
        );
    }

    // covers: ES-03
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
        // A daemon that was killed between writing a record and naming it.
        fs::copy(dir.path().join(format!("{id}.json")), dir.path().join(".agency-tmp-7-0"))
            .unwrap();
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
        outbox.raise(&escalation("a"), &Key::new("loop-3.0"), at).unwrap();
        assert_eq!(Outbox::list(dir.path())[0].state, State::Open, "it is back");
        assert!(outbox.acknowledge("../../etc/passwd").is_err());
    }

    // covers: ES-02
    #[test]
    fn a_record_that_cannot_be_read_is_kept_aside_and_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(dir.path().to_owned(), "a1b2c3d4", Path::new("/r")).unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let id = outbox.raise(&escalation("a"), &Key::new("loop-1.0"), at).unwrap();
        let file = outbox.file(&id);
        let half = fs::read(&file).unwrap()[..40].to_vec();
        for open_first in [true, false] {
            fs::write(&file, &half).unwrap();
            if open_first {
                outbox.mend(at);
                assert!(!file.exists());
            } else {
                // The same cause comes again before anybody has looked.
                outbox.raise(&escalation("a"), &Key::new("loop-2.0"), at).unwrap();
            }
        }
        let records = Outbox::list(dir.path());
        let told: Vec<_> = records.iter().filter(|record| record.rule == "ES-02").collect();
        assert_eq!((told.len(), records.len()), (2, 3), "{records:?}");
        for record in told {
            assert!(record.summary.contains("damaged/"), "{record:?}");
            assert_eq!(fs::read(&record.evidence[0]).unwrap(), half, "its bytes are kept");
        }
        outbox.mend(at);
        assert_eq!(Outbox::list(dir.path()).len(), 3, "nothing is told twice");
    }

    // covers: ES-02
    #[test]
    fn an_acknowledged_notice_is_hidden_until_its_cause_comes_again() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(dir.path().to_owned(), "a1b2c3d4", Path::new("/r")).unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        for holds in [false, true] {
            let told = Escalation { holds, ..escalation(if holds { "a" } else { "b" }) };
            let key = |n: u32| Key::new(format!("loop-{n}.{}", u32::from(holds)));
            let id = outbox.raise(&told, &key(1), at).unwrap();
            outbox.acknowledge(&id).unwrap();
            let record = outbox.known(&id).unwrap();
            assert_eq!((record.state, record.is_for_owner()), (State::Acked, holds));
            outbox.raise(&told, &key(1), at).unwrap();
            assert_eq!(outbox.known(&id).unwrap().state, State::Acked, "the same effect again");
            outbox.raise(&told, &key(2), at).unwrap();
            let again = outbox.known(&id).unwrap();
            let wanted = if holds { (State::Acked, 1) } else { (State::Open, 2) };
            assert_eq!((again.state, again.openings), wanted);
        }
    }

    #[test]
    fn effects_done_again_change_nothing_and_a_cause_that_comes_back_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(dir.path().to_owned(), "a1b2c3d4", Path::new("/r")).unwrap();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let (raised, resolved) = (Key::new("loop-1.0"), Key::new("loop-1.1"));
        for _ in 0..2 {
            outbox.raise(&escalation("a"), &raised, at).unwrap();
            outbox.resolve(&escalation("a").cause, &resolved, at).unwrap();
        }
        let record = &Outbox::list(dir.path())[0];
        assert_eq!((record.state, record.count, record.openings), (State::Resolved, 1, 1));
        outbox.raise(&escalation("a"), &Key::new("loop-2.0"), at).unwrap();
        let record = &Outbox::list(dir.path())[0];
        assert_eq!((record.state, record.count, record.openings), (State::Open, 2, 2));
    }

    // covers: ES-05 SE-03
    #[test]
    fn a_record_is_bounded_and_keeps_no_secret() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::open(dir.path().to_owned(), "a1b2c3d4", Path::new("/r"))
            .unwrap()
            .redacting(Redactor::new(["canary-secret"]));
        let huge = Escalation {
            summary: "canary-secret ".repeat(100_000),
            evidence: vec!["ghp_A1b2C3d4E5f6G7h8J9k0".to_owned(); 10_000],
            ..escalation("a")
        };
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let id = outbox.raise(&huge, &Key::new("loop-1.0"), at).unwrap();
        let text = fs::read_to_string(outbox.file(&id)).unwrap();
        assert!(
            text.len() < 64_000 && !text.contains("canary") && !text.contains("A1b2"),
            "{text}"
        );
        assert_eq!(outbox.prune(at), 0, "what is open is never forgotten");
        outbox.resolve(&huge.cause, &Key::new("loop-2.0"), at).unwrap();
        assert_eq!((outbox.prune(at), outbox.prune(at + chrono::TimeDelta::days(1))), (0, 1));
        assert!(Outbox::list(dir.path()).is_empty());
    }
}
