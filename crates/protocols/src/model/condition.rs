//! What a protocol does in a repository right now (DM-16), and the check that it never stands still in silence (DM-17).
//! Values only: the protocol says what it knows, the shell adds what only it knows, every view shows the result.

use super::{Effect, Moment, Outcome, RunId, Timestamp};

/// Exactly one of these holds at any time, for each protocol in each repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Working(Work),
    Waiting(Wait),
    /// The owner must do something first.
    Held {
        cause: String,
        /// The command that ends it.
        resolve: String,
    },
    /// We cannot work here.
    Frozen {
        cause: String,
        resolve: String,
    },
    /// There is nothing to do.
    Idle {
        reason: String,
    },
    /// Everything that was to be done is done.
    Done {
        reason: String,
    },
}

/// What is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Run(LiveRun),
    /// A step of our own between two runs.
    Step {
        doing: String,
    },
}

/// A run that is alive, as far as the protocol knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRun {
    pub run: RunId,
    pub agent: String,
    pub task: String,
    pub since: Option<Timestamp>,
    /// What goes wrong while it works: a provider that does not answer, or a message that was refused.
    pub trouble: Option<String>,
    /// How many other runs of the same protocol are alive.
    pub others: usize,
}

/// What a protocol waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A permission to start a run. The shell knows what is in the way: the tree, the places, the money.
    Start { agent: String, task: String },
    /// A moment.
    Until { reason: String, until: Timestamp },
    /// Something outside: a person, a branch, a file.
    For { reason: String },
}

impl Condition {
    pub fn waits_for(reason: impl Into<String>) -> Self {
        Self::Waiting(Wait::For { reason: reason.into() })
    }

    pub fn waits_until(reason: impl Into<String>, until: Moment) -> Self {
        Self::Waiting(Wait::Until { reason: reason.into(), until: until.wall() })
    }

    pub fn starts(agent: impl Into<String>, task: impl Into<String>) -> Self {
        Self::Waiting(Wait::Start { agent: agent.into(), task: task.into() })
    }

    pub fn step(doing: impl Into<String>) -> Self {
        Self::Working(Work::Step { doing: doing.into() })
    }

    /// An effect of ours is in flight.
    pub fn doing(effect: &Effect) -> Self {
        Self::step(effect.doing())
    }

    pub fn held(cause: impl Into<String>, resolve: impl Into<String>) -> Self {
        Self::Held { cause: cause.into(), resolve: resolve.into() }
    }

    pub fn frozen(cause: impl Into<String>, resolve: impl Into<String>) -> Self {
        Self::Frozen { cause: cause.into(), resolve: resolve.into() }
    }

    pub fn idle(reason: impl Into<String>) -> Self {
        Self::Idle { reason: reason.into() }
    }

    pub fn done(reason: impl Into<String>) -> Self {
        Self::Done { reason: reason.into() }
    }

    pub fn kind(&self) -> &'static str {
        match self {
            Self::Working(_) => "working",
            Self::Waiting(_) => "waiting",
            Self::Held { .. } => "held",
            Self::Frozen { .. } => "frozen",
            Self::Idle { .. } => "idle",
            Self::Done { .. } => "done",
        }
    }

    /// Why, in words.
    pub fn reason(&self) -> String {
        match self {
            Self::Working(work) => work.words(),
            Self::Waiting(wait) => wait.words(),
            Self::Held { cause, .. } | Self::Frozen { cause, .. } => cause.clone(),
            Self::Idle { reason } | Self::Done { reason } => reason.clone(),
        }
    }

    /// When a wait ends by itself, if that is known.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Waiting(Wait::Until { until, .. }) => Some(*until),
            Self::Waiting(Wait::Start { .. } | Wait::For { .. })
            | Self::Working(_)
            | Self::Held { .. }
            | Self::Frozen { .. }
            | Self::Idle { .. }
            | Self::Done { .. } => None,
        }
    }

    pub fn run(&self) -> Option<&LiveRun> {
        match self {
            Self::Working(Work::Run(run)) => Some(run),
            Self::Working(Work::Step { .. })
            | Self::Waiting(_)
            | Self::Held { .. }
            | Self::Frozen { .. }
            | Self::Idle { .. }
            | Self::Done { .. } => None,
        }
    }

    /// The command that ends it, where only the owner can.
    pub fn resolve(&self) -> Option<&str> {
        match self {
            Self::Held { resolve, .. } | Self::Frozen { resolve, .. } => Some(resolve),
            Self::Working(_) | Self::Waiting(_) | Self::Idle { .. } | Self::Done { .. } => None,
        }
    }

    /// The owner must act before anything happens here.
    pub fn needs_owner(&self) -> bool {
        self.resolve().is_some()
    }
}

impl Work {
    fn words(&self) -> String {
        match self {
            Self::Run(run) => run.words(),
            Self::Step { doing } => doing.clone(),
        }
    }
}

impl LiveRun {
    fn words(&self) -> String {
        let mut words = format!("{} works on {}", self.agent, self.task);
        if let Some(since) = self.since {
            words = format!("{words} since {}", clock_time(since));
        }
        if let Some(trouble) = &self.trouble {
            words = format!("{words}; {trouble}");
        }
        match self.others {
            0 => words,
            1 => format!("{words}; 1 other run"),
            others => format!("{words}; {others} other runs"),
        }
    }
}

impl Wait {
    fn words(&self) -> String {
        match self {
            Self::Start { agent, task } => format!("{agent} is about to start on {task}"),
            Self::Until { reason, .. } | Self::For { reason } => reason.clone(),
        }
    }
}

/// Hours and minutes of a moment, UTC.
pub fn clock_time(at: Timestamp) -> String {
    at.format("%H:%MZ").to_string()
}

/// With the date where the hour alone would be taken for today's.
fn day_time(at: Timestamp, now: Timestamp) -> String {
    if at.date_naive() == now.date_naive() {
        return clock_time(at);
    }
    at.format("%Y-%m-%d %H:%MZ").to_string()
}

impl Outcome {
    /// Why the next try waits, in words.
    pub fn pause(&self, agent: &str, until: Moment, now: Timestamp) -> String {
        let at = day_time(until.wall(), now);
        if let Self::UsageLimit { until: named } = self {
            // Without a reset that the provider names, the next try is only a guess of ours.
            let then = if named.is_some() { ", resets" } else { "; next try" };
            return format!("{agent}'s usage limit{then} {at}");
        }
        format!("the last run of {agent} {}; next try {at}", super::clip(&self.sentence(), 160))
    }
}

/// What keeps a protocol moving, as the shell or a simulation sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// A run of this protocol is alive.
    pub has_live_run: bool,
    /// Time alone will wake it.
    pub has_deadline: bool,
    /// Effects that were begun and are not finished; a lease that is waited for is one.
    pub effects_in_flight: usize,
}

/// A protocol that neither moves nor says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The condition that it claims to be in.
    pub claims: String,
}

/// DM-17: what is not idle, done, held or frozen has a live run, a deadline or an effect in flight.
pub fn stalled(condition: &Condition, activity: Activity) -> Option<Stall> {
    let moves = activity.has_live_run || activity.has_deadline || activity.effects_in_flight > 0;
    match condition {
        Condition::Held { .. }
        | Condition::Frozen { .. }
        | Condition::Idle { .. }
        | Condition::Done { .. } => None,
        Condition::Working(_) | Condition::Waiting(_) => (!moves)
            .then(|| Stall { claims: format!("{}: {}", condition.kind(), condition.reason()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Now, Ticks};
    use std::time::Duration;

    fn every_kind() -> [Condition; 8] {
        let run = LiveRun {
            run: RunId::new("r-1"),
            agent: "claude".to_owned(),
            task: "T0001".to_owned(),
            since: None,
            trouble: None,
            others: 0,
        };
        [
            Condition::Working(Work::Run(run)),
            Condition::step("committing"),
            Condition::starts("claude", "T0001"),
            Condition::waits_for("T0004 is not DONE"),
            Condition::held("a flag was forged", "agency resume"),
            Condition::frozen("no manifest", "agency init"),
            Condition::idle("no task yet"),
            Condition::done("all 3 tasks are over"),
        ]
    }

    // covers: DM-17
    #[test]
    fn only_what_should_move_and_has_nothing_that_moves_it_is_stalled() {
        let none = Activity::default();
        let moving = [
            Activity { has_live_run: true, ..none },
            Activity { has_deadline: true, ..none },
            Activity { effects_in_flight: 1, ..none },
        ];
        for condition in every_kind() {
            let must_move = matches!(condition.kind(), "working" | "waiting");
            assert_eq!(stalled(&condition, none).is_some(), must_move, "{condition:?}");
            for activity in moving {
                assert_eq!(stalled(&condition, activity), None, "{condition:?} {activity:?}");
            }
        }
    }

    // covers: DM-16
    #[test]
    fn every_condition_has_a_kind_a_reason_and_where_the_owner_must_act_a_command() {
        for condition in every_kind() {
            assert!(!condition.reason().is_empty(), "{condition:?}");
            let asks = matches!(condition.kind(), "held" | "frozen");
            assert_eq!(condition.resolve().is_some(), asks, "{condition:?}");
            assert_eq!(condition.needs_owner(), asks);
        }
    }

    // covers: DM-16
    #[test]
    fn a_wait_says_until_when() {
        let now = Now { wall: "2026-01-01T03:11:00Z".parse().unwrap(), ticks: Ticks(0) };
        let until = Moment::after(now, Duration::from_secs(30 * 60));
        let limit = |until: Option<Timestamp>, pause| {
            Outcome::UsageLimit { until }.pause("claude", pause, now.wall)
        };
        assert_eq!(limit(Some(until.wall()), until), "claude's usage limit, resets 03:41Z");
        assert_eq!(limit(None, until), "claude's usage limit; next try 03:41Z");
        let later = Moment::after(now, Duration::from_secs(3 * 86_400));
        let words = limit(Some(later.wall()), later);
        assert_eq!(words, "claude's usage limit, resets 2026-01-04 03:11Z");
        let crash = Outcome::Crash { how: "exit 1".to_owned() };
        let words = crash.pause("codex", until, now.wall);
        assert_eq!(words, "the last run of codex crashed: exit 1; next try 03:41Z");
        let waits = Condition::waits_until(words, until);
        assert_eq!(waits.until(), Some("2026-01-01T03:41:00Z".parse().unwrap()));
    }
}
