//! AG-11: an artifact that claims a verify of ours and that we did not write goes to quarantine; the committed bytes come back. One
//! whose bytes are committed is a colleague's: it never counts, and it stays where it is.

use super::Board;
use super::names::TaskId;
use super::tell::{self, Reason};
use crate::model::{Bytes, Decision, Digest, Effect, Fact, Query, Rejection, RelPath, Severity};

/// An artifact in the owner's tree that is neither as we wrote it nor as it was committed.
pub(super) struct Forged<'a> {
    path: &'a RelPath,
    task: &'a TaskId,
    digest: &'a Digest,
    /// What the commit that is checked out has there.
    committed: Option<&'a Bytes>,
}

/// The first one. `Err`: git is asked what is committed there.
pub(super) fn first(board: &Board) -> Result<Option<Forged<'_>>, Box<Decision>> {
    let Some((path, task, digest)) = board.index.forged_artifact() else { return Ok(None) };
    let head = match &board.index.checkout {
        Some(checkout) => checkout.head.as_ref(),
        None if board.place.git => return Ok(None),
        None => None,
    };
    let committed = match head {
        None => None,
        Some(head) => {
            let query = Query::FileAt { commit: head.clone(), path: path.clone() };
            // Without an answer from git nothing is taken away: the artifact does not count in any case.
            let Fact::File(found) = board.ask(query)? else { return Ok(None) };
            found.as_ref()
        }
    };
    Ok(Some(Forged { path, task, digest, committed }))
}

pub(super) fn put_right(board: &Board, forged: &Forged<'_>) -> Decision {
    let Forged { path, task, digest, committed } = forged;
    let mut decision = board.builder();
    decision.forget("suspect");
    let wanted = "artifacts as `agency verify` wrote them";
    let rejection =
        Rejection::new("AG-11", path, format!("a verify of {task} that is not ours"), wanted);
    decision.reject(rejection.with_digest(digest));
    let path = (*path).clone();
    let changed = board.index.written_artifact(task, &path).is_some();
    let found = match changed {
        true => {
            format!("`{path}`, the verify of {task}, was changed by something other than `agency`")
        }
        false => format!("`{path}` claims a verify of {task} that `agency` did not run"),
    };
    let mut reason = Reason::new("AG-11", format!("{path} {}", digest.short()), found);
    reason.did = match committed {
        Some(_) => "The foreign bytes are in quarantine; the committed artifact is back.",
        None => "The file is in quarantine, with its bytes.",
    }
    .to_owned();
    reason.wont = "An artifact that we did not write never counts for DONE.".to_owned();
    reason.resolve = format!("agency task show {task}");
    decision.effect(match committed {
        // Not the digest of what lies there: the foreign bytes are to be kept as evidence.
        Some(bytes) => Effect::Replace { path, bytes: (*bytes).clone(), seen: None },
        None => {
            let why = "AG-11: an artifact that we did not write".to_owned();
            Effect::Take { path, seen: Some((*digest).clone()), why }
        }
    });
    tell::tell(board, &mut decision, Severity::Warning, reason);
    decision.finish()
}
