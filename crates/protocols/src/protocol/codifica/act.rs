//! The verbs of `agency work` as edits of one task. Whether an edit is allowed is for `judge` to say, as for anybody's edit.

use super::board::Board;
use super::edit::{Edit, EditFault};
use super::finding::Finding;
use super::judge::judge;
use super::next::fallen_back;
use super::words::{Actor, OURSELVES, Owner, State, Verdict};
use super::yaml::Meaning;
use crate::model::{RelPath, Timestamp};

/// What somebody wants to do to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Claim,
    Note { text: String, summary: Option<String> },
    Submit { note: Option<String>, summary: Option<String> },
    Done { note: Option<String>, summary: Option<String> },
    Return { reason: Option<String> },
    Block { reason: String, by: Option<String> },
    Unblock { to: State, reason: Option<String> },
    Reject { reason: String },
    Reopen { reason: String },
    Reclaim { reason: String },
    RequestBlock { reason: String },
    Review { status: Verdict, reviewer: String, notes: Vec<String> },
    Artifact { path: RelPath, kind: String },
}

/// When, and from where: the provenance of spec 3 §10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub at: Timestamp,
    pub session: Option<String>,
    /// GAP of CD-14: the commit before the entry, since an entry cannot know its own.
    pub commit: Option<String>,
}

/// An action that was made into bytes and found to be allowed.
#[derive(Debug)]
pub struct Acted {
    pub path: RelPath,
    pub bytes: Vec<u8>,
    /// Other state files, where a task that depends on this one got a warning (CD-06).
    pub others: Vec<(RelPath, Vec<u8>)>,
    pub board: Board,
    pub warnings: Vec<Finding>,
}

#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("there is no task `{0}` in the state files")]
    Unknown(String),
    #[error("{}", list(.0))]
    Rules(Vec<Finding>),
    #[error(transparent)]
    Edit(#[from] EditFault),
    #[error("{0}")]
    Claimed(Lost),
}

/// A claim of a task that somebody has already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    id: String,
    owner: Owner,
    actor: Actor,
}

impl Lost {
    fn new(id: &str, owner: &Owner, actor: &Actor) -> Self {
        Self { id: id.to_owned(), owner: owner.clone(), actor: actor.clone() }
    }
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { id, owner, actor } = self;
        if actor.owns(owner) {
            return write!(f, "{id} is claimed by {owner} already: it is yours (CD-08)");
        }
        match (actor, owner) {
            (_, Owner::Unassigned) => write!(f, "{id} is in_progress without an owner (CD-22)"),
            (Actor::Agent(name), _) => write!(
                f,
                "{id} was claimed by {owner} first. Take another: agency work claim --agent {name} (CD-08)"
            ),
            (Actor::Human | Actor::Someone, _) => write!(
                f,
                "{id} was claimed by {owner} first. See what is free: agency work list --state todo (CD-08)"
            ),
        }
    }
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The board after the action, or why not. Nothing is written here.
pub fn act(
    board: &Board,
    id: &str,
    actor: &Actor,
    action: &Action,
    stamp: &Stamp,
) -> Result<Acted, Refusal> {
    if let Some(finding) = board.ambiguous(id) {
        return Err(Refusal::Rules(vec![finding]));
    }
    let task =
        board.task(id).ok_or_else(|| Refusal::Unknown(id.to_owned()))?.map_err(Refusal::Rules)?;
    if let (Action::Claim, State::InProgress) = (action, task.state) {
        return Err(Refusal::Claimed(Lost::new(id, &task.owner, actor)));
    }
    let scribe = Scribe { actor, stamp, state: task.state };
    let (path, bytes) = board.edited(id, &scribe.edits(board, id, action))?;
    let after = scribe.warned(board, board.with(&path, bytes))?;
    let mut findings = judge(board, &after, actor);
    if let Action::RequestBlock { .. } | Action::Note { .. } = action
        && !actor.is_agent()
    {
        let file = path.clone();
        findings.push(
            Finding::violation(
                "CD-14",
                &file,
                format!("a note by {actor}"),
                "an agent: humans use `agency work review`",
            )
            .of(id),
        );
    }
    if let Action::Review { .. } = action
        && actor.is_agent()
    {
        findings.push(
            Finding::violation("CD-24", &path, format!("a review by {actor}"), "a human").of(id),
        );
    }
    let (mut violations, warnings): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(Finding::is_violation);
    violations.dedup();
    if violations.is_empty() {
        let (own, others): (Vec<_>, Vec<_>) =
            after.changed_since(board).into_iter().partition(|(file, _)| *file == path);
        let bytes = own.into_iter().next().map(|(_, bytes)| bytes).unwrap_or_default();
        Ok(Acted { path, bytes, others, board: after, warnings })
    } else {
        Err(Refusal::Rules(violations))
    }
}

/// The edits of an action as they are written, allowed or not.
#[cfg(test)]
pub(super) fn edits(
    board: &Board,
    id: &str,
    actor: &Actor,
    action: &Action,
    stamp: &Stamp,
) -> Vec<Edit> {
    let state = board.glance(id).map_or(State::Todo, |task| task.state);
    Scribe { actor, stamp, state }.edits(board, id, action)
}

struct Scribe<'a> {
    actor: &'a Actor,
    stamp: &'a Stamp,
    state: State,
}

impl Scribe<'_> {
    fn edits(&self, board: &Board, id: &str, action: &Action) -> Vec<Edit> {
        match action {
            Action::Claim => {
                let mut edits = vec![set("owner", self.actor), set("claimed_at", &self.time())];
                edits.extend(self.go(State::InProgress, None));
                edits
            }
            Action::Note { text, summary } => vec![self.note(text, summary.as_deref())],
            Action::Submit { note, summary } => {
                self.close(State::ToBeTested, note.as_deref(), summary.as_deref())
            }
            Action::Done { note, summary } => {
                let mut edits = self.close(State::Done, note.as_deref(), summary.as_deref());
                edits.push(set("completed_at", &self.time()));
                edits
            }
            Action::Return { reason } => self.back(reason.as_deref(), &["claimed_at"]),
            Action::Block { reason, by } => {
                let mut edits = vec![set("blocked_reason", reason)];
                edits.extend(by.iter().map(|by| set("blocked_by", by)));
                edits.extend(self.go(State::Blocked, Some(reason)));
                edits
            }
            Action::Unblock { to, reason } => {
                let mut edits = self.go(*to, reason.as_deref());
                edits.extend(["blocked_reason", "blocked_by"].map(|key| Edit::Remove { key }));
                edits
            }
            Action::Reject { reason } => {
                let mut edits = self.go(State::Rejected, Some(reason));
                edits.push(set("completed_at", &self.time()));
                edits
            }
            Action::Reopen { reason } => self.back(Some(reason), &["completed_at", "claimed_at"]),
            Action::Reclaim { reason } => {
                let mut edits = self.back(Some(reason), &["claimed_at"]);
                edits.push(set("owner", "unassigned"));
                edits
            }
            Action::RequestBlock { reason } => {
                vec![self.note(&format!("I recommend to block this task: {reason}"), None)]
            }
            Action::Review { status, reviewer, notes } => {
                vec![self.review(board, id, *status, reviewer, notes)]
            }
            Action::Artifact { path, kind } => {
                let item = map(&[("path", path.as_str()), ("type", kind)]);
                vec![Edit::Append { key: "artifacts", item }]
            }
        }
    }

    /// CD-06: who builds on a task that is done no more is warned in the same commit, so that no crash can lose it.
    fn warned(&self, before: &Board, after: Board) -> Result<Board, EditFault> {
        let ourselves = Actor::Agent(OURSELVES.to_owned());
        let ours = Scribe { actor: &ourselves, ..*self };
        fallen_back(before, &after).into_iter().try_fold(after, |board, (id, text)| {
            let (path, bytes) = board.edited(&id, &[ours.note(&text, None)])?;
            Ok(board.with(&path, bytes))
        })
    }

    fn time(&self) -> String {
        self.stamp.at.format("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn go(&self, to: State, reason: Option<&str>) -> Vec<Edit> {
        let (from, by, at) = (self.state.word(), self.actor.to_string(), self.time());
        let mut fields = vec![("from", from), ("to", to.word()), ("by", by.as_str())];
        fields.extend(reason.map(|reason| ("reason", reason)));
        fields.push(("timestamp", at.as_str()));
        let item = self.with_provenance(map(&fields));
        vec![set("state", to.word()), Edit::Append { key: "state_transitions", item }]
    }

    fn back(&self, reason: Option<&str>, forget: &[&'static str]) -> Vec<Edit> {
        let mut edits = self.go(State::Todo, reason);
        edits.extend(forget.iter().map(|key| Edit::Remove { key }));
        edits
    }

    fn close(&self, to: State, note: Option<&str>, summary: Option<&str>) -> Vec<Edit> {
        let text = note.or(summary);
        // Notes are for agents; what a human says stands with the transition.
        let noted = text.filter(|_| self.actor.is_agent());
        let mut edits: Vec<_> = noted.map(|text| self.note(text, summary)).into_iter().collect();
        edits.extend(self.go(to, summary.or(text.filter(|_| !self.actor.is_agent()))));
        edits
    }

    fn note(&self, text: &str, summary: Option<&str>) -> Edit {
        let (by, at) = (self.actor.to_string(), self.time());
        let mut fields = vec![("by", by.as_str()), ("note", text)];
        fields.extend(summary.map(|summary| ("summary", summary)));
        fields.push(("timestamp", at.as_str()));
        Edit::Append { key: "execution_notes", item: self.with_provenance(map(&fields)) }
    }

    fn review(
        &self,
        board: &Board,
        id: &str,
        status: Verdict,
        reviewer: &str,
        notes: &[String],
    ) -> Edit {
        let known = board.task(id).and_then(Result::ok).and_then(|task| task.human_review);
        let notes = known.into_iter().flat_map(|review| review.notes).chain(notes.iter().cloned());
        let notes = Meaning::List(notes.map(Meaning::Text).collect());
        let Meaning::Map(mut fields) = map(&[("status", status.word()), ("reviewer", reviewer)])
        else {
            return Edit::Remove { key: "human_review" };
        };
        fields.push(("notes".to_owned(), notes));
        fields.push(("recorded_at".to_owned(), Meaning::Text(self.time())));
        Edit::Set { key: "human_review", value: Meaning::Map(fields) }
    }

    /// Agents say where an entry comes from, humans need not (spec 3 §10.3).
    fn with_provenance(&self, item: Meaning) -> Meaning {
        let Stamp { session, commit, .. } = self.stamp;
        let fields = [("session_id", session), ("commit_sha", commit)];
        let known: Vec<_> =
            fields.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?))).collect();
        match item {
            Meaning::Map(mut entries) if self.actor.is_agent() && !known.is_empty() => {
                entries.push(("provenance".to_owned(), map(&known)));
                Meaning::Map(entries)
            }
            item @ (Meaning::Null | Meaning::Text(_) | Meaning::List(_) | Meaning::Map(_)) => item,
        }
    }
}

fn set(key: &'static str, value: &(impl ToString + ?Sized)) -> Edit {
    Edit::Set { key, value: Meaning::Text(value.to_string()) }
}

pub(super) fn map(fields: &[(&str, &str)]) -> Meaning {
    Meaning::Map(
        fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), Meaning::Text((*value).to_owned())))
            .collect(),
    )
}
