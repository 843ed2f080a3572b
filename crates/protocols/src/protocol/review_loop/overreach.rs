//! LP-31: in `propose` and `review`, and for the reviewer in every phase, a run changes only its own review file. Everything else
//! that it changed is put back. SPEC GAP: the spec only says who writes which review file.

use super::{
    CODEBASE, COMMENTS, MANDATES, RESPONSE, ReviewLoop, STATE, flag,
    hold::{self, Reason},
    memory::{ABSENT, Left, LoopState, Overreach, Refusals, Turn},
    run_changes,
    table::{Holder, Phase},
    transition,
    turn::review_file,
};
use crate::model::{
    Builder, Change, CommitId, Decision, Digest, Effect, Fact, Now, Query, Rejection, RelPath,
    Severity, Sides, Snapshot, TreeId,
};

/// Where old versions of review files go; agents may archive there too (spec 1 §4).
const ARCHIVE: &str = "reviews/";
const PLAIN: &str = "100644";

/// The holder of this turn may change only its own files.
pub(super) fn binds(state: &LoopState) -> bool {
    match (state.phase, state.active_agent) {
        (Phase::Propose | Phase::Review, _) | (Phase::Verify, Holder::Reviewer) => true,
        (Phase::Execute, _) | (Phase::Verify, Holder::Builder) | (Phase::Complete, _) => false,
    }
}

fn is_allowed(state: &LoopState, change: &Change) -> bool {
    let path = change.path.as_str();
    // The state and the mandates have rules of their own (LP-11, LP-12).
    let own = [flag::PATH, STATE, MANDATES, review_file(state.active_agent)].contains(&path);
    let map = path == CODEBASE && state.active_agent == Holder::Builder;
    own || map || (change.new && path.starts_with(ARCHIVE))
}

/// What the run that has just ended changed without leave.
pub(super) fn of(
    review_loop: &ReviewLoop,
    before: &TreeId,
    snapshot: &Snapshot,
) -> Option<Overreach> {
    let state = review_loop.index.memory.state.as_ref().filter(|state| binds(state))?;
    let changes = snapshot.changed.iter().filter(|change| !is_allowed(state, change));
    let paths: Vec<RelPath> = changes.map(|change| change.path.clone()).collect();
    let (before, after) = (before.clone(), snapshot.tree.clone());
    (!paths.is_empty()).then_some(Overreach { before, after, paths })
}

/// The owner has changed some of it since: that is the owner's now.
pub(super) fn without(overreach: Option<&Overreach>, since: &[Change]) -> Option<Overreach> {
    let mut left = overreach?.clone();
    left.paths.retain(|path| !since.iter().any(|change| change.path == *path));
    (!left.paths.is_empty()).then_some(left)
}

/// Puts everything back as it was when the run began; what lay there is kept in quarantine, and the flag is refused.
pub(super) fn put_back(review_loop: &ReviewLoop, turn: &Turn, _: Now) -> Option<Decision> {
    let left = turn.left.as_ref()?;
    let overreach = left.overreach.as_ref()?;
    let query = Query::Sides {
        from: Some(CommitId::new(overreach.before.as_str())),
        to: overreach.after.clone(),
        paths: overreach.paths.clone(),
    };
    let fact = match review_loop.index.answer.as_deref() {
        Some((_, asked, fact)) if *asked == query => fact,
        _ => {
            let mut decision = review_loop.builder();
            decision.effect(Effect::Ask { query });
            return Some(decision.finish());
        }
    };
    let next = Turn { left: Some(cleared(left, overreach)), ..turn.clone() };
    match fact {
        Fact::Sides(sides) if is_plain(left, overreach) => {
            Some(restore(review_loop, &next, overreach, sides))
        }
        Fact::GitHeld(_) => Some(run_changes::cannot_look(review_loop, fact)),
        Fact::Sides(_)
        | Fact::Snapshot(_)
        | Fact::Planned(_)
        | Fact::Yes
        | Fact::No
        | Fact::Digest(_)
        | Fact::Lines(_)
        | Fact::File(_)
        | Fact::Changes(_)
        | Fact::Paths(_)
        | Fact::Tip(_)
        | Fact::Branches(_)
        | Fact::Commits(_)
        | Fact::Conflict(_)
        | Fact::NoGit
        | Fact::Unknown(_) => {
            let mut decision = review_loop.builder();
            decision.remember("turn", Turn { left: Some(accepted(left)), ..turn.clone() });
            hold::hold(review_loop, &mut decision, cannot(turn, overreach));
            Some(decision.finish())
        }
    }
}

/// Links, programs and nested repositories cannot be written back as plain files.
fn is_plain(left: &Left, overreach: &Overreach) -> bool {
    let changes = left.changed.iter().filter(|change| overreach.paths.contains(&change.path));
    changes.filter_map(|change| change.to.as_ref()).all(|(mode, _)| mode == PLAIN)
}

fn cleared(left: &Left, overreach: &Overreach) -> Left {
    let mut left = accepted(left);
    left.changed.retain(|change| !overreach.paths.contains(&change.path));
    left
}

fn accepted(left: &Left) -> Left {
    Left { overreach: None, ..left.clone() }
}

fn restore(
    review_loop: &ReviewLoop,
    next: &Turn,
    overreach: &Overreach,
    sides: &[Sides],
) -> Decision {
    let mut decision = review_loop.builder();
    let rejection = rejection(review_loop, overreach);
    for side in sides {
        let path = side.path.clone();
        match (&side.before, &side.after) {
            // Nothing is named as seen, so that the run's bytes are kept.
            (Some(bytes), _) => {
                decision.effect(Effect::Replace { path, bytes: bytes.clone(), seen: None });
            }
            (None, Some(after)) => {
                let (seen, why) = (Some(Digest::of(&after.0)), rejection.to_string());
                decision.effect(Effect::Take { path, seen, why });
            }
            (None, None) => {}
        }
        note_author(&mut decision, side);
    }
    let kept: Vec<&RelPath> =
        sides.iter().filter(|side| side.after.is_some()).map(|side| &side.path).collect();
    if !kept.is_empty() {
        let (name, tree) = (kept_ref(overreach), CommitId::new(overreach.after.as_str()));
        decision.effect(Effect::Ref { name, was: None, to: Some(tree) });
    }
    match review_loop.index.whole(flag::PATH) {
        Some(file) => {
            transition::refuse_in(review_loop, &mut decision, next, rejection, Some(&file.digest))
        }
        None => {
            let last = Some(rejection.to_string());
            let refusals =
                Refusals { last, output: None, ..review_loop.index.memory.refusals.clone() };
            decision.reject(rejection);
            decision.remember("refusals", refusals);
            decision.remember("turn", next);
        }
    }
    let mut reason = put_back_reason(review_loop, overreach, &kept);
    // The same bytes may be put back again in a later try: each time is told.
    reason.subject = decision.key().to_owned();
    hold::tell(review_loop, &mut decision, Severity::Warning, reason);
    decision.finish()
}

/// Keeps the tree with the bytes that were put back from git's garbage collection.
fn kept_ref(overreach: &Overreach) -> String {
    let short = overreach.after.as_str().get(..12).unwrap_or(overreach.after.as_str());
    format!("refs/agency/put-back/{short}")
}

/// The owner hears it, too: what they edited during the run was put back with the agent's changes.
fn put_back_reason(review_loop: &ReviewLoop, overreach: &Overreach, kept: &[&RelPath]) -> Reason {
    let state = review_loop.index.memory.state.as_ref();
    let (who, doing) = state
        .map_or(("the agent", "review"), |state| (state.active_agent.word(), state.phase.word()));
    let summary = format!(
        "agency put back what changed in `{doing}` while {who} worked: {}",
        names(overreach)
    );
    let mut reason = Reason::new("LP-31", overreach.after.as_str(), summary);
    reason.what = format!(
        "In `{doing}`, {who} may change only its own review file. These files changed while it worked: {}.",
        names(overreach)
    );
    reason.wont = "agency cannot tell whether an agent or you edited a file during a run. Restore your edits while no agent \
                   works here (`agency pause`), or make them in another worktree."
        .to_owned();
    let name = kept_ref(overreach);
    reason.did = match kept {
        [] => "The deleted files are there again; the run's result does not count.".to_owned(),
        _ => {
            format!("The run's result does not count. The bytes as they were are kept in `{name}`.")
        }
    };
    let words: Vec<String> = kept.iter().take(10).map(|path| one_word(path.as_str())).collect();
    reason.command =
        (!words.is_empty()).then(|| format!("git restore --source={name} -- {}", words.join(" ")));
    if kept.len() > words.len() {
        reason.evidence = vec![format!("git ls-tree -r {name} lists every file that is kept")];
    }
    reason
}

/// One word for a shell.
fn one_word(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@".contains(c);
    if path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// The other agent's review file is as its author left it, by our own hand (LP-17).
fn note_author(decision: &mut Builder, side: &Sides) {
    if [COMMENTS, RESPONSE].contains(&side.path.as_str()) {
        let digest = side.before.as_ref().map(|bytes| Digest::of(&bytes.0).to_string());
        let known = digest.unwrap_or_else(|| ABSENT.to_owned());
        decision.remember(&format!("authored/{}", side.path), known);
    }
}

fn rejection(review_loop: &ReviewLoop, overreach: &Overreach) -> Rejection {
    let holder =
        review_loop.index.memory.state.as_ref().map_or(Holder::Builder, |state| state.active_agent);
    let wanted = match holder {
        Holder::Builder => {
            format!("changes in `{RESPONSE}` and `{CODEBASE}` only; they were put back")
        }
        Holder::Reviewer => format!("changes in `{COMMENTS}` only; they were put back"),
    };
    let found = format!("the run changed {}", names(overreach));
    Rejection::new("LP-31", &ReviewLoop::flag_path(), found, &wanted)
}

fn names(overreach: &Overreach) -> String {
    let shown = overreach.paths.iter().take(10).map(|path| format!("`{path}`"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if let Some(more) = overreach.paths.len().checked_sub(10).filter(|more| *more > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn cannot(turn: &Turn, overreach: &Overreach) -> Reason {
    let summary = format!("the run changed {}, which agency cannot put back", names(overreach));
    let mut reason = Reason::new("LP-31", turn.opened.to_rfc3339(), summary);
    reason.wont = "Only plain files of at most 1 MiB are put back. Put them back yourself, or keep them: resume accepts \
                   them as they are then."
        .to_owned();
    reason
}
