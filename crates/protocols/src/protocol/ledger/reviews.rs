//! `reviews.json` (spec 5 §2): reviews and fixes, only ever added to. Pure: bytes in, bytes out.

use super::check::{At, Check, Need};
use super::counts;
use super::issues::{self, IdLetter};
use super::json::{self, Object, shown};
use super::splice::Sourced;
use super::words::{AgentType, Health, Severity, Verdict};
use crate::model::{Rejection, RelPath, Timestamp, clip};
use serde_json::{Value, json};

pub const REVIEWS: &str = "reviews.json";

#[derive(Clone, Debug, PartialEq)]
pub struct Reviews(Sourced);

/// A review that somebody wants to add.
#[derive(Clone, Debug)]
pub struct ReviewDraft {
    pub agent: AgentType,
    pub feature_id: Option<String>,
    pub feature_name: Option<String>,
    pub branch: Option<String>,
    pub verdict: Verdict,
    pub summary: String,
    pub issues: Value,
    pub checklist: Option<Value>,
    pub health: Option<Health>,
    pub metrics: Option<Value>,
    pub trigger: Option<String>,
    pub features_completed: Option<u64>,
    pub commit_from: Option<String>,
    pub commit_to: Option<String>,
    pub range_description: Option<String>,
}

/// A fix that somebody wants to add.
#[derive(Clone, Debug)]
pub struct FixDraft {
    pub review_id: u64,
    pub feature_id: Option<String>,
    pub branch: String,
    pub issues_fixed: Value,
    pub issues_deferred: Value,
    pub tests_added: Vec<String>,
}

impl Reviews {
    pub fn empty() -> Self {
        Self(Sourced::new(json!({"schema_version": "1.0", "reviews": [], "fixes": []})))
    }

    /// LG-02: somebody's product reviews are not ours, whatever the file is called.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Rejection>> {
        let file = RelPath::fixed(REVIEWS);
        let value = Sourced::read(&file, bytes).map_err(|problem| vec![problem])?;
        let lists = |name: &str| value.get(name).and_then(Value::as_array);
        let ours = lists("reviews").is_some_and(|reviews| {
            reviews.iter().all(|review| {
                review.get("review_id").is_some_and(Value::is_u64)
                    && review.get("verdict").is_some_and(Value::is_string)
            }) && (!reviews.is_empty() || lists("fixes").is_some())
        });
        let fixes_fit = value.get("fixes").is_none_or(|fixes| {
            fixes.as_array().is_some_and(|fixes| {
                fixes.iter().all(|fix| fix.get("fix_id").is_some_and(Value::is_u64))
            })
        });
        if ours && fixes_fit {
            return Ok(Self(value));
        }
        if let Some(problem) = id_as_text(&file, &value) {
            return Err(vec![problem]);
        }
        let found = format!("another shape: {}", clip(&value.to_string(), 60));
        let wanted = "the ledger's reviews: `reviews` with review_id and verdict, `fixes` with fix_id; \
                      this file is left alone";
        Err(vec![Rejection::new("LG-02", &file, found, wanted)])
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.to_bytes()
    }

    pub fn value(&self) -> &Value {
        &self.0
    }

    pub fn reviews(&self) -> &[Value] {
        list(&self.0, "reviews")
    }

    pub fn fixes(&self) -> &[Value] {
        list(&self.0, "fixes")
    }

    pub fn last(&self) -> Option<&Value> {
        self.reviews().last()
    }

    pub fn review(&self, id: u64) -> Option<&Value> {
        self.reviews().iter().find(|review| number(review, "review_id") == Some(id))
    }

    pub fn fix(&self, id: u64) -> Option<&Value> {
        self.fixes().iter().find(|fix| number(fix, "fix_id") == Some(id))
    }

    pub fn next_review_id(&self) -> u64 {
        next_id(self.reviews(), "review_id")
    }

    pub fn next_fix_id(&self) -> u64 {
        next_id(self.fixes(), "fix_id")
    }

    /// Everything that the schema does not allow.
    pub fn problems(&self) -> Vec<Rejection> {
        let file = RelPath::fixed(REVIEWS);
        let mut check = Check::new(&file);
        for at in check.items("reviews", self.reviews()) {
            check_review(&mut check, &at);
        }
        for at in check.items("fixes", self.fixes()) {
            self.check_fix(&mut check, &at);
        }
        for (place, items, id) in
            [("reviews", self.reviews(), "review_id"), ("fixes", self.fixes(), "fix_id")]
        {
            check_ids(&mut check, place, items, id);
        }
        check.problems
    }

    /// Adds a review in the spec's form, or says everything that is wrong with it.
    pub fn add_review(
        &mut self,
        draft: ReviewDraft,
        at: Timestamp,
    ) -> Result<Value, Vec<Rejection>> {
        let review = self.make_review(draft, at)?;
        self.push_review(review.clone())?;
        Ok(review)
    }

    /// Adds a review that is whole already.
    pub fn push_review(&mut self, review: Value) -> Result<(), Vec<Rejection>> {
        let file = RelPath::fixed(REVIEWS);
        let mut check = Check::new(&file);
        let place = format!("reviews[{}]", self.reviews().len());
        if let Value::Object(object) = &review {
            check_review(&mut check, &At::new(place, object));
        }
        check.finish()?;
        self.push("reviews", review);
        Ok(())
    }

    fn make_review(&self, draft: ReviewDraft, at: Timestamp) -> Result<Value, Vec<Rejection>> {
        let file = RelPath::fixed(REVIEWS);
        let id = self.next_review_id();
        let issues = issues::group(&file, &draft.issues, letter(draft.agent), id)?;
        let architecture = draft.agent == AgentType::Architecture;
        let mut review = Object::new();
        let mut set = |name: &str, value: Value| drop(review.insert(name.to_owned(), value));
        set("review_id", json!(id));
        // Spec 5 §2, "Review Types": an architecture review has neither.
        set("feature_id", json!(draft.feature_id.filter(|_| !architecture)));
        if draft.feature_name.is_some() || architecture {
            let number =
                1 + self.reviews().iter().filter(|r| is_by(r, AgentType::Architecture)).count();
            let name =
                draft.feature_name.unwrap_or_else(|| format!("Architecture Review #{number}"));
            set("feature_name", json!(name));
        }
        set("branch", json!(draft.branch.filter(|_| !architecture)));
        set("agent_type", json!(draft.agent.word()));
        set("timestamp", json!(json::stamp(at)));
        if architecture {
            let trigger = || counts::trigger(draft.features_completed);
            set("trigger", json!(draft.trigger.unwrap_or_else(trigger)));
            if let Some(completed) = draft.features_completed {
                set("features_completed", json!(completed));
            }
        } else if let Some(trigger) = draft.trigger {
            set("trigger", json!(trigger));
        }
        if draft.commit_from.is_some() || draft.commit_to.is_some() {
            let mut range = json!({"from": draft.commit_from, "to": draft.commit_to});
            let ends = draft.commit_from.zip(draft.commit_to);
            let told = || ends.map(|(from, to)| format!("Reviewing commits from {from} to {to}"));
            if let Some(description) = draft.range_description.or_else(told) {
                range["description"] = json!(description);
            }
            set("commit_range", range);
        }
        set("verdict", json!(draft.verdict.word()));
        let health = draft.health.or_else(|| {
            let blocking = issues::blocking(&json!({"issues": issues}));
            architecture.then(|| Health::of(blocking, coverage(draft.metrics.as_ref())))
        });
        if let Some(health) = health {
            set("health_status", json!(health.word()));
        }
        if let Some(metrics) = draft.metrics {
            set("metrics", metrics);
        }
        set("issues", issues);
        if let Some(checklist) = draft.checklist {
            set("checklist", checklist);
        }
        set("summary", json!(draft.summary));
        Ok(Value::Object(review))
    }

    pub fn add_fix(&mut self, draft: FixDraft, at: Timestamp) -> Result<Value, Vec<Rejection>> {
        let review = self.review(draft.review_id);
        let feature = draft.feature_id.or_else(|| text(review?, "feature_id").map(str::to_owned));
        let fix = json!({
            "fix_id": self.next_fix_id(),
            "review_id": draft.review_id,
            "feature_id": feature,
            "branch": draft.branch,
            "agent_type": AgentType::Fix.word(),
            "timestamp": json::stamp(at),
            "issues_fixed": named(draft.issues_fixed),
            "issues_deferred": named(draft.issues_deferred),
            "tests_added": draft.tests_added,
            "merged_to_main": false,
            "pending_review": true,
        });
        self.push_fix(fix.clone())?;
        Ok(fix)
    }

    pub fn push_fix(&mut self, fix: Value) -> Result<(), Vec<Rejection>> {
        let file = RelPath::fixed(REVIEWS);
        let mut check = Check::new(&file);
        if let Value::Object(object) = &fix {
            let place = format!("fixes[{}]", self.fixes().len());
            self.check_fix(&mut check, &At::new(place, object));
        }
        check.finish()?;
        self.push("fixes", fix);
        Ok(())
    }

    /// False: there is no such fix.
    pub fn mark_merged(&mut self, id: u64, commit: Option<&str>, at: Timestamp) -> bool {
        let fixes = self.0.get_mut("fixes").and_then(Value::as_array_mut);
        let fix =
            fixes.and_then(|fixes| fixes.iter_mut().find(|fix| number(fix, "fix_id") == Some(id)));
        let Some(Value::Object(fix)) = fix else { return false };
        fix.insert("merged_to_main".to_owned(), json!(true));
        fix.insert("pending_review".to_owned(), json!(false));
        fix.insert("merge_commit".to_owned(), json!(commit));
        fix.insert("merged_at".to_owned(), json!(json::stamp(at)));
        true
    }

    /// LG-16: issues that the fix leaves for later.
    pub(super) fn defer(&mut self, id: u64, issues: &[Value]) {
        let fixes = self.0.get_mut("fixes").and_then(Value::as_array_mut);
        let fix =
            fixes.and_then(|fixes| fixes.iter_mut().find(|fix| number(fix, "fix_id") == Some(id)));
        let Some(Value::Object(fix)) = fix.filter(|_| !issues.is_empty()) else { return };
        if let Value::Array(known) = fix.entry("issues_deferred").or_insert_with(|| json!([])) {
            known.extend_from_slice(issues);
        }
    }

    /// Issues of the reviews that looked at the work after review `id`: what a fix left is found by the next review.
    fn found_later(&self, id: u64, review: &Value) -> Vec<&str> {
        let same = |other: &&Value| {
            number(other, "review_id") > Some(id)
                && text(other, "feature_id") == text(review, "feature_id")
                && is_by(other, AgentType::Review)
        };
        let later = self.reviews().iter().filter(same).flat_map(issues::of);
        later.filter_map(|(_, issue)| issues::id_of(issue)).collect()
    }

    fn push(&mut self, name: &str, item: Value) {
        let Value::Object(whole) = &mut *self.0 else { return };
        let list = whole.entry(name).or_insert_with(|| json!([]));
        if let Value::Array(items) = list {
            items.push(item);
        }
    }

    /// LG-12: the review and the issues that a fix names exist.
    fn check_fix(&self, check: &mut Check<'_>, at: &At<'_>) {
        check.number(at, "fix_id", Need::Must);
        check.text(at, "branch", Need::Must);
        check.time(at, "timestamp", Need::Must);
        check.list(at, "tests_added", Need::May);
        check.flag(at, "merged_to_main", Need::May);
        check.flag(at, "pending_review", Need::May);
        let Some(id) = check.number(at, "review_id", Need::Must) else { return };
        let Some(review) = self.review(id) else {
            let found = format!("`{}.review_id` {id}", at.place);
            return check.refuse("LG-12", found, "the id of a review that exists");
        };
        if at.get("feature_id") != review.get("feature_id").unwrap_or(&Value::Null) {
            let found = format!("`{}.feature_id` {}", at.place, shown(at.object.get("feature_id")));
            let right = shown(Some(review.get("feature_id").unwrap_or(&Value::Null)));
            check.refuse("LG-12", found, &format!("{right}, the feature of review {id}"));
        }
        let issues = issues::of(review);
        let known: Vec<&str> =
            issues.iter().filter_map(|(_, issue)| issues::id_of(issue)).collect();
        let later = self.found_later(id, review);
        let mut seen: Vec<&str> = Vec::new();
        for name in ["issues_fixed", "issues_deferred"] {
            for item in check.list(at, name, Need::May) {
                let issue = issue_id(item).unwrap_or_default();
                let later = name == "issues_deferred" && later.contains(&issue);
                if !known.contains(&issue) && !later {
                    let found = format!("`{}.{name}` names {}", at.place, shown(Some(item)));
                    let wanted = format!("issues of review {id}: {}", listed(&known));
                    check.refuse("LG-12", found, &wanted);
                } else if seen.contains(&issue) {
                    let found = format!("`{}` names `{issue}` twice", at.place);
                    check.refuse("LG-12", found, "each issue once, fixed or deferred");
                }
                seen.push(issue);
            }
        }
    }
}

/// The ledger's reviews in everything but an id that is text: the id is named, not "another shape".
fn id_as_text(file: &RelPath, value: &Value) -> Option<Rejection> {
    let lists = [("reviews", "review_id"), ("fixes", "fix_id")];
    let ours = list(value, "reviews").iter().all(|review| review.get("verdict").is_some());
    lists.into_iter().filter(|_| ours).find_map(|(name, id)| {
        let at = list(value, name).iter().position(|entry| text(entry, id).is_some())?;
        let found =
            format!("{id} must be a number, found {} in `{name}[{at}]`", list(value, name)[at][id]);
        Some(Rejection::new(
            "LG-01",
            file,
            found,
            "a number without quotes; this file is left alone",
        ))
    })
}

/// One review against the tables of §2: types, verdicts, issue ids, health.
fn check_review(check: &mut Check<'_>, at: &At<'_>) {
    let id = check.number(at, "review_id", Need::Must).unwrap_or_default();
    let agent = check.word(at, "agent_type", reviewing, "REVIEW or ARCHITECTURE");
    check.time(at, "timestamp", Need::Must);
    check.text(at, "summary", Need::Must);
    check.text(at, "feature_name", Need::May);
    let verdict = check.word(at, "verdict", Verdict::parse, &Verdict::list());
    let Some(agent) = agent else { return };
    check_type(check, at, agent);
    issues::check(check, at, letter(agent), id);
    if let Some(verdict) = verdict {
        check_verdict(check, at, verdict);
    }
    check_checklist(check, at);
    check_health(check, at, agent);
}

/// "Review Types": a feature's review names feature and branch, an architecture's neither. The review of fixes on a
/// `refactor/…` branch has no feature.
fn check_type(check: &mut Check<'_>, at: &At<'_>, agent: AgentType) {
    let (feature, branch) = (at.get("feature_id"), at.get("branch"));
    let refactor = branch.as_str().is_some_and(is_refactor);
    let architecture = agent == AgentType::Architecture;
    if architecture && !(feature.is_null() && branch.is_null()) {
        let found = format!("`{}` with feature {feature} and branch {branch}", at.place);
        check.refuse("LG-05", found, "null for both in an ARCHITECTURE review");
    }
    if !architecture && !refactor && !feature.is_string() {
        let found = format!("`{}.feature_id` {}", at.place, shown(at.object.get("feature_id")));
        check.refuse("LG-05", found, "the id of the feature under REVIEW (--feature-id)");
    }
}

/// "Review Verdicts". SPEC GAP: a suggestion is no issue; a REJECT may rest on its summary alone.
fn check_verdict(check: &mut Check<'_>, at: &At<'_>, verdict: Verdict) {
    let review = Value::Object(at.object.clone());
    let count =
        |severity: Severity| issues::of(&review).iter().filter(|(s, _)| *s == severity).count();
    let (blocking, minor) = (issues::blocking(&review), count(Severity::Minor));
    let suggestions = count(Severity::Suggestion);
    let wanted = match verdict {
        Verdict::Pass if blocking > 0 => "REQUEST_CHANGES, since critical or major issues are open",
        Verdict::Pass if minor > 0 => "PASS_WITH_COMMENTS, since minor issues are open",
        Verdict::PassWithComments if blocking > 0 => {
            "REQUEST_CHANGES or REJECT, since critical or major issues are open"
        }
        Verdict::PassWithComments if minor + suggestions == 0 => {
            "PASS, since there is no issue, or the issues that it comments on"
        }
        Verdict::RequestChanges if blocking + minor == 0 => {
            "PASS, since there is no issue, or the issues that must be fixed"
        }
        Verdict::Reject if blocking == 0 && minor + suggestions > 0 => {
            "PASS_WITH_COMMENTS or REQUEST_CHANGES, since no issue is critical or major"
        }
        Verdict::Pass | Verdict::PassWithComments | Verdict::RequestChanges | Verdict::Reject => {
            return;
        }
    };
    let found = format!(
        "`{}.verdict` {} with {blocking} critical or major, {minor} minor issues",
        at.place,
        verdict.word()
    );
    check.refuse("LG-05", found, wanted);
}

fn check_checklist(check: &mut Check<'_>, at: &At<'_>) {
    let Some(checklist) = check.object(at, "checklist", Need::May) else { return };
    for (name, value) in checklist.object {
        if !matches!(value.as_str(), Some("PASS" | "FAIL" | "N/A")) {
            let found = format!("`{}.{}` {}", checklist.place, clip(name, 40), shown(Some(value)));
            check.refuse("LG-05", found, "PASS, FAIL or N/A");
        }
    }
}

fn check_health(check: &mut Check<'_>, at: &At<'_>, agent: AgentType) {
    check.object(at, "metrics", Need::May);
    let said = at.get("health_status");
    if agent != AgentType::Architecture {
        if !said.is_null() {
            let found = format!("`{}.health_status` {said}", at.place);
            check.refuse("LG-05", found, "none: only ARCHITECTURE reviews have a health status");
        }
        return;
    }
    let blocking = issues::blocking(&Value::Object(at.object.clone()));
    let right = Health::of(blocking, coverage(at.object.get("metrics")));
    if !said.is_null() && said.as_str().and_then(Health::parse) != Some(right) {
        let found = format!("`{}.health_status` {said}", at.place);
        let wanted = format!("{}, by its issues and test coverage", right.word());
        check.refuse("LG-05", found, &wanted);
    }
}

pub(super) fn check_ids(check: &mut Check<'_>, place: &str, items: &[Value], name: &str) {
    let ids: Vec<u64> = items.iter().filter_map(|item| number(item, name)).collect();
    for (at, pair) in ids.windows(2).enumerate() {
        if pair[1] != pair[0] + 1 {
            let found = format!("`{place}[{}].{name}` {} after {}", at + 1, pair[1], pair[0]);
            check.refuse("LG-09", found, &format!("{}", pair[0] + 1));
        }
    }
}

fn coverage(metrics: Option<&Value>) -> Option<f64> {
    metrics?.get("test_coverage_percent")?.as_f64()
}

fn reviewing(word: &str) -> Option<AgentType> {
    AgentType::parse(word)
        .filter(|agent| matches!(agent, AgentType::Review | AgentType::Architecture))
}

fn letter(agent: AgentType) -> IdLetter {
    if agent == AgentType::Architecture { IdLetter::Architecture } else { IdLetter::Review }
}

pub fn is_by(entry: &Value, agent: AgentType) -> bool {
    text(entry, "agent_type").and_then(AgentType::parse) == Some(agent)
}

pub fn is_refactor(branch: &str) -> bool {
    branch.starts_with("refactor/")
}

/// The issue that an entry of `issues_fixed` or `issues_deferred` names.
pub fn issue_id(item: &Value) -> Option<&str> {
    item.as_str().or_else(|| text(item, "issue_id")).or_else(|| text(item, "id"))
}

/// A plain id becomes an entry.
fn named(items: Value) -> Value {
    let entry = |item: Value| if item.is_string() { json!({"issue_id": item}) } else { item };
    match items {
        Value::Null => json!([]),
        Value::Array(items) => items.into_iter().map(entry).collect(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => items,
    }
}

fn listed(ids: &[&str]) -> String {
    if ids.is_empty() { "it has none".to_owned() } else { ids.join(", ") }
}

pub(super) fn list<'v>(whole: &'v Value, name: &str) -> &'v [Value] {
    whole.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn number(entry: &Value, name: &str) -> Option<u64> {
    entry.get(name).and_then(Value::as_u64)
}

pub(super) fn text<'v>(entry: &'v Value, name: &str) -> Option<&'v str> {
    entry.get(name).and_then(Value::as_str)
}

pub(super) fn next_id(items: &[Value], name: &str) -> u64 {
    items.iter().filter_map(|item| number(item, name)).max().unwrap_or(0).saturating_add(1)
}
