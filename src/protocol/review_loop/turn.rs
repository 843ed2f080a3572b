//! One turn: lease the tree, look at it, start the agent, look again when it has ended, retry or ask. It judges no flag.

use super::{
    COMMENTS, RESPONSE, ReviewLoop, STATE, flag,
    hold::{self, Reason},
    memory::{Ended, Left, LoopState, PushDue, Running, Start, Turn},
    prompt, review,
    table::{Holder, Phase},
};
use crate::model::{
    Builder, Change, Decision, Digest, Effect, Event, Fact, Failure, FailureKind, FileState,
    Moment, Now, Outcome, Query, RelPath, RunId, Seat, Severity, Snapshot, Spawn, Ticks, TreeRef,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// How long a usage limit without a known end parks a turn.
const LIMIT_WAIT: Duration = Duration::from_secs(15 * 60);
const PUSH_TRIES: u32 = 5;
const PUSH_WAIT: Duration = Duration::from_secs(60);
const DEFAULT_TRIES: (u32, Duration) = (2, Duration::from_secs(30));

/// A run of ours has ended: remember that before anything else.
pub(super) fn note_end(it: &ReviewLoop, _: Now) -> Option<Decision> {
    let end = it.index.ended.as_ref()?;
    let mut turn = it.index.memory.turn.clone()?;
    turn.run.take_if(|running| running.run == end.run)?;
    // A session that could not be gone on with is forgotten.
    let resumed = turn.session.is_some();
    let lost = resumed && matches!(end.outcome, Outcome::Crash { .. });
    turn.session = end.usage.session.clone().filter(|_| !lost);
    turn.ended = Some(Ended {
        run: end.run.clone(),
        outcome: end.outcome.clone(),
        at: end.ended_at,
        tail: end.tail.clone(),
        looked: false,
    });
    let mut decision = it.builder();
    let tampered = review::changed_mandates(it, &turn, end.run.as_str());
    decision.remember("turn", turn);
    if let Some(cost) = end.usage.cost_microusd {
        decision.remember("spent", it.index.memory.spent.saturating_add(cost));
    }
    if let Some(reason) = tampered {
        hold::hold(it, &mut decision, reason);
    }
    Some(decision.finish())
}

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
    let can = !it.index.memory.holds.iter().any(|hold| hold.cause.rule.as_str() == "DM-10");
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
fn without(left: &[Change], since: &[Change]) -> Vec<Change> {
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

/// A run has ended and left no flag: try again, wait, or ask.
pub(super) fn after_failure(it: &ReviewLoop, turn: &Turn, now: Now) -> Option<Decision> {
    let ended = turn.ended.as_ref()?;
    let mut next = Turn { ended: None, refused: false, ..turn.clone() };
    let mut decision = it.builder();
    let reason = match &ended.outcome {
        Outcome::UsageLimit { until } => {
            let wait =
                until.and_then(|until| (until - now.wall).to_std().ok()).unwrap_or(LIMIT_WAIT);
            next.not_before = Some(Moment::after(now, wait));
            None
        }
        Outcome::Stopped { why } if !turn.refused => {
            Some(failed("SU-03", ended, format!("`{}` was stopped: {why}", ended.run)))
        }
        Outcome::Auth { .. } | Outcome::Denied { .. } => {
            let summary = format!("`{}` {}", ended.run, ended.outcome.sentence());
            Some(failed("SU-05", ended, summary))
        }
        Outcome::Ok
        | Outcome::Crash { .. }
        | Outcome::Timeout { .. }
        | Outcome::Stopped { .. }
        | Outcome::Lost => count_failure(it, turn, ended, &mut next, now),
    };
    decision.remember("turn", next);
    if let Some(reason) = reason {
        hold::hold(it, &mut decision, reason);
    }
    Some(decision.finish())
}

/// SU-06: a bounded number of tries, each later than the one before.
fn count_failure(
    it: &ReviewLoop,
    turn: &Turn,
    ended: &Ended,
    next: &mut Turn,
    now: Now,
) -> Option<Reason> {
    if turn.refused {
        return None;
    }
    let holder = it.index.memory.state.as_ref()?.active_agent;
    let (retries, backoff) = *it.limits.tries.get(&seat(holder)).unwrap_or(&DEFAULT_TRIES);
    next.failures += 1;
    if next.failures <= retries {
        let wait = backoff * 2_u32.saturating_pow(next.failures - 1);
        next.not_before = Some(Moment::after(now, jittered(wait, &ended.run)));
        return None;
    }
    let summary = format!(
        "{} left no flag in {}; the last run {}",
        holder.word(),
        if next.failures == 1 { "one try".to_owned() } else { format!("{} tries", next.failures) },
        ended.outcome.sentence()
    );
    Some(failed("SU-06", ended, summary))
}

fn failed(rule: &'static str, ended: &Ended, summary: String) -> Reason {
    let mut reason = Reason::new(rule, ended.run.as_str(), summary);
    reason.evidence = vec![ended.tail.clone()];
    reason
}

/// Up to a quarter more, different for each run, the same for the same run.
fn jittered(wait: Duration, run: &RunId) -> Duration {
    let dice = Digest::of(run.as_str().as_bytes());
    let share = u32::from(u8::from_str_radix(&dice.as_str()[..2], 16).unwrap_or_default());
    wait + wait * share / 1024
}

/// A permission to start that cannot be used now is given back, so that nobody waits for a held or absent loop.
pub(super) fn give_back(it: &ReviewLoop, _: Now) -> Option<Decision> {
    let memory = &it.index.memory;
    let stuck = memory.is_held() || super::away::is_away(it);
    if !(it.index.granted && stuck) {
        return None;
    }
    let mut decision = it.builder();
    decision.effect(Effect::Release { tree: TreeRef::Main });
    Some(decision.finish())
}

/// Gives the turn to its holder: lease, look, start.
pub(super) fn begin(it: &ReviewLoop, turn: &Turn, now: Now) -> Option<Decision> {
    let state = it.index.memory.state.as_ref()?;
    let waits = turn.not_before.is_some_and(|at| at.left(now).is_some());
    if turn.run.is_some() || turn.ended.is_some() || waits || state.phase == Phase::Complete {
        return None;
    }
    if state.current_round > turn.round_limit {
        let mut decision = it.builder();
        hold::hold(it, &mut decision, too_many_rounds(it, state));
        return Some(decision.finish());
    }
    if let Some(reason) = review::unreadable_mandates(it) {
        let mut decision = it.builder();
        hold::hold(it, &mut decision, reason);
        return Some(decision.finish());
    }
    if let Some(cap) = it.limits.cost_per_step.filter(|cap| it.index.memory.spent >= *cap) {
        let mut decision = it.builder();
        hold::hold(it, &mut decision, too_expensive(it, state, cap));
        return Some(decision.finish());
    }
    if !it.index.granted {
        if it.index.is_waiting_for_lease() {
            return None;
        }
        let (seat, role) = (seat(state.active_agent), state.active_agent.role().to_owned());
        let mut decision = it.builder();
        decision.effect(Effect::Lease { tree: TreeRef::Main, seat, role });
        return Some(decision.finish());
    }
    if !it.place.git {
        return Some(start(it, state, turn, None, now));
    }
    let label = "loop-start".to_owned();
    match answer(it, &label) {
        None => {
            let since = turn.start.as_ref().map(|start| start.last.clone());
            Some(ask_snapshot(it, label, since))
        }
        Some((_, Fact::Snapshot(snapshot))) => Some(start(it, state, turn, Some(snapshot), now)),
        Some((_, fact)) => Some(cannot_look(it, fact)),
    }
}

fn start(
    it: &ReviewLoop,
    state: &LoopState,
    turn: &Turn,
    snapshot: Option<&Snapshot>,
    now: Now,
) -> Decision {
    let mut decision = it.builder();
    if let Some((key, _, fact)) = &it.index.answer {
        decision.used(key.clone(), fact.clone());
    }
    let run = RunId::new(format!("{}-{}", it.place.repo, decision.key()));
    let holder = state.active_agent;
    archive(it, holder, &mut decision, now);
    decision.effect(Effect::Log(Event {
        event: "run.start".to_owned(),
        agent: Some(seat(holder)),
        context: [
            ("run", run.as_str()),
            ("step", &state.current_step),
            ("phase", state.phase.word()),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    }));
    decision.effect(Effect::Spawn(Box::new(Spawn {
        run: run.clone(),
        seat: seat(holder),
        role: holder.role().to_owned(),
        tree: TreeRef::Main,
        task: state.current_step.clone(),
        phase: state.phase.word().to_owned(),
        prompt: prompt::prompt(it, state, &run),
        why: why(it, state, turn),
        resume: turn.session.clone(),
    })));
    let mut next = turn.clone();
    next.start = snapshot.map(|snapshot| start_point(turn.start.as_ref(), snapshot));
    if let (Some(left), Some(snapshot)) = (&mut next.left, snapshot) {
        left.changed = without(&left.changed, &snapshot.changed);
    }
    next.run = Some(Running { run, since: now.wall, ticks: now.ticks });
    next.not_before = None;
    next.mandates = it.index.whole(super::MANDATES).map(|file| file.digest.clone());
    decision.remember("turn", next);
    decision.finish()
}

/// What was dirty at the first try, or became so between two, is somebody else's until it is committed.
fn start_point(earlier: Option<&Start>, snapshot: &Snapshot) -> Start {
    let ours = [flag::PATH, STATE];
    let dirty = snapshot.dirty.iter().filter(|path| !ours.contains(&path.as_str()));
    let foreign = |path: &RelPath| {
        earlier.is_none_or(|start| {
            start.dirty.contains(path)
                || snapshot.changed.iter().any(|between| between.path == *path)
        })
    };
    Start {
        head: snapshot.checkout.head.clone(),
        refs: snapshot.refs.clone(),
        dirty: dirty.filter(|path| foreign(path)).cloned().collect(),
        last: snapshot.tree.clone(),
    }
}

fn why(it: &ReviewLoop, state: &LoopState, turn: &Turn) -> String {
    let row = state.history.last().map_or("the beginning", |step| step.row.as_str());
    match (turn.failures, it.index.memory.refusals.in_a_row) {
        (0, 0) => format!("{row} gave the turn"),
        (0, 1) => format!("{row} gave the turn; one flag was refused"),
        (0, refusals) => format!("{row} gave the turn; {refusals} flags were refused"),
        (failures, _) => format!("{row} gave the turn; try {}", failures + 1),
    }
}

/// LP-16: the file that this turn will rewrite is kept first, once for the same bytes.
fn archive(it: &ReviewLoop, holder: Holder, decision: &mut Builder, now: Now) {
    let name = match holder {
        Holder::Builder => RESPONSE,
        Holder::Reviewer => COMMENTS,
    };
    let Some(file) = it.index.whole(name) else { return };
    if file.bytes.is_empty() || it.index.memory.archived.contains(file.digest.as_str()) {
        return;
    }
    let stem = name.trim_end_matches(".md");
    let to = format!("reviews/{stem}-{}.md", now.wall.format("%Y%m%dT%H%M%SZ"));
    let to = RelPath::new(to).expect("BUG: an archive's name is made of our own words");
    let (from, seen) = (RelPath::fixed(name), file.digest.clone());
    decision.remember(&format!("archived/{seen}"), true);
    decision.effect(Effect::Copy { from, to, seen });
}

/// SU-07: the step's runs have used up what the owner allowed.
fn too_expensive(it: &ReviewLoop, state: &LoopState, cap: u64) -> Reason {
    let dollars = |micro: u64| format!("${}.{:02}", micro / 1_000_000, micro / 10_000 % 100);
    let spent = dollars(it.index.memory.spent);
    let summary =
        format!("step `{}` has cost {spent}, the cap is {}", state.current_step, dollars(cap));
    let mut reason = Reason::new("SU-07", state.current_step.as_str(), summary);
    reason.wont = "We spend no more on this step; resume allows as much again.".to_owned();
    reason
}

fn too_many_rounds(it: &ReviewLoop, state: &LoopState) -> Reason {
    let summary = format!(
        "step `{}` is past round {} of `{}` and the agents do not agree",
        state.current_step,
        state.current_round - 1,
        state.phase.word()
    );
    let subject = format!("{}/{}/{}", state.current_step, state.phase.word(), state.current_round);
    let mut reason = Reason::new("LP-25", subject, summary);
    reason.evidence = review::open_requests(it);
    reason.wont = "We start no further round; resume allows as many again.".to_owned();
    reason
}

/// A push is due, or has arrived.
pub(super) fn push(it: &ReviewLoop, now: Now) -> Option<Decision> {
    let due = it.index.memory.push.as_ref()?;
    let mut decision = it.builder();
    if it.index.pushed.as_ref() == Some(&due.commit) {
        decision.forget("push");
        return Some(decision.finish());
    }
    if it.index.is_pushing() || due.not_before.is_some_and(|at| at.left(now).is_some()) {
        return None;
    }
    let (branch, commit) = (due.branch.clone(), due.commit.clone());
    decision.effect(Effect::Push { branch, commit });
    Some(decision.finish())
}

/// LP-19: a failed push never loses the transition; it is tried again, then told. Never forced.
pub(super) fn push_failed(it: &ReviewLoop, failure: &Failure, now: Now) -> Option<Decision> {
    let due = it.index.memory.push.clone()?;
    let failures = due.failures + 1;
    let mut decision = it.builder();
    let summary = format!("pushing `{}` failed: {}", due.branch, failure.said);
    let mut reason = Reason::new("LP-19", due.commit.as_str(), summary);
    reason.wont = "We never force a push.".to_owned();
    if failure.kind == FailureKind::NotFastForward || failures >= PUSH_TRIES {
        decision.forget("push");
        hold::hold(it, &mut decision, reason);
    } else {
        let wait = PUSH_WAIT * 2_u32.pow(failures - 1);
        decision.remember(
            "push",
            PushDue { failures, not_before: Some(Moment::after(now, wait)), ..due },
        );
    }
    Some(decision.finish())
}

/// The agent could not even be started: the same as a crash at once.
pub(super) fn spawn_failed(
    it: &ReviewLoop,
    spawn: &Spawn,
    failure: &Failure,
    now: Now,
) -> Option<Decision> {
    let mut turn = it.index.memory.turn.clone()?;
    turn.run.take_if(|running| running.run == spawn.run)?;
    turn.ended = Some(Ended {
        run: spawn.run.clone(),
        outcome: Outcome::Crash { how: failure.said.clone() },
        at: now.wall,
        tail: failure.said.clone(),
        looked: false,
    });
    let mut decision = it.builder();
    decision.remember("turn", turn);
    Some(decision.finish())
}

fn ask_snapshot(it: &ReviewLoop, label: String, since: Option<crate::model::TreeId>) -> Decision {
    let mut decision = it.builder();
    decision.effect(Effect::Ask { query: Query::Snapshot { tree: TreeRef::Main, label, since } });
    decision.finish()
}

/// The answer to the snapshot of this name, if it has just come.
fn answer<'a>(it: &'a ReviewLoop, wanted: &str) -> Option<(&'a crate::model::Key, &'a Fact)> {
    match it.index.answer.as_ref()? {
        (key, Query::Snapshot { label, .. }, fact) if label == wanted => Some((key, fact)),
        _ => None,
    }
}

fn cannot_look(it: &ReviewLoop, fact: &Fact) -> Decision {
    let said = if let Fact::Unknown(said) = fact { said.clone() } else { format!("{fact:?}") };
    let mut decision = it.builder();
    let reason =
        Reason::new("DM-10", "snapshot", format!("git could not look at the tree: {said}"));
    hold::hold(it, &mut decision, reason);
    decision.finish()
}

pub(super) fn seat(holder: Holder) -> Seat {
    Seat::new(holder.word())
}

/// The completion of the whole loop is worth a word, and nothing to do.
pub(super) fn tell_complete(it: &ReviewLoop, decision: &mut Builder, steps: usize) {
    let mut reason = Reason::new(
        "LP-24",
        "complete",
        format!("the loop is complete: all {steps} steps are verified"),
    );
    reason.did = "Every transition is committed; no agent is started any more.".to_owned();
    reason.wont = "We begin no new loop by ourselves; `agency loop init` does.".to_owned();
    hold::tell(it, decision, Severity::Notice, reason);
}

/// One line for `agency status`.
pub(super) fn summary(it: &ReviewLoop, state: &LoopState, now: Now) -> String {
    let memory = &it.index.memory;
    if state.phase == Phase::Complete {
        return format!("complete, {} steps", state.steps_complete.len());
    }
    let at = state.steps.iter().position(|step| *step == state.current_step).map_or(0, |at| at + 1);
    let place = format!(
        "step {} ({at} of {}) · {} · round {}",
        state.current_step,
        state.steps.len(),
        state.phase.word(),
        state.current_round
    );
    let who = state.active_agent.word();
    let doing = match (&memory.turn, memory.holds.first(), &memory.away) {
        (_, Some(hold), _) => format!("held: {}", hold.summary),
        (_, _, Some(cause)) => format!("away: {}", cause.subject),
        (Some(Turn { run: Some(running), .. }), ..) => {
            format!("{who} works for {}", short(now.ticks.since(running.ticks)))
        }
        (Some(Turn { not_before: Some(at), .. }), ..) if at.left(now).is_some() => {
            format!("{who} starts again in {}", short(at.left(now).unwrap_or_default()))
        }
        _ => format!("{who} is next"),
    };
    format!("{place} · {doing}")
}

fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// When a flag that waits for its run's end was written off: see `moving::settle_deadline`.
pub(super) fn running_since(turn: &Turn) -> Option<Ticks> {
    turn.run.as_ref().map(|running| running.ticks)
}
