//! Which protocols a repository uses, found by content: many repositories have a file of the right name that is something else.
//! It reads nothing: the caller shows it the files that it asks for.

use crate::model::{RelPath, Shape, WatchedFile, WatchedTree, without_bom};
use crate::protocol::{board, codifica, handoff, ledger, review_loop};
use serde_json::Value;

/// A file that shows that a protocol is in use, if its content fits.
struct Mark {
    protocol: &'static str,
    path: &'static str,
    fits: fn(&[u8]) -> bool,
}

const MARKS: &[Mark] = &[
    Mark { protocol: review_loop::NAME, path: review_loop::STATE, fits: is_loop_state },
    Mark { protocol: handoff::NAME, path: handoff::state::PATH, fits: handoff::state::is_ours },
    Mark { protocol: ledger::NAME, path: ledger::PROGRESS, fits: is_ledger_progress },
    Mark { protocol: codifica::NAME, path: codifica::FILE, fits: is_codifica },
    Mark { protocol: board::NAME, path: board::manifest::PATH, fits: is_manifest },
];

const MARK_MAX: u64 = 1 << 20;

/// The files that must be looked at to know.
pub fn marks() -> Vec<WatchedFile> {
    let watched = |mark: &Mark| WatchedFile {
        path: RelPath::fixed(mark.path),
        shape: Shape::Json,
        limit: MARK_MAX,
    };
    MARKS.iter().map(watched).collect()
}

/// Folders whose files show a protocol too, with its name: a message may come before any state (HO-14).
pub fn marked_trees() -> Vec<(&'static str, WatchedTree)> {
    let messages = WatchedTree {
        root: RelPath::fixed(handoff::PENDING),
        endings: vec![".json".to_owned()],
        shape: Shape::Json,
        limit: MARK_MAX,
    };
    vec![(handoff::NAME, messages)]
}

/// Agents of this protocol work in worktrees and, by our own command, change files of the owner's tree and push them: Codifica's
/// state files.
pub fn edits_main_tree(protocol: &str) -> bool {
    protocol == codifica::NAME
}

/// The protocol that this file shows, if any. A byte-order mark hides none: its protocol must come to work to refuse the file.
pub fn protocol_of(path: &RelPath, bytes: &[u8]) -> Option<&'static str> {
    let bytes = without_bom(bytes);
    if is_pending_message(path) {
        return handoff::message::looks_like_one(bytes).then_some(handoff::NAME);
    }
    mark_at(path).filter(|mark| (mark.fits)(bytes)).map(|mark| mark.protocol)
}

/// The protocol that a file of this name would show.
pub fn marked(path: &RelPath) -> Option<&'static str> {
    if is_pending_message(path) {
        return Some(handoff::NAME);
    }
    mark_at(path).map(|mark| mark.protocol)
}

fn is_pending_message(path: &RelPath) -> bool {
    handoff::folder_of(path) == Some(handoff::table::Folder::Pending)
}

fn mark_at(path: &RelPath) -> Option<&'static Mark> {
    MARKS.iter().find(|mark| mark.path == path.as_str())
}

fn is_loop_state(bytes: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return false };
    ["currentStep", "phase", "activeAgent"].iter().all(|name| fields.contains_key(*name))
}

/// Alone neither a feature list nor reviews show it: too many other tools keep files of these names.
fn is_ledger_progress(bytes: &[u8]) -> bool {
    ledger::Progress::read(bytes).is_ok()
}

fn is_codifica(bytes: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return false };
    fields.get("protocol").and_then(Value::as_str) == Some(codifica::NAME)
}

/// Of any version: one that we cannot work by is told, not passed over.
fn is_manifest(bytes: &[u8]) -> bool {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return false };
    let protocol = fields.get("protocol").and_then(Value::as_str);
    protocol.is_some_and(|protocol| protocol.starts_with("agency/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: DM-01
    #[test]
    fn a_protocol_is_known_by_content_not_by_name() {
        let path = RelPath::fixed(review_loop::STATE);
        let ours = br#"{"currentStep":"1","phase":"propose","activeAgent":"codex"}"#;
        assert_eq!(protocol_of(&path, ours), Some("loop"));
        assert_eq!(protocol_of(&path, &[b"\xef\xbb\xbf", &ours[..]].concat()), Some("loop"));
        for other in [&b"[]"[..], b"{}", b"{\"state\":\"idle\",\"phase\":3}", b"not json", b""] {
            assert_eq!(protocol_of(&path, other), None);
        }
        assert_eq!(protocol_of(&RelPath::fixed("package.json"), ours), None);
        let state = RelPath::fixed(handoff::state::PATH);
        let relay = br#"{"schema_version":"1.0.0","current_workflow":null,"locks":{}}"#;
        assert_eq!(protocol_of(&state, relay), Some("handoff"));
        for other in [&b"{\"locks\":{}}"[..], b"{\"schema_version\":\"2.0.0\",\"locks\":{}}", b"[]"]
        {
            assert_eq!(protocol_of(&state, other), None, "another tool's file of that name");
        }
        let board = RelPath::fixed(board::manifest::PATH);
        assert_eq!(protocol_of(&board, br#"{"protocol":"agency/2.0"}"#), Some("board"));
        assert_eq!(protocol_of(&board, br#"{"protocol":"other/1.0"}"#), None);
    }
}
