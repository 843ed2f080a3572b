//! A session is over: what it came to, by what it really left, and what becomes of it. Words of the agent are claims; commits,
//! documents and refs are facts.

use super::changes::{self, Changes, forbidden};
use super::counts::{self, Counts};
use super::cycles::{FIX_MAX, attempts, refactor_branch, tiebreak};
use super::docs::{Docs, FILES, Op, SessionFacts, is_ledger, session};
use super::issues;
use super::memory::{Ended, Fate, Found, Looked, Memo, Moving, Superseded, Turn};
use super::opening::{self, ask_docs, files_at, phase_after};
use super::progress::short;
use super::reviews::{FixDraft, Reviews, issue_id};
use super::table::{self, Action, Cycles, Next, Row, SessionResult, may};
use super::words::{AgentType, Outcome, Verdict};
use super::{FEATURES, Ledger, PROGRESS, REVIEWS, failing, hold, hold::notice};
use crate::engine::{self, Notice, Step, Weight};
use crate::model::{
    Bytes, Change, CommitId, CommitSeen, Decision, Digest, Effect, Event, Fact, Now,
    Outcome as RunOutcome, Query, Rejection, RelPath, Seat, Severity, TreeId, TreeRef, clip,
};
use serde_json::{Value, json};

/// Everything that a session is judged by.
struct JudgeContext<'a> {
    ledger: &'a Ledger,
    turn: &'a Turn,
    ended: &'a Ended,
    before: Docs,
    after: Docs,
    commits: &'a [CommitSeen],
    /// Its commits change more than the ledger's files (LG-14).
    built: bool,
    superseded: Vec<Superseded>,
    tip: &'a CommitId,
    changes: Changes,
}

/// What it came to.
struct Finding {
    said: SessionResult,
    ops: Vec<Op>,
    /// The review that it wrote, if it did.
    review: Option<Value>,
    why: String,
}

pub(super) fn judge(ledger: &Ledger, turn: &Turn, looked: &Looked, now: Now) -> Option<Decision> {
    let Looked { ended, found: Found { tip, strayed } } = looked;
    let strayed = *strayed;
    if let Some(decision) = engine::excused(ledger, turn, ended, now) {
        return Some(decision);
    }
    let asked = facts(ledger, turn, ended, tip).zip(has_built(ledger, turn, ended, tip));
    let asked = asked.zip(is_merged(ledger, turn, ended, tip));
    let Some((((before, after, commits), built), merged)) = asked else {
        return Some(ask(ledger, turn, ended, tip));
    };
    let superseded = if merged { superseded(before, after) } else { Vec::new() };
    let (before, _) = Docs::read(before);
    let (after, unreadable) = Docs::read(after);
    let mut changes = changes::found(turn.task.agent, &before, &after);
    let refused = unreadable.first().map(ToString::to_string);
    changes.rejections.extend(unreadable);
    let mut bench = JudgeContext {
        ledger,
        turn,
        ended,
        before,
        after,
        commits,
        built,
        superseded,
        tip,
        changes,
    };
    let finding = bench.finding(strayed, refused);
    // A REVIEW that says PASS may merge what it reviewed, and only that.
    let allowed =
        may(turn.task.agent, Action::Merge) && finding.said == SessionResult::Pass && !strayed;
    let gate = merged && !allowed;
    if gate && !turn.task.excused {
        return Some(hold::held(ledger, reached_main(turn, ended)));
    }
    if strayed && !may(turn.task.agent, Action::WriteCode) {
        let what = format!("on `{}`", turn.task.branch);
        bench.changes.rejections.push(forbidden(
            turn.task.agent,
            Action::WriteCode,
            PROGRESS,
            &what,
        ));
    }
    Some(bench.conclude(finding, merged))
}

/// Before and after, and the commits of the session, once all of it is answered.
#[expect(clippy::type_complexity, reason = "three answers that are only ever taken apart again")]
fn facts<'a>(
    ledger: &'a Ledger,
    turn: &Turn,
    ended: &Ended,
    tip: &CommitId,
) -> Option<([Option<&'a Bytes>; 3], [Option<&'a Bytes>; 3], &'a [CommitSeen])> {
    let tree = TreeRef::Worktree(turn.tree());
    let mut after = [None; 3];
    for (at, name) in FILES.into_iter().enumerate() {
        after[at] = ledger.index.file_in(&tree, name)?;
    }
    let range = |query: &Query| matches!(query, Query::Range { from, to } if from.as_ref() == Some(&ended.base.commit) && to == tip);
    let Fact::Commits(commits) = ledger.index.fact(range)? else { return None };
    Some((files_at(ledger, &turn.task.main_at)?, after, commits))
}

fn ask(ledger: &Ledger, turn: &Turn, ended: &Ended, tip: &CommitId) -> Decision {
    let mut decision = ledger.draft();
    ask_docs(&mut decision, &turn.task.main_at);
    for name in FILES {
        let (tree, path) = (TreeRef::Worktree(turn.tree()), RelPath::fixed(name));
        decision.effect(Effect::Ask { query: Query::Read { tree, path } });
    }
    let (from, to) = (Some(ended.base.commit.clone()), tip.clone());
    decision.effect(Effect::Ask { query: Query::Range { from, to } });
    if let Some(query) = own_changes(turn, ended, tip) {
        decision.effect(Effect::Ask { query });
    }
    let name = format!("refs/heads/{}", turn.task.branch);
    decision.effect(Effect::Ask { query: Query::Tip { name } });
    let (branch, commit) = (ledger.main().to_owned(), work(turn, ended, tip).clone());
    decision.effect(Effect::Ask { query: Query::Contains { branch, commit } });
    let name = format!("refs/heads/{}", ledger.main());
    decision.effect(Effect::Ask { query: Query::Tip { name } });
    // The second time round: the main branch has moved, and we know where to.
    if let Some(main) =
        opening::tip(ledger, ledger.main()).flatten().filter(|main| **main != turn.task.main_at)
    {
        let (mine, theirs) = copies(turn, ended, tip, main);
        if own_changes(turn, ended, tip).as_ref() != Some(&mine) {
            decision.effect(Effect::Ask { query: mine });
        }
        decision.effect(Effect::Ask { query: theirs });
    }
    decision.finish()
}

/// The ledger files that came to the main branch with a merge by the agent itself.
fn superseded(before: [Option<&Bytes>; 3], after: [Option<&Bytes>; 3]) -> Vec<Superseded> {
    let changed = FILES.iter().zip(before.into_iter().zip(after)).filter(|(_, (b, a))| b != a);
    let left = changed.filter_map(|(file, (before, after))| {
        Some(Superseded {
            file: (*file).to_owned(),
            left: Digest::of(&after?.0),
            before: before.cloned(),
        })
    });
    left.collect()
}

/// What a session that may write code changes by its commits; `None`: there is nothing to ask about.
fn own_changes(turn: &Turn, ended: &Ended, tip: &CommitId) -> Option<Query> {
    let tree = |commit: &CommitId| TreeId::new(commit.as_str());
    (may(turn.task.agent, Action::WriteCode) && *tip != ended.base.commit)
        .then(|| Query::Diff { from: tree(&ended.base.commit), to: tree(tip) })
}

/// LG-14: commits that touch only the ledger's files are a record, not code. `None`: that must be asked first.
fn has_built(ledger: &Ledger, turn: &Turn, ended: &Ended, tip: &CommitId) -> Option<bool> {
    let Some(query) = own_changes(turn, ended, tip) else { return Some(false) };
    let Fact::Changes(changes) = ledger.index.fact(|asked| *asked == query)? else { return None };
    Some(changes.iter().any(|change| !is_ledger(&change.path)))
}

/// The commit that must not be in the main branch by anybody's hand but a REVIEW's.
fn work<'a>(turn: &Turn, ended: &'a Ended, tip: &'a CommitId) -> &'a CommitId {
    if may(turn.task.agent, Action::Merge) { &ended.base.commit } else { tip }
}

/// Is the work in the main branch: by its commits, or as a copy (squashed, picked)? `None`: that must be asked first.
fn is_merged(ledger: &Ledger, turn: &Turn, ended: &Ended, tip: &CommitId) -> Option<bool> {
    let contained =
        ledger.index.fact(|query| matches!(query, Query::Contains { .. })) == Some(&Fact::Yes);
    // Where nothing was built there is nothing that could have been merged.
    let built = may(turn.task.agent, Action::Merge) || *tip != ended.base.commit;
    let main = opening::tip(ledger, ledger.main())?;
    if contained || !built || main.is_none_or(|main| *main == turn.task.main_at) {
        return Some(contained && built);
    }
    let (mine, theirs) = copies(turn, ended, tip, main?);
    let changed = |query: &Query| {
        let Fact::Changes(changes) = ledger.index.fact(|asked| asked == query)? else {
            return None;
        };
        Some(changes)
    };
    let (mine, theirs) = (changed(&mine)?, changed(&theirs)?);
    let mut code = mine.iter().filter(|change| !is_ledger(&change.path));
    let same = |a: &Change, b: &Change| a.path == b.path && a.to == b.to;
    Some(code.any(|change| theirs.iter().any(|other| same(change, other))))
}

/// What the work changes, and what the main branch has become meanwhile. Git takes a commit where a tree is asked for.
fn copies(turn: &Turn, ended: &Ended, tip: &CommitId, main: &CommitId) -> (Query, Query) {
    let tree = |commit: &CommitId| TreeId::new(commit.as_str());
    let before =
        if may(turn.task.agent, Action::Merge) { &turn.task.main_at } else { &ended.base.commit };
    let mine = Query::Diff { from: tree(before), to: tree(work(turn, ended, tip)) };
    (mine, Query::Diff { from: tree(&turn.task.main_at), to: tree(main) })
}

/// LG-06: the owner's branch has what no REVIEW let in. We do not rewrite it.
fn reached_main(turn: &Turn, ended: &Ended) -> Notice {
    let summary = format!(
        "the work on `{}` is in the main branch, and no REVIEW let it in: {} or somebody else merged it",
        turn.task.branch,
        turn.task.agent.word()
    );
    let mut reason = notice("LG-06", ended.run.as_str(), summary);
    reason.wont =
        "We rewrite no branch of yours: take the commits back or leave them, then resume."
            .to_owned();
    reason
}

/// LG-16: minor issues that a fix does not name are deferred, and its record says so.
fn with_deferred(reviews: &Reviews, mut fix: Value) -> Value {
    let review = fix["review_id"].as_u64().and_then(|id| reviews.review(id));
    let named: Vec<String> = ["issues_fixed", "issues_deferred"]
        .iter()
        .flat_map(|name| fix[*name].as_array().into_iter().flatten())
        .filter_map(|item| issue_id(item).map(str::to_owned))
        .collect();
    let left =
        review.map(issues::of).unwrap_or_default().into_iter().filter_map(|(severity, issue)| {
            let id = issues::id_of(issue)?;
            (!severity.blocks() && !named.iter().any(|known| known == id)).then_some(id)
        });
    let left: Vec<Value> =
        left.map(|id| json!({"issue_id": id, "reason": "not addressed by this fix"})).collect();
    if let (false, Value::Object(fields)) = (left.is_empty(), &mut fix) {
        let deferred = fields.entry("issues_deferred").or_insert_with(|| json!([]));
        if let Value::Array(items) = deferred {
            items.extend(left);
        }
    }
    fix
}

/// LG-16: after the last attempt minor issues are merged unfixed; the last fix lists them as deferred (spec 5 §4, "merge with
/// documented tech debt").
fn left_after_the_last_fix(row: &Row, ops: &[Op]) -> Vec<Value> {
    let review =
        ops.iter().find_map(|op| if let Op::Review(review) = op { Some(review) } else { None });
    let review = review.filter(|_| row.cycles == Cycles::SpentMinor);
    let ids = review.map(issues::of).unwrap_or_default().into_iter();
    let ids = ids.filter_map(|(_, issue)| issues::id_of(issue));
    let why = format!("left after {FIX_MAX} fix attempts");
    ids.map(|id| json!({"issue_id": id, "reason": why})).collect()
}

impl JudgeContext<'_> {
    /// `refused`: the first of its ledger files that is not the ledger's.
    fn finding(&mut self, strayed: bool, refused: Option<String>) -> Finding {
        if let Some(why) = failing::failed(self.ended) {
            return self.nothing(why);
        }
        if strayed && may(self.turn.task.agent, Action::WriteCode) {
            return self.nothing(format!("it left the branch `{}`", self.turn.task.branch));
        }
        let claimed =
            self.claim().and_then(|claim| claim["outcome"].as_str()).and_then(Outcome::parse);
        if claimed == Some(Outcome::Error) {
            return self.nothing("it reported an ERROR".to_owned());
        }
        match (self.turn.task.agent, refused) {
            // Its branch is merged as it is, so a refused file would come to the main branch with it.
            (AgentType::Initializer, Some(refused)) => self.nothing(refused),
            (AgentType::Initializer, None) => self.listed(),
            (AgentType::Implement, _) => self.implemented(),
            (AgentType::Fix, _) => self.fixed(),
            (AgentType::Review | AgentType::Architecture, _) => self.reviewed(strayed),
        }
    }

    fn nothing(&self, why: String) -> Finding {
        Finding { said: SessionResult::Failed, ops: Vec::new(), review: None, why }
    }

    /// What it says about itself.
    fn claim(&self) -> Option<&Value> {
        self.changes.sessions.first()
    }

    fn refuse(&mut self, rule: &str, file: &'static str, found: String, wanted: &str) {
        self.changes.rejections.push(Rejection::new(rule, &RelPath::fixed(file), found, wanted));
    }

    fn listed(&mut self) -> Finding {
        let Some(mut list) = self.after.features.clone().filter(|list| !list.is_empty()) else {
            return self.nothing(format!("there is no `{FEATURES}` with features"));
        };
        list.write_ids();
        if let Some(problem) = list.unusable() {
            return self.nothing(problem.to_string());
        }
        for feature in list.all().filter(|feature| feature.passes()) {
            let what = format!("`{}` passes from the start", feature.id());
            let rejection = forbidden(self.turn.task.agent, Action::MarkPassing, FEATURES, &what);
            self.changes.rejections.push(rejection);
        }
        list.reopen_all();
        let value = list.value().clone();
        Finding {
            said: SessionResult::Listed,
            ops: vec![Op::List(value)],
            review: None,
            why: String::new(),
        }
    }

    fn implemented(&mut self) -> Finding {
        if !self.built {
            return self.nothing("it changed no code".to_owned());
        }
        Finding { said: SessionResult::Ready, ops: Vec::new(), review: None, why: String::new() }
    }

    /// LG-08: every attempt counts, also one that is not recorded by who made it.
    fn fixed(&mut self) -> Finding {
        let reviews = self.before.reviews.clone().unwrap_or_else(Reviews::empty);
        let fix = self.recorded_fix(&reviews);
        let deferred = fix.as_ref().is_some_and(|fix| fix["issues_deferred"] != json!([]));
        if !self.built && !deferred {
            return self.nothing("it fixed nothing and deferred nothing".to_owned());
        }
        let fix = fix.map(|fix| with_deferred(&reviews, fix));
        let Some(fix) = fix.or_else(|| self.own_fix(&reviews)) else {
            return self.nothing("there is no review whose issues it could fix".to_owned());
        };
        Finding {
            said: SessionResult::Ready,
            ops: vec![Op::Fix(fix)],
            review: None,
            why: String::new(),
        }
    }

    /// LG-12: the commits that fixed something are commits of this session.
    fn recorded_fix(&mut self, reviews: &Reviews) -> Option<Value> {
        let mut fix = self.changes.fixes.first()?.clone();
        fix["fix_id"] = json!(reviews.next_fix_id());
        fix["merged_to_main"] = json!(false);
        fix["pending_review"] = json!(true);
        fix["branch"] = json!(self.turn.task.branch);
        let ids: Vec<&str> = self.commits.iter().map(|commit| commit.id.as_str()).collect();
        let mut wrong = Vec::new();
        for item in fix["issues_fixed"].as_array_mut().into_iter().flatten() {
            let said = item["commit"].as_str().unwrap_or_default().to_owned();
            let fits = said.len() >= 4 && ids.iter().any(|id| id.starts_with(&said));
            if !fits && let Value::Object(item) = item {
                item.insert("commit".to_owned(), json!(ids.last().map(|id| short(id))));
                wrong.push(said);
            }
        }
        for said in wrong {
            let found = format!("the commit `{}` of a fix", clip(&said, 60));
            self.refuse(
                "LG-12",
                REVIEWS,
                found,
                "a commit of this session; it was corrected to the last one",
            );
        }
        match reviews.clone().push_fix(fix.clone()) {
            Ok(()) => Some(fix),
            Err(problems) => {
                self.changes.rejections.extend(problems);
                None
            }
        }
    }

    fn own_fix(&self, reviews: &Reviews) -> Option<Value> {
        let review = reviews.reviews().iter().rev().find(|review| self.concerns(review))?;
        let draft = FixDraft {
            review_id: review["review_id"].as_u64()?,
            feature_id: None,
            branch: self.turn.task.branch.clone(),
            issues_fixed: Value::Null,
            issues_deferred: Value::Null,
            tests_added: Vec::new(),
        };
        reviews.clone().add_fix(draft, self.ended.at).ok()
    }

    fn concerns(&self, review: &Value) -> bool {
        match &self.turn.task.feature {
            Some(id) => review["feature_id"] == json!(id),
            None => {
                let id = review["review_id"].as_u64().unwrap_or(0);
                refactor_branch(id) == self.turn.task.branch
                    || review["branch"] == json!(self.turn.task.branch)
            }
        }
    }

    /// Exactly one review, of this work, by these tables.
    fn reviewed(&mut self, strayed: bool) -> Finding {
        let reviews = self.before.reviews.clone().unwrap_or_else(Reviews::empty);
        let written = std::mem::take(&mut self.changes.reviews);
        let Some(mut review) = written.into_iter().next() else {
            let none = || format!("it recorded no review in `{REVIEWS}`");
            return self.nothing(self.changes.misspelt.clone().unwrap_or_else(none));
        };
        review["review_id"] = json!(reviews.next_review_id());
        if self.turn.task.agent == AgentType::Review {
            self.put_range_right(&mut review);
            let feature = json!(self.turn.task.feature);
            if review["feature_id"] != feature {
                let found = format!("a review of {}", review["feature_id"]);
                self.refuse("LG-05", REVIEWS, found, &format!("a review of {feature}"));
                return self.nothing("it reviewed something else".to_owned());
            }
            review["branch"] = json!(self.turn.task.branch);
        } else {
            let reviews = self.before.reviews.as_ref();
            let counts = self.before.features.as_ref().map(|list| Counts::of(list, reviews));
            let completed = counts.map_or(0, |counts| counts.completed);
            review["features_completed"] = json!(completed);
            review["trigger"] = json!(counts::trigger(Some(completed)));
        }
        if let Err(problems) = reviews.clone().push_review(review.clone()) {
            let why = problems.first().map_or_else(String::new, ToString::to_string);
            self.changes.rejections.extend(problems);
            return self.nothing(format!("its review is not right: {why}"));
        }
        let verdict =
            review["verdict"].as_str().and_then(Verdict::parse).unwrap_or(Verdict::Reject);
        review["verdict"] = json!(verdict.word());
        if strayed && verdict == Verdict::Pass {
            return self.nothing("it said PASS of code that it had changed itself".to_owned());
        }
        Finding { said: verdict.into(), ops: Vec::new(), review: Some(review), why: String::new() }
    }

    /// LG-07: what was reviewed is the branch as it stood when the review began.
    fn put_range_right(&mut self, review: &mut Value) {
        let (from, to) = (self.turn.task.main_at.as_str(), self.ended.base.commit.as_str());
        let fits = |said: &Value, right: &str| {
            said.as_str().is_some_and(|said| said.len() >= 4 && right.starts_with(said))
        };
        let said = review["commit_range"].clone();
        let right = fits(&said["from"], from) && fits(&said["to"], to);
        if !said.is_null() && !right {
            let found = format!("`commit_range` {}", clip(&said.to_string(), 80));
            let right = format!("{} to {}; it was corrected", short(from), short(to));
            self.refuse("LG-07", REVIEWS, found, &right);
        }
        let mut range = json!({"from": short(from), "to": short(to)});
        let described = said.get("description").filter(|text| text.is_string()).cloned();
        range["description"] = described.unwrap_or_else(|| {
            let (main, branch) = (self.ledger.main(), &self.turn.task.branch);
            json!(format!("Reviewing commits from {main} to the HEAD of {branch}"))
        });
        review["commit_range"] = range;
    }

    /// The row, and everything that follows from it.
    fn conclude(mut self, finding: Finding, merged: bool) -> Decision {
        let cycles = self.cycles(&finding);
        let row = table::find(self.turn.task.agent, finding.said, cycles);
        let row = row.expect("BUG: an agent came to something that its table does not know");
        let Finding { mut ops, review, why, .. } = finding;
        let review = review.map(|review| self.tie_broken(review, row));
        ops.extend(self.kept_changes());
        let architecture = review.as_ref().and_then(|review| review["review_id"].as_u64());
        if let Some(review) = review {
            ops.push(Op::Review(review));
        }
        let (fate, outcome) = self.fate(row, &mut ops);
        self.note_claims();
        ops.push(Op::Session(self.session(outcome, &why)));
        ops.push(self.status(row, &ops, architecture));
        let writes_code = may(self.turn.task.agent, Action::WriteCode);
        let transition = Moving {
            row: row.id.to_owned(),
            at: self.ended.at,
            run: self.ended.run.clone(),
            ops,
            stand: if writes_code { self.tip.clone() } else { self.ended.base.commit.clone() },
            found: opening::tip(self.ledger, &self.turn.task.branch).flatten().cloned(),
            fate,
            cleaned: false,
            resync: false,
            merged: (merged && fate == Fate::Merge).then(|| self.ended.base.commit.clone()),
            recorded: None,
            failure: (row.next == Next::Again).then_some(why),
            superseded: std::mem::take(&mut self.superseded),
        };
        self.tell(transition)
    }

    fn cycles(&self, finding: &Finding) -> Cycles {
        let Some(reviews) = &self.before.reviews else { return Cycles::Left };
        let subject = Docs::subject(self.turn.task.feature.as_deref(), &self.turn.task.branch);
        if attempts(reviews, &subject) < FIX_MAX {
            return Cycles::Left;
        }
        match finding.review.as_ref().map(tiebreak) {
            Some(Verdict::Reject) => Cycles::SpentMajor,
            Some(_) | None => Cycles::SpentMinor,
        }
    }

    /// LG-08: after the last attempt severity decides; the review says so.
    fn tie_broken(&mut self, mut review: Value, row: &Row) -> Value {
        let verdict = match row.cycles {
            Cycles::SpentMinor => Verdict::PassWithComments,
            Cycles::SpentMajor => Verdict::Reject,
            Cycles::Any | Cycles::Left => return review,
        };
        if review["verdict"] != json!(verdict.word()) {
            let found = format!("{} after {FIX_MAX} fix attempts", review["verdict"]);
            self.refuse(
                "LG-08",
                REVIEWS,
                found,
                &format!("{}, by severity; it was corrected", verdict.word()),
            );
            review["verdict"] = json!(verdict.word());
        }
        review
    }

    /// What else it did to the documents that it may do.
    fn kept_changes(&mut self) -> Vec<Op> {
        let changes = &mut self.changes;
        let failed = std::mem::take(&mut changes.failed);
        let added = std::mem::take(&mut changes.added);
        let failed = failed.into_iter().map(|(id, reason)| Op::Fail { id, reason });
        failed.chain(added.into_iter().map(Op::Feature)).collect()
    }

    fn fate(&mut self, row: &Row, ops: &mut Vec<Op>) -> (Fate, Outcome) {
        let passed = std::mem::take(&mut self.changes.passed);
        let mine =
            |id: &String| row.next == Next::Merge && Some(id) == self.turn.task.feature.as_ref();
        for id in passed.iter().filter(|id| !mine(id)) {
            let what = format!("`{id}` without a PASS of it");
            self.changes.rejections.push(forbidden(
                self.turn.task.agent,
                Action::MarkPassing,
                FEATURES,
                &what,
            ));
        }
        let architecture = self.turn.task.agent == AgentType::Architecture;
        match row.next {
            Next::Start if self.commits.is_empty() => (Fate::Drop, Outcome::Success),
            Next::Start => (Fate::Merge, Outcome::Success),
            Next::ReviewIt => (Fate::Keep, Outcome::ReadyForReview),
            Next::FixIt if architecture => (Fate::Drop, Outcome::Success),
            Next::FixIt => (Fate::Keep, Outcome::NeedsFix),
            Next::Merge => {
                let feature = self.turn.task.feature.clone();
                ops.extend(feature.clone().map(Op::Pass));
                let deferred = left_after_the_last_fix(row, ops);
                ops.push(Op::MergedFixes {
                    feature,
                    branch: self.turn.task.branch.clone(),
                    deferred,
                });
                (Fate::Merge, Outcome::Success)
            }
            Next::Reject => (Fate::Reject, Outcome::Rejected),
            Next::Pick => (Fate::Drop, Outcome::Success),
            Next::Again if architecture => (Fate::Drop, Outcome::Error),
            Next::Again => (Fate::Keep, Outcome::Error),
        }
    }

    /// The status names the next agent (spec 5 §6, note).
    fn status(&self, row: &Row, ops: &[Op], architecture: Option<u64>) -> Op {
        let (feature, branch) =
            (self.turn.task.feature.clone(), Some(self.turn.task.branch.clone()));
        let free = |phase| Op::Status { phase, feature: None, branch: None };
        match row.next {
            Next::ReviewIt => Op::Status { phase: AgentType::Review, feature, branch },
            Next::FixIt => {
                let refactor =
                    architecture.filter(|_| self.turn.task.agent == AgentType::Architecture);
                let branch = refactor.map(refactor_branch).or(branch);
                Op::Status { phase: AgentType::Fix, feature, branch }
            }
            Next::Again => {
                let branch =
                    branch.filter(|_| feature.is_some() || self.turn.task.agent == AgentType::Fix);
                Op::Status { phase: self.turn.task.agent, feature, branch }
            }
            Next::Start | Next::Merge | Next::Reject | Next::Pick => {
                let mut docs = self.before.clone();
                docs.apply(ops, "", None, self.ended.at);
                free(phase_after(&docs))
            }
        }
    }

    /// LG-07: commits and range are git's; a claim that differs is noted.
    fn note_claims(&mut self) {
        let Some(claim) = self.claim() else { return };
        let said: Vec<String> = claim["commits"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|commit| commit["hash"].as_str().map(str::to_owned))
            .collect();
        let right: Vec<&str> = self.commits.iter().map(|commit| commit.id.as_str()).collect();
        let fits = said.len() == right.len()
            && said
                .iter()
                .zip(&right)
                .all(|(said, right)| said.len() >= 4 && right.starts_with(said.as_str()));
        let extra = self.changes.sessions.len() - 1;
        if !said.is_empty() && !fits && may(self.turn.task.agent, Action::WriteCode) {
            let found = format!("commits {}", clip(&said.join(", "), 80));
            let right: Vec<&str> = right.iter().map(|id| short(id)).collect();
            self.refuse(
                "LG-07",
                PROGRESS,
                found,
                &format!("{}, as git shows; it was corrected", right.join(", ")),
            );
        }
        if extra > 0 {
            let found = format!("{} sessions of one run", extra + 1);
            self.refuse("LG-09", PROGRESS, found, "one; the others were left out");
        }
    }

    fn session(&self, outcome: Outcome, why: &str) -> Value {
        let claimed = self.claim().and_then(|claim| claim["summary"].as_str());
        let summary = match (why, claimed) {
            ("", Some(summary)) => clip(summary, 2000),
            ("", None) => format!("{} on {}", self.turn.task.agent.word(), self.turn.task.branch),
            (why, _) => why.to_owned(),
        };
        let builds = may(self.turn.task.agent, Action::WriteCode);
        let range = match self.turn.task.agent {
            AgentType::Initializer | AgentType::Implement | AgentType::Fix => {
                (!self.commits.is_empty())
                    .then(|| (self.ended.base.commit.to_string(), self.tip.to_string()))
            }
            AgentType::Review => {
                Some((self.turn.task.main_at.to_string(), self.ended.base.commit.to_string()))
            }
            AgentType::Architecture => None,
        };
        let seen = |commit: &CommitSeen| (commit.id.to_string(), clip(&commit.subject, 200));
        session(&SessionFacts {
            agent: self.turn.task.agent,
            outcome,
            summary,
            feature: self.turn.task.feature.as_deref(),
            started: self.ended.since,
            ended: self.ended.at,
            commits: self.commits.iter().filter(|_| builds).map(seen).collect(),
            range,
        })
    }

    /// The decision: what was refused is journalled, told, and said to the next agent.
    fn tell(self, transition: Moving) -> Decision {
        let (it, turn) = (self.ledger, self.turn);
        let mut decision = it.draft();
        let rejections = self.changes.rejections;
        let words: Vec<String> = rejections.iter().map(ToString::to_string).collect();
        let broken = rejections.iter().any(|rejection| rejection.rule.as_str() == "LG-06");
        for rejection in rejections {
            decision.reject(rejection);
        }
        if transition.failure.is_some() && self.ended.outcome == RunOutcome::Ok {
            let seat = Seat::new(turn.task.agent.role());
            decision.effect(Effect::Log(Event::no_artifact(&self.ended.run, seat)));
        }
        decision.remember(Memo::Refused(Some(words.clone())));
        decision.remember(Memo::turn(turn.step(Step::Judged(Box::new(transition)))));
        if broken {
            let summary =
                format!("{} did what is not its to do; it was undone", turn.task.agent.word());
            let mut reason = notice("LG-06", self.ended.run.as_str(), summary);
            reason.did = "What it did beyond its part was left out or moved back; the bytes and commits are kept.".to_owned();
            reason.evidence = words;
            engine::tell(it, &mut decision, Weight::Tell(Severity::Warning), reason);
        }
        decision.finish()
    }
}
