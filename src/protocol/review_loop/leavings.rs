//! What a run left in the tree: looked at when it has ended, and once more after a hold. Nothing here starts or judges.

use super::{
    ReviewLoop, flag,
    hold::{self, Reason},
    memory::{Ended, Left, Start, Turn},
};
use crate::model::{
    Change, Decision, Effect, Fact, FileState, Key, Now, Query, Snapshot, TreeId, TreeRef,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a run left in the tree, and whether it kept its hands off the history.
pub(super) fn look_at_what_is_left(it: &ReviewLoop, turn: &Turn, _: Now) -> Option<Decision> {
    if !it.place.git || turn.run.is_some() {
        return None;
    }
    match (&turn.ended, &turn.left) {
        (Some(ended), _) if !ended.looked => Some(first_look(it, turn, ended)),
        (_, Some(left)) if turn.look_again || is_outdated(it, turn, left) => {
            Some(second_look(it, turn, left))
        }
        _ => None,
    }
}

/// A run may end while the loop is held. What it left is noted at once: what the owner does from then on is the owner's.
pub(super) fn look_while_held(it: &ReviewLoop, turn: &Turn) -> Option<Decision> {
    let ended = turn.ended.as_ref().filter(|ended| !ended.looked)?;
    let readable = !matches!(it.index.file(flag::PATH), Some(FileState::Unreadable(_)));
    // A hold that began with a look that failed must not ask for the same again and again.
    let memory = &it.index.memory;
    let failed = memory.holds.iter().any(|hold| hold.cause.rule.as_str() == "DM-10");
    let can = !failed && !memory.is_git_held();
    (it.place.git && turn.run.is_none() && readable && can).then(|| first_look(it, turn, ended))
}

/// A flag by hand comes long after the last run: its owner may have changed and committed what that run left.
fn is_outdated(it: &ReviewLoop, turn: &Turn, left: &Left) -> bool {
    let flag = it.index.whole(flag::PATH).map(|file| &file.digest);
    turn.ended.is_none() && flag.is_some() && flag != left.flag.as_ref()
}

fn first_look(it: &ReviewLoop, turn: &Turn, ended: &Ended) -> Decision {
    let label = "loop-end".to_owned();
    let Some((key, fact)) = answer(it, &label) else {
        let since = turn.start.as_ref().map(|start| start.last.clone());
        return ask_snapshot(it, label, since);
    };
    let Fact::Snapshot(snapshot) = fact else {
        return cannot_look(it, fact);
    };
    let mut decision = it.builder();
    decision.used(key.clone(), fact.clone());
    let mut turn = turn.clone();
    let earlier = turn.left.take().map(|left| left.changed).unwrap_or_default();
    if let Some(start) = &mut turn.start {
        if moved_history(start, snapshot) {
            hold::hold(it, &mut decision, moved_reason(ended, start, snapshot));
        }
        start.last = snapshot.tree.clone();
    }
    turn.ended = Some(Ended { looked: true, ..ended.clone() });
    let changed = with_earlier(earlier, &snapshot.changed);
    turn.left = Some(Left { changed, ..left(snapshot) });
    decision.remember("turn", turn);
    decision.finish()
}

/// The tries of one turn add up. What somebody else changed between two of them is in none.
fn with_earlier(earlier: Vec<Change>, now: &[Change]) -> Vec<Change> {
    let mut changes: BTreeMap<_, _> =
        earlier.into_iter().map(|change| (change.path.clone(), change)).collect();
    for change in now {
        // A file that an earlier try made is still a new one.
        let made_before = changes.get(&change.path).is_some_and(|earlier| earlier.new);
        let new = change.to.is_some() && (change.new || made_before);
        changes.insert(change.path.clone(), Change { new, ..change.clone() });
    }
    changes.into_values().collect()
}

/// After a hold: what the owner changed meanwhile is the owner's, the rest is still what the run left.
fn second_look(it: &ReviewLoop, turn: &Turn, first: &Left) -> Decision {
    let label = "loop-again".to_owned();
    let Some((key, fact)) = answer(it, &label) else {
        return ask_snapshot(it, label, Some(first.tree.clone()));
    };
    let Fact::Snapshot(snapshot) = fact else {
        return cannot_look(it, fact);
    };
    let mut now = left(snapshot);
    now.changed = without(&first.changed, &snapshot.changed);
    let mut turn = turn.clone();
    if let Some(start) = &mut turn.start {
        start.last = snapshot.tree.clone();
        start.dirty.extend(snapshot.changed.iter().map(|change| change.path.clone()));
    }
    now.flag = it.index.whole(flag::PATH).map(|file| file.digest.clone());
    turn.left = Some(now);
    turn.look_again = false;
    let mut decision = it.builder();
    decision.used(key.clone(), fact.clone());
    decision.remember("turn", turn);
    decision.finish()
}

/// What a run left, without what somebody else has changed since.
pub(super) fn without(left: &[Change], since: &[Change]) -> Vec<Change> {
    let theirs: BTreeSet<_> = since.iter().map(|change| &change.path).collect();
    left.iter().filter(|change| !theirs.contains(&change.path)).cloned().collect()
}

fn left(snapshot: &Snapshot) -> Left {
    Left {
        tree: snapshot.tree.clone(),
        head: snapshot.checkout.head.clone(),
        changed: snapshot.changed.clone(),
        dirty: snapshot.dirty.iter().cloned().collect(),
        flag: None,
    }
}

/// LP-20: HEAD, branches or tags are not where they were when the run began.
fn moved_history(start: &Start, snapshot: &Snapshot) -> bool {
    start.head != snapshot.checkout.head || start.refs != snapshot.refs
}

fn moved_reason(ended: &Ended, start: &Start, snapshot: &Snapshot) -> Reason {
    let run = ended.run.as_str();
    let mut reason = Reason::new(
        "LP-20",
        run,
        format!("HEAD, a branch or a tag moved while `{run}` was running"),
    );
    let show =
        |head: Option<&crate::model::CommitId>| head.map_or("none".to_owned(), ToString::to_string);
    reason.evidence = vec![
        format!("HEAD before: {}", show(start.head.as_ref())),
        format!("HEAD after: {}", show(snapshot.checkout.head.as_ref())),
    ];
    reason.wont =
        "We build on no commit that an agent made; resume accepts the history as it is now."
            .to_owned();
    reason
}

pub(super) fn ask_snapshot(it: &ReviewLoop, label: String, since: Option<TreeId>) -> Decision {
    let mut decision = it.builder();
    decision.effect(Effect::Ask { query: Query::Snapshot { tree: TreeRef::Main, label, since } });
    decision.finish()
}

/// The answer to the snapshot of this name, if it has just come.
pub(super) fn answer<'a>(it: &'a ReviewLoop, wanted: &str) -> Option<(&'a Key, &'a Fact)> {
    match it.index.answer.as_deref()? {
        (key, Query::Snapshot { label, .. }, fact) if label == wanted => Some((key, fact)),
        _ => None,
    }
}

pub(super) fn cannot_look(it: &ReviewLoop, fact: &Fact) -> Decision {
    let mut decision = it.builder();
    hold::hold(it, &mut decision, hold::unanswered(fact, "snapshot", "look at the tree"));
    decision.finish()
}
