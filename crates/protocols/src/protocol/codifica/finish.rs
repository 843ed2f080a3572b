//! A run of ours has ended: what it left is looked at, judged by what really changed, kept, and its task goes on or waits.

use super::baseline::{diff_query, touched_query};
use super::board::Board;
use super::dispatch::{claimed, log, remember};
use super::finding::Finding;
use super::judge::judge;
use super::keeper::Codifica;
use super::memory::{Job, Stage};
use super::scope::{is_out_of_scope, judge_changes, unrecorded};
use super::tell::{self, Notice};
use super::words::{Actor, Owner, State};
use crate::model::{
    Builder, Change, CommitId, Decision, Effect, Fact, Fate, Moment, Now, Outage, Outcome,
    PlannedCommit, Query, RelPath, Runner, Severity, Snapshot, clip, counted, fate,
};
use std::collections::BTreeSet;
use std::time::Duration;

const DEFAULT_TRIES: (u32, Duration) = (2, Duration::from_secs(30));

pub(super) fn look_at_ends(codifica: &Codifica, now: Now) -> Option<Decision> {
    if codifica.index.memory.is_git_held() {
        return None;
    }
    noted(codifica)
        .or_else(|| codifica.index.memory.jobs.values().find_map(|job| look(codifica, job, now)))
}

/// A warning was written, or could not be: it is not tried for ever.
fn noted(codifica: &Codifica) -> Option<Decision> {
    let noting = codifica.index.memory.noting.as_ref()?;
    let end = codifica.index.in_flight.end_of(noting.run.as_ref()?)?;
    let mut decision = codifica.builder();
    decision.forget("noting");
    decision.forget(&format!("warning/{}", noting.task));
    decision.effect(Effect::Release { tree: crate::model::TreeRef::Main });
    if end.outcome != Outcome::Ok {
        let text = codifica.index.memory.warnings.get(&noting.task).cloned().unwrap_or_default();
        let mut word =
            Notice::new("CD-06", noting.task.clone(), format!("{}: {text}", noting.task));
        word.evidence = vec![end.tail.clone()];
        tell::tell(codifica, &mut decision, Severity::Warning, word);
    }
    Some(decision.finish())
}

fn look(codifica: &Codifica, job: &Job, now: Now) -> Option<Decision> {
    match &job.stage {
        Stage::Claiming { run } => {
            let end = codifica.index.in_flight.end_of(run)?;
            let code = if end.outcome == Outcome::Ok { Some(0) } else { end.exit_code };
            Some(claimed(codifica, job, code, &end.tail, now))
        }
        Stage::Working { run } => {
            let end = codifica.index.in_flight.end_of(run)?;
            let (outcome, tail) = (end.outcome.clone(), end.tail.clone());
            let mut decision = codifica.builder();
            let mut next = job.clone();
            decision.effects(Outage::after(&mut next.outage, &outcome));
            next.stage = Stage::Ended { run: run.clone(), outcome, tail };
            remember(&mut decision, &next);
            Some(decision.finish())
        }
        Stage::Ended { .. } => Some(wind_up(codifica, job, now)),
        Stage::Claim | Stage::Base { .. } | Stage::Tree => None,
    }
}

/// Looks at the tree, reads the state files that the agent touched there, and keeps what is in no commit.
fn wind_up(codifica: &Codifica, job: &Job, now: Now) -> Decision {
    let Some(left) = codifica.index.answers().find_map(|answer| snapshot(answer, &label(job)))
    else {
        if let Some((_, Fact::GitHeld(said))) = codifica.index.unanswered() {
            let mut decision = codifica.builder();
            tell::hold_git(codifica, &mut decision, said);
            return decision.finish();
        }
        if codifica.index.answers().any(|(query, _)| matches!(query, Query::Snapshot { .. })) {
            // The tree cannot be looked at: whatever it holds stays there, and the owner must see to it.
            return given_up(codifica, job, "its worktree cannot be looked at", now);
        }
        return ask(codifica, job);
    };
    if let Some(said) = unknown_commits(codifica) {
        let why = format!("git cannot say what its agent committed: {}", clip(said, 200));
        return given_up(codifica, job, &why, now);
    }
    let planned = codifica.index.answers().find_map(|(_, fact)| {
        let Fact::Planned(planned) = fact else { return None };
        Some(planned)
    });
    let kept = Kept::of(codifica, job, left);
    let touched = touched(codifica, left);
    let read = |path: &RelPath| {
        codifica
            .index
            .answers()
            .any(|(query, _)| matches!(query, Query::Read { path: read, .. } if read == path))
    };
    let open = match &kept {
        None => true,
        Some(kept) => !kept.take.is_empty() && planned.is_none(),
    };
    if open || touched.iter().any(|path| !read(path)) {
        return ask_more(codifica, job, left, kept, touched, now);
    }
    let mut decision = codifica.builder();
    if let Some(kept) = &kept {
        kept.put_aside(job, left, &mut decision);
    }
    if let Some(planned) = planned {
        decision.effect(Effect::Commit(PlannedCommit::clone(planned)));
    }
    let undone = kept.as_ref().map(|kept| kept.undone(left)).unwrap_or_default();
    let findings = findings(codifica, job, left, &touched, &undone);
    for finding in &findings {
        decision.reject(finding.rejection.clone());
    }
    settle(codifica, job, &mut decision, now);
    let run = job.stage.run().map(ToString::to_string).unwrap_or_default();
    let word = Notice::of_findings(&run, &format!("agent:{}", job.agent), &findings);
    if let Some(mut word) = word {
        if let Some(said) = kept.as_ref().and_then(|kept| kept.sentence(job)) {
            word.did = said;
        }
        tell::tell(codifica, &mut decision, Severity::Critical, word);
    }
    if let Some(word) = without_artifacts(codifica, job, left) {
        tell::tell(codifica, &mut decision, Severity::Warning, word);
    }
    decision.finish()
}

/// CD-15: the next one in line would not find what was made.
fn without_artifacts(codifica: &Codifica, job: &Job, left: &Snapshot) -> Option<Notice> {
    let board = codifica.index.ruling_board()?;
    let task = board.task(&job.task)?.ok()?;
    let finding = unrecorded(&board.config, &task, &left.changed)?;
    let summary = format!("agent:{}: {}: {}", job.agent, job.task, finding.rejection.found);
    let mut word = Notice::new("CD-15", job.task.clone(), summary);
    word.evidence = vec![finding.to_string(), format!("its work is on `{}`", job.branch)];
    word.resolve = format!("agency work artifact {} --agent … --path …", job.task);
    Some(word)
}

fn snapshot<'a>((query, fact): (&'a Query, &'a Fact), wanted: &str) -> Option<&'a Snapshot> {
    match (query, fact) {
        (Query::Snapshot { label, .. }, Fact::Snapshot(snapshot)) if label == wanted => {
            Some(snapshot)
        }
        _ => None,
    }
}

fn label(job: &Job) -> String {
    format!("codifica-{}-end", job.task)
}

fn ask(codifica: &Codifica, job: &Job) -> Decision {
    let mut decision = codifica.builder();
    let label = label(job);
    decision.effect(Effect::Ask {
        query: Query::Snapshot { tree: job.tree(), label, since: job.start.clone() },
    });
    decision.finish()
}

/// Everything in one go, the look included: the answers of one decision are judged by the next.
fn ask_more(
    codifica: &Codifica,
    job: &Job,
    left: &Snapshot,
    kept: Option<Kept>,
    touched: Vec<RelPath>,
    now: Now,
) -> Decision {
    let mut decision = codifica.builder();
    let label = label(job);
    decision.effect(Effect::Ask {
        query: Query::Snapshot { tree: job.tree(), label, since: job.start.clone() },
    });
    for path in touched {
        decision
            .effect(Effect::Ask { query: Query::Read { tree: job.tree(), path: path.clone() } });
        if let Some(commit) = job.base.clone() {
            decision.effect(Effect::Ask { query: Query::FileAt { commit, path } });
        }
    }
    if let (Some(origin), Some(head)) = (&job.origin, &left.checkout.head) {
        decision.effect(Effect::Ask { query: diff_query(origin, head) });
        decision.effect(Effect::Ask { query: touched_query(origin, head) });
    }
    if let Some(Kept { take, parent, .. }) = kept.filter(|kept| !kept.take.is_empty()) {
        let message =
            format!("{}: work of agent:{} that it left in no commit", job.task, job.agent);
        decision.effect(Effect::Ask {
            query: Query::Plan {
                branch: job.branch.clone(),
                parent,
                take,
                write: Vec::new(),
                message,
                date: now.wall,
            },
        });
    }
    decision.finish()
}

/// What of a run's changes goes onto the task's branch, and what does not (CD-30).
struct Kept {
    /// What the branch lacks.
    take: Vec<Change>,
    parent: Option<CommitId>,
    /// The branch as the agent left it, where it committed a file outside the scope.
    aside: Option<CommitId>,
    out: Vec<RelPath>,
}

impl Kept {
    /// `None` until it is known what the agent committed itself.
    fn of(codifica: &Codifica, job: &Job, left: &Snapshot) -> Option<Self> {
        let config = codifica.index.config();
        let is_out =
            |path: &RelPath| config.as_ref().is_some_and(|config| is_out_of_scope(config, path));
        let head = left.checkout.head.clone();
        let committed = match (&job.origin, &head) {
            (Some(origin), Some(head)) if origin != head => committed(codifica, origin, head)?,
            _ => BTreeSet::new(),
        };
        let aside = head.clone().filter(|_| committed.iter().any(&is_out));
        let parent = if aside.is_some() { job.origin.clone() } else { head };
        let open = |change: &&Change| aside.is_some() || left.dirty.contains(&change.path);
        let inside = left.changed.iter().filter(|change| !is_out(&change.path) && open(change));
        let changed = left.changed.iter().map(|change| &change.path).chain(&committed);
        let out: BTreeSet<RelPath> = changed.filter(|path| is_out(path)).cloned().collect();
        Some(Self {
            take: inside.cloned().collect(),
            parent,
            aside,
            out: out.into_iter().collect(),
        })
    }

    /// The agent's own commits leave the branch and stay under a ref of ours.
    fn put_aside(&self, job: &Job, left: &Snapshot, decision: &mut Builder) {
        let (Some(aside), Some(origin)) = (&self.aside, &job.origin) else { return };
        let name = aside_ref(job, aside);
        decision.effect(Effect::Ref { name, was: None, to: Some(aside.clone()) });
        let name = format!("refs/heads/{}", job.branch);
        let was = left.checkout.head.clone();
        decision.effect(Effect::Ref { name, was, to: Some(origin.clone()) });
    }

    /// Files outside the scope that the agent committed and took back: only its commits have them.
    fn undone(&self, left: &Snapshot) -> Vec<Change> {
        let is_left = |path: &RelPath| left.changed.iter().any(|change| change.path == *path);
        let undone = self.out.iter().filter(|path| !is_left(path));
        undone.map(|path| Change { path: path.clone(), to: None, new: true }).collect()
    }

    /// What the owner is told of the files outside the scope.
    fn sentence(&self, job: &Job) -> Option<String> {
        let names: Vec<_> = self.out.iter().map(|path| format!("`{path}`")).take(10).collect();
        if names.is_empty() {
            return None;
        }
        let place = match &self.aside {
            Some(aside) => aside_ref(job, aside),
            None => format!("refs/agency/snapshots/{}", label(job)),
        };
        Some(format!(
            "Not committed on `{}`, because `file_scope` does not allow it: {}. The bytes are kept in {place}.",
            job.branch,
            names.join(", ")
        ))
    }
}

/// Every file in the agent's own commits: what differs in the end, and what one of them changed and a later one undid.
/// `None` until both are known.
fn committed(codifica: &Codifica, origin: &CommitId, head: &CommitId) -> Option<BTreeSet<RelPath>> {
    let answer = |wanted: Query| {
        codifica.index.answers().find_map(|(query, fact)| (*query == wanted).then_some(fact))
    };
    let (differs, touched) =
        (answer(diff_query(origin, head))?, answer(touched_query(origin, head))?);
    let mut paths = BTreeSet::new();
    if let Fact::Changes(changes) = differs {
        paths.extend(changes.iter().map(|change| change.path.clone()));
    }
    if let Fact::Paths(touched) = touched {
        paths.extend(touched.iter().cloned());
    }
    Some(paths)
}

/// Git cannot say what the agent committed, so nothing of it may count as inside the scope (CD-30).
fn unknown_commits(codifica: &Codifica) -> Option<&str> {
    codifica.index.answers().find_map(|(query, fact)| match (query, fact) {
        (Query::Diff { .. } | Query::Touched { .. }, Fact::Unknown(said)) => Some(said.as_str()),
        _ => None,
    })
}

fn aside_ref(job: &Job, commit: &CommitId) -> String {
    let short = commit.as_str().get(..12).unwrap_or_default();
    format!("refs/agency/out-of-scope/{}-{short}", job.task)
}

fn touched(codifica: &Codifica, left: &Snapshot) -> Vec<RelPath> {
    let config = codifica.index.config();
    let is_state = |path: &RelPath| config.as_ref().is_some_and(|config| config.is_state(path));
    left.changed.iter().map(|change| change.path.clone()).filter(is_state).collect()
}

/// CD-12, CD-16 by the real difference; CD-10 for state files that the agent edited on its own branch.
fn findings(
    codifica: &Codifica,
    job: &Job,
    left: &Snapshot,
    touched: &[RelPath],
    undone: &[Change],
) -> Vec<Finding> {
    let Some(config) = codifica.index.config() else { return Vec::new() };
    let mut findings = judge_changes(&config, &job.task, &left.changed);
    findings.extend(judge_changes(&config, &job.task, undone));
    let bytes = |wanted: &RelPath, now: bool| {
        codifica.index.answers().find_map(|(query, fact)| match (query, fact) {
            (Query::Read { path, .. }, Fact::File(Some(bytes))) if now && path == wanted => {
                Some(bytes.0.clone())
            }
            (Query::FileAt { path, .. }, Fact::File(Some(bytes))) if !now && path == wanted => {
                Some(bytes.0.clone())
            }
            _ => None,
        })
    };
    // Files that it left alone are the same on both sides, so that ids elsewhere still resolve.
    let others = codifica.index.ruling_board().map(|board| board.files.clone()).unwrap_or_default();
    let side = |now: bool| {
        let mut files: Vec<_> =
            touched.iter().filter_map(|path| Some((path.clone(), bytes(path, now)?))).collect();
        let rest = others.iter().filter(|file| !touched.contains(&file.path));
        files.extend(rest.map(|file| (file.path.clone(), file.text.as_bytes().to_vec())));
        Board::read(&config, files)
    };
    if !touched.is_empty() {
        findings.extend(judge(&side(false), &side(true), &Actor::Agent(job.agent.clone())));
    }
    findings.retain(Finding::is_violation);
    findings
}

/// The task has moved on, or its agent ended without moving it.
fn settle(codifica: &Codifica, job: &Job, decision: &mut Builder, now: Now) {
    let Stage::Ended { outcome, tail, run } = &job.stage else { return };
    let task = codifica.index.ruling_board().and_then(|board| board.glance(&job.task));
    let unfinished = task.is_some_and(|task| {
        task.state == State::InProgress && task.owner == Owner::Agent(job.agent.clone())
    });
    if !unfinished {
        decision.effect(log("task", job));
        return let_go(job, decision);
    }
    let (retries, backoff) = *codifica.desk.tries.get(&job.agent).unwrap_or(&DEFAULT_TRIES);
    let agent = format!("agent:{}", job.agent);
    let runner = Runner { protocol: super::NAME, agent: &agent, backoff };
    let mut next = Job { stage: Stage::Tree, ..job.clone() };
    match fate(outcome, runner, job.outage.as_ref(), now) {
        Fate::Park(park) => {
            (next.not_before, next.paused) = (Some(park.until), park.words);
            next.outage = park.outage;
            decision.effect(Effect::Release { tree: job.tree() });
            remember(decision, &next);
            return decision.effects(park.tell);
        }
        Fate::Ask { rule, summary } => {
            decision.effect(Effect::Release { tree: job.tree() });
            remember(decision, &next);
            let mut word = Notice::new(rule, run.as_str(), summary);
            word.evidence = vec![tail.clone()];
            word.resolve = "agency resume".to_owned();
            return tell::hold(codifica, decision, word);
        }
        Fate::Count => next.failures += 1,
    }
    let failures = next.failures;
    if failures <= retries && !matches!(outcome, Outcome::Stopped { .. }) {
        decision.effect(Effect::Release { tree: job.tree() });
        let wait = backoff * 2_u32.saturating_pow(failures.saturating_sub(1));
        let until = Moment::after(now, wait);
        (next.not_before, next.paused) = (Some(until), outcome.pause(&agent, until, now.wall));
        return remember(decision, &next);
    }
    let summary = format!(
        "{} left {} in progress after {}; the last run {}",
        job.agent,
        job.task,
        counted(failures, "try"),
        outcome.sentence()
    );
    let mut word = Notice::new("SU-06", run.as_str(), summary);
    word.evidence = vec![tail.clone()];
    word.did = format!("Its work is on the branch `{}`. The task stays claimed.", job.branch);
    word.resolve = format!(
        "agency resume (it goes on), or agency work reclaim {} --as-human --reason …",
        job.task
    );
    let_go(job, decision);
    tell::tell(codifica, decision, Severity::Critical, word);
}

pub(super) fn let_go(job: &Job, decision: &mut Builder) {
    decision.forget(&format!("job/{}", job.task));
    decision.effect(Effect::Release { tree: job.tree() });
    if let crate::model::TreeRef::Worktree(name) = job.tree() {
        decision.effect(Effect::DropWorktree { name, branch: None });
    }
}

fn given_up(codifica: &Codifica, job: &Job, why: &str, _: Now) -> Decision {
    let mut decision = codifica.builder();
    decision.forget(&format!("job/{}", job.task));
    decision.effect(Effect::Release { tree: job.tree() });
    let mut word = Notice::new("DM-10", job.task.clone(), format!("{}: {why}", job.task));
    word.resolve = "agency resume".to_owned();
    tell::hold(codifica, &mut decision, word);
    decision.finish()
}
