//! Which session comes next, and the branch that it works on. The documents on the main branch say it; nothing else does.

use super::counts::Counts;
use super::docs::{Docs, FILES};
use super::features::{Feature, Features};
use super::memory::{Base, Memo, Task, Turn};
use super::words::AgentType;
use super::{FEATURES, Ledger, cycles, foreign, hold, hold::notice, parking};
use crate::engine::{self, Draft, Notice, Step, Weight};
use crate::model::{
    Bytes, CommitId, Decision, Effect, Fact, FileState, Now, PlannedCommit, Query, RelPath,
    Severity,
};
use serde_json::Value;

/// Nothing is under way: look at the main branch.
pub(super) fn choose(ledger: &Ledger, _: Now) -> Option<Decision> {
    let main = ledger.main();
    let Some((commit, docs)) = docs_at_tip(ledger) else {
        // Without a new commit there is nothing new to do.
        let resting = ledger.index.memory.rest().is_some()
            && ledger.index.memory.rest() == ledger.index.at_home();
        let answered = !ledger.index.in_flight.answers().is_empty();
        return (!resting || answered).then(|| look(ledger, main));
    };
    let docs = match docs {
        Ok(docs) => docs,
        Err(foreign) => return Some(hold::held(ledger, foreign.reason())),
    };
    let mut decision = ledger.draft();
    if let Some(decision) = parking::look(ledger, &docs) {
        return Some(decision);
    }
    match session(ledger, &docs) {
        Some((AgentType::Initializer, ..)) if is_list_in_tree(ledger) => {
            return Some(hold::held(ledger, list_is_not_committed(ledger)));
        }
        Some((agent, feature, branch)) => {
            let main_at = commit.clone();
            let task = Task { agent, feature, branch, main_at, excused: false };
            decision.remember(Memo::turn(Turn::new(task)));
            decision.remember(Memo::Rest(None));
        }
        None if !ledger.index.memory.standing.is_empty()
            && docs.features.as_ref().is_some_and(|list| list.pending().next().is_some()) =>
        {
            // The loop rests; `parking.rs` has told the owner which features wait for them.
            decision.remember(Memo::Rest(Some(commit.clone())));
        }
        None => {
            let done = docs.features.as_ref().map_or(0, |features| features.len());
            let summary = match done {
                1 => "the ledger is complete: its only feature passes".to_owned(),
                done => format!("the ledger is complete: all {done} features pass"),
            };
            let mut reason = notice("LG-04", format!("complete {commit}"), summary);
            reason.did = "Nothing is left to do; new features start it again.".to_owned();
            decision.remember(Memo::Rest(Some(commit.clone())));
            engine::tell(ledger, &mut decision, Weight::Tell(Severity::Notice), reason);
        }
    }
    Some(decision.finish())
}

/// LG-02: INITIALIZER starts only where there is no list at all. One that git does not follow is a list too.
fn is_list_in_tree(ledger: &Ledger) -> bool {
    ledger.index.file(FEATURES).is_some_and(|state| *state != FileState::Absent)
}

fn list_is_not_committed(ledger: &Ledger) -> Notice {
    let main = ledger.main();
    let summary = format!("`{FEATURES}` is in your tree, but not on `{main}`");
    let mut reason = notice("LG-02", FEATURES, summary);
    reason.wont = format!(
        "INITIALIZER starts only where there is no list. Check out `{main}` and commit the file (git add -f {FEATURES}), or move \
         it away; then: agency resume"
    );
    reason
}

/// Round by round: where the branch stands, then the documents there.
pub(super) fn look(ledger: &Ledger, branch: &str) -> Decision {
    let mut decision = ledger.draft();
    match tip(ledger, branch) {
        Some(Some(commit)) => ask_docs(&mut decision, commit),
        Some(None) => {
            let summary = format!("the branch `{branch}` of the ledger is gone");
            return hold::held(ledger, notice("LG-04", branch, summary));
        }
        None => drop(
            decision
                .effect(Effect::Ask { query: Query::Tip { name: format!("refs/heads/{branch}") } }),
        ),
    }
    decision.finish()
}

pub(super) fn ask_docs(draft: &mut Draft<Memo>, commit: &CommitId) {
    draft.effects(docs_of(commit).into_iter().map(|query| Effect::Ask { query }));
}

/// The questions for the three files at a commit.
pub(super) fn docs_of(commit: &CommitId) -> Vec<Query> {
    let file = |name| Query::FileAt { commit: commit.clone(), path: RelPath::fixed(name) };
    FILES.map(file).into()
}

/// The answer to where a branch stands, if it was asked.
pub(super) fn tip<'a>(ledger: &'a Ledger, branch: &str) -> Option<Option<&'a CommitId>> {
    let wanted = format!("refs/heads/{branch}");
    let asked = |query: &Query| matches!(query, Query::Tip { name } if *name == wanted);
    let Fact::Tip(commit) = ledger.index.fact(asked)? else { return None };
    Some(commit.as_ref())
}

/// The three files at a commit, once all are answered.
pub(super) fn files_at<'a>(
    ledger: &'a Ledger,
    commit: &CommitId,
) -> Option<[Option<&'a Bytes>; 3]> {
    let mut files = [None; 3];
    for (at, name) in FILES.into_iter().enumerate() {
        files[at] = ledger.index.file_at(commit, name)?;
    }
    Some(files)
}

/// The documents at the commit that was asked about last, or the file there that is not the ledger's.
pub(super) fn docs_at_tip(
    ledger: &Ledger,
) -> Option<(&CommitId, Result<Docs, Box<foreign::Foreign>>)> {
    let commit = ledger.index.in_flight.answers().iter().find_map(|(_, query, _)| {
        let Query::FileAt { commit, .. } = query else { return None };
        Some(commit)
    })?;
    let (docs, problems) = Docs::read(files_at(ledger, commit)?);
    let unusable = docs.features.as_ref().and_then(Features::unusable);
    let problems: Vec<_> = problems.into_iter().chain(unusable).collect();
    let foreign = foreign::in_commit(ledger, commit, &problems);
    Some((commit, foreign.map_or(Ok(docs), |foreign| Err(Box::new(foreign)))))
}

/// Agent, feature and branch of the next session; `None`: nothing is left to do.
fn session(ledger: &Ledger, docs: &Docs) -> Option<(AgentType, Option<String>, String)> {
    let Some(list) = docs.features.as_ref() else {
        return Some((AgentType::Initializer, None, "ledger/initializer".to_owned()));
    };
    let status = docs.progress.as_ref().map_or(&Value::Null, |progress| progress.status());
    let field = |name: &str| status[name].as_str().map(str::to_owned);
    let phase = docs.progress.as_ref().and_then(|progress| progress.phase());
    let branch = field("current_branch").filter(|branch| is_ours(branch));
    let open =
        |feature: &Feature<'_>| !feature.passes() && !parking::is_parked(ledger, &feature.id());
    match (phase.unwrap_or(AgentType::Implement), branch) {
        (agent @ (AgentType::Review | AgentType::Fix), Some(branch)) => {
            Some((agent, field("current_feature"), branch))
        }
        (AgentType::Architecture, _) => {
            Some((AgentType::Architecture, None, "ledger/architecture".to_owned()))
        }
        (AgentType::Initializer | AgentType::Implement | AgentType::Review | AgentType::Fix, _) => {
            let wanted = field("current_feature").and_then(|id| list.get(&id)).filter(open);
            let next = wanted.or_else(|| list.pending().find(open))?;
            Some((AgentType::Implement, Some(next.id()), feature_branch(next)))
        }
    }
}

/// SE-02: a branch that somebody wrote into a file is only used if it is one that we would make.
fn is_ours(branch: &str) -> bool {
    let tail = branch.strip_prefix("feature/").or_else(|| branch.strip_prefix("refactor/"));
    tail.is_some_and(|tail| {
        !tail.is_empty()
            && tail.len() <= 100
            && tail.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    })
}

fn feature_branch(feature: Feature<'_>) -> String {
    let name = format!("{}-{}", feature.id(), feature.label());
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let slug: String = name.chars().map(plain).collect();
    let words: Vec<&str> = slug.split('-').filter(|word| !word.is_empty()).collect();
    let mut slug = words.join("-");
    slug.truncate(60);
    format!("feature/{}", slug.trim_end_matches('-'))
}

/// After a merge, a rejection or a review without findings: what the status says next.
pub(super) fn phase_after(docs: &Docs) -> AgentType {
    let reviews = docs.reviews.as_ref();
    let due = docs
        .features
        .as_ref()
        .is_some_and(|features| Counts::of(features, reviews).is_architecture_due(reviews));
    if due { AgentType::Architecture } else { AgentType::Implement }
}

/// The branch begins where the main branch is, or goes on where it was, with the main branch's documents in it.
pub(super) fn bring_up_to_date(ledger: &Ledger, turn: &Turn, now: Now) -> Option<Decision> {
    if let Some(Fact::Planned(planned)) =
        ledger.index.fact(|query| matches!(query, Query::Plan { .. }))
    {
        return Some(based_on(ledger, turn, planned));
    }
    let Some(found) = tip(ledger, &turn.task.branch) else { return Some(ask_tip(ledger, turn)) };
    let Some(found) = found else {
        return Some(ledger.step(turn, Step::Prepared(Base { commit: turn.task.main_at.clone() })));
    };
    let (Some(main), Some(branch)) =
        (files_at(ledger, &turn.task.main_at), files_at(ledger, found))
    else {
        let mut decision = ledger.draft();
        let name = format!("refs/heads/{}", turn.task.branch);
        decision.effect(Effect::Ask { query: Query::Tip { name } });
        ask_docs(&mut decision, &turn.task.main_at);
        if *found != turn.task.main_at {
            ask_docs(&mut decision, found);
        }
        return Some(decision.finish());
    };
    let write: Vec<_> = FILES
        .into_iter()
        .zip(main.into_iter().zip(branch))
        .filter(|(_, (main, branch))| main != branch)
        .filter_map(|(name, (main, _))| Some((RelPath::fixed(name), main?.clone())))
        .collect();
    if write.is_empty() {
        return Some(ledger.step(turn, Step::Prepared(Base { commit: found.clone() })));
    }
    let mut decision = ledger.draft();
    let query = Query::Plan {
        branch: turn.task.branch.clone(),
        parent: Some(found.clone()),
        take: Vec::new(),
        write,
        message: format!("Ledger: the documents for {}\n", turn.task.agent.word()),
        date: now.wall,
    };
    decision.effect(Effect::Ask { query });
    Some(decision.finish())
}

fn ask_tip(ledger: &Ledger, turn: &Turn) -> Decision {
    let mut decision = ledger.draft();
    decision.effect(Effect::Ask {
        query: Query::Tip { name: format!("refs/heads/{}", turn.task.branch) },
    });
    decision.finish()
}

fn based_on(ledger: &Ledger, turn: &Turn, planned: &PlannedCommit) -> Decision {
    let mut decision = ledger.draft();
    decision.effect(Effect::Merge(planned.clone()));
    let base = Base { commit: planned.id.clone() };
    decision.remember(Memo::turn(turn.step(Step::Prepared(base))));
    decision.finish()
}

/// What a FIX on this branch answers, for prompts.
pub(super) fn fixes_left(docs: &Docs, turn: &Turn) -> usize {
    let subject = Docs::subject(turn.task.feature.as_deref(), &turn.task.branch);
    let done = docs.reviews.as_ref().map_or(0, |reviews| cycles::attempts(reviews, &subject));
    cycles::FIX_MAX.saturating_sub(done)
}
