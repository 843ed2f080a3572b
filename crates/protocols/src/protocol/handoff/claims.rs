//! What a run left is looked at, and what its messages claim is checked: commits, the spec, files that others have locked.

use super::Handoff;
use super::hold::{self, Reason};
use super::memory::{Ended, Left, Memo, Start, Turn};
use super::message::Message;
use super::table::Who;
use super::turn::{answer, ask_snapshot, cannot_look};
use crate::model::{
    CommitId, Decision, Effect, Fact, Now, Query, RelPath, Severity, Snapshot, clip,
};
use std::collections::BTreeMap;

/// What changed since the turn began. A file that somebody else has locked is a finding (HO-05).
pub(super) fn look(handoff: &Handoff, turn: &Turn, ended: &Ended, now: Now) -> Decision {
    const LABEL: &str = "handoff-end";
    let mut decision = handoff.builder();
    let mut left = Left { changed: Vec::new(), branch: None, head: None, checked: BTreeMap::new() };
    if let Some(start) = &turn.start {
        let Some((key, fact)) = answer(handoff, LABEL) else {
            return ask_snapshot(handoff, LABEL, Some(start.tree.clone()));
        };
        let Fact::Snapshot(snapshot) = fact else { return cannot_look(handoff, fact) };
        decision.used(key.clone(), fact.clone());
        left = what_is_left(snapshot);
        for (path, holder) in around_the_lock(handoff, turn.who, &left, now) {
            let summary = format!("`{}` changed `{path}`, which {holder}", turn.who.word());
            let mut reason = Reason::new("HO-05", path.as_str(), summary);
            reason.did = "It is noted; the work stays as it is.".to_owned();
            reason.wont = "We undo nothing that an agent wrote.".to_owned();
            hold::tell(handoff, &mut decision, Severity::Warning, reason);
        }
    }
    let ended = Ended { left: Some(left), ..ended.clone() };
    decision.remember(Memo::turn(Turn { ended: Some(ended), ..turn.clone() }));
    decision.finish()
}

fn what_is_left(snapshot: &Snapshot) -> Left {
    Left {
        changed: snapshot.changed.iter().map(|change| change.path.clone()).collect(),
        branch: snapshot.checkout.branch.clone(),
        head: snapshot.checkout.head.clone(),
        checked: BTreeMap::new(),
    }
}

fn around_the_lock(handoff: &Handoff, who: Who, left: &Left, now: Now) -> Vec<(RelPath, String)> {
    let locked = |path: &RelPath| {
        let lock = handoff.index.memory.locks.get(path.as_str())?;
        let foreign = lock.agent != who.word() && !lock.is_expired(now.wall);
        foreign.then(|| (path.clone(), format!("is {}", lock.sentence())))
    };
    left.changed.iter().filter_map(locked).collect()
}

/// The agents of this protocol commit by themselves: a commit that a message names must be there and new, and a spec must be
/// there. `None`: everything is checked.
pub(super) fn check(
    handoff: &Handoff,
    turn: &Turn,
    ended: &Ended,
    left: &Left,
    mine: &BTreeMap<String, Message>,
) -> Option<Decision> {
    let start = turn.start.as_ref()?;
    let commits: Vec<&str> = mine.values().flat_map(|handoff| handoff.payload.commits()).collect();
    let open: Vec<&str> =
        commits.into_iter().filter(|handoff| !left.checked.contains_key(*handoff)).collect();
    if !open.is_empty() {
        return Some(check_commits(handoff, turn, ended, left, start, &open));
    }
    let mut tasks = mine.values().filter_map(|message| message.payload.task());
    let spec = tasks.find(|spec| !left.checked.contains_key(*spec))?.to_owned();
    let path = RelPath::new(spec.as_str()).expect("BUG: a spec was judged to be a path");
    let found = match handoff.index.in_flight.answers().last() {
        Some((_, Query::Digest { path: asked }, Fact::Digest(found))) if *asked == path => found,
        Some((_, Query::Digest { .. }, fact)) => return Some(cannot_look(handoff, fact)),
        _ => return Some(ask(handoff, Query::Digest { path })),
    };
    let wrong = found.is_none().then(|| format!("there is no spec at `{spec}`"));
    Some(checked(handoff, turn, ended, left, [(spec, wrong)]))
}

/// SPEC GAP: `commit` is any text, and the spec's own `abc123` is shorter than any id that git prints. Seven digits and more
/// name one commit; other words only say that there is one.
fn is_commit_id(named: &str) -> bool {
    (7..=64).contains(&named.len()) && named.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn check_commits(
    handoff: &Handoff,
    turn: &Turn,
    ended: &Ended,
    left: &Left,
    start: &Start,
    open: &[&str],
) -> Decision {
    let new: Vec<CommitId> = match (&left.head, handoff.index.in_flight.answers().last()) {
        (Some(head), _) if Some(head) == start.head.as_ref() => Vec::new(),
        (None, _) => Vec::new(),
        (Some(_), Some((_, Query::Range { .. }, Fact::Commits(commits)))) => {
            commits.iter().map(|commit| commit.id.clone()).collect()
        }
        (Some(_), Some((_, Query::Range { .. }, fact))) => return cannot_look(handoff, fact),
        (Some(head), _) => {
            return ask(handoff, Query::Range { from: start.head.clone(), to: head.clone() });
        }
    };
    let wrong = |named: &&str| {
        let branch = left.branch.as_deref().unwrap_or("HEAD");
        let (found, words) = if is_commit_id(named) {
            let id = named.to_ascii_lowercase();
            let found = new.iter().any(|commit| commit.as_str().starts_with(&id));
            (found, format!("`{named}` is no commit that came to `{branch}` during this turn"))
        } else {
            let named = clip(named, 60);
            let words = format!("no commit came to `{branch}` during this turn; found `{named}`");
            (!new.is_empty(), words)
        };
        ((*named).to_owned(), (!found).then_some(words))
    };
    checked(handoff, turn, ended, left, open.iter().map(wrong))
}

fn ask(handoff: &Handoff, query: Query) -> Decision {
    let mut decision = handoff.builder();
    decision.effect(Effect::Ask { query });
    decision.finish()
}

fn checked(
    handoff: &Handoff,
    turn: &Turn,
    ended: &Ended,
    left: &Left,
    more: impl IntoIterator<Item = (String, Option<String>)>,
) -> Decision {
    let mut decision = handoff.builder();
    if let Some((key, _, fact)) = handoff.index.in_flight.answers().last() {
        decision.used(key.clone(), fact.clone());
    }
    let mut left = left.clone();
    left.checked.extend(more);
    let ended = Ended { left: Some(left), ..ended.clone() };
    decision.remember(Memo::turn(Turn { ended: Some(ended), ..turn.clone() }));
    decision.finish()
}
