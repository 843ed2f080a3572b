//! What must hold before a flag is accepted beyond its own words: our own checks pass (LP-22), and the run did not loosen them
//! (LP-30). Gates are the owner's command lines, run by us in the tree that was judged.

use super::{
    GateTree, ReviewLoop, base, detect,
    hold::{self, Reason},
    memory::{Checks, Failed, Refusals, Turn},
    run_changes,
    table::FlagStatus,
};
use crate::model::{
    Access, Builder, CHECKS_TREE, CleanState, CleanTree, CommandLine, Decision, Digest, Effect,
    Fact, Now, Outcome, Query, Rejection, RunEnd, RunId, Seat, Severity, Spawn, TreeId, TreeRef,
    WrittenBy, clip, further, to_compare, weakened,
};

const LABEL: &str = "loop-gates";
/// What of a failed gate's output its agent sees.
const TAIL_MAX: usize = 8 * 1024;

/// How a flag stands against the checks.
pub(super) enum GateResult {
    Passed,
    /// There is something to do first, or to wait for.
    Open(Decision),
    Refused(Rejection),
}

/// The first check that is still open.
pub(super) fn stand(
    review_loop: &ReviewLoop,
    turn: &Turn,
    said: FlagStatus,
    flag: &Digest,
) -> GateResult {
    let checks = checks_of(turn, flag);
    if checks.weakened.is_none()
        && let Some(decision) = compare(review_loop, turn, &checks)
    {
        return GateResult::Open(decision);
    }
    match said {
        FlagStatus::Executed | FlagStatus::VerifiedClean => run(review_loop, turn, &checks),
        FlagStatus::Proposed
        | FlagStatus::Approved
        | FlagStatus::Reviewed
        | FlagStatus::Revised => GateResult::Passed,
    }
}

/// What was checked for another flag says nothing about this one.
fn checks_of(turn: &Turn, flag: &Digest) -> Checks {
    let known = turn.checks.clone().filter(|checks| checks.flag == *flag);
    known.unwrap_or_else(|| Checks::new(flag.clone()))
}

/// LP-30: an agent's change never loosens what judges it.
fn compare(review_loop: &ReviewLoop, turn: &Turn, checks: &Checks) -> Option<Decision> {
    let (left, start) = (turn.left.as_ref()?, turn.start.as_ref()?);
    let gates = gates(review_loop);
    let paths = to_compare(&left.changed, &gates);
    if paths.is_empty() {
        return None;
    }
    let asked = match review_loop.index.answer.as_deref() {
        Some((_, Query::Sides { from, to, paths: asked }, fact))
            if (from, to) == (&start.head, &left.tree)
                && paths.iter().all(|path| asked.contains(path)) =>
        {
            Some((asked, fact))
        }
        _ => None,
    };
    let ask = |paths| {
        let mut decision = review_loop.builder();
        let (from, to) = (start.head.clone(), left.tree.clone());
        decision.effect(Effect::Ask { query: Query::Sides { from, to, paths } });
        Some(decision.finish())
    };
    let Some((asked, fact)) = asked else { return ask(paths) };
    if let Fact::GitHeld(_) = fact {
        return Some(run_changes::cannot_look(review_loop, fact));
    }
    if let Fact::Sides(sides) = fact {
        // What a gate's script sources is known only when that script has been read.
        let more = further(sides, &gates, asked);
        if !more.is_empty() {
            return ask([asked.clone(), more].concat());
        }
    }
    let found = if let Fact::Sides(sides) = fact {
        weakened(sides, &gates)
    } else {
        vec![format!("the change could not be compared: {}", clip(&format!("{fact:?}"), 160))]
    };
    let mut decision = review_loop.builder();
    // What was found is remembered instead of the answer, which holds whole files.
    let next = Checks { weakened: Some(found.clone()), ..checks.clone() };
    decision.remember("turn", Turn { checks: Some(next), ..turn.clone() });
    if !found.is_empty() {
        hold::hold(review_loop, &mut decision, loosened(checks, found));
    }
    Some(decision.finish())
}

fn loosened(checks: &Checks, found: Vec<String>) -> Reason {
    let summary = format!("the run weakened its own checks: {}", found.join("; "));
    let mut reason = Reason::new("LP-30", checks.flag.short(), summary);
    reason.evidence = found;
    reason.wont = "We accept no work on the word of checks that it changed; resume accepts them as they are now.".to_owned();
    reason
}

/// LP-22: each gate in turn, then once more a look that none of them changed what was judged.
fn run(review_loop: &ReviewLoop, turn: &Turn, checks: &Checks) -> GateResult {
    if let Some(failed) = &checks.failed {
        return GateResult::Refused(refusal(failed));
    }
    if checks.running.is_some() {
        return GateResult::Open(Decision::default());
    }
    let gates = gates(review_loop);
    if gates.is_empty() {
        return said_once(review_loop);
    }
    if let Some(cause) = &review_loop.index.memory.told_of_gates {
        let mut decision = review_loop.builder();
        decision.forget("told-of-gates");
        let how = "there are gates now".to_owned();
        decision.effect(Effect::Resolve { cause: cause.clone(), how });
        return GateResult::Open(decision.finish());
    }
    match gates.iter().find(|gate| !checks.passed.contains(gate)) {
        Some(gate) => GateResult::Open(start(review_loop, turn, checks, gate)),
        None => untouched(review_loop, turn, checks),
    }
}

fn refusal(failed: &Failed) -> Rejection {
    let found = format!("`{}` {}", clip(&failed.gate, 120), failed.how);
    Rejection::new("LP-22", &ReviewLoop::flag_path(), found, "every gate to exit with 0")
}

/// Nothing to run is not a pass: the owner is told, once.
fn said_once(review_loop: &ReviewLoop) -> GateResult {
    if review_loop.index.memory.told_of_gates.is_some() {
        return GateResult::Passed;
    }
    let mut decision = review_loop.builder();
    decision.remember("told-of-gates", hold::cause(review_loop, "LP-22", "gates"));
    let summary = "no gate is configured or found: work is accepted unchecked".to_owned();
    let mut reason = Reason::new("LP-22", "gates", summary);
    reason.did = "The flag is judged by its own rules and by the reviewer alone.".to_owned();
    reason.wont = "We count no check that did not run; set `loop.gates`.".to_owned();
    hold::tell(review_loop, &mut decision, Severity::Notice, reason);
    GateResult::Open(decision.finish())
}

fn start(review_loop: &ReviewLoop, turn: &Turn, checks: &Checks, gate: &str) -> Decision {
    let mut decision = review_loop.builder();
    let tree = turn.left.as_ref().map(|left| left.tree.clone());
    let state = if checks.passed.is_empty() { CleanState::Fresh } else { CleanState::Continued };
    let why = format!("the gate `{}` must pass first", clip(gate, 120));
    let run = spawn(review_loop, &mut decision, gate, why, clean(review_loop, tree, state));
    let checks = Checks { running: Some((run, gate.to_owned())), ..checks.clone() };
    decision.remember("turn", Turn { checks: Some(checks), ..turn.clone() });
    decision.finish()
}

/// LP-33: the gate on the commit that the loop begins from.
pub(super) fn start_on_base(review_loop: &ReviewLoop, gate: String) -> Decision {
    let mut decision = review_loop.builder();
    let why = format!("the gate `{}` must pass before the first agent", clip(&gate, 120));
    let is_first = review_loop.index.memory.base.as_ref().is_none_or(|base| base.passed.is_empty());
    let state = if is_first { CleanState::Fresh } else { CleanState::Continued };
    let clean = clean(review_loop, None, state);
    let run = spawn(review_loop, &mut decision, &gate, why, clean);
    base::running(review_loop, &mut decision, run, gate);
    decision.finish()
}

/// LP-34: without a commit there is nothing to check out.
fn clean(review_loop: &ReviewLoop, tree: Option<TreeId>, state: CleanState) -> Option<CleanTree> {
    let is_clean = review_loop.place.git && review_loop.limits.gate_tree == GateTree::Clean;
    let clean = CleanTree { tree, state, setup: review_loop.limits.setup.clone() };
    (is_clean && review_loop.index.head().is_some()).then_some(clean)
}

fn spawn(
    review_loop: &ReviewLoop,
    decision: &mut Builder,
    gate: &str,
    why: String,
    clean: Option<CleanTree>,
) -> RunId {
    let run = RunId::new(format!("{}-{}", review_loop.place.repo, decision.key()));
    let state = review_loop.index.memory.state.as_ref();
    decision.effect(Effect::Spawn(Box::new(Spawn {
        run: run.clone(),
        seat: Seat::new("gate"),
        role: "gate".to_owned(),
        tree: match clean {
            Some(_) => TreeRef::Worktree(CHECKS_TREE.to_owned()),
            None => TreeRef::Main,
        },
        task: state.map(|state| state.current_step.clone()).unwrap_or_default(),
        phase: state.map_or("", |state| state.phase.word()).to_owned(),
        prompt: String::new(),
        why,
        resume: None,
        command: Some(CommandLine {
            line: gate.to_owned(),
            by: WrittenBy::Owner,
            timeout_s: review_loop.limits.gate_timeout.as_secs(),
            clean,
        }),
        access: Access::Write,
    })));
    run
}

/// A gate of ours has ended: remember how, whatever else is going on.
pub(super) fn note_end(review_loop: &ReviewLoop, _: Now) -> Option<Decision> {
    let end = review_loop.index.ended.as_ref()?;
    noted(review_loop, end)
}

/// It could not even be started.
pub(super) fn spawn_failed(
    review_loop: &ReviewLoop,
    run: &RunId,
    said: &str,
    now: Now,
) -> Option<Decision> {
    let outcome = Outcome::Crash { how: said.to_owned() };
    let (tail, usage) = (said.to_owned(), Default::default());
    noted(
        review_loop,
        &RunEnd {
            run: run.clone(),
            outcome,
            ended_at: now.wall,
            tail,
            exit_code: None,
            usage,
            said: None,
        },
    )
}

fn noted(review_loop: &ReviewLoop, end: &RunEnd) -> Option<Decision> {
    if let Some(decision) = base::noted(review_loop, end) {
        return Some(decision);
    }
    let mut turn = review_loop.index.memory.turn.clone()?;
    let checks = turn.checks.as_mut()?;
    let (_, gate) = checks.running.take_if(|(run, _)| *run == end.run)?;
    match &end.outcome {
        Outcome::Ok => checks.passed.push(gate),
        // Nobody saw how it ended: it is run again.
        Outcome::Lost => {}
        failed @ (Outcome::Crash { .. }
        | Outcome::Timeout { .. }
        | Outcome::Stopped { .. }
        | Outcome::UsageLimit { .. }
        | Outcome::Provider { .. }
        | Outcome::NotFound { .. }
        | Outcome::Auth { .. }
        | Outcome::Denied { .. }) => {
            let failed = failure(&gate, failed, &end.tail);
            if base::accepts(review_loop, &failed) {
                checks.passed.push(gate);
            } else {
                checks.failed = Some(failed);
            }
        }
    }
    let mut decision = review_loop.builder();
    decision.remember("turn", turn);
    Some(decision.finish())
}

/// SU-11: a gate that does not pass has not crashed.
pub(super) fn failure(gate: &str, outcome: &Outcome, tail: &str) -> Failed {
    let how = if let Outcome::Crash { how } = outcome { how.clone() } else { outcome.sentence() };
    Failed { gate: gate.to_owned(), how, output: clip_start(tail) }
}

/// The end of a long output is what tells.
fn clip_start(text: &str) -> String {
    let cut = text.len().saturating_sub(TAIL_MAX);
    let at = (cut..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    text[at..].to_owned()
}

/// A gate that changed the tree has judged another one than the one we would commit.
fn untouched(review_loop: &ReviewLoop, turn: &Turn, checks: &Checks) -> GateResult {
    let Some(left) = turn.left.as_ref().filter(|_| review_loop.place.git && !checks.untouched)
    else {
        return GateResult::Passed;
    };
    let Some((key, fact)) = run_changes::answer(review_loop, LABEL) else {
        let since = Some(left.tree.clone());
        return GateResult::Open(run_changes::ask_snapshot(review_loop, LABEL.to_owned(), since));
    };
    let Fact::Snapshot(snapshot) = fact else {
        return GateResult::Open(run_changes::cannot_look(review_loop, fact));
    };
    let mut decision = review_loop.builder();
    decision.used(key.clone(), fact.clone());
    let mut next = checks.clone();
    if snapshot.changed.is_empty() {
        next.untouched = true;
    } else {
        next.passed.clear();
    }
    decision.remember("turn", Turn { checks: Some(next), ..turn.clone() });
    if !snapshot.changed.is_empty() {
        let paths: Vec<_> =
            snapshot.changed.iter().take(10).map(|c| format!("`{}`", c.path)).collect();
        let summary = format!("files changed while the gates ran: {}", paths.join(", "));
        let mut reason = Reason::new("LP-22", checks.flag.short(), summary);
        reason.wont = "We commit only the tree that the gates have seen: let gates write nothing, or ignore what they write; \
                       resume runs them again."
            .to_owned();
        hold::hold(review_loop, &mut decision, reason);
    }
    GateResult::Open(decision.finish())
}

/// What the next prompt says of a refusal by a gate.
pub(super) fn refusals(in_a_row: u32, words: String, turn: &Turn) -> Refusals {
    let failed = turn.checks.as_ref().and_then(|checks| checks.failed.as_ref());
    let output = failed.map(|failed| failed.output.clone());
    Refusals { in_a_row, last: Some(words), output }
}

/// The owner's own, else what was found when the owner last had a say and what has come on top of it since.
pub(super) fn gates(review_loop: &ReviewLoop) -> Vec<String> {
    if review_loop.limits.gates.is_empty() {
        review_loop.index.memory.gates.clone()
    } else {
        review_loop.limits.gates.clone()
    }
}

/// The same with those that are found now.
pub(super) fn all(review_loop: &ReviewLoop) -> Vec<String> {
    found_now(review_loop).unwrap_or_else(|| gates(review_loop))
}

/// What is found now, on top of what was found before: a gate may come by anybody, and go only by the owner.
pub(super) fn found_now(review_loop: &ReviewLoop) -> Option<Vec<String>> {
    let known = &review_loop.index.memory.gates;
    let new: Vec<_> =
        detect::gates(review_loop).into_iter().filter(|gate| !known.contains(gate)).collect();
    (!new.is_empty() && review_loop.limits.gates.is_empty()).then(|| [known.clone(), new].concat())
}
