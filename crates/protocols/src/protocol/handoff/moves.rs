//! Messages that somebody moved, copied, changed or lost: each finding becomes one decision (HO-02, HO-11).

use super::hold::{self, Reason};
use super::index::Seen;
use super::memory::{Known, Memo};
use super::message;
use super::noting::{about, by_hand, close};
use super::reconcile;
use super::table::{AgentStatus, Folder, MoveRow};
use super::{Handoff, turn, upkeep};
use crate::model::{Bytes, Decision, Digest, Effect, Moment, Now, Rejection, RelPath, RowId};

pub(super) fn take_copy(handoff: &Handoff, path: &RelPath, seen: &Seen, why: &str) -> Decision {
    let mut decision = handoff.builder();
    let found = format!("{why}: {}", seen.message.id);
    let wanted = "each message in one folder only";
    decision.reject(Rejection::new("HO-02", path, found, wanted).with_digest(&seen.digest));
    let (path, seen) = (path.clone(), Some(seen.digest.clone()));
    decision.effect(Effect::Take { path, seen, why: why.to_owned() });
    decision.finish()
}

/// Somebody moved it on, as they may.
pub(super) fn follow(
    handoff: &Handoff,
    id: &str,
    row: &MoveRow,
    path: &RelPath,
    seen: &Seen,
    now: Now,
) -> Decision {
    let known = &handoff.index.memory.open[id];
    let mut decision = handoff.builder();
    decision.row(RowId::new(row.id));
    let same = reconcile::same_words(known, seen);
    if !same {
        decision.reject(altered(path, seen));
    }
    let mut next = Known {
        folder: seen.folder,
        name: path.file_name().to_owned(),
        digest: seen.digest.clone(),
        by_hand: by_hand(handoff, seen.folder, now),
        ..known.clone()
    };
    if !same || seen.message.status != seen.folder {
        let (path, bytes) = (path.clone(), next.bytes_in(next.folder));
        decision.effect(Effect::Replace { path, bytes, seen: same.then(|| seen.digest.clone()) });
        next = next.in_folder(next.folder);
    }
    // Somebody may have accepted and completed it between two looks.
    if known.folder == Folder::Pending && seen.folder != Folder::Rejected {
        handoff.log(
            &mut decision,
            "handoff_accepted",
            Some(seen.message.to),
            &about(&seen.message),
        );
    }
    if handoff.index.memory.running().is_none() && handoff.index.memory.under_way().is_some() {
        let status = match seen.folder {
            Folder::Accepted => AgentStatus::Active,
            Folder::Completed => AgentStatus::Completed,
            Folder::Pending | Folder::Rejected => AgentStatus::Idle,
        };
        upkeep::show_agent(handoff, &mut decision, known.to(), status, now);
    }
    let ours =
        handoff.index.memory.turn.as_ref().is_some_and(|turn| turn.messages().any(|own| own == id));
    if ours || seen.folder == Folder::Accepted {
        decision.remember(Memo::open(id, next));
    } else {
        let how = format!("{} by hand", seen.folder.word());
        close(&mut decision, id, &how);
    }
    decision.finish()
}

fn altered(path: &RelPath, seen: &Seen) -> Rejection {
    let wanted = "what was judged when it came; only `status` ever changes";
    Rejection::new("HO-02", path, "other words in a message", wanted).with_digest(&seen.digest)
}

pub(super) fn put_back(handoff: &Handoff, id: &str, path: &RelPath, seen: &Seen) -> Decision {
    let known = &handoff.index.memory.open[id];
    let mut decision = handoff.builder();
    let found = format!("moved from {}/ to {}/", known.folder.word(), seen.folder.word());
    let wanted = "a move that the table allows, by its recipient (`agency protocol show handoff`)";
    decision.reject(Rejection::new("HO-02", path, found, wanted).with_digest(&seen.digest));
    let bytes = known.bytes_in(known.folder);
    let digest = Digest::of(&bytes.0);
    decision.effect(Effect::Move {
        from: path.clone(),
        to: known.path(),
        bytes,
        seen: seen.digest.clone(),
    });
    decision.remember(Memo::open(id, Known { digest, ..known.clone() }));
    decision.finish()
}

pub(super) fn put_right(handoff: &Handoff, id: &str, path: &RelPath, seen: &Seen) -> Decision {
    let known = &handoff.index.memory.open[id];
    let mut decision = handoff.builder();
    let same = reconcile::same_words(known, seen);
    decision.reject(altered(path, seen));
    let bytes = known.bytes_in(known.folder);
    let digest = Digest::of(&bytes.0);
    let kept = same.then(|| seen.digest.clone());
    decision.effect(Effect::Replace { path: path.clone(), bytes, seen: kept });
    decision.remember(Memo::open(id, Known { digest, ..known.clone() }));
    decision.finish()
}

/// HO-11: a handoff that is nowhere any more. It is written again from the journal, and the owner must look.
pub(super) fn missing(handoff: &Handoff, id: &str, known: &Known, now: Now) -> Option<Decision> {
    if let Some(waiting) = upkeep::wait_first(handoff, id, now) {
        return waiting;
    }
    let mut decision = handoff.builder();
    decision.remember(Memo::Suspect(id.to_string(), None));
    let (path, bytes) = (known.path(), known.bytes_in(known.folder));
    decision.remember(Memo::open(id, known.in_folder(known.folder)));
    decision.effect(Effect::Replace { path: path.clone(), bytes, seen: None });
    let mut reason = Reason::new("HO-11", id, format!("the handoff `{path}` was lost"));
    reason.did = "It is back in its place, from our journal; the workflow is held.".to_owned();
    reason.wont = "We drop no handoff by ourselves; `agency handoff reject` does.".to_owned();
    hold::hold(handoff, &mut decision, reason);
    Some(decision.finish())
}

/// Our move as it failed.
pub(super) struct NotMoved<'a> {
    pub(super) from: &'a RelPath,
    pub(super) to: &'a RelPath,
    pub(super) bytes: &'a Bytes,
    pub(super) seen: &'a Digest,
}

/// Somebody was faster than our move: memory goes back to what it was, and the next look says what is. What is done with
/// must lie in its last folder nevertheless.
pub(super) fn not_moved(handoff: &Handoff, failed: &NotMoved<'_>, now: Now) -> Decision {
    let NotMoved { from, to, bytes, seen } = *failed;
    let mut decision = handoff.builder();
    let id = message::id_of_name(to).unwrap_or_default();
    match (handoff.index.memory.open.get(id), super::folder_of(from)) {
        (Some(known), Some(folder)) => {
            let name = from.file_name().to_owned();
            let known = Known { folder, name, digest: seen.clone(), ..known.clone() };
            decision.remember(Memo::open(id, known));
        }
        _ => {
            let (path, bytes) = (to.clone(), bytes.clone());
            decision.effect(Effect::Replace { path, bytes, seen: None });
        }
    }
    let at_work = handoff.index.memory.turn.as_ref();
    if at_work.is_some_and(|turn| turn.run.is_none() && turn.messages().any(|own| own == id)) {
        turn::leave(handoff, &mut decision, now);
    }
    decision.remember(Memo::Suspect(id.to_string(), Some(Moment::after(now, upkeep::PATIENCE))));
    decision.finish()
}

/// What came right by itself is no longer suspected.
pub(super) fn calm(handoff: &Handoff) -> Option<Decision> {
    let message = |what: &&String| message::is_uuid_4(what) && !handoff.index.dirty.contains(*what);
    let what = handoff.index.memory.suspects.keys().find(message)?;
    let mut decision = handoff.builder();
    decision.remember(Memo::Suspect(what.to_string(), None));
    Some(decision.finish())
}
