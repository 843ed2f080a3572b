//! The owner's own files: what somebody wrote into the ledger there beside us. Where it is right it is committed as theirs; what an
//! agent may not do is put back while one of ours runs, since nobody can tell then whose it was.

use super::changes;
use super::docs::{Docs, FILES};
use super::memory::{Stage, Turn};
use super::{FEATURES, Ledger, PROGRESS, REVIEWS, hold, hold::Reason};
use crate::model::{
    Bytes, CommitId, Decision, Digest, Effect, Fact, Now, PlannedCommit, Query, Rejection, RelPath,
    Severity, WholeFile,
};

pub(super) fn look(it: &Ledger, now: Now) -> Option<Decision> {
    let memory = &it.index.memory;
    let moving = matches!(memory.turn.as_ref().map(|turn| &turn.stage), Some(Stage::Moving(_)));
    if memory.is_held() || moving {
        return None;
    }
    let head = it.index.at_home()?;
    FILES.into_iter().find_map(|name| {
        let file = it.index.whole(name)?;
        let news = memory.known.get(name) != Some(&file.digest);
        news.then(|| look_at(it, head, name, file, now))
    })
}

fn look_at(
    it: &Ledger,
    head: &CommitId,
    name: &'static str,
    file: &WholeFile,
    now: Now,
) -> Decision {
    if let Some(Fact::Planned(planned)) = it.index.fact(|query| is_plan_of(query, it.main(), name))
    {
        let mut decision = it.builder();
        decision.effect(Effect::Commit(planned.clone()));
        decision.remember(&format!("known/{name}"), &file.digest);
        return decision.finish();
    }
    let Some(committed) = it.index.file_at(head, name) else {
        let mut decision = it.builder();
        super::opening::ask_docs(&mut decision, head);
        return decision.finish();
    };
    if committed.is_some_and(|bytes| bytes.0 == *file.bytes) {
        let mut decision = it.builder();
        decision.remember(&format!("known/{name}"), &file.digest);
        return decision.finish();
    }
    let bytes = Bytes(file.bytes.to_vec());
    let (after, problems) = alone(name, &bytes);
    if !problems.is_empty() {
        return leave_alone(it, name, &file.digest, &problems);
    }
    match running(it).zip(committed) {
        Some((turn, committed)) => {
            let (before, _) = alone(name, committed);
            let rejections = changes::found(turn.agent, &before, &after).rejections;
            if rejections.is_empty() {
                commit(it, head, name, bytes, now)
            } else {
                put_back(it, name, file, committed, rejections)
            }
        }
        None => commit(it, head, name, bytes, now),
    }
}

fn is_plan_of(query: &Query, main: &str, name: &str) -> bool {
    matches!(query, Query::Plan { branch, write, take, .. }
        if branch == main && take.is_empty() && write.len() == 1 && write[0].0.as_str() == name)
}

fn running(it: &Ledger) -> Option<&Turn> {
    let turn = it.index.memory.turn.as_ref()?;
    matches!(turn.stage, Stage::Running { .. } | Stage::Ended(_) | Stage::Left { .. })
        .then_some(turn)
}

/// One document by itself.
fn alone(name: &str, bytes: &Bytes) -> (Docs, Vec<Rejection>) {
    let only = |wanted: &str| Some(bytes).filter(|_| name == wanted);
    Docs::read([only(PROGRESS), only(REVIEWS), only(FEATURES)])
}

/// LG-02: not ours, so we write nothing there, and say so once.
fn leave_alone(
    it: &Ledger,
    name: &'static str,
    digest: &Digest,
    problems: &[Rejection],
) -> Decision {
    let mut decision = it.builder();
    for problem in problems {
        decision.reject(problem.clone());
    }
    decision.remember(&format!("known/{name}"), digest);
    let summary = format!("`{name}` is not the ledger's any more and is left alone");
    let mut reason = Reason::new("LG-02", format!("{name} {}", digest.short()), summary);
    reason.did = "Nothing was changed; the last committed version counts.".to_owned();
    reason.evidence = problems.iter().map(ToString::to_string).collect();
    hold::tell(it, &mut decision, Severity::Warning, reason);
    decision.finish()
}

fn commit(it: &Ledger, head: &CommitId, name: &'static str, bytes: Bytes, now: Now) -> Decision {
    let mut decision = it.builder();
    let query = Query::Plan {
        branch: it.main().to_owned(),
        parent: Some(head.clone()),
        take: Vec::new(),
        write: vec![(RelPath::fixed(name), bytes)],
        message: format!("Ledger: {name} as it was edited\n"),
        date: now.wall,
    };
    decision.effect(Effect::Ask { query });
    decision.finish()
}

/// The main branch moved before the edit could be committed.
pub(super) fn look_again(it: &Ledger, planned: &PlannedCommit) -> Decision {
    let mut decision = it.builder();
    for change in &planned.changes {
        decision.forget(&format!("known/{}", change.path));
    }
    decision.finish()
}

/// LG-06: the file goes back to what the main branch has; the bytes are kept by the shell.
fn put_back(
    it: &Ledger,
    name: &'static str,
    file: &WholeFile,
    committed: &Bytes,
    rejections: Vec<Rejection>,
) -> Decision {
    let mut decision = it.builder();
    let evidence: Vec<String> = rejections.iter().map(ToString::to_string).collect();
    for rejection in rejections {
        decision.reject(rejection.with_digest(&file.digest));
    }
    let path = RelPath::fixed(name);
    let why = evidence.first().cloned().unwrap_or_default();
    decision.effect(Effect::Take { path: path.clone(), seen: Some(file.digest.clone()), why });
    decision.effect(Effect::Replace { path, bytes: committed.clone(), seen: None });
    let summary = format!(
        "`{name}` was changed in your own tree during a run (agent or human), beyond what the agent may do"
    );
    let mut reason = Reason::new("LG-06", format!("{name} {}", file.digest.short()), summary);
    reason.did =
        "The file is as the main branch has it; the other bytes are in quarantine.".to_owned();
    reason.evidence = evidence;
    hold::tell(it, &mut decision, Severity::Warning, reason);
    decision.finish()
}
