//! Does each message lie where memory knows it, once and unchanged? What it finds becomes a decision elsewhere (HO-02).

use super::index::{Index, Seen};
use super::memory::Known;
use super::message;
use super::table::{self, Folder, MoveRow, Who};
use crate::model::RelPath;
use std::collections::BTreeMap;

/// How a message lies.
#[derive(Debug, PartialEq)]
pub(super) enum Finding<'a> {
    Settled,
    /// Nobody knows it yet.
    New(&'a RelPath, &'a Seen),
    /// A copy that must not be there.
    Copy(&'a RelPath, &'a Seen, &'static str),
    /// Somebody moved it on, as the table allows.
    Moved(&'static MoveRow, &'a RelPath, &'a Seen),
    /// Somebody moved it where no row allows.
    Astray(&'a RelPath, &'a Seen),
    /// It lies where it should, with other bytes.
    Changed(&'a RelPath, &'a Seen),
    Missing(&'a Known),
}

pub(super) fn is_settled(index: &Index, id: &str) -> bool {
    find(index, id) == Finding::Settled
}

pub(super) fn find<'a>(index: &'a Index, id: &str) -> Finding<'a> {
    static NOWHERE: BTreeMap<RelPath, Seen> = BTreeMap::new();
    let copies = index.messages.get(id).unwrap_or(&NOWHERE);
    if index.memory.done.contains(id) {
        return of_done(copies);
    }
    match index.memory.open.get(id) {
        None => of_unknown(index, index.history.contains_key(id), copies),
        Some(known) => of_known(index, id, known, copies),
    }
}

fn of_done(copies: &BTreeMap<RelPath, Seen>) -> Finding<'_> {
    let back = copies.iter().find(|(_, seen)| !is_final(seen.folder));
    back.map_or(Finding::Settled, |(path, seen)| {
        Finding::Copy(path, seen, "a message that was dealt with before")
    })
}

fn of_unknown<'a>(
    index: &Index,
    is_history: bool,
    copies: &'a BTreeMap<RelPath, Seen>,
) -> Finding<'a> {
    // The furthest copy counts. One that lies in a final folder is history, and what lies before it is an older copy.
    let mut by_stage: Vec<_> = copies.iter().collect();
    by_stage.sort_by_key(|(path, seen)| (seen.folder, *path));
    let has_older = by_stage.len() > 1 || is_history;
    match (by_stage.first().copied(), by_stage.last().copied()) {
        (Some((path, seen)), _) if has_older && !is_final(seen.folder) => {
            Finding::Copy(path, seen, "an older copy of a message")
        }
        (_, None) => Finding::Settled,
        (_, Some((_, seen))) if is_final(seen.folder) => Finding::Settled,
        (_, Some((path, seen))) => match seen.folder {
            Folder::Accepted if !may_move(index, seen.message.to) => {
                Finding::Copy(path, seen, "a message begins in pending/")
            }
            Folder::Pending | Folder::Accepted | Folder::Completed | Folder::Rejected => {
                Finding::New(path, seen)
            }
        },
    }
}

fn of_known<'a>(
    index: &'a Index,
    id: &str,
    known: &'a Known,
    copies: &'a BTreeMap<RelPath, Seen>,
) -> Finding<'a> {
    let place = known.path();
    let here = copies.get_key_value(&place);
    let elsewhere = || copies.iter().filter(|(path, _)| **path != place);
    let to = known.to();
    let moved = elsewhere().find_map(|(path, seen)| {
        let row = table::find_way(known.folder, seen.folder, to)?;
        may_move(index, to).then_some((row, path, seen))
    });
    match (moved, here, elsewhere().next()) {
        (Some((row, path, seen)), ..) => Finding::Moved(row, path, seen),
        (None, Some(_), Some((path, seen))) => {
            Finding::Copy(path, seen, "a second copy of a message")
        }
        (None, None, Some((path, seen))) => Finding::Astray(path, seen),
        (None, Some((_, seen)), None) if seen.digest == known.digest => Finding::Settled,
        (None, Some((path, seen)), None) => Finding::Changed(path, seen),
        (None, None, None) if index.odd.contains_key(&place) || index.awaited.contains(id) => {
            Finding::Settled
        }
        (None, None, None) => Finding::Missing(known),
    }
}

/// A message is its recipient's to move; when nobody of ours runs, a person may do it in their place.
fn may_move(index: &Index, to: Who) -> bool {
    to != Who::Orchestrator && index.memory.running().is_none_or(|(turn, _)| turn.who == to)
}

fn is_final(folder: Folder) -> bool {
    matches!(folder, Folder::Completed | Folder::Rejected)
}

/// Do these say the same, apart from where they are?
pub(super) fn same_words(known: &Known, seen: &Seen) -> bool {
    message::core(&known.document) == message::core(&seen.message.document)
}
