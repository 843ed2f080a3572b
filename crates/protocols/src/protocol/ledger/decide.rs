//! The order of duties: which one question the loop answers next. Each duty lives in its own file.

use super::{
    Ledger, PROGRESS, command, edits, foreign, hold,
    hold::Reason,
    judging,
    memory::{Stage, Turn, WayOut},
    moving, opening, running,
};
use crate::model::{Builder, Deadline, Decision, Effect, Fact, FailureKind, Now, Outcome, TreeRef};

pub(super) fn decide(it: &Ledger, now: Now) -> Decision {
    if it.index.is_busy() {
        return Decision::default();
    }
    let duties: [fn(&Ledger, Now) -> Option<Decision>; 9] = [
        command::answer,
        unknown,
        failure,
        running::note_end,
        no_answer,
        refused_file,
        edits::look,
        give_back,
        go_on,
    ];
    let decision = duties.iter().find_map(|duty| duty(it, now)).unwrap_or_default();
    if decision.is_quiet() {
        Decision { next_deadline: deadline(it, now), ..decision }
    } else {
        decision
    }
}

/// DM-13: a ledger without our journal. It may be a clone, or another box's; the owner must say.
fn unknown(it: &Ledger, _: Now) -> Option<Decision> {
    let memory = &it.index.memory;
    if memory.main.is_some() || memory.is_held() {
        return None;
    }
    let file = it.index.whole(PROGRESS)?;
    super::Progress::read(&file.bytes).ok()?;
    let summary = "this repository already has a ledger that agency has not managed here; `agency adopt` continues it".to_owned();
    let mut reason = Reason::new("DM-13", PROGRESS, summary);
    reason.way_out = WayOut::Adopt;
    Some(hold::held(it, reason))
}

/// LG-02: beside a file that was refused nothing goes on, also not what is under way.
fn refused_file(it: &Ledger, _: Now) -> Option<Decision> {
    if it.index.memory.main.is_none() || it.index.memory.is_held() {
        return None;
    }
    let foreign = foreign::in_tree(it)?;
    Some(hold::held(it, foreign.reason()))
}

/// An effect of ours failed. What has its own way back is left to it; the rest waits for the owner.
fn failure(it: &Ledger, now: Now) -> Option<Decision> {
    let (effect, failure) = it.index.failed.as_ref()?;
    let turn = it.index.memory.turn.as_ref();
    match (effect, turn) {
        (Effect::Commit(planned), _)
            if failure.kind == FailureKind::Moved && planned.branch == it.main() =>
        {
            Some(edits::look_again(it, planned))
        }
        (Effect::Merge(_) | Effect::Commit(_), Some(turn))
            if failure.kind == FailureKind::Moved =>
        {
            Some(moving::moved_away(it, turn, effect))
        }
        (Effect::Spawn(spawn), Some(turn)) => {
            let outcome = Outcome::Crash { how: failure.said.clone() };
            Some(running::end(it, turn, &spawn.run, outcome, now.wall, failure.said.clone())?)
        }
        (effect, turn) => {
            let mut decision = it.builder();
            if let Some(turn) = turn {
                decision.remember("turn", moving::rewound(turn, effect));
            }
            hold::hold(it, &mut decision, hold::broken(effect, failure));
            Some(decision.finish())
        }
    }
}

/// What git cannot tell us we do not guess.
fn no_answer(it: &Ledger, _: Now) -> Option<Decision> {
    let reason = it.index.answers.iter().find_map(|(_, _, fact)| match fact {
        Fact::GitHeld(said) => Some(hold::git_held(said)),
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
    reason.map(|reason| hold::held(it, reason))
}

fn cannot_ask(said: &str) -> Reason {
    let mut reason = Reason::new("DM-10", "git", format!("git could not be asked: {said}"));
    reason.evidence = vec![said.to_owned()];
    reason
}

/// A permission to start that cannot be used now is given back.
fn give_back(it: &Ledger, _: Now) -> Option<Decision> {
    let turn = it.index.memory.turn.as_ref()?;
    if !(it.index.granted && it.index.memory.is_held()) {
        return None;
    }
    let mut decision = it.builder();
    decision.effect(Effect::Release { tree: TreeRef::Worktree(turn.tree()) });
    Some(decision.finish())
}

fn go_on(it: &Ledger, now: Now) -> Option<Decision> {
    let memory = &it.index.memory;
    if memory.is_held() || memory.main.is_none() {
        return None;
    }
    let Some(turn) = &memory.turn else { return opening::choose(it, now) };
    if turn.not_before.is_some_and(|at| at.left(now).is_some()) {
        return None;
    }
    match &turn.stage {
        Stage::Opening => opening::bring_up_to_date(it, turn, now),
        Stage::Based { base } => running::begin(it, turn, base, now),
        Stage::Running { .. } => None,
        Stage::Ended(ended) => running::gather(it, turn, ended),
        Stage::Left { ended, tip, strayed } => judging::judge(it, turn, ended, tip, *strayed, now),
        Stage::Moving(moving) => moving::go_on(it, turn, moving, now),
    }
}

fn deadline(it: &Ledger, now: Now) -> Option<Deadline> {
    let memory = &it.index.memory;
    let waits =
        memory.turn.as_ref().filter(|_| !memory.is_held()).and_then(|turn| turn.not_before)?;
    waits.left(now).map(|left| Deadline { at: now.ticks.after(left), why: "try again" })
}

impl Ledger {
    pub(super) fn builder(&self) -> Builder {
        let mut builder = Builder::new(super::NAME, self.index.memory.decisions);
        for (key, _, fact) in &self.index.answers {
            builder.used(key.clone(), fact.clone());
        }
        builder
    }

    /// A decision that only goes on to another stage.
    pub(super) fn stage(&self, turn: &Turn, stage: Stage) -> Decision {
        let mut decision = self.builder();
        decision.remember("turn", turn.at(stage));
        decision.finish()
    }

    /// The branch that the loop belongs to. Only asked while there is one.
    pub(super) fn main(&self) -> &str {
        self.index.memory.main.as_deref().unwrap_or_default()
    }
}
