//! Effects that cannot be done for now: a full disk, an I/O error, a worktree that is not ours any more (SE-08). The shell tries them again with
//! backoff, then holds the protocol and tells the owner (DM-21). For the protocol such an effect is still in flight.

use super::Workspace;
use crate::apply::Obstacle;
use crate::clock;
use crate::model::{
    Cause, Condition, Deadline, Effect, Escalation, Failure, Key, Keyed, Now, RuleId, Severity,
    Ticks, clip,
};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const RULE: &str = "DM-21";
/// The pause after the first failed try; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(250);
const LAST: Duration = Duration::from_secs(30);
/// The owner hears of it after so many failed tries, which is some 4 s.
const TRIES_BEFORE_TELLING: u32 = 5;

/// By protocol: the first of its effects that cannot be done. Those behind it wait, because their order has a meaning.
#[derive(Default)]
pub(super) struct StuckEffects(BTreeMap<String, Stuck>);

struct Stuck {
    obstacle: Obstacle,
    doing: String,
    said: String,
    tries: u32,
    next: Ticks,
}

impl Stuck {
    fn is_held(&self) -> bool {
        self.tries >= self.obstacle.tries()
    }
}

impl StuckEffects {
    pub(super) fn is_waiting(&self, protocol: &str, now: Now) -> bool {
        self.0.get(protocol).is_some_and(|stuck| stuck.next > now.ticks)
    }

    /// The next try of all.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        let next = self.0.values().map(|stuck| stuck.next).min()?;
        Some(Deadline { at: next, why: "try an effect again" })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Something is tried again that the owner does not know of yet.
    pub(super) fn is_trying(&self) -> bool {
        self.0.values().any(|stuck| !stuck.is_held())
    }

    /// Whoever asks wants to know now.
    pub(super) fn try_now(&mut self) {
        self.0.values_mut().for_each(|stuck| stuck.next = Ticks(0));
    }

    /// What a protocol is, while one of its effects is held.
    pub(super) fn condition(&self, protocol: &str) -> Option<Condition> {
        let stuck = self.0.get(protocol).filter(|stuck| stuck.is_held())?;
        let Stuck { doing, said, tries, obstacle, .. } = stuck;
        let cause = match obstacle {
            Obstacle::Machine => format!("{doing} failed {tries} times: {said}"),
            Obstacle::ForeignTree | Obstacle::GateProgram => said.clone(),
        };
        Some(Condition::held(cause, obstacle.resolve()))
    }

    /// True when the owner must hear of it now.
    fn note(
        &mut self,
        protocol: &str,
        effect: &Effect,
        failure: &Failure,
        obstacle: Obstacle,
        now: Now,
    ) -> bool {
        let (doing, said) = (effect.doing(), String::new());
        let fresh = Stuck { obstacle, doing, said, tries: 0, next: Ticks(0) };
        let stuck = self.0.entry(protocol.to_owned()).or_insert(fresh);
        if stuck.obstacle != obstacle {
            (stuck.obstacle, stuck.tries) = (obstacle, 0);
        }
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(stuck.tries)).min(LAST);
        stuck.tries = stuck.tries.saturating_add(1);
        stuck.said = clip(&failure.said, 300);
        stuck.next = now.ticks.after(pause);
        stuck.tries == stuck.obstacle.tries()
    }

    fn forget(&mut self, protocol: &str) -> Option<Stuck> {
        self.0.remove(protocol)
    }
}

pub(super) const RESOLVE: &str =
    "make room or repair what the message names; it is tried again by itself";
const RESOLVE_TREE: &str = "move away what is in the worktree's place and put the worktree back there; it is tried again by itself. If the worktree is lost, leave the place empty";
const RESOLVE_PROGRAM: &str = "look at the program; put it back (the gate is tried again by itself), or accept it as it is now: agency trust";

impl Obstacle {
    fn rule(self) -> &'static str {
        match self {
            Self::Machine => RULE,
            Self::ForeignTree => "SE-08",
            Self::GateProgram => "LP-34",
        }
    }

    /// The owner hears of it after so many failed tries.
    fn tries(self) -> u32 {
        match self {
            Self::Machine => TRIES_BEFORE_TELLING,
            Self::ForeignTree | Self::GateProgram => 1,
        }
    }

    fn resolve(self) -> &'static str {
        match self {
            Self::Machine => RESOLVE,
            Self::ForeignTree => RESOLVE_TREE,
            Self::GateProgram => RESOLVE_PROGRAM,
        }
    }
}

impl Workspace {
    /// The effect stays in flight and is tried again later.
    pub(super) fn not_now(
        &mut self,
        protocol: &str,
        keyed: &Keyed,
        failure: &Failure,
        obstacle: Obstacle,
    ) {
        let now = clock::now();
        let key = &keyed.key;
        tracing::warn!(%protocol, %key, said = failure.said, "an effect is tried again later");
        if self.stuck.note(protocol, &keyed.effect, failure, obstacle, now) {
            tracing::error!(%protocol, %key, said = failure.said, "held by an effect that fails");
            self.tell(match obstacle {
                Obstacle::Machine => held(protocol, &keyed.effect, failure),
                Obstacle::ForeignTree => foreign_tree(protocol, &keyed.effect, failure),
                Obstacle::GateProgram => gate_program(protocol, &keyed.effect, failure),
            });
        }
    }

    /// The effect of a protocol went through, or failed for good: nothing of it is stuck any more.
    pub(super) fn unstick(&mut self, protocol: &str) {
        let Some(stuck) = self.stuck.forget(protocol) else { return };
        tracing::info!(%protocol, doing = stuck.doing, tries = stuck.tries, "it works again");
        if stuck.is_held() {
            self.resolve_own(stuck.obstacle.rule(), protocol);
        }
    }

    /// Whether our own folder can be written. The status is the file of it that is written most often.
    pub(super) fn note_state_dir(&mut self, written: std::io::Result<()>) {
        match written {
            Ok(()) => self.forget_told(OURS),
            Err(error) => {
                let folder = self.runner.places.folder.display().to_string();
                tracing::error!(%error, folder, "the state directory cannot be written");
                if self.watchdog.is_news(RULE, OURS) {
                    self.tell(unwritable(&folder, &error.to_string()));
                }
            }
        }
    }

    /// Ends what we told of a protocol under one of our own rules.
    pub(super) fn resolve_own(&self, rule: &str, protocol: &str) {
        let now = clock::now();
        let key = Key::new(format!("shell-{}", now.ticks.0));
        let ours =
            |record: &crate::escalate::Record| record.rule == rule && record.protocol == protocol;
        if let Err(error) = self.runner.outbox.resolve_all(ours, &key, now.wall) {
            tracing::warn!(%error, "an escalation stays open");
        }
        self.runner.notifier.nudge();
    }
}

/// Who speaks when no protocol does.
const OURS: &str = "agency";

fn unwritable(folder: &str, said: &str) -> Escalation {
    Escalation {
        cause: Cause {
            protocol: OURS.to_owned(),
            rule: RuleId::new(RULE),
            subject: "state directory".to_owned(),
            epoch: 0,
        },
        severity: Severity::Critical,
        holds: false,
        summary: format!("the state directory cannot be written: {said}"),
        what: format!("`{folder}` cannot be written: {said}."),
        did: "The daemon keeps trying. Runs that are alive go on, but their ends may not be recorded.".to_owned(),
        wont: "The daemon starts nothing that it cannot record.".to_owned(),
        resolve: RESOLVE.to_owned(),
        options: Vec::new(),
        evidence: vec![format!("{folder}: {said}")],
        everywhere: false,
    }
}

fn held(protocol: &str, effect: &Effect, failure: &Failure) -> Escalation {
    let doing = effect.doing();
    let said = clip(&failure.said, 160);
    Escalation {
        cause: Cause {
            protocol: protocol.to_owned(),
            rule: RuleId::new(RULE),
            subject: clip(&doing, 200),
            epoch: 0,
        },
        severity: Severity::Critical,
        holds: true,
        summary: format!("{doing} fails: {said}"),
        what: format!("{doing} failed {TRIES_BEFORE_TELLING} times: {}", failure.said),
        did: "The daemon keeps trying, at most 30 s apart. Nothing after this step is done before it.".to_owned(),
        wont: "The daemon skips no step of a decision.".to_owned(),
        resolve: RESOLVE.to_owned(),
        options: Vec::new(),
        evidence: vec![clip(&failure.said, 2000)],
        everywhere: false,
    }
}

fn foreign_tree(protocol: &str, effect: &Effect, failure: &Failure) -> Escalation {
    let doing = effect.doing();
    Escalation {
        cause: Cause {
            protocol: protocol.to_owned(),
            rule: RuleId::new(Obstacle::ForeignTree.rule()),
            subject: clip(&failure.said, 200),
            epoch: 0,
        },
        summary: format!("a worktree was replaced: {}", clip(&failure.said, 160)),
        what: format!("{}. agency made a directory there and works in no other.", failure.said),
        did: format!("Nothing was run, read or written there. Not done: {doing}."),
        wont: "No agent, gate or git command enters another directory, wherever it leads."
            .to_owned(),
        resolve: RESOLVE_TREE.to_owned(),
        ..held(protocol, effect, failure)
    }
}

fn gate_program(protocol: &str, effect: &Effect, failure: &Failure) -> Escalation {
    Escalation {
        cause: Cause {
            protocol: protocol.to_owned(),
            rule: RuleId::new(Obstacle::GateProgram.rule()),
            subject: clip(&failure.said, 200),
            epoch: 0,
        },
        summary: clip(&failure.said, 160),
        what: format!(
            "{}. It lies outside the repository and is not what it was when an agent first started.",
            failure.said
        ),
        did: "The gate was not run.".to_owned(),
        wont: "No work is accepted on the word of a program that may have been changed for it."
            .to_owned(),
        resolve: RESOLVE_PROGRAM.to_owned(),
        ..held(protocol, effect, failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Bytes, FailureKind, RelPath};

    // covers: DM-21
    #[test]
    fn tries_come_later_each_time_and_the_fifth_failure_is_told_once() {
        let mut stuck = StuckEffects::default();
        let (path, bytes) = (RelPath::fixed("state.json"), Bytes(Vec::new()));
        let effect = Effect::Replace { path, bytes, seen: None };
        let said = "No space left on device".to_owned();
        let failure = Failure { kind: FailureKind::Broken, said };
        let mut now = Now { wall: "2026-01-01T00:00:00Z".parse().unwrap(), ticks: Ticks(1000) };
        let mut told = Vec::new();
        let mut last = Duration::ZERO;
        for attempt in 1..=20 {
            if stuck.note("loop", &effect, &failure, Obstacle::Machine, now) {
                told.push(attempt);
            }
            assert!(stuck.is_waiting("loop", now) && !stuck.is_waiting("board", now));
            assert_eq!(stuck.is_trying(), attempt < 5);
            let pause = stuck.deadline().unwrap().at.since(now.ticks);
            assert!(pause >= last && pause <= LAST, "{pause:?} after {last:?}");
            (last, now.ticks) = (pause, now.ticks.after(pause));
        }
        assert_eq!((told, last), (vec![5], LAST));
        let condition = stuck.condition("loop").unwrap();
        assert_eq!(condition.kind(), "held");
        assert!(condition.reason().contains("No space left"), "{}", condition.reason());
        assert!(stuck.forget("loop").unwrap().is_held() && stuck.condition("loop").is_none());
    }
}
