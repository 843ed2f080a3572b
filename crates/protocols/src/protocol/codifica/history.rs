//! Every commit of the state branch is judged against the one before it, by its author (CD-10), exactly once.

use super::announce::{self, loosened};
use super::baseline::{Baseline, diff_query};
use super::board::Board;
use super::finding::Finding;
use super::judge::judge;
use super::keeper::{Codifica, actor_of};
use super::memory::{Accepted, GIT};
use super::next::fallen_back;
use super::scope::judge_commit;
use super::tell::{self, Notice};
use super::words::Actor;
use super::{FILE, images};
use crate::model::{
    Change, CommitId, CommitSeen, Decision, Effect, Fact, Now, Query, RelPath, Severity, clip,
};

/// After a longer absence the whole stretch is judged at once; `agency work audit` goes through it one by one.
const STRETCH_MAX: usize = 500;

pub(super) fn judge_commits(codifica: &Codifica, _: Now) -> Option<Decision> {
    let (accepted, head) = (codifica.index.memory.accepted.as_ref()?, codifica.index.head()?);
    codifica.index.config()?;
    let on_branch = codifica.index.checkout.as_ref()?.branch.as_ref() == Some(&accepted.branch);
    if codifica.index.state_paths().is_empty() || !on_branch || codifica.index.memory.is_git_held()
    {
        return None;
    }
    if let Some((_, fact)) = codifica.index.unanswered() {
        return Some(no_answer(codifica, accepted, head, fact));
    }
    let Some(baseline) = codifica.index.known_baseline() else {
        return Some(match codifica.index.read_baseline(&accepted.commit) {
            // Answered: saying it again makes it the baseline.
            Some(baseline) => accept(codifica, accepted, &baseline),
            None => ask_files(codifica, &accepted.commit),
        });
    };
    if *head == accepted.commit {
        return None;
    }
    if let Some(next) = codifica.index.waiting.first() {
        return Some(judge_next(codifica, accepted, baseline, next));
    }
    // The index took the line from the answer, if there is one.
    let answered = codifica.index.answers().any(|(query, _)| matches!(query, Query::Range { .. }));
    Some(if answered {
        rewritten(codifica, accepted, head)
    } else {
        ask_range(codifica, accepted, head)
    })
}

/// What it changed, then the files of ours among that, then the verdict.
fn judge_next(
    codifica: &Codifica,
    accepted: &Accepted,
    baseline: &Baseline,
    next: &CommitSeen,
) -> Decision {
    let known = codifica.index.changes_of(&next.id);
    if let Some(changes) = known
        && let Some(after) = codifica.index.step_baseline(&next.id, changes)
    {
        return judged(codifica, accepted, baseline, &after, changes, next);
    }
    let mut decision = codifica.builder();
    decision.effect(Effect::Ask { query: diff_query(&accepted.commit, &next.id) });
    for path in known.map(|changes| codifica.index.wanted_of(changes)).unwrap_or_default() {
        decision.effect(Effect::Ask { query: Query::FileAt { commit: next.id.clone(), path } });
    }
    decision.finish()
}

/// Git is held, or it cannot say. A commit that is gone was rewritten; everything else is for the owner to look at.
fn no_answer(codifica: &Codifica, accepted: &Accepted, head: &CommitId, fact: &Fact) -> Decision {
    let mut decision = codifica.builder();
    if let Fact::GitHeld(said) = fact {
        tell::hold_git(codifica, &mut decision, said);
        return decision.finish();
    }
    let why = if let Fact::Unknown(why) = fact { why.as_str() } else { "there is none" };
    if matches!(fact, Fact::Unknown(_)) && *head != accepted.commit {
        return rewritten(codifica, accepted, head);
    }
    let mut word = Notice::new("DM-10", GIT, format!("git does not answer: {why}"));
    word.resolve = "put it right, then agency resume".to_owned();
    tell::hold(codifica, &mut decision, word);
    decision.finish()
}

fn ask_range(codifica: &Codifica, accepted: &Accepted, head: &CommitId) -> Decision {
    let mut decision = codifica.builder();
    decision.effect(Effect::Ask {
        query: Query::Range { from: Some(accepted.commit.clone()), to: head.clone() },
    });
    decision.finish()
}

fn ask_files(codifica: &Codifica, commit: &CommitId) -> Decision {
    let mut decision = codifica.builder();
    let mut paths = codifica.index.state_paths();
    // The contract of that version may name other files than the one that lies there now.
    if let Some(config) = codifica.index.contract_at(commit) {
        paths = codifica.index.state_paths_by(&config);
    }
    for path in [RelPath::fixed(FILE)].into_iter().chain(paths) {
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

fn accept(codifica: &Codifica, accepted: &Accepted, baseline: &Baseline) -> Decision {
    let mut decision = codifica.builder();
    decision.remember("accepted", accepted.at(baseline));
    decision.finish()
}

impl Accepted {
    /// The same branch, with this version of it.
    fn at(&self, baseline: &Baseline) -> Self {
        let files = baseline.board.files.iter();
        Self {
            branch: self.branch.clone(),
            commit: baseline.commit.clone(),
            paths: files.map(|file| file.path.clone()).collect(),
        }
    }
}

fn judged(
    codifica: &Codifica,
    accepted: &Accepted,
    old: &Baseline,
    new: &Baseline,
    changes: &[Change],
    commit: &CommitSeen,
) -> Decision {
    let (before, after) = (&old.board, &new.board);
    let actor = actor_of(&commit.author, &before.config.rules.allowed_agents);
    let mut findings = judge(before, after, &actor);
    findings.extend(judge_commit(after, &actor, changes));
    findings.retain(Finding::is_violation);
    let mut decision = codifica.builder();
    for finding in &findings {
        decision.reject(finding.rejection.clone());
    }
    decision.remember("accepted", accepted.at(new));
    images::forget_changed(codifica, &mut decision, changes);
    for (id, text) in fallen_back(before, after) {
        decision.remember(&format!("warning/{id}"), text);
    }
    let who = who(&actor, commit);
    if let Some(mut word) = Notice::of_findings(commit.id.as_str(), &who, &findings) {
        word.evidence.insert(0, shown(commit));
        word.evidence.extend(diff(before, after, &findings));
        let contract = changes.iter().any(|change| change.path.as_str() == FILE);
        if contract && actor.is_agent() {
            // The contract says what agents may do: one that an agent wrote does not rule them unseen.
            tell::hold(codifica, &mut decision, word);
        } else {
            tell::tell(codifica, &mut decision, Severity::Critical, word);
        }
    }
    let loosened = if actor.is_agent() { Vec::new() } else { loosened(before, after) };
    if !loosened.is_empty() {
        announce::announce(codifica, &mut decision, &who, &shown(commit), loosened);
    }
    decision.finish()
}

fn shown(commit: &CommitSeen) -> String {
    let short = commit.id.as_str().get(..12).unwrap_or_default();
    format!("commit {short} by {}: {}", clip(&commit.author, 60), clip(&commit.subject, 120))
}

fn who(actor: &Actor, commit: &CommitSeen) -> String {
    match actor {
        Actor::Agent(_) => actor.to_string(),
        Actor::Human | Actor::Someone => clip(&commit.author, 60),
    }
}

/// The lines of the tasks concerned, before and after.
pub(super) fn diff(old: &Board, new: &Board, findings: &[Finding]) -> Vec<String> {
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

/// The branch does not contain the version that we accepted: nobody can be named for the difference.
fn rewritten(codifica: &Codifica, accepted: &Accepted, head: &CommitId) -> Decision {
    let mut decision = codifica.builder();
    decision.remember("accepted", Accepted { commit: head.clone(), ..accepted.clone() });
    images::forget_all(codifica, &mut decision);
    let mut word = Notice::new(
        "CD-20",
        head.as_str(),
        format!("`{}` was rewritten: it no longer contains {}", accepted.branch, accepted.commit),
    );
    word.did =
        "The state files count as they are now; the history in between was not judged.".to_owned();
    word.resolve = "agency work audit (goes through the new history)".to_owned();
    tell::tell(codifica, &mut decision, Severity::Critical, word);
    decision.finish()
}
