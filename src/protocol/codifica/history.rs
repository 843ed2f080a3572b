//! Every commit of the state branch is judged against the one before it, by its author (CD-10), exactly once.

use super::board::Board;
use super::finding::Finding;
use super::judge::judge;
use super::keeper::{Codifica, actor_of};
use super::memory::Accepted;
use super::tell::{self, Word};
use super::words::{Actor, State};
use crate::model::{Builder, CommitId, CommitSeen, Decision, Effect, Now, Query, Severity, clip};

/// After a longer absence the whole stretch is judged at once; `agency work audit` goes through it one by one.
const STRETCH_MAX: usize = 500;

pub(super) fn judge_commits(it: &Codifica, _: Now) -> Option<Decision> {
    let (accepted, head) = (it.index.memory.accepted.as_ref()?, it.index.head()?);
    it.index.config()?;
    if it.index.state_paths().is_empty() {
        return None;
    }
    let on_branch = it.index.checkout.as_ref()?.branch.as_ref() == Some(&accepted.branch);
    if *head == accepted.commit || !on_branch {
        return None;
    }
    let Some((_, baseline)) =
        it.index.baseline.as_ref().filter(|(commit, _)| *commit == accepted.commit)
    else {
        return Some(
            match it.index.board_at(&accepted.commit).filter(|_| !it.index.answers.is_empty()) {
                // Answered: saying it again makes it the baseline.
                Some(_) => accept(it, accepted, &accepted.commit),
                None => ask_files(it, &accepted.commit),
            },
        );
    };
    if let Some(next) = it.index.waiting.first() {
        return Some(match it.index.board_at(&next.id).filter(|_| !it.index.answers.is_empty()) {
            Some(board) => judged(it, accepted, baseline, &board, next),
            None => ask_files(it, &next.id),
        });
    }
    // The index took the line from the answer, if there is one.
    let answered = it.index.answers.iter().any(|(query, _)| matches!(query, Query::Range { .. }));
    Some(if answered { rewritten(it, accepted, head) } else { ask_range(it, accepted, head) })
}

fn ask_range(it: &Codifica, accepted: &Accepted, head: &CommitId) -> Decision {
    let mut decision = it.builder();
    decision.effect(Effect::Ask {
        query: Query::Range { from: Some(accepted.commit.clone()), to: head.clone() },
    });
    decision.finish()
}

fn ask_files(it: &Codifica, commit: &CommitId) -> Decision {
    let mut decision = it.builder();
    for path in it.index.state_paths() {
        decision.effect(Effect::Ask { query: Query::FileAt { commit: commit.clone(), path } });
    }
    decision.finish()
}

/// The commits from the accepted one to the head, by first parents; `None`: the head does not come from it.
pub(super) fn line(
    commits: &[CommitSeen],
    from: &CommitId,
    head: &CommitId,
) -> Option<Vec<CommitSeen>> {
    let mut line = Vec::new();
    let mut at = head;
    while at != from {
        let commit = commits.iter().find(|commit| commit.id == *at)?;
        line.push(commit.clone());
        at = commit.parents.first()?;
    }
    line.reverse();
    if line.len() > STRETCH_MAX { line.pop().map(|last| vec![last]) } else { Some(line) }
}

fn accept(it: &Codifica, accepted: &Accepted, commit: &CommitId) -> Decision {
    let mut decision = it.builder();
    decision.remember("accepted", Accepted { commit: commit.clone(), ..accepted.clone() });
    decision.finish()
}

fn judged(
    it: &Codifica,
    accepted: &Accepted,
    old: &Board,
    new: &Board,
    commit: &CommitSeen,
) -> Decision {
    let actor = actor_of(&commit.author, &new.config.rules.allowed_agents);
    let mut findings = judge(old, new, &actor);
    findings.retain(Finding::is_violation);
    let mut decision = it.builder();
    for finding in &findings {
        decision.reject(finding.rejection.clone());
    }
    decision.remember("accepted", Accepted { commit: commit.id.clone(), ..accepted.clone() });
    fallen_back(old, new, &mut decision);
    if let Some(mut word) = Word::of_findings(commit.id.as_str(), &who(&actor, commit), &findings) {
        let short = commit.id.as_str().get(..12).unwrap_or_default();
        word.evidence.insert(
            0,
            format!(
                "commit {short} by {}: {}",
                clip(&commit.author, 60),
                clip(&commit.subject, 120)
            ),
        );
        word.evidence.extend(diff(old, new, &findings));
        tell::tell(it, &mut decision, Severity::Critical, word);
    }
    decision.finish()
}

fn who(actor: &Actor, commit: &CommitSeen) -> String {
    match actor {
        Actor::Agent(_) => actor.to_string(),
        Actor::Human | Actor::Someone => clip(&commit.author, 60),
    }
}

/// The lines of the tasks concerned, before and after.
fn diff(old: &Board, new: &Board, findings: &[Finding]) -> Vec<String> {
    let mut tasks: Vec<&str> =
        findings.iter().filter_map(|finding| finding.task.as_deref()).collect();
    tasks.dedup();
    let mut lines = Vec::new();
    for task in tasks.into_iter().take(5) {
        let (before, after) =
            (old.text(task).unwrap_or_default(), new.text(task).unwrap_or_default());
        let known: Vec<&str> = before.lines().collect();
        let now: Vec<&str> = after.lines().collect();
        lines.extend(
            known
                .iter()
                .filter(|line| !now.contains(line))
                .map(|line| format!("- {}", clip(line, 160))),
        );
        lines.extend(
            now.iter()
                .filter(|line| !known.contains(line))
                .map(|line| format!("+ {}", clip(line, 160))),
        );
    }
    lines.truncate(40);
    lines
}

/// CD-06: a done dependency that is done no more is a warning for whoever builds on it.
fn fallen_back(old: &Board, new: &Board, decision: &mut Builder) {
    let fallen = new.glances().filter(|task| {
        matches!(task.state, State::Todo | State::Blocked)
            && old.glance(&task.id).is_some_and(|old| old.state == State::Done)
    });
    for task in fallen {
        let at_work = |other: &&super::task::Glance| {
            other.state == State::InProgress && other.depends_on.contains(&task.id)
        };
        for other in new.glances().filter(at_work) {
            let text = format!(
                "Warning: {}, which this task depends on, is {} again. A human decides whether to go on.",
                task.id, task.state
            );
            decision.remember(&format!("warning/{}", other.id), text);
        }
    }
}

/// The branch does not contain the version that we accepted: nobody can be named for the difference.
fn rewritten(it: &Codifica, accepted: &Accepted, head: &CommitId) -> Decision {
    let mut decision = it.builder();
    decision.remember("accepted", Accepted { commit: head.clone(), ..accepted.clone() });
    let mut word = Word::new(
        "CD-20",
        head.as_str(),
        format!("`{}` was rewritten: it no longer contains {}", accepted.branch, accepted.commit),
    );
    word.did =
        "The state files count as they are now; the history in between was not judged.".to_owned();
    word.resolve = "agency work audit (goes through the new history)".to_owned();
    tell::tell(it, &mut decision, Severity::Critical, word);
    decision.finish()
}
