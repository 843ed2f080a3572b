//! The order of duties: which one question the loop answers next. Each duty lives in its own file.

use super::{
    ReviewLoop, away, command, condition, failure as failures, flag, gates, hold, memory::Turn,
    open_list, overreach, push, review, run_changes, takeover, tamper, transition, turn,
};
use crate::model::{Builder, Deadline, Decision, Effect, FailureKind, Moment, Now};

pub(super) fn decide(review_loop: &ReviewLoop, now: Now) -> Decision {
    if review_loop.index.is_busy() {
        return Decision::default();
    }
    let decision = duties(review_loop, now);
    if decision.is_quiet() {
        Decision { next_deadline: deadline(review_loop, now), ..decision }
    } else {
        decision
    }
}

/// The first duty that has something to do is the decision.
fn duties(review_loop: &ReviewLoop, now: Now) -> Decision {
    let duties: [fn(&ReviewLoop, Now) -> Option<Decision>; 13] = [
        turn::note_end,
        command::answer,
        unknown_state,
        failure,
        gates::note_end,
        away::look,
        tamper::repair,
        review::watch_files,
        open_list::write,
        transition::go_on,
        push::due,
        turn::give_back,
        on_the_move,
    ];
    duties.iter().find_map(|duty| duty(review_loop, now)).unwrap_or_default()
}

type TurnDuty = fn(&ReviewLoop, &Turn, Now) -> Option<Decision>;

/// What only happens while the loop is free to move.
fn on_the_move(review_loop: &ReviewLoop, now: Now) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    let turn = memory.turn.as_ref()?;
    if away::is_away(review_loop) {
        return run_changes::look_while_away(review_loop, turn);
    }
    if memory.is_held() {
        return run_changes::look_while_held(review_loop, turn);
    }
    let duties: [TurnDuty; 6] = [
        transition::turn_away,
        run_changes::look_at_what_is_left,
        overreach::put_back,
        transition::judge,
        failures::try_again,
        turn::begin,
    ];
    duties.iter().find_map(|duty| duty(review_loop, turn, now))
}

/// DM-13: a loop's state without our journal. It may be a clone, or another box's; the owner must say.
fn unknown_state(review_loop: &ReviewLoop, _: Now) -> Option<Decision> {
    let memory = &review_loop.index.memory;
    if memory.state.is_some() || memory.is_held() {
        return None;
    }
    // A file that cannot be read can neither be adopted: the condition says what is wrong with it.
    let file = review_loop.index.whole(super::STATE)?;
    takeover::check(&file.bytes).ok()?;
    let mut decision = review_loop.builder();
    hold::hold(review_loop, &mut decision, hold::unknown_state(review_loop));
    Some(decision.finish())
}

/// An effect of ours failed. What has its own way back is left to it; the rest waits for the owner.
fn failure(review_loop: &ReviewLoop, now: Now) -> Option<Decision> {
    let (effect, failure) = review_loop.index.failed.as_deref()?;
    match effect {
        Effect::Commit(_) if failure.kind == FailureKind::Moved => {
            Some(transition::replan(review_loop))
        }
        Effect::Commit(_) if failure.kind == FailureKind::GitHeld => {
            Some(transition::replan_when_free(review_loop, hold::git_held(&failure.said)))
        }
        Effect::Push { .. } => push::failed(review_loop, failure, now),
        Effect::Spawn(spawn) if spawn.command.is_some() => {
            gates::spawn_failed(review_loop, &spawn.run, &failure.said, now)
        }
        Effect::Spawn(spawn) => failures::spawn_failed(review_loop, spawn, failure, now),
        Effect::Replace { .. }
        | Effect::Take { .. }
        | Effect::Move { .. }
        | Effect::Create { .. }
        | Effect::Amend { .. }
        | Effect::Copy { .. }
        | Effect::Ask { .. }
        | Effect::Lease { .. }
        | Effect::Release { .. }
        | Effect::Stop { .. }
        | Effect::Commit(_)
        | Effect::Merge(_)
        | Effect::Worktree(_)
        | Effect::DropWorktree { .. }
        | Effect::Ref { .. }
        | Effect::Escalate(_)
        | Effect::Resolve { .. }
        | Effect::Reply { .. }
        | Effect::Log(_) => {
            let mut decision = review_loop.builder();
            hold::hold(review_loop, &mut decision, hold::broken(review_loop, effect, failure));
            Some(decision.finish())
        }
    }
}

/// The next moment at which time alone changes the answer.
fn deadline(review_loop: &ReviewLoop, now: Now) -> Option<Deadline> {
    let memory = &review_loop.index.memory;
    let push = memory.push.as_ref().and_then(|push| push.not_before);
    let push = push.and_then(|at| deadline_of(at, now, "push again"));
    if let Some(wait) = away::patience(review_loop, now).filter(|_| memory.away.is_none()) {
        let notice = Deadline { at: now.ticks.after(wait), why: "away" };
        return Deadline::earlier(push, Some(notice));
    }
    if away::is_away(review_loop) {
        let outside = condition::outside(review_loop).map(|_| Deadline::patrol(now));
        return Deadline::earlier(push, outside.filter(|_| !memory.is_held()));
    }
    if let Some(suspect) = tamper::deadline(review_loop, now) {
        return Deadline::earlier(push, Some(suspect));
    }
    if memory.is_held() {
        return push;
    }
    let turn = memory.turn.as_ref();
    let settle = turn.and_then(|turn| transition::settle_deadline(review_loop, turn, now));
    let retry = turn.filter(|turn| turn.run.is_none()).and_then(|turn| turn.not_before);
    let retry = retry.and_then(|at| deadline_of(at, now, "try again"));
    Deadline::earlier(Deadline::earlier(settle, retry), push)
}

fn deadline_of(moment: Moment, now: Now, why: &'static str) -> Option<Deadline> {
    moment.left(now).map(|left| Deadline { at: now.ticks.after(left), why })
}

impl ReviewLoop {
    pub(super) fn builder(&self) -> Builder {
        Builder::new(super::NAME, self.index.memory.decisions)
    }

    pub(super) fn flag_path() -> crate::model::RelPath {
        crate::model::RelPath::fixed(flag::PATH)
    }
}
