//! The order of duties: which one question the loop answers next. Each duty lives in its own file.

use super::memory::{Memo, Sessions, Turn};
use super::{
    Ledger, PROGRESS, command, edits, foreign, hold, hold::notice, judging, opening, running,
    transition,
};
use crate::engine::{self, Draft, Duty, Notice, Step, WayOut, broken, git_held};
use crate::model::{Deadline, Decision, Effect, Fact, FailureKind, Now};

pub(super) fn decide(ledger: &Ledger, now: Now) -> Decision {
    if ledger.index.in_flight.blocking().is_some() {
        return Decision::default();
    }
    let duties: [fn(&Ledger, Now) -> Option<Decision>; 9] = [
        command::answer,
        unknown,
        failure,
        note_exit,
        no_answer,
        refused_file,
        edits::look,
        give_back,
        go_on,
    ];
    let decision = duties.iter().find_map(|duty| duty(ledger, now)).unwrap_or_default();
    if decision.is_quiet() {
        Decision { next_deadline: deadline(ledger, now), ..decision }
    } else {
        decision
    }
}

/// DM-13: a ledger without our journal. It may be a clone, or another box's; the owner must say.
fn unknown(ledger: &Ledger, _: Now) -> Option<Decision> {
    let memory = &ledger.index.memory;
    if memory.main.is_some() || memory.is_held() {
        return None;
    }
    let file = ledger.index.whole(PROGRESS)?;
    super::Progress::read(&file.bytes).ok()?;
    let summary = "this repository already has a ledger that agency has not managed here; `agency adopt` continues it".to_owned();
    let mut reason = notice("DM-13", PROGRESS, summary);
    reason.way_out = WayOut::Adopt;
    Some(hold::held(ledger, reason))
}

/// LG-02: beside a file that was refused nothing goes on, also not what is under way.
fn refused_file(ledger: &Ledger, _: Now) -> Option<Decision> {
    if ledger.index.memory.main.is_none() || ledger.index.memory.is_held() {
        return None;
    }
    let foreign = foreign::in_tree(ledger)?;
    Some(hold::held(ledger, foreign.reason()))
}

/// An effect of ours failed. What has its own way back is left to it; the rest waits for the owner.
fn failure(ledger: &Ledger, now: Now) -> Option<Decision> {
    let (effect, failure) = ledger.index.in_flight.failed()?;
    let turn = ledger.index.memory.turn();
    match (effect, turn) {
        (Effect::Commit(planned), _)
            if failure.kind == FailureKind::Moved && planned.branch == ledger.main() =>
        {
            Some(edits::look_again(ledger, planned))
        }
        (Effect::Merge(_) | Effect::Commit(_), Some(turn))
            if failure.kind == FailureKind::Moved =>
        {
            Some(transition::moved_away(ledger, turn, effect))
        }
        (Effect::Spawn(spawn), Some(turn)) => {
            engine::start_failed(ledger, turn, spawn, failure, now.wall)
        }
        (effect, turn) => {
            let mut decision = ledger.draft();
            if let Some(turn) = turn {
                decision.remember(Memo::turn(transition::rewound(turn, effect)));
            }
            engine::hold(
                ledger,
                &mut decision,
                broken(notice("", "", String::new()), effect, failure),
            );
            Some(decision.finish())
        }
    }
}

/// What git cannot tell us we do not guess.
fn no_answer(ledger: &Ledger, _: Now) -> Option<Decision> {
    let reason = ledger.index.in_flight.answers().iter().find_map(|(_, _, fact)| match fact {
        Fact::GitHeld(said) => Some(git_held(notice("", "", String::new()), said)),
        Fact::Unknown(said) => Some(cannot_ask(said)),
        Fact::NoGit => Some(cannot_ask("the repository is not under git")),
        Fact::Snapshot(_)
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
        | Fact::Sides(_)
        | Fact::Commits(_)
        | Fact::Conflict(_) => None,
    });
    reason.map(|reason| hold::held(ledger, reason))
}

fn cannot_ask(said: &str) -> Notice {
    let mut reason = notice("DM-10", "git", format!("git could not be asked: {said}"));
    reason.evidence = vec![said.to_owned()];
    reason
}

/// A permission to start that cannot be used now is given back.
fn give_back(ledger: &Ledger, _: Now) -> Option<Decision> {
    engine::give_back(ledger, ledger.index.memory.turn()?)
}

fn note_exit(ledger: &Ledger, _: Now) -> Option<Decision> {
    engine::note_exit(ledger, ledger.index.memory.turn()?)
}

fn go_on(ledger: &Ledger, now: Now) -> Option<Decision> {
    let memory = &ledger.index.memory;
    if memory.is_held() || memory.main.is_none() || foreign::unread(ledger).is_some() {
        return None;
    }
    let Some(turn) = memory.turn() else { return opening::choose(ledger, now) };
    match engine::duty(ledger, turn, now) {
        Duty::Wait => None,
        Duty::Decided(decision) => Some(decision),
        Duty::Prepare => opening::bring_up_to_date(ledger, turn, now),
        Duty::Look(ended) => running::gather(ledger, turn, ended),
        Duty::Judge(looked) => judging::judge(ledger, turn, looked, now),
        Duty::Land(transition) => transition::go_on(ledger, turn, transition, now),
    }
}

fn deadline(ledger: &Ledger, now: Now) -> Option<Deadline> {
    let memory = &ledger.index.memory;
    if memory.main.is_some() && !memory.is_held() && foreign::unread(ledger).is_some() {
        return Some(Deadline::patrol(now));
    }
    engine::deadline(ledger, memory.turn()?, now)
}

impl Ledger {
    pub(super) fn draft(&self) -> Draft<Memo> {
        let mut draft = Draft::new(super::NAME, self.index.memory.decisions);
        for (key, _, fact) in self.index.in_flight.answers() {
            draft.used(key.clone(), fact.clone());
        }
        draft
    }

    /// A decision that only takes a step.
    pub(super) fn step(&self, turn: &Turn, step: Step<Sessions>) -> Decision {
        let mut draft = self.draft();
        draft.remember(Memo::turn(turn.step(step)));
        draft.finish()
    }

    /// The branch that the loop belongs to. Only asked while there is one.
    pub(super) fn main(&self) -> &str {
        self.index.memory.main.as_deref().unwrap_or_default()
    }
}
