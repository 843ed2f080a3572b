//! The owner's own files: what somebody wrote into the ledger there beside us. Where it is right it is committed as theirs; what an
//! agent may not do is put back while one of ours runs, since nobody can tell then whose it was.

use super::changes;
use super::docs::FILES;
use super::foreign::alone;
use super::memory::{Memo, Stage, Turn};
use super::{Ledger, hold::notice};
use crate::engine::{self, Weight};
use crate::model::{
    Bytes, CommitId, Decision, Effect, Fact, Now, PlannedCommit, Query, Rejection, RelPath,
    Severity, WholeFile,
};

pub(super) fn look(ledger: &Ledger, now: Now) -> Option<Decision> {
    let memory = &ledger.index.memory;
    let transition = matches!(memory.turn().map(|turn| &turn.stage), Some(Stage::Landing(_)));
    if memory.is_held() || transition {
        return None;
    }
    let head = ledger.index.at_home()?;
    FILES.into_iter().find_map(|name| {
        let file = ledger.index.whole(name)?;
        let news = memory.known.get(name) != Some(&file.digest);
        news.then(|| look_at(ledger, head, name, file, now))
    })
}

fn look_at(
    ledger: &Ledger,
    head: &CommitId,
    name: &'static str,
    file: &WholeFile,
    now: Now,
) -> Decision {
    if let Some(Fact::Planned(planned)) =
        ledger.index.fact(|query| is_plan_of(query, ledger.main(), name))
    {
        let mut decision = ledger.draft();
        decision.effect(Effect::Commit(planned.clone()));
        decision.remember(Memo::Known(name.to_owned(), Some(file.digest.clone())));
        return decision.finish();
    }
    let Some(committed) = ledger.index.file_at(head, name) else {
        let mut decision = ledger.draft();
        super::opening::ask_docs(&mut decision, head);
        return decision.finish();
    };
    if committed.is_some_and(|bytes| bytes.0 == *file.bytes) {
        let mut decision = ledger.draft();
        decision.remember(Memo::Known(name.to_owned(), Some(file.digest.clone())));
        return decision.finish();
    }
    let bytes = Bytes(file.bytes.to_vec());
    // A file that is not the ledger's has held the loop before this.
    let (after, _) = alone(name, &bytes);
    match running(ledger).zip(committed) {
        Some((turn, committed)) => {
            let (before, _) = alone(name, committed);
            let rejections = changes::found(turn.task.agent, &before, &after).rejections;
            if rejections.is_empty() {
                commit(ledger, head, name, bytes, now)
            } else {
                put_back(ledger, name, file, committed, rejections)
            }
        }
        None => commit(ledger, head, name, bytes, now),
    }
}

fn is_plan_of(query: &Query, main: &str, name: &str) -> bool {
    matches!(query, Query::Plan { branch, write, take, .. }
        if branch == main && take.is_empty() && write.len() == 1 && write[0].0.as_str() == name)
}

fn running(ledger: &Ledger) -> Option<&Turn> {
    let turn = ledger.index.memory.turn()?;
    matches!(turn.stage, Stage::Running(_) | Stage::Ended(_) | Stage::Looked(_)).then_some(turn)
}

fn commit(
    ledger: &Ledger,
    head: &CommitId,
    name: &'static str,
    bytes: Bytes,
    now: Now,
) -> Decision {
    let mut decision = ledger.draft();
    let query = Query::Plan {
        branch: ledger.main().to_owned(),
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
pub(super) fn look_again(ledger: &Ledger, planned: &PlannedCommit) -> Decision {
    let mut decision = ledger.draft();
    for change in &planned.changes {
        decision.remember(Memo::Known(change.path.to_string(), None));
    }
    decision.finish()
}

/// LG-06: the file goes back to what the main branch has; the bytes are kept by the shell.
fn put_back(
    ledger: &Ledger,
    name: &'static str,
    file: &WholeFile,
    committed: &Bytes,
    rejections: Vec<Rejection>,
) -> Decision {
    let mut decision = ledger.draft();
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
    let mut reason = notice("LG-06", format!("{name} {}", file.digest.short()), summary);
    reason.did =
        "The file is as the main branch has it; the other bytes are in quarantine.".to_owned();
    reason.evidence = evidence;
    engine::tell(ledger, &mut decision, Weight::Tell(Severity::Warning), reason);
    decision.finish()
}
