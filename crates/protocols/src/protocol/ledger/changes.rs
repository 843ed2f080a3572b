//! What a session changed in the three documents, told apart into what its agent may do and what it may not (spec 5 §5).
//! Nothing that is forbidden comes through: the documents are written anew from what is left.

use super::docs::Docs;
use super::features::{Feature, Features, reopen};
use super::reviews::Reviews;
use super::standing::is_mark;
use super::table::{Action, may};
use super::words::AgentType;
use super::{FEATURES, PROGRESS, REVIEWS};
use crate::model::{Rejection, RelPath, clip};
use serde_json::Value;

/// What is left when the forbidden is taken out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) passed: Vec<String>,
    pub(super) failed: Vec<(String, String)>,
    pub(super) added: Vec<Value>,
    pub(super) reviews: Vec<Value>,
    pub(super) fixes: Vec<Value>,
    pub(super) sessions: Vec<Value>,
    /// Why a review of this agent does not count, where only its `agent_type` is wrong.
    pub(super) misspelt: Option<String>,
    pub(super) rejections: Vec<Rejection>,
}

pub(super) fn found(agent: AgentType, before: &Docs, after: &Docs) -> Changes {
    let mut judge = Judge { agent, changes: Changes::default() };
    if let (Some(before), Some(after)) = (&before.features, &after.features) {
        judge.features(before, after);
    }
    let none = Reviews::empty();
    if let Some(after) = &after.reviews {
        judge.reviews(before.reviews.as_ref().unwrap_or(&none), after);
    }
    if let Some(after) = &after.progress {
        let before = before.progress.as_ref().map_or(&[][..], |progress| progress.sessions());
        judge.changes.sessions = judge.log("sessions", PROGRESS, before, after.sessions());
    }
    judge.changes
}

/// LG-06: who did what, and who may.
pub(super) fn forbidden(
    agent: AgentType,
    action: Action,
    file: &'static str,
    what: &str,
) -> Rejection {
    let found = format!("{} did {}: {}", agent.word(), action.words(), clip(what, 120));
    let wanted = format!("{}; it was undone", action.allowed());
    Rejection::new("LG-06", &RelPath::fixed(file), found, &wanted)
}

struct Judge {
    agent: AgentType,
    changes: Changes,
}

impl Judge {
    /// True: it may. Else it is noted, and must be left out.
    fn may(&mut self, action: Action, file: &'static str, what: &str) -> bool {
        let fine = may(self.agent, action);
        if !fine {
            self.changes.rejections.push(forbidden(self.agent, action, file, what));
        }
        fine
    }

    fn features(&mut self, before: &Features, after: &Features) {
        for old in before.all() {
            let id = old.id();
            match after.get(&id) {
                None => drop(self.may(Action::Rewrite, FEATURES, &format!("`{id}` is gone"))),
                Some(new) => self.feature(&id, old, new),
            }
        }
        let new = after.all().filter(|feature| before.get(&feature.id()).is_none());
        for feature in new {
            let id = feature.id();
            if feature.passes() {
                self.may(Action::MarkPassing, FEATURES, &format!("`{id}` is new and passes"));
            }
            if self.may(Action::AddFeature, FEATURES, &id) {
                let mut entry = feature.value().clone();
                reopen(&mut entry);
                self.changes.added.push(entry);
            }
        }
    }

    fn feature(&mut self, id: &str, old: Feature<'_>, new: Feature<'_>) {
        match (old.passes(), new.passes()) {
            (false, true) if self.may(Action::MarkPassing, FEATURES, id) => {
                self.changes.passed.push(id.to_owned());
            }
            (true, false) if self.may(Action::MarkFailing, FEATURES, id) => {
                let reason =
                    new.value()["failure_reason"].as_str().unwrap_or("no reason was given");
                self.changes.failed.push((id.to_owned(), reason.to_owned()));
            }
            (false, true) | (true, false) | (true, true) | (false, false) => {}
        }
        if without_marks(old.value()) != without_marks(new.value()) {
            self.may(Action::Rewrite, FEATURES, &format!("`{id}` says something else"));
        }
    }

    fn reviews(&mut self, before: &Reviews, after: &Reviews) {
        let reviews = self.log("reviews", REVIEWS, before.reviews(), after.reviews());
        for review in reviews {
            if self.misspelt(&review) {
                continue;
            }
            let who = review["agent_type"].as_str().and_then(AgentType::parse);
            let what = format!("review {} as {}", review["review_id"], review["agent_type"]);
            if self.may(Action::WriteReview, REVIEWS, &what) && who == Some(self.agent) {
                self.changes.reviews.push(review);
            } else if may(self.agent, Action::WriteReview) {
                self.changes.rejections.push(forbidden(
                    self.agent,
                    Action::WriteReview,
                    REVIEWS,
                    &what,
                ));
            }
        }
        for fix in self.log("fixes", REVIEWS, before.fixes(), after.fixes()) {
            if self.may(Action::WriteFix, REVIEWS, &format!("fix {}", fix["fix_id"])) {
                self.changes.fixes.push(fix);
            }
        }
    }

    /// The agent wrote its own name in another way. It is refused, with the right word (LG-05).
    fn misspelt(&mut self, review: &Value) -> bool {
        let Some(said) = review["agent_type"].as_str() else { return false };
        let right = self.agent.word();
        let misspelt = said != right
            && said.trim().eq_ignore_ascii_case(right)
            && may(self.agent, Action::WriteReview);
        if misspelt {
            let found =
                format!("agent_type is \"{}\" in review {}", clip(said, 40), review["review_id"]);
            let file = RelPath::fixed(REVIEWS);
            self.changes.rejections.push(Rejection::new("LG-05", &file, found, right));
            self.changes.misspelt =
                Some(format!("agent_type is \"{}\"; write {right}", clip(said, 40)));
        }
        misspelt
    }

    /// A list that only grows: what stood there stays as it was, what is new is returned.
    fn log(
        &mut self,
        name: &str,
        file: &'static str,
        before: &[Value],
        after: &[Value],
    ) -> Vec<Value> {
        for (at, old) in before.iter().enumerate() {
            // A merge is marked by us; that a reviewer marked it too is no harm.
            let same = after.get(at).is_some_and(|new| without_merge(old) == without_merge(new));
            if !same {
                self.may(Action::Rewrite, file, &format!("`{name}[{at}]`"));
            }
        }
        after.get(before.len()..).unwrap_or_default().to_vec()
    }
}

fn without_marks(feature: &Value) -> Value {
    let mut feature = without(feature, &["passed_at", "failed_at", "failure_reason"]);
    if let Value::Object(fields) = &mut feature {
        fields.retain(|name, value| !is_mark(name, value));
    }
    feature
}

fn without_merge(entry: &Value) -> Value {
    without(entry, &["merged_to_main", "pending_review", "merge_commit", "merged_at"])
}

fn without(entry: &Value, names: &[&str]) -> Value {
    let mut entry = entry.clone();
    if let Value::Object(object) = &mut entry {
        object.retain(|name, _| !names.contains(&name.as_str()));
    }
    entry
}
