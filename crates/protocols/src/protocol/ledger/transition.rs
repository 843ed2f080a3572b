//! A judged session on its way: worktree and branch put in order, the merge, the record in the main branch. It judges nothing.

use super::docs::{Docs, FILES, is_ledger};
use super::memory::{Fate, Memo, Moving, Stage, Superseded, Turn};
use super::opening::{self, docs_at_tip, files_at};
use super::{Ledger, hold, hold::notice, table};
use crate::engine::{self, Draft, Notice, Step};
use crate::model::{
    Bytes, CommitId, Decision, Digest, Effect, Event, Fact, MergeStyle, Now, PlannedCommit, Query,
    RelPath, RowId, Seat, TreeRef,
};

pub(super) fn go_on(
    ledger: &Ledger,
    turn: &Turn,
    transition: &Moving,
    now: Now,
) -> Option<Decision> {
    Some(if !transition.cleaned {
        clean(ledger, turn, transition)
    } else if transition.resync {
        resync(ledger, turn, transition)
    } else if transition.fate == Fate::Merge && transition.merged.is_none() {
        merge(ledger, turn, transition)
    } else if transition.recorded.is_none() {
        record(ledger, turn, transition)
    } else {
        finish(ledger, turn, transition, now)
    })
}

fn step(turn: &Turn, transition: Moving) -> Turn {
    turn.step(Step::Landed(Box::new(transition)))
}

/// The worktree goes, and the branch stands where it belongs. Nothing is lost: what is moved away from is kept under a ref.
fn clean(ledger: &Ledger, turn: &Turn, transition: &Moving) -> Decision {
    let mut decision = ledger.draft();
    decision.effect(Effect::DropWorktree { name: turn.tree(), branch: None });
    decision.effect(Effect::Release { tree: TreeRef::Worktree(turn.tree()) });
    let branch = format!("refs/heads/{}", turn.task.branch);
    let keep = |kind: &str, commit: &CommitId| Effect::Ref {
        name: format!("refs/agency/ledger/{kind}/{}", transition.run),
        was: None,
        to: Some(commit.clone()),
    };
    if transition.found.as_ref() != Some(&transition.stand) {
        if let Some(found) = &transition.found {
            decision.effect(keep("undone", found));
        }
        let (was, to) = (transition.found.clone(), Some(transition.stand.clone()));
        decision.effect(Effect::Ref { name: branch, was, to });
    }
    if transition.fate == Fate::Reject {
        decision.effect(keep("rejected", &transition.stand));
    }
    decision.remember(Memo::turn(step(turn, Moving { cleaned: true, ..transition.clone() })));
    decision.finish()
}

/// The branch gets the documents as the main branch has them now, so that only the work itself is merged.
fn resync(ledger: &Ledger, turn: &Turn, transition: &Moving) -> Decision {
    if let Some(planned) = planned(ledger, &turn.task.branch) {
        let mut decision = ledger.draft();
        decision.effect(Effect::Merge(planned.clone()));
        let next = Moving { stand: planned.id.clone(), resync: false, ..transition.clone() };
        decision.remember(Memo::turn(step(turn, next)));
        return decision.finish();
    }
    let Some((commit, docs)) = docs_at_tip(ledger) else {
        return opening::look(ledger, ledger.main());
    };
    if let Err(foreign) = docs {
        return hold::held(ledger, foreign.reason());
    }
    let Some(files) = files_at(ledger, commit) else { return opening::look(ledger, ledger.main()) };
    let there = FILES.into_iter().zip(files);
    let write = there.filter_map(|(name, bytes)| Some((RelPath::fixed(name), bytes?.clone())));
    let mut decision = ledger.draft();
    let query = Query::Plan {
        branch: turn.task.branch.clone(),
        parent: Some(transition.stand.clone()),
        take: Vec::new(),
        write: write.collect(),
        message: "Ledger: the documents as they are on the main branch\n".to_owned(),
        date: transition.at,
    };
    decision.effect(Effect::Ask { query });
    decision.finish()
}

/// What was reviewed is what is merged: the commit at which the branch stood when the review began.
fn merge(ledger: &Ledger, turn: &Turn, transition: &Moving) -> Decision {
    match ledger.index.fact(|query| matches!(query, Query::Merge { .. })) {
        Some(Fact::Planned(planned)) => {
            let mut decision = ledger.draft();
            decision.effect(Effect::Merge(planned.clone()));
            let next = Moving { merged: Some(planned.id.clone()), ..transition.clone() };
            decision.remember(Memo::turn(step(turn, next)));
            return decision.finish();
        }
        Some(Fact::Conflict(paths)) if paths.iter().all(is_ledger) => {
            let mut decision = ledger.draft();
            decision
                .remember(Memo::turn(step(turn, Moving { resync: true, ..transition.clone() })));
            return decision.finish();
        }
        Some(Fact::Conflict(paths)) => {
            return hold::held(ledger, conflict(turn, transition, paths));
        }
        Some(_) | None => {}
    }
    let Some(Some(onto)) = opening::tip(ledger, ledger.main()) else {
        return opening::look(ledger, ledger.main());
    };
    let mut decision = ledger.draft();
    let what = turn.subject();
    let query = Query::Merge {
        target: ledger.main().to_owned(),
        onto: onto.clone(),
        theirs: transition.stand.clone(),
        style: MergeStyle::Merge,
        message: format!("Merge {} ({what})\n\nAgency-Key: {}\n", turn.task.branch, decision.key()),
        date: transition.at,
        keep: None,
    };
    decision.effect(Effect::Ask { query });
    decision.finish()
}

fn conflict(turn: &Turn, transition: &Moving, paths: &[RelPath]) -> Notice {
    let named: Vec<_> = paths.iter().take(20).map(|path| format!("`{path}`")).collect();
    let summary = format!(
        "`{}` passed its review but conflicts with the main branch in {}",
        turn.task.branch,
        named.join(", ")
    );
    let mut reason = notice("LG-04", transition.run.as_str(), summary);
    reason.wont = format!(
        "We resolve no conflict: merge the main branch into `{}` yourself, then resume.",
        turn.task.branch
    );
    reason
}

/// The documents on the main branch as it is now, with what the session brings.
fn record(ledger: &Ledger, turn: &Turn, transition: &Moving) -> Decision {
    if let Some(planned) = planned(ledger, ledger.main()) {
        let mut decision = ledger.draft();
        decision.effect(Effect::Merge(planned.clone()));
        remember_written(ledger, &mut decision);
        let next = Moving { recorded: Some(planned.id.clone()), ..transition.clone() };
        decision.remember(Memo::turn(step(turn, next)));
        return decision.finish();
    }
    let Some((head, docs)) = docs_at_tip(ledger) else {
        return opening::look(ledger, ledger.main());
    };
    let mut docs = match docs {
        Ok(docs) => docs,
        Err(foreign) => return hold::held(ledger, foreign.reason()),
    };
    if let Some(files) = files_at(ledger, head).filter(|_| !transition.superseded.is_empty()) {
        docs = Docs::read(judged_only(files, &transition.superseded)).0;
    }
    let project = docs.project_name(&transition.ops).unwrap_or_else(|| ledger.place.name.clone());
    docs.complete(&project, transition.at);
    let merged = transition.merged.as_ref().map(CommitId::as_str);
    docs.apply(&transition.ops, head.as_str(), merged, transition.at);
    let unchanged = files_at(ledger, head);
    let same = |path: &RelPath, bytes: &Bytes| {
        let at = FILES.iter().position(|name| *name == path.as_str());
        at.zip(unchanged).is_some_and(|(at, files)| files[at] == Some(bytes))
    };
    let write = docs.files().into_iter().filter(|(path, bytes)| !same(path, bytes)).collect();
    let mut decision = ledger.draft();
    let what = turn.subject();
    let query = Query::Plan {
        branch: ledger.main().to_owned(),
        parent: Some(head.clone()),
        take: Vec::new(),
        write,
        message: format!(
            "Ledger: {} {what} ({})\n\nAgency-Key: {}\n",
            turn.task.agent.word(),
            transition.row,
            decision.key()
        ),
        date: transition.at,
    };
    decision.effect(Effect::Ask { query });
    decision.finish()
}

/// LG-14: a REVIEW that merged its own record brought claims to the main branch. Only what was judged is recorded.
fn judged_only<'a>(
    files: [Option<&'a Bytes>; 3],
    superseded: &'a [Superseded],
) -> [Option<&'a Bytes>; 3] {
    let mut files = files;
    for (name, file) in FILES.into_iter().zip(&mut files) {
        let digest = file.map(|bytes| Digest::of(&bytes.0));
        let claim =
            superseded.iter().find(|one| one.file == name && Some(&one.left) == digest.as_ref());
        if let Some(claim) = claim {
            *file = claim.before.as_ref();
        }
    }
    files
}

/// A commit that was planned for a branch, if the answer is here.
fn planned<'a>(ledger: &'a Ledger, wanted: &str) -> Option<&'a PlannedCommit> {
    let asked = |query: &Query| matches!(query, Query::Plan { branch, .. } if branch == wanted);
    let Fact::Planned(planned) = ledger.index.fact(asked)? else { return None };
    Some(planned)
}

/// What we write into the owner's tree is no edit of theirs.
fn remember_written(ledger: &Ledger, decision: &mut Draft<Memo>) {
    let writes = ledger.index.in_flight.answers().iter().filter_map(|(_, query, _)| {
        let Query::Plan { write, .. } = query else { return None };
        Some(write)
    });
    for (path, bytes) in writes.flatten() {
        decision.remember(Memo::Known(path.to_string(), Some(Digest::of(&bytes.0))));
    }
}

/// The session is over: the row, the branch that nobody needs, the next turn.
fn finish(ledger: &Ledger, turn: &Turn, transition: &Moving, now: Now) -> Decision {
    let mut decision = ledger.draft();
    decision.row(RowId::new(&transition.row));
    if matches!(transition.fate, Fate::Merge | Fate::Reject | Fate::Drop) {
        let name = format!("refs/heads/{}", turn.task.branch);
        decision.effect(Effect::Ref { name, was: Some(transition.stand.clone()), to: None });
    }
    let row = table::TABLE.iter().find(|row| row.id == transition.row);
    let context = [
        ("row", transition.row.as_str()),
        ("to", row.map_or("", |row| row.next.word())),
        ("action", turn.task.agent.word()),
        ("task", turn.subject()),
    ];
    decision.effect(Effect::Log(Event {
        event: "transition".to_owned(),
        agent: Some(Seat::new(turn.task.agent.role())),
        context: context.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
    }));
    match (&transition.failure, &transition.recorded) {
        (Some(why), Some(recorded)) => {
            let came = (turn.task.agent.word(), why.as_str());
            let mut next =
                engine::try_again(ledger, &mut decision, turn, &transition.run, came, now);
            next.task.main_at = recorded.clone();
            decision.remember(Memo::turn(next));
        }
        (Some(_), None) | (None, _) => drop(decision.remember(Memo::Turn(None))),
    }
    decision.finish()
}

/// A branch moved between our plan and its commit: plan again.
pub(super) fn moved_away(ledger: &Ledger, turn: &Turn, effect: &Effect) -> Decision {
    let mut decision = ledger.draft();
    decision.remember(Memo::turn(rewound(turn, effect)));
    decision.finish()
}

/// As if the step with the effect that failed had not been taken: all of it is done again, and what was done stays done.
pub(super) fn rewound(turn: &Turn, effect: &Effect) -> Turn {
    match &turn.stage {
        Stage::Opening | Stage::Running(_) | Stage::Ended(_) => turn.clone(),
        Stage::Ready(_) if matches!(effect, Effect::Merge(_)) => turn.step(Step::Undone),
        Stage::Ready(_) => turn.clone(),
        Stage::Looked(_) => turn.step(Step::Undone),
        Stage::Landing(transition) => {
            let mut transition = (**transition).clone();
            if !matches!(effect, Effect::Merge(_)) {
                transition.cleaned = false;
            } else if transition.recorded.take().is_none() {
                transition.merged = None;
            }
            step(turn, transition)
        }
    }
}
