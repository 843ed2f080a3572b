//! The three documents together, and the changes that a judged session makes to them. It judges nothing.

use super::cycles::Subject;
use super::features::Features;
use super::json::stamp;
use super::progress::{Progress, Set, short};
use super::reviews::Reviews;
use super::words::AgentType;
use super::{FEATURES, PROGRESS, REVIEWS};
use crate::model::{Bytes, Rejection, RelPath, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What lies in a tree. A document that is not there, or not ours, is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Docs {
    pub(super) progress: Option<Progress>,
    pub(super) reviews: Option<Reviews>,
    pub(super) features: Option<Features>,
}

pub(super) const FILES: [&str; 3] = [PROGRESS, REVIEWS, FEATURES];

pub(super) fn is_ledger(path: &RelPath) -> bool {
    FILES.contains(&path.as_str())
}

/// One change to the documents. A list of them is applied to whatever the main branch holds when it is recorded, so that what
/// the owner wrote there meanwhile stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Op {
    /// The first list, where there was none.
    List(Value),
    Feature(Value),
    Pass(String),
    Fail {
        id: String,
        reason: String,
    },
    Review(Value),
    Fix(Value),
    /// The fixes of what was merged are merged with it.
    MergedFixes {
        feature: Option<String>,
        branch: String,
        /// Issues that were merged unfixed after the last attempt (LG-16).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deferred: Vec<Value>,
    },
    Session(Value),
    Status {
        phase: AgentType,
        feature: Option<String>,
        branch: Option<String>,
    },
}

impl Docs {
    /// The three files' bytes, in the order of `FILES`, and everything that is not readable.
    pub(super) fn read(files: [Option<&Bytes>; 3]) -> (Self, Vec<Rejection>) {
        let mut problems = Vec::new();
        let [progress, reviews, features] = files;
        let docs = Self {
            progress: progress.and_then(|bytes| keep(Progress::read(&bytes.0), &mut problems)),
            reviews: reviews.and_then(|bytes| keep(Reviews::read(&bytes.0), &mut problems)),
            features: features.and_then(|bytes| keep(Features::read(&bytes.0), &mut problems)),
        };
        (docs, problems)
    }

    pub(super) fn files(&self) -> Vec<(RelPath, Bytes)> {
        let files = [
            (PROGRESS, self.progress.as_ref().map(Progress::to_bytes)),
            (REVIEWS, self.reviews.as_ref().map(Reviews::to_bytes)),
            (FEATURES, self.features.as_ref().map(Features::to_bytes)),
        ];
        let there = files.into_iter().filter_map(|(name, bytes)| Some((name, bytes?)));
        there.map(|(name, bytes)| (RelPath::fixed(name), Bytes(bytes))).collect()
    }

    /// LG-16: the project is called as the list calls it, which may be the list that a session brings just now.
    pub(super) fn project_name(&self, ops: &[Op]) -> Option<String> {
        let brought = ops.iter().find_map(|op| match op {
            Op::List(list) => Features::read(&super::json::to_bytes(list)).ok(),
            Op::Feature(_)
            | Op::Pass(_)
            | Op::Fail { .. }
            | Op::Review(_)
            | Op::Fix(_)
            | Op::MergedFixes { .. }
            | Op::Session(_)
            | Op::Status { .. } => None,
        });
        let list = brought.as_ref().or(self.features.as_ref());
        list.and_then(Features::project_name).map(str::to_owned)
    }

    /// Documents that a session needs are made where they are missing.
    pub(super) fn complete(&mut self, project: &str, at: Timestamp) {
        self.reviews.get_or_insert_with(Reviews::empty);
        let total = self.features.as_ref().map_or(0, |features| features.len() as u64);
        self.progress.get_or_insert_with(|| Progress::new(project, total, None, at));
    }

    /// `head` is where the main branch stands, `merge` the commit that merged the work.
    pub(super) fn apply(&mut self, ops: &[Op], head: &str, merge: Option<&str>, at: Timestamp) {
        for op in ops {
            self.apply_one(op, merge, at);
        }
        if let Some(progress) = &mut self.progress {
            if let Some(features) = &self.features {
                progress.count(features, self.reviews.as_ref());
            }
            progress.set_head(Some(merge.unwrap_or(head)));
            progress.touch(at);
        }
    }

    fn apply_one(&mut self, op: &Op, merge: Option<&str>, at: Timestamp) {
        match op {
            Op::List(list) => {
                let bytes = super::json::to_bytes(list);
                // Also over what its author committed: only what was judged counts.
                self.features = Features::read(&bytes).ok();
            }
            Op::Feature(entry) => {
                if let Some(features) = &mut self.features {
                    // Judged before; an id that the owner took meanwhile makes it a second one, which is not added.
                    drop(features.append(&json!([entry]), None));
                }
            }
            Op::Pass(id) => drop(self.features.as_mut().and_then(|features| features.pass(id, at))),
            Op::Fail { id, reason } => {
                if let Some(features) = &mut self.features {
                    features.fail(id, reason, at);
                }
            }
            Op::Review(review) => {
                drop(self.reviews.as_mut().map(|all| all.push_review(review.clone())))
            }
            Op::Fix(fix) => drop(self.reviews.as_mut().map(|all| all.push_fix(fix.clone()))),
            Op::MergedFixes { feature, branch, deferred } => {
                self.mark_merged(feature.as_deref(), branch, deferred, merge, at)
            }
            Op::Session(session) => {
                if let Some(progress) = &mut self.progress {
                    let mut session = session.clone();
                    session["session_id"] = json!(progress.next_session_id());
                    drop(progress.push_session(session));
                }
            }
            Op::Status { phase, feature, branch } => {
                if let Some(progress) = &mut self.progress {
                    progress.set_phase(*phase);
                    progress.set_feature(&to(feature));
                    progress.set_branch(&to(branch));
                }
            }
        }
    }

    fn mark_merged(
        &mut self,
        feature: Option<&str>,
        branch: &str,
        deferred: &[Value],
        merge: Option<&str>,
        at: Timestamp,
    ) {
        let Some(reviews) = &mut self.reviews else { return };
        let concerned = |fix: &&Value| {
            fix["feature_id"].as_str() == feature
                && fix["branch"] == json!(branch)
                && fix["pending_review"] == json!(true)
        };
        let ids: Vec<u64> = reviews
            .fixes()
            .iter()
            .filter(concerned)
            .filter_map(|fix| fix["fix_id"].as_u64())
            .collect();
        if let Some(last) = ids.iter().max() {
            reviews.defer(*last, deferred);
        }
        for id in ids {
            reviews.mark_merged(id, merge.map(short), at);
        }
    }

    /// What is fixed on this branch.
    pub(super) fn subject(feature: Option<&str>, branch: &str) -> Subject {
        feature.map_or_else(|| Subject::parse(branch), |id| Subject::Feature(id.to_owned()))
    }
}

/// A session as we record it: its times, commits and range are ours (LG-07).
pub(super) struct SessionFacts<'a> {
    pub(super) agent: AgentType,
    pub(super) outcome: super::words::Outcome,
    pub(super) summary: String,
    pub(super) feature: Option<&'a str>,
    pub(super) started: Timestamp,
    pub(super) ended: Timestamp,
    /// Full id and subject, the oldest first.
    pub(super) commits: Vec<(String, String)>,
    pub(super) range: Option<(String, String)>,
}

pub(super) fn session(facts: &SessionFacts<'_>) -> Value {
    let commits: Vec<Value> = facts
        .commits
        .iter()
        .map(|(id, subject)| json!({"hash": short(id), "message": subject}))
        .collect();
    let mut session = json!({
        "session_id": 0,
        "agent_type": facts.agent.word(),
        "started_at": stamp(facts.started),
        "completed_at": stamp(facts.ended),
        "summary": facts.summary,
        "features_touched": facts.feature.into_iter().collect::<Vec<_>>(),
        "outcome": facts.outcome.word(),
        "commits": commits,
    });
    if let Some((from, to)) = &facts.range {
        session["commit_range"] = json!({"from": short(from), "to": short(to)});
    }
    session
}

fn to(field: &Option<String>) -> Set {
    field.clone().map_or(Set::Null, Set::To)
}

fn keep<D>(read: Result<D, Vec<Rejection>>, problems: &mut Vec<Rejection>) -> Option<D> {
    match read {
        Ok(document) => Some(document),
        Err(found) => {
            problems.extend(found);
            None
        }
    }
}
