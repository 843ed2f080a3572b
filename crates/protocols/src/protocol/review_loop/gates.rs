//! What must hold before a flag is accepted beyond its own words: our own checks pass (LP-22), and the run did not loosen them
//! (LP-30). Gates are the owner's command lines, run by us in the tree that was judged.

use super::{
    GateTree, ReviewLoop, base, detect,
    hold::{self, Reason},
    leavings,
    memory::{Checks, Failed, Refusals, Turn},
    table::Said,
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
pub(super) enum Stand {
    Passed,
    /// There is something to do first, or to wait for.
    Open(Decision),
    Refused(Rejection),
}

/// The first check that is still open.
pub(super) fn stand(it: &ReviewLoop, turn: &Turn, said: Said, flag: &Digest) -> Stand {
    let checks = checks_of(turn, flag);
    if checks.weakened.is_none()
        && let Some(decision) = compare(it, turn, &checks)
    {
        return Stand::Open(decision);
    }
    match said {
        Said::Executed | Said::VerifiedClean => run(it, turn, &checks),
        Said::Proposed | Said::Approved | Said::Reviewed | Said::Revised => Stand::Passed,
    }
}

/// What was checked for another flag says nothing about this one.
fn checks_of(turn: &Turn, flag: &Digest) -> Checks {
    let known = turn.checks.clone().filter(|checks| checks.flag == *flag);
    known.unwrap_or_else(|| Checks::new(flag.clone()))
}

/// LP-30: an agent's change never loosens what judges it.
fn compare(it: &ReviewLoop, turn: &Turn, checks: &Checks) -> Option<Decision> {
    let (left, start) = (turn.left.as_ref()?, turn.start.as_ref()?);
    let gates = gates(it);
    let paths = to_compare(&left.changed, &gates);
    if paths.is_empty() {
        return None;
    }
    let asked = match it.index.answer.as_deref() {
        Some((_, Query::Sides { from, to, paths: asked }, fact))
            if (from, to) == (&start.head, &left.tree)
                && paths.iter().all(|path| asked.contains(path)) =>
        {
            Some((asked, fact))
        }
        _ => None,
    };
    let ask = |paths| {
        let mut decision = it.builder();
        let (from, to) = (start.head.clone(), left.tree.clone());
        decision.effect(Effect::Ask { query: Query::Sides { from, to, paths } });
        Some(decision.finish())
    };
    let Some((asked, fact)) = asked else { return ask(paths) };
    if let Fact::GitHeld(_) = fact {
        return Some(leavings::cannot_look(it, fact));
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
    let mut decision = it.builder();
    // What was found is remembered instead of the answer, which holds whole files.
    let next = Checks { weakened: Some(found.clone()), ..checks.clone() };
    decision.remember("turn", Turn { checks: Some(next), ..turn.clone() });
    if !found.is_empty() {
        hold::hold(it, &mut decision, loosened(checks, found));
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
fn run(it: &ReviewLoop, turn: &Turn, checks: &Checks) -> Stand {
    if let Some(failed) = &checks.failed {
        return Stand::Refused(refusal(failed));
    }
    if checks.running.is_some() {
        return Stand::Open(Decision::default());
    }
    let gates = gates(it);
    if gates.is_empty() {
        return said_once(it);
    }
    if let Some(cause) = &it.index.memory.told_of_gates {
        let mut decision = it.builder();
        decision.forget("told-of-gates");
        let how = "there are gates now".to_owned();
        decision.effect(Effect::Resolve { cause: cause.clone(), how });
        return Stand::Open(decision.finish());
    }
    match gates.iter().find(|gate| !checks.passed.contains(gate)) {
        Some(gate) => Stand::Open(start(it, turn, checks, gate)),
        None => untouched(it, turn, checks),
    }
}

fn refusal(failed: &Failed) -> Rejection {
    let found = format!("`{}` {}", clip(&failed.gate, 120), failed.how);
    Rejection::new("LP-22", &ReviewLoop::flag_path(), found, "every gate to exit with 0")
}

/// Nothing to run is not a pass: the owner is told, once.
fn said_once(it: &ReviewLoop) -> Stand {
    if it.index.memory.told_of_gates.is_some() {
        return Stand::Passed;
    }
    let mut decision = it.builder();
    decision.remember("told-of-gates", hold::cause(it, "LP-22", "gates"));
    let summary = "no gate is configured or found: work is accepted unchecked".to_owned();
    let mut reason = Reason::new("LP-22", "gates", summary);
    reason.did = "The flag is judged by its own rules and by the reviewer alone.".to_owned();
    reason.wont = "We count no check that did not run; set `loop.gates`.".to_owned();
    hold::tell(it, &mut decision, Severity::Notice, reason);
    Stand::Open(decision.finish())
}

fn start(it: &ReviewLoop, turn: &Turn, checks: &Checks, gate: &str) -> Decision {
    let mut decision = it.builder();
    let tree = turn.left.as_ref().map(|left| left.tree.clone());
    let state = if checks.passed.is_empty() { CleanState::Fresh } else { CleanState::Continued };
    let why = format!("the gate `{}` must pass first", clip(gate, 120));
    let run = spawn(it, &mut decision, gate, why, clean(it, tree, state));
    let checks = Checks { running: Some((run, gate.to_owned())), ..checks.clone() };
    decision.remember("turn", Turn { checks: Some(checks), ..turn.clone() });
    decision.finish()
}

/// LP-33: the gate on the commit that the loop begins from.
pub(super) fn start_on_base(it: &ReviewLoop, gate: String) -> Decision {
    let mut decision = it.builder();
    let why = format!("the gate `{}` must pass before the first agent", clip(&gate, 120));
    let is_first = it.index.memory.base.as_ref().is_none_or(|base| base.passed.is_empty());
    let state = if is_first { CleanState::Fresh } else { CleanState::Continued };
    let clean = clean(it, None, state);
    let run = spawn(it, &mut decision, &gate, why, clean);
    base::running(it, &mut decision, run, gate);
    decision.finish()
}

/// LP-34: without a commit there is nothing to check out.
fn clean(it: &ReviewLoop, tree: Option<TreeId>, state: CleanState) -> Option<CleanTree> {
    let is_clean = it.place.git && it.limits.gate_tree == GateTree::Clean;
    let clean = CleanTree { tree, state, setup: it.limits.setup.clone() };
    (is_clean && it.index.head().is_some()).then_some(clean)
}

fn spawn(
    it: &ReviewLoop,
    decision: &mut Builder,
    gate: &str,
    why: String,
    clean: Option<CleanTree>,
) -> RunId {
    let run = RunId::new(format!("{}-{}", it.place.repo, decision.key()));
    let state = it.index.memory.state.as_ref();
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
            timeout_s: it.limits.gate_timeout.as_secs(),
            clean,
        }),
        access: Access::Write,
    })));
    run
}

/// A gate of ours has ended: remember how, whatever else is going on.
pub(super) fn note_end(it: &ReviewLoop, _: Now) -> Option<Decision> {
    let end = it.index.ended.as_ref()?;
    noted(it, end)
}

/// It could not even be started.
pub(super) fn spawn_failed(it: &ReviewLoop, run: &RunId, said: &str, now: Now) -> Option<Decision> {
    let outcome = Outcome::Crash { how: said.to_owned() };
    let (tail, usage) = (said.to_owned(), Default::default());
    noted(
        it,
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

fn noted(it: &ReviewLoop, end: &RunEnd) -> Option<Decision> {
    if let Some(decision) = base::noted(it, end) {
        return Some(decision);
    }
    let mut turn = it.index.memory.turn.clone()?;
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
            if base::accepts(it, &failed) {
                checks.passed.push(gate);
            } else {
                checks.failed = Some(failed);
            }
        }
    }
    let mut decision = it.builder();
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
fn untouched(it: &ReviewLoop, turn: &Turn, checks: &Checks) -> Stand {
    let Some(left) = turn.left.as_ref().filter(|_| it.place.git && !checks.untouched) else {
        return Stand::Passed;
    };
    let Some((key, fact)) = leavings::answer(it, LABEL) else {
        let since = Some(left.tree.clone());
        return Stand::Open(leavings::ask_snapshot(it, LABEL.to_owned(), since));
    };
    let Fact::Snapshot(snapshot) = fact else {
        return Stand::Open(leavings::cannot_look(it, fact));
    };
    let mut decision = it.builder();
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
        hold::hold(it, &mut decision, reason);
    }
    Stand::Open(decision.finish())
}

/// What the next prompt says of a refusal by a gate.
pub(super) fn refusals(in_a_row: u32, words: String, turn: &Turn) -> Refusals {
    let failed = turn.checks.as_ref().and_then(|checks| checks.failed.as_ref());
    let output = failed.map(|failed| failed.output.clone());
    Refusals { in_a_row, last: Some(words), output }
}

/// The owner's own, else what was found when the owner last had a say and what has come on top of it since.
pub(super) fn gates(it: &ReviewLoop) -> Vec<String> {
    if it.limits.gates.is_empty() { it.index.memory.gates.clone() } else { it.limits.gates.clone() }
}

/// The same with those that are found now.
pub(super) fn all(it: &ReviewLoop) -> Vec<String> {
    found_now(it).unwrap_or_else(|| gates(it))
}

/// What is found now, on top of what was found before: a gate may come by anybody, and go only by the owner.
pub(super) fn found_now(it: &ReviewLoop) -> Option<Vec<String>> {
    let known = &it.index.memory.gates;
    let new: Vec<_> = detect::gates(it).into_iter().filter(|gate| !known.contains(gate)).collect();
    (!new.is_empty() && it.limits.gates.is_empty()).then(|| [known.clone(), new].concat())
}
