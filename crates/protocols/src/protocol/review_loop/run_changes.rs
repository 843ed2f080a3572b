//! What a run left in the tree: looked at when it has ended, and once more after a hold. Nothing here starts or judges.

use super::{
    ReviewLoop, away, command, flag, history, hold,
    memory::{Ended, Left, Start, Turn},
    overreach, turn,
};
use crate::model::{
    Change, Checkout, Decision, Effect, Fact, FileState, Key, Now, Query, Snapshot, TreeId, TreeRef,
};
use std::collections::{BTreeMap, BTreeSet};

/// What a run left in the tree, and whether it kept its hands off the history.
pub(super) fn look_at_what_is_left(
    review_loop: &ReviewLoop,
    turn: &Turn,
    _: Now,
) -> Option<Decision> {
    if !review_loop.place.git || turn.run.is_some() {
        return None;
    }
    match (&turn.ended, &turn.left) {
        (Some(ended), _) if !ended.looked => Some(first_look(review_loop, turn, ended)),
        (None, None) => look_at_hand_work(review_loop, turn),
        (_, Some(left)) if turn.look_again || is_outdated(review_loop, turn, left) => {
            Some(second_look(review_loop, turn, left))
        }
        _ => None,
    }
}

/// A run may end while the loop is held. What it left is noted at once: what the owner does from then on is the owner's.
pub(super) fn look_while_held(review_loop: &ReviewLoop, turn: &Turn) -> Option<Decision> {
    let readable = !matches!(review_loop.index.file(flag::PATH), Some(FileState::Unreadable(_)));
    // A hold that began with a look that failed must not ask for the same again and again.
    let memory = &review_loop.index.memory;
    let failed = memory.holds.iter().any(|hold| hold.cause.rule.as_str() == "DM-10");
    let can = !failed && !memory.is_git_held();
    if !(review_loop.place.git && turn.run.is_none() && readable && can) {
        return None;
    }
    match &turn.ended {
        Some(ended) if !ended.looked => Some(first_look(review_loop, turn, ended)),
        Some(_) => None,
        None => opening_look(review_loop, turn),
    }
}

/// A turn that opens while the loop is held may be worked by hand: what is dirty now is not its work (LP-19).
fn opening_look(review_loop: &ReviewLoop, turn: &Turn) -> Option<Decision> {
    let has_flag = review_loop.index.whole(flag::PATH).is_some();
    if turn.start.is_some() || has_flag || away::is_away(review_loop) {
        return None;
    }
    let label = "loop-open".to_owned();
    let Some((key, fact)) = answer(review_loop, &label) else {
        return Some(ask_snapshot(review_loop, label, None));
    };
    let Fact::Snapshot(snapshot) = fact else {
        return Some(cannot_look(review_loop, fact));
    };
    let holder = review_loop.index.memory.state.as_ref()?.active_agent;
    let mut decision = review_loop.builder();
    decision.used(key.clone(), fact.clone());
    let start = Some(turn::start_point(None, snapshot, holder));
    decision.remember("turn", Turn { start, ..turn.clone() });
    Some(decision.finish())
}

/// What a run did to the history is judged first, also when HEAD is elsewhere by now (LP-20). While a lock of git's lies there,
/// the look waits: a commit of the owner's may be under way.
pub(super) fn look_while_away(review_loop: &ReviewLoop, turn: &Turn) -> Option<Decision> {
    let is_locked = review_loop.index.checkout.as_ref().is_some_and(Checkout::is_locked);
    if is_locked { None } else { look_while_held(review_loop, turn) }
}

/// A flag by hand comes long after the last run: its owner may have changed and committed what that run left.
fn is_outdated(review_loop: &ReviewLoop, turn: &Turn, left: &Left) -> bool {
    let flag = review_loop.index.whole(flag::PATH).map(|file| &file.digest);
    turn.ended.is_none() && flag.is_some() && flag != left.flag.as_ref()
}

fn first_look(review_loop: &ReviewLoop, turn: &Turn, ended: &Ended) -> Decision {
    let label = "loop-end".to_owned();
    let Some((key, fact)) = answer(review_loop, &label) else {
        let since = turn.start.as_ref().map(|start| start.last.clone());
        return ask_snapshot(review_loop, label, since);
    };
    let Fact::Snapshot(snapshot) = fact else {
        return cannot_look(review_loop, fact);
    };
    let mut decision = review_loop.builder();
    decision.used(key.clone(), fact.clone());
    let mut turn = turn.clone();
    let earlier = turn.left.take().map(|left| left.changed).unwrap_or_default();
    let mut overreach = None;
    let mut moved = None;
    if let Some(start) = &mut turn.start {
        moved = history::moved(review_loop, start, ended, snapshot);
        if moved.is_none() {
            overreach = overreach::of(review_loop, &start.last, snapshot);
        }
        start.last = snapshot.tree.clone();
    }
    turn.ended = Some(Ended { looked: true, ..ended.clone() });
    let changed = with_earlier(earlier, &snapshot.changed);
    turn.left = Some(Left { changed, overreach, ..left(snapshot) });
    decision.remember("turn", turn);
    if let Some(reason) = moved {
        // A run that took the history back took our state file with it: that is one violation, not two.
        if away::way_back(review_loop).is_none() {
            command::write_back(review_loop, &mut decision);
        }
        hold::hold(review_loop, &mut decision, reason);
    }
    decision.finish()
}

/// LP-19: a flag in a turn that nobody was started for. What changed since the turn opened is part of its transition, without
/// what was dirty then.
fn look_at_hand_work(review_loop: &ReviewLoop, turn: &Turn) -> Option<Decision> {
    let (start, flag) = (turn.start.as_ref()?, review_loop.index.whole(flag::PATH)?);
    let label = "loop-hand".to_owned();
    let Some((key, fact)) = answer(review_loop, &label) else {
        return Some(ask_snapshot(review_loop, label, Some(start.last.clone())));
    };
    let Fact::Snapshot(snapshot) = fact else {
        return Some(cannot_look(review_loop, fact));
    };
    let changed = by_hand(start, &snapshot.changed);
    let flag = Some(flag.digest.clone());
    let next = Turn { left: Some(Left { changed, flag, ..left(snapshot) }), ..turn.clone() };
    let mut decision = review_loop.builder();
    decision.used(key.clone(), fact.clone());
    decision.remember("turn", next);
    Some(decision.finish())
}

fn by_hand(start: &Start, changed: &[Change]) -> Vec<Change> {
    changed.iter().filter(|change| !start.dirty.contains(&change.path)).cloned().collect()
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

/// After a hold: what the owner changed meanwhile is the owner's, the rest is still what the run left. Where the owner has written
/// the flag as well, the turn is worked by hand, and what changed since it opened is its work (LP-19).
fn second_look(review_loop: &ReviewLoop, turn: &Turn, first: &Left) -> Decision {
    let label = "loop-again".to_owned();
    let Some((key, fact)) = answer(review_loop, &label) else {
        return ask_snapshot(review_loop, label, Some(first.tree.clone()));
    };
    let Fact::Snapshot(snapshot) = fact else {
        return cannot_look(review_loop, fact);
    };
    let mut now = left(snapshot);
    now.flag = review_loop.index.whole(flag::PATH).map(|file| file.digest.clone());
    let is_by_hand = turn.ended.is_none() && now.flag.is_some();
    let mut turn = turn.clone();
    match &mut turn.start {
        Some(start) if is_by_hand => {
            now.changed = with_earlier(first.changed.clone(), &by_hand(start, &snapshot.changed));
            start.last = snapshot.tree.clone();
        }
        start => {
            now.changed = without(&first.changed, &snapshot.changed);
            if let Some(start) = start {
                start.last = snapshot.tree.clone();
                start.dirty.extend(snapshot.changed.iter().map(|change| change.path.clone()));
            }
            now.overreach = overreach::without(first.overreach.as_ref(), &snapshot.changed);
        }
    }
    turn.left = Some(now);
    turn.look_again = false;
    let mut decision = review_loop.builder();
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
        overreach: None,
    }
}

pub(super) fn ask_snapshot(
    review_loop: &ReviewLoop,
    label: String,
    since: Option<TreeId>,
) -> Decision {
    let mut decision = review_loop.builder();
    decision.effect(Effect::Ask { query: Query::Snapshot { tree: TreeRef::Main, label, since } });
    decision.finish()
}

/// The answer to the snapshot of this name, if it has just come.
pub(super) fn answer<'a>(review_loop: &'a ReviewLoop, wanted: &str) -> Option<(&'a Key, &'a Fact)> {
    match review_loop.index.answer.as_deref()? {
        (key, Query::Snapshot { label, .. }, fact) if label == wanted => Some((key, fact)),
        _ => None,
    }
}

pub(super) fn cannot_look(review_loop: &ReviewLoop, fact: &Fact) -> Decision {
    let mut decision = review_loop.builder();
    hold::hold(review_loop, &mut decision, hold::unanswered(fact, "snapshot", "look at the tree"));
    decision.finish()
}
