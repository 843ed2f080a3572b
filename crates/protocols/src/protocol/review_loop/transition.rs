//! From a flag to a transition: judge it, wait for its run, plan the commit, move. It starts no agent.

use super::{
    ReviewLoop, STATE, base, flag,
    flag::{FlagContext, Verdict},
    gates::{self, GateResult},
    hold::{self, Reason},
    memory::{Anchor, LoopState, Moving, Opens, PushDue, Refusals, Step, Turn},
    open_list, owner_verbs, review, secrets, summary,
    table::{Holder, Next, Phase, Round, Row},
    turn,
};
use crate::model::{
    Bytes, Change, Deadline, Decision, Digest, Effect, Event, Fact, FileState, Now, PlannedCommit,
    Query, Rejection, RelPath, RowId, Ticks, Timestamp, TreeRef, WholeFile,
};
use chrono::TimeDelta;

/// What no safe read accepts goes before anything looks at the tree: git would read a giant to its end.
pub(super) fn turn_away(review_loop: &ReviewLoop, turn: &Turn, _: Now) -> Option<Decision> {
    let FileState::Unreadable(odd) = review_loop.index.file(flag::PATH)? else { return None };
    let found = odd.found.clone();
    let rejection = Rejection::new("DM-04", &ReviewLoop::flag_path(), found, &odd.wanted);
    Some(refuse(review_loop, turn, rejection, None))
}

/// Judges the flag that lies there, if one does.
pub(super) fn judge(review_loop: &ReviewLoop, turn: &Turn, now: Now) -> Option<Decision> {
    let file = review_loop.index.whole(flag::PATH)?;
    match verdict(review_loop, turn, file) {
        Verdict::Refuse(rejection) => {
            Some(refuse(review_loop, turn, rejection, Some(&file.digest)))
        }
        Verdict::Forbidden(rejection) => Some(forbid(review_loop, turn, rejection, &file.digest)),
        Verdict::Blocked(_) if turn.run.is_some() => settle(review_loop, turn, file, now),
        Verdict::Blocked(why) => Some(block(review_loop, turn, &why, &file.digest)),
        Verdict::Accept(_) if turn.run.is_some() => settle(review_loop, turn, file, now),
        Verdict::Accept(row) => Some(accept_if_true(review_loop, turn, row, file, now)),
    }
}

fn verdict(review_loop: &ReviewLoop, turn: &Turn, file: &WholeFile) -> Verdict {
    let Some(state) = &review_loop.index.memory.state else {
        unreachable!("BUG: a turn without a loop");
    };
    let by_run = turn.ended.as_ref().map(|ended| ended.at);
    let age_at =
        if turn.run.is_some() { None } else { by_run.or(Some(file.written.min(file.seen.wall))) };
    let bench = FlagContext {
        step: &state.current_step,
        phase: state.phase,
        holder: state.active_agent,
        turn_opened: opened_by_the_clock_of(file, turn),
        written: file.written,
        age_max: review_loop.limits.flag_max_age,
        age_at,
        seen: review_loop.index.clock.latest(file.seen),
    };
    flag::parse(&file.bytes).map_or_else(Verdict::Refuse, |flag| flag::judge(&flag, &bench))
}

/// When the turn opened, by the wall clock as it was when the flag was seen. A wall clock that was set back since then would make
/// every honest flag older than its own turn (DM-11); the steady clock shows by how much it was set back.
fn opened_by_the_clock_of(file: &WholeFile, turn: &Turn) -> Timestamp {
    const SLACK: TimeDelta = TimeDelta::seconds(5);
    let running = turn.run.as_ref().map(|running| (running.since, running.ticks));
    let Some((wall, ticks)) = running.or_else(|| turn.ended.as_ref()?.began) else {
        return turn.opened;
    };
    // A run of this turn cannot have begun before the turn: where it did by the wall clock, that was set back between the two.
    let opened = turn.opened.min(wall);
    let steady = TimeDelta::from_std(file.seen.ticks.since(ticks)).unwrap_or_default();
    let jump = (file.seen.wall - wall) - steady;
    // After a reboot the steady clock begins again and says nothing.
    if file.seen.ticks >= ticks && jump < -SLACK { opened + jump } else { opened }
}

/// LP-09: the flag goes to quarantine, the turn stays, the agent hears why. LP-10: the third in a row is the owner's.
fn refuse(
    review_loop: &ReviewLoop,
    turn: &Turn,
    rejection: Rejection,
    seen: Option<&Digest>,
) -> Decision {
    let mut decision = review_loop.builder();
    refuse_in(review_loop, &mut decision, turn, rejection, seen);
    decision.finish()
}

/// The same, as a part of a decision.
pub(super) fn refuse_in(
    review_loop: &ReviewLoop,
    decision: &mut crate::model::Builder,
    turn: &Turn,
    rejection: Rejection,
    seen: Option<&Digest>,
) {
    let in_a_row = review_loop.index.memory.refusals.in_a_row + 1;
    let words = rejection.to_string();
    take_flag(decision, &rejection, seen);
    decision.remember("refusals", gates::refusals(in_a_row, words.clone(), turn));
    decision.remember("turn", after_refusal(turn));
    if in_a_row >= review_loop.limits.max_rejections {
        let summary = match in_a_row {
            1 => format!("a flag was refused: {words}"),
            flags => format!("{flags} flags in a row were refused; the last: {words}"),
        };
        let mut reason = Reason::new("LP-10", turn.opened.to_rfc3339(), summary);
        reason.evidence = vec![words];
        hold::hold(review_loop, decision, reason);
    }
}

/// LP-35: the agent says that it cannot go on without the owner. That is neither a transition nor a refusal.
fn block(review_loop: &ReviewLoop, turn: &Turn, why: &str, seen: &Digest) -> Decision {
    let mut decision = review_loop.builder();
    let (path, taken) = (ReviewLoop::flag_path(), format!("blocked: {why}"));
    decision.effect(Effect::Take { path, seen: Some(seen.clone()), why: taken });
    decision.remember("turn", after_refusal(turn));
    let who =
        review_loop.index.memory.state.as_ref().map_or("the agent", |s| s.active_agent.word());
    let mut reason = Reason::new("LP-35", seen.short(), format!("{who} is blocked: {why}"));
    reason.wont = format!("{who} is not started again until you have removed what blocks it.");
    hold::hold(review_loop, &mut decision, reason);
    decision.finish()
}

/// LP-03: the protocol knows the word but not here. Somebody works on another loop than this one.
fn forbid(review_loop: &ReviewLoop, turn: &Turn, rejection: Rejection, seen: &Digest) -> Decision {
    let mut decision = review_loop.builder();
    let words = rejection.to_string();
    let in_a_row = review_loop.index.memory.refusals.in_a_row + 1;
    take_flag(&mut decision, &rejection, Some(seen));
    decision.remember("refusals", gates::refusals(in_a_row, words.clone(), turn));
    decision.remember("turn", after_refusal(turn));
    let mut reason =
        Reason::new("LP-03", seen.short(), format!("invalid transition: {}", rejection.found));
    reason.evidence = vec![words];
    hold::hold(review_loop, &mut decision, reason);
    decision.finish()
}

fn take_flag(decision: &mut crate::model::Builder, rejection: &Rejection, seen: Option<&Digest>) {
    let mut rejection = rejection.clone();
    rejection.digest = seen.cloned();
    let (path, why) = (ReviewLoop::flag_path(), rejection.to_string());
    decision.reject(rejection);
    decision.effect(Effect::Take { path, seen: seen.cloned(), why });
}

/// The run that wrote it may go on and try again; one that has ended is started anew, once we know what it left.
fn after_refusal(turn: &Turn) -> Turn {
    let ended = turn.ended.clone().filter(|ended| !ended.looked);
    Turn { refused: turn.run.is_some() || ended.is_some(), ended, checks: None, ..turn.clone() }
}

/// LP-27: the flag is good, its run still lives. It has some time to exit, then we end it.
fn settle(review_loop: &ReviewLoop, turn: &Turn, file: &WholeFile, now: Now) -> Option<Decision> {
    let running = turn.run.as_ref()?;
    if review_loop.index.is_stopping() || now.ticks < settled_at(review_loop, file) {
        return None;
    }
    let mut decision = review_loop.builder();
    decision.effect(Effect::Stop {
        run: running.run.clone(),
        why: format!(
            "its flag is written and it did not exit within {} s",
            review_loop.limits.settle.as_secs()
        ),
    });
    Some(decision.finish())
}

/// Counted from the first sight of the flag, on the clock that does not jump (DM-11).
fn settled_at(review_loop: &ReviewLoop, file: &WholeFile) -> Ticks {
    file.seen.ticks.after(review_loop.limits.settle)
}

pub(super) fn settle_deadline(review_loop: &ReviewLoop, turn: &Turn, now: Now) -> Option<Deadline> {
    turn::running_since(turn)?;
    let file = review_loop.index.whole(flag::PATH)?;
    let at = settled_at(review_loop, file);
    (at > now.ticks && !review_loop.index.is_stopping()).then_some(Deadline { at, why: "settle" })
}

/// The flag is in order; now the review files and our own checks must bear it out.
fn accept_if_true(
    review_loop: &ReviewLoop,
    turn: &Turn,
    row: &'static Row,
    file: &WholeFile,
    now: Now,
) -> Decision {
    let state = review_loop.index.memory.state.as_ref();
    if let Err(rejection) =
        state.map_or(Ok(()), |state| review::check(review_loop, state, row.said))
    {
        return refuse(review_loop, turn, rejection, Some(&file.digest));
    }
    match gates::stand(review_loop, turn, row.said, &file.digest) {
        GateResult::Passed => accept(review_loop, turn, row, file, now),
        GateResult::Open(decision) => decision,
        GateResult::Refused(rejection) => refuse(review_loop, turn, rejection, Some(&file.digest)),
    }
}

/// The flag is right and its run is over: what it left is checked, then the commit is planned.
fn accept(
    review_loop: &ReviewLoop,
    turn: &Turn,
    row: &'static Row,
    file: &WholeFile,
    now: Now,
) -> Decision {
    let mut decision = review_loop.builder();
    let take = match committable(turn) {
        Ok(take) => take,
        Err(reason) => {
            hold::hold(review_loop, &mut decision, *reason);
            return decision.finish();
        }
    };
    let Some(state) = &review_loop.index.memory.state else {
        unreachable!("BUG: a turn without a loop");
    };
    let transition = Moving {
        at: now.wall,
        row: row.id.to_owned(),
        flag: Some(file.digest.clone()),
        state: after(review_loop, state, row, now),
        action: row.action().to_owned(),
        take,
        settled: false,
        opens: Opens::Turn,
    };
    plan(review_loop, transition)
}

/// LP-19: only what the run changed, never what was somebody's unfinished work, never a new secret.
fn committable(turn: &Turn) -> Result<Vec<Change>, Box<Reason>> {
    let Some(left) = &turn.left else {
        return Ok(Vec::new());
    };
    let ours = [flag::PATH, STATE];
    let changes = left.changed.iter().filter(|change| {
        left.dirty.contains(&change.path) && !ours.contains(&change.path.as_str())
    });
    let take: Vec<Change> = changes.cloned().collect();
    let subject = turn.opened.to_rfc3339();
    let named = |paths: Vec<&RelPath>| {
        paths.iter().take(20).map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
    };
    let foreign = |change: &&Change| {
        turn.start.as_ref().is_some_and(|start| start.dirty.contains(&change.path))
    };
    let overlap: Vec<_> = take.iter().filter(foreign).map(|change| &change.path).collect();
    if !overlap.is_empty() {
        let summary =
            format!("the run changed files that already had uncommitted work: {}", named(overlap));
        let mut reason = Reason::new("LP-19", &subject, summary);
        reason.wont =
            "We commit nobody's unfinished work: commit or stash it, then resume.".to_owned();
        return Err(Box::new(reason));
    }
    let secret: Vec<_> = take
        .iter()
        .filter(|change| change.new && secrets::looks_secret(&change.path))
        .map(|c| &c.path)
        .collect();
    if !secret.is_empty() {
        let summary = format!("the run left new files that look like secrets: {}", named(secret));
        let mut reason = Reason::new("LP-19", &subject, summary);
        reason.wont =
            "We never commit a file that looks like a secret: remove or ignore it, then resume."
                .to_owned();
        return Err(Box::new(reason));
    }
    Ok(take)
}

/// The state after this row.
fn after(review_loop: &ReviewLoop, state: &LoopState, row: &Row, now: Now) -> LoopState {
    let mut next = state.clone();
    match row.next {
        Next::Hand(phase, holder, round) => {
            next.phase = phase;
            next.active_agent = holder;
            next.current_round = match round {
                Round::First => 1,
                Round::Same => state.current_round,
                Round::More => state.current_round + 1,
            };
        }
        Next::Advance => advance(&mut next),
    }
    next.status = row.said.word().to_owned();
    record(review_loop, state, next, row.id, state.active_agent.word(), now)
}

/// LP-01, LP-24: the next step's `propose`, or the end.
fn advance(next: &mut LoopState) {
    next.steps_complete.push(next.current_step.clone());
    next.current_round = 1;
    let at = next.steps.iter().position(|step| *step == next.current_step);
    match at.and_then(|at| next.steps.get(at + 1)) {
        Some(step) => {
            next.current_step = step.clone();
            next.phase = Phase::Propose;
            next.active_agent = Holder::Builder;
        }
        None => next.phase = Phase::Complete,
    }
}

/// Adds the transition to the history.
pub(super) fn record(
    review_loop: &ReviewLoop,
    before: &LoopState,
    mut next: LoopState,
    row: &str,
    agent: &str,
    now: Now,
) -> LoopState {
    let place = |state: &LoopState| format!("{}/{}", state.current_step, state.phase.word());
    let (at, row) = (now.wall, row.to_owned());
    next.history.push(Step {
        at,
        row,
        from: place(before),
        to: place(&next),
        agent: agent.to_owned(),
    });
    next.escalations = open_list::open(review_loop);
    next.last_updated = now.wall;
    next
}

/// Asks for the commit of a judged transition, or moves at once where there is no git.
pub(super) fn plan(review_loop: &ReviewLoop, transition: Moving) -> Decision {
    let (Some(anchor), true) = (&review_loop.index.memory.anchor, review_loop.place.git) else {
        return finish(review_loop, &transition, None);
    };
    let mut decision = review_loop.builder();
    let query = Query::Plan {
        branch: anchor.branch.clone(),
        parent: review_loop.index.head().cloned(),
        take: transition.take.clone(),
        write: vec![(RelPath::fixed(STATE), Bytes(transition.state.to_bytes()))],
        message: transition.message(decision.key()),
        date: transition.at,
    };
    decision.remember("moving", transition);
    decision.effect(Effect::Ask { query });
    decision.finish()
}

/// A judged transition waits for its plan.
pub(super) fn go_on(review_loop: &ReviewLoop, _: Now) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    let transition = memory.transition.as_deref()?;
    if memory.is_held() || super::away::is_away(review_loop) {
        return None;
    }
    match review_loop.index.answer.as_deref() {
        Some((_, Query::Plan { .. }, Fact::Planned(planned))) => {
            Some(finish(review_loop, transition, Some(planned)))
        }
        Some((_, Query::Plan { .. }, fact)) => {
            let mut decision = review_loop.builder();
            hold::hold(
                review_loop,
                &mut decision,
                hold::unanswered(fact, "plan", "plan the commit"),
            );
            Some(decision.finish())
        }
        _ => Some(plan(review_loop, transition.clone())),
    }
}

/// The transition itself: the commit point of the loop.
fn finish(
    review_loop: &ReviewLoop,
    transition: &Moving,
    planned: Option<&PlannedCommit>,
) -> Decision {
    let mut decision = review_loop.builder();
    if let Some((key, _, fact)) = review_loop.index.answer.as_deref() {
        decision.used(key.clone(), fact.clone());
    }
    if !transition.settled {
        settle_state(review_loop, transition, &mut decision);
    }
    if let Some(planned) = planned {
        let (branch, commit) = (planned.branch.clone(), planned.id.clone());
        decision.effect(Effect::Commit(planned.clone()));
        if transition.flag.is_some() {
            base::follow(review_loop, &mut decision, &commit);
        }
        decision
            .remember("anchor", Anchor { branch: branch.clone(), commit: Some(commit.clone()) });
        if review_loop.limits.push {
            decision.remember("push", PushDue { branch, commit, failures: 0, not_before: None });
        }
    }
    decision.effect(Effect::Release { tree: TreeRef::Main });
    decision.forget("moving");
    let is_ended = transition.state.status == owner_verbs::ENDED;
    if transition.state.phase == Phase::Complete && !transition.settled && !is_ended {
        summary::tell_complete(review_loop, &mut decision, transition.state.steps_complete.len());
    }
    decision.finish()
}

/// Truth first: our state file, then the flag goes, then memory of both.
fn settle_state(
    review_loop: &ReviewLoop,
    transition: &Moving,
    decision: &mut crate::model::Builder,
) {
    let before = review_loop.index.memory.state_file.as_ref().map(|file| file.digest.clone());
    decision.row(RowId::new(&transition.row));
    decision.effect(Effect::Replace {
        path: RelPath::fixed(STATE),
        bytes: Bytes(transition.state.to_bytes()),
        seen: before,
    });
    if let Some(seen) = &transition.flag {
        let why = format!("accepted by {}", transition.row);
        decision.effect(Effect::Take {
            path: ReviewLoop::flag_path(),
            seen: Some(seen.clone()),
            why,
        });
    }
    let step = transition.state.history.last();
    decision.effect(Effect::Log(Event {
        event: "transition".to_owned(),
        agent: step.map(|step| crate::model::Seat::new(&step.agent)),
        context: [
            ("row", transition.row.as_str()),
            ("from", step.map_or("", |step| &step.from)),
            ("to", step.map_or("", |step| &step.to)),
            ("action", &transition.action),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
    }));
    if let Some(before) =
        review_loop.index.memory.state.as_ref().filter(|_| transition.flag.is_some())
    {
        review::tell_of_deferral(review_loop, before, decision);
    }
    decision.remember("state", &transition.state);
    if transition.opens == Opens::Nothing {
        return;
    }
    decision.remember("refusals", Refusals::default());
    let step_over = review_loop
        .index
        .memory
        .state
        .as_ref()
        .is_some_and(|s| s.current_step != transition.state.current_step);
    if step_over {
        decision.forget("spent");
    }
    if transition.state.phase == Phase::Complete {
        decision.forget("turn");
    } else {
        decision.remember("turn", Turn::new(transition.at, review_loop.limits.max_rounds));
    }
}

/// The branch moved between plan and commit: the state is settled, the commit is planned again on the new tip.
pub(super) fn replan(review_loop: &ReviewLoop) -> Decision {
    replan_with(review_loop, None)
}

/// The same, once the owner has seen why it could not be made.
pub(super) fn replan_when_free(review_loop: &ReviewLoop, reason: Reason) -> Decision {
    replan_with(review_loop, Some(reason))
}

fn replan_with(review_loop: &ReviewLoop, reason: Option<Reason>) -> Decision {
    let memory = &review_loop.index.memory;
    let (Some((Effect::Commit(lost), _)), Some(state)) =
        (review_loop.index.failed.as_deref(), &memory.state)
    else {
        return Decision::default();
    };
    let take =
        lost.changes.iter().filter(|change| change.path.as_str() != STATE).cloned().collect();
    let last = state.history.last();
    let transition = Moving {
        at: lost.date,
        row: last.map_or_else(String::new, |step| step.row.clone()),
        flag: None,
        state: state.clone(),
        action: last_word(&lost.message),
        take,
        settled: true,
        opens: Opens::Turn,
    };
    let mut decision = review_loop.builder();
    decision.remember("moving", transition);
    // The commit never came to be: what the branch must contain is what it was to stand on.
    let (branch, commit) = (lost.branch.clone(), lost.parent.clone());
    decision.remember("anchor", Anchor { branch, commit });
    if let Some(reason) = reason {
        decision.forget("push");
        hold::hold(review_loop, &mut decision, reason);
    }
    decision.finish()
}

/// The action of a message of ours: the last word of its first line.
fn last_word(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    first.rsplit(' ').next().unwrap_or_default().to_owned()
}
