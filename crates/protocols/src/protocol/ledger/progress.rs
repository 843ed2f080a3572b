//! `progress.json` (spec 5 §1): the project, where it stands, and every session. Pure: bytes in, bytes out.

use super::check::{At, Check, Need};
use super::counts::Counts;
use super::features::Features;
use super::json;
use super::reviews::{Reviews, check_ids, is_refactor, list, next_id, number, text};
use super::splice::Sourced;
use super::words::{AgentType, Outcome};
use crate::model::{Rejection, RelPath, Timestamp, clip};
use serde_json::{Value, json};

pub const PROGRESS: &str = "progress.json";

#[derive(Clone, Debug, PartialEq)]
pub struct Progress(Sourced);

/// A session that somebody wants to add.
#[derive(Clone, Debug)]
pub struct SessionDraft {
    pub agent: AgentType,
    pub outcome: Outcome,
    pub summary: String,
    pub features: Vec<String>,
    /// Hash and message.
    pub commits: Vec<(String, String)>,
    pub commit_from: Option<String>,
    pub commit_to: Option<String>,
    pub started_at: Option<String>,
}

/// What becomes of a field of the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set {
    Keep,
    Null,
    To(String),
}

impl Set {
    /// `null` typed on the command line clears a field.
    pub fn typed(given: Option<&str>) -> Self {
        match given {
            None => Self::Keep,
            Some("null" | "") => Self::Null,
            Some(text) => Self::To(text.to_owned()),
        }
    }

    /// A branch: on the main one there is none (LG-13).
    pub fn branch(given: Option<&str>) -> Self {
        Self::typed(given.map(|name| if is_main(name) { "null" } else { name }))
    }
}

/// Spec 5 §1: "null if on main/master".
pub fn is_main(branch: &str) -> bool {
    matches!(branch, "main" | "master")
}

/// Enough of a commit's id for people.
pub fn short(commit: &str) -> &str {
    commit.get(..7).unwrap_or(commit)
}

impl Progress {
    pub fn new(name: &str, features: u64, head: Option<&str>, at: Timestamp) -> Self {
        let now = json::stamp(at);
        Self(Sourced::new(json!({
            "project": {"name": name, "created_at": now, "total_features": features},
            "status": {
                "updated_at": now,
                "features_completed": 0,
                "features_passing": 0,
                "current_phase": AgentType::Implement.word(),
                "current_feature": null,
                "current_branch": null,
                "head_commit": head.map(short),
            },
            "sessions": [],
        })))
    }

    /// LG-02: a file of another shape is not ours.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>> {
        let file = RelPath::fixed(PROGRESS);
        let value = Sourced::read(&file, bytes).map_err(|problem| vec![problem])?;
        let ours = value.get("project").is_some_and(Value::is_object)
            && value.get("status").is_some_and(|status| status.get("current_phase").is_some())
            && value.get("sessions").and_then(Value::as_array).is_some_and(|sessions| {
                sessions.iter().all(|session| number(session, "session_id").is_some())
            });
        if ours {
            return Ok(Self(value));
        }
        let found = format!("another shape: {}", clip(&value.to_string(), 60));
        let wanted = "the ledger's progress: `project`, `status` with current_phase, `sessions` with \
                      session_id; this file is left alone";
        Err(vec![Rejection::new("LG-02", &file, found, wanted)])
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    pub fn value(&self) -> &Value {
        &self.0
    }

    pub fn status(&self) -> &Value {
        &self.0["status"]
    }

    pub fn sessions(&self) -> &[Value] {
        list(&self.0, "sessions")
    }

    /// By its id; a negative number counts from the last.
    pub fn session(&self, id: i64) -> Option<&Value> {
        let sessions = self.sessions();
        match u64::try_from(id) {
            Ok(id) => sessions.iter().find(|session| number(session, "session_id") == Some(id)),
            Err(_) => {
                let back = usize::try_from(id.unsigned_abs()).ok()?;
                sessions.len().checked_sub(back).and_then(|at| sessions.get(at))
            }
        }
    }

    pub fn next_session_id(&self) -> u64 {
        next_id(self.sessions(), "session_id")
    }

    pub fn phase(&self) -> Option<AgentType> {
        text(self.status(), "current_phase").and_then(AgentType::parse)
    }

    /// Everything that the schema does not allow.
    pub fn problems(&self) -> Vec<Rejection> {
        let file = RelPath::fixed(PROGRESS);
        let mut check = Check::new(&file);
        let Value::Object(whole) = &*self.0 else { return Vec::new() };
        let root = At::new("progress", whole);
        if let Some(project) = check.object(&root, "project", Need::Must) {
            check.text(&project, "name", Need::Must);
            check.time(&project, "created_at", Need::Must);
            check.number(&project, "total_features", Need::Must);
        }
        if let Some(status) = check.object(&root, "status", Need::Must) {
            check_status(&mut check, &status);
        }
        for session in check.items("sessions", self.sessions()) {
            check_session(&mut check, &session);
        }
        check_ids(&mut check, "sessions", self.sessions(), "session_id");
        check.problems
    }

    /// Adds a session in the spec's form, or says everything that is wrong with it.
    pub fn add_session(
        &mut self,
        draft: SessionDraft,
        at: Timestamp,
    ) -> Result<Value, Vec<Rejection>> {
        let now = json::stamp(at);
        let started = match &draft.started_at {
            // What is no time stays as it is, for the check to name.
            Some(given) => json::utc(given).unwrap_or_else(|| given.clone()),
            None => now.clone(),
        };
        let commits: Vec<Value> = draft
            .commits
            .iter()
            .map(|(hash, message)| json!({"hash": hash, "message": message}))
            .collect();
        let mut session = json!({
            "session_id": self.next_session_id(),
            "agent_type": draft.agent.word(),
            "started_at": started,
            "completed_at": now,
            "summary": draft.summary,
            "features_touched": draft.features,
            "outcome": draft.outcome.word(),
            "commits": commits,
        });
        if draft.commit_from.is_some() || draft.commit_to.is_some() {
            session["commit_range"] = json!({"from": draft.commit_from, "to": draft.commit_to});
        }
        self.push_session(session.clone())?;
        Ok(session)
    }

    /// Adds a session that is whole already.
    pub fn push_session(&mut self, session: Value) -> Result<(), Vec<Rejection>> {
        let file = RelPath::fixed(PROGRESS);
        let mut check = Check::new(&file);
        if let Value::Object(object) = &session {
            let place = format!("sessions[{}]", self.sessions().len());
            check_session(&mut check, &At::new(place, object));
        }
        check.finish()?;
        if let Some(sessions) = self.0.get_mut("sessions").and_then(Value::as_array_mut) {
            sessions.push(session);
        }
        Ok(())
    }

    pub fn set_phase(&mut self, phase: AgentType) {
        self.set("current_phase", json!(phase.word()));
    }

    pub fn set_feature(&mut self, to: &Set) {
        self.set_if("current_feature", to);
    }

    pub fn set_branch(&mut self, to: &Set) {
        self.set_if("current_branch", to);
    }

    /// LG-13: what git says, not what anybody claims. `None`: there is no git here.
    pub fn set_head(&mut self, commit: Option<&str>) {
        if let Some(commit) = commit {
            self.set("head_commit", json!(short(commit)));
        }
    }

    pub fn touch(&mut self, at: Timestamp) {
        self.set("updated_at", json!(json::stamp(at)));
    }

    /// LG-13: counts are computed.
    pub fn count(&mut self, features: &Features, reviews: Option<&Reviews>) {
        let counts = Counts::of(features, reviews);
        self.set_counts(Some(counts.completed), Some(counts.passing));
        if let Some(Value::Object(project)) = self.0.get_mut("project") {
            project.insert("total_features".to_owned(), json!(counts.total));
        }
    }

    /// For a folder without a feature list, in which nothing can be counted.
    pub fn set_counts(&mut self, completed: Option<u64>, passing: Option<u64>) {
        for (name, count) in [("features_completed", completed), ("features_passing", passing)] {
            if let Some(count) = count {
                self.set(name, json!(count));
            }
        }
    }

    fn set_if(&mut self, name: &str, to: &Set) {
        match to {
            Set::Keep => {}
            Set::Null => self.set(name, Value::Null),
            Set::To(text) => self.set(name, json!(text)),
        }
    }

    fn set(&mut self, name: &str, value: Value) {
        if let Some(Value::Object(status)) = self.0.get_mut("status") {
            status.insert(name.to_owned(), value);
        }
    }
}

/// What a reviewer has before them, by the branch that is current.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewType {
    Feature { feature: Option<String>, branch: Option<String> },
    ArchitectureRefactor { branch: String },
}

impl Progress {
    pub fn review_type(&self) -> ReviewType {
        let field = |name: &str| text(self.status(), name).map(str::to_owned);
        match field("current_branch") {
            Some(branch) if is_refactor(&branch) => ReviewType::ArchitectureRefactor { branch },
            branch => ReviewType::Feature { feature: field("current_feature"), branch },
        }
    }
}

fn check_status(check: &mut Check<'_>, status: &At<'_>) {
    check.time(status, "updated_at", Need::Must);
    check.number(status, "features_completed", Need::Must);
    check.number(status, "features_passing", Need::Must);
    check.word(status, "current_phase", AgentType::parse, &AgentType::list());
    check.text(status, "current_feature", Need::May);
    check.text(status, "current_branch", Need::May);
    check.text(status, "head_commit", Need::May);
}

fn check_session(check: &mut Check<'_>, session: &At<'_>) {
    check.number(session, "session_id", Need::Must);
    let agent = check.word(session, "agent_type", AgentType::parse, &AgentType::list());
    check.time(session, "started_at", Need::Must);
    check.time(session, "completed_at", Need::Must);
    check.text(session, "summary", Need::Must);
    check.list(session, "features_touched", Need::May);
    let commits = check.list(session, "commits", Need::May);
    for commit in check.items(&format!("{}.commits", session.place), commits) {
        check.text(&commit, "hash", Need::Must);
        check.text(&commit, "message", Need::May);
    }
    if let Some(range) = check.object(session, "commit_range", Need::May) {
        check.text(&range, "from", Need::May);
        check.text(&range, "to", Need::May);
    }
    let outcome = check.word(session, "outcome", Outcome::parse, &Outcome::list());
    if let (Some(agent), Some(outcome)) = (agent, outcome)
        && !agent.outcomes().contains(&outcome)
    {
        let right: Vec<_> = agent.outcomes().iter().map(|outcome| outcome.word()).collect();
        let found = format!("`{}.outcome` {} of {}", session.place, outcome.word(), agent.word());
        check.refuse("LG-05", found, &right.join(" or "));
    }
}
