//! How many runs at a time, over all repositories: in all, per repository, per agent (SU-08), and none for a while of an
//! agent that fails again and again (SU-06). It starts nothing and knows no protocol.

use crate::model::{Ticks, Timestamp};
use chrono::NaiveDate;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// So many failures within so long open the breaker of an agent, for as long.
const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_secs(10 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub all: u32,
    pub per_repo: u32,
    pub per_agent: u32,
    /// What all runs of one day (UTC) may cost, in millionths of a dollar (SU-07).
    pub cost_per_day: Option<u64>,
    /// Their input and output tokens together (SU-13).
    pub tokens_per_day: Option<u64>,
}

/// Money and tokens that runs have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub micro_usd: u64,
    pub tokens: u64,
}

/// A cap of the day that was passed, and what the day has used in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    Cost(u64),
    Tokens(u64),
}

/// What a repository's runs have cost on a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spent {
    day: NaiveDate,
    used: Used,
}

/// Millionths of a dollar: money is counted, not approximated. Configured sums are small and never negative.
pub fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}

/// Who wants to start a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    pub agent: String,
    pub repo: String,
}

/// Shared by all workspaces of a process; a clone is the same one.
#[derive(Clone)]
pub struct Capacity(Arc<Mutex<Inner>>);

struct Inner {
    limits: Limits,
    running: Vec<Asker>,
    waiting: VecDeque<(Asker, oneshot::Sender<Permit>)>,
    breakers: BTreeMap<String, Breaker>,
    /// By repository.
    spent: BTreeMap<String, Spent>,
    alive: usize,
    last_alive: Option<Timestamp>,
}

#[derive(Default)]
struct Breaker {
    failures: VecDeque<Ticks>,
    open_until: Option<Ticks>,
}

/// A run that is alive, of an agent or a command of the owner's. Dropped when it has ended.
pub struct Alive(Capacity);

impl Drop for Alive {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.alive = inner.alive.saturating_sub(1);
        inner.last_alive = Some(crate::clock::now().wall);
    }
}

/// One run's place. Dropping it lets the next one in.
pub struct Permit {
    capacity: Capacity,
    asker: Asker,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.capacity.lock();
        if let Some(at) = inner.running.iter().position(|running| *running == self.asker) {
            inner.running.swap_remove(at);
        }
        drop(inner);
        self.capacity.admit(crate::clock::now().ticks);
    }
}

impl Capacity {
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            limits,
            running: Vec::new(),
            waiting: VecDeque::new(),
            breakers: BTreeMap::new(),
            spent: BTreeMap::new(),
            alive: 0,
            last_alive: None,
        })))
    }

    /// The permit comes when there is room: the longest waiter that fits is first.
    pub fn ask(&self, asker: Asker) -> oneshot::Receiver<Permit> {
        let (sender, receiver) = oneshot::channel();
        self.lock().waiting.push_back((asker, sender));
        self.admit(crate::clock::now().ticks);
        receiver
    }

    /// For a run that is alive already: it counts, whatever the limits say.
    pub fn count_in(&self, asker: Asker) -> Permit {
        self.lock().running.push(asker.clone());
        Permit { capacity: self.clone(), asker }
    }

    /// A run has begun, in whatever repository.
    pub fn note_alive(&self) -> Alive {
        self.lock().alive += 1;
        Alive(self.clone())
    }

    /// SE-11: some run was alive at that time or later.
    pub fn was_alive_since(&self, at: Timestamp) -> bool {
        let inner = self.lock();
        inner.alive > 0 || inner.last_alive.is_some_and(|last| last >= at)
    }

    /// The reason why a run of this asker cannot start now; `None`: it can.
    pub fn obstacle(&self, asker: &Asker, now: Ticks) -> Option<Obstacle> {
        self.lock().obstacle(asker, now)
    }

    /// New limits hold at once for whoever waits; nobody who runs is ended.
    pub fn set_limits(&self, limits: Limits) {
        self.lock().limits = limits;
        self.admit(crate::clock::now().ticks);
    }

    /// A run of this agent ended well: its breaker forgets.
    pub fn note_success(&self, agent: &str) {
        self.lock().breakers.remove(agent);
    }

    /// A run of this agent failed. Returns how long its breaker is open, if this failure opened it.
    pub fn note_failure(&self, agent: &str, now: Ticks) -> Option<Duration> {
        let mut inner = self.lock();
        let breaker = inner.breakers.entry(agent.to_owned()).or_default();
        breaker.failures.push_back(now);
        breaker.failures.retain(|at| now.since(*at) <= WINDOW);
        let opens = breaker.failures.len() >= FAILURES
            && breaker.open_until.is_none_or(|until| until <= now);
        if !opens {
            return None;
        }
        breaker.failures.clear();
        breaker.open_until = Some(now.after(WINDOW));
        drop(inner);
        self.reopen_later();
        Some(WINDOW)
    }

    /// What this repository's runs have cost today, as its folders say. Replaces what was counted for it.
    pub fn set_spent(&self, repo: &str, day: NaiveDate, used: Used) {
        self.lock().spent.insert(repo.to_owned(), Spent { day, used });
    }

    /// A run has used something. Says which cap of the day this passed, if it did.
    pub fn note_use(&self, repo: &str, day: NaiveDate, used: Used) -> Option<Passed> {
        let mut inner = self.lock();
        let limits = inner.limits;
        let before = inner.spent_on(day);
        let none = Spent { day, used: Used::default() };
        let spent = inner.spent.entry(repo.to_owned()).or_insert(none);
        if spent.day != day {
            *spent = none;
        }
        spent.used.micro_usd = spent.used.micro_usd.saturating_add(used.micro_usd);
        spent.used.tokens = spent.used.tokens.saturating_add(used.tokens);
        let after = inner.spent_on(day);
        let passed = |cap: Option<u64>, before: u64, after: u64| {
            cap.is_some_and(|cap| before < cap && after >= cap).then_some(after)
        };
        let cost = passed(limits.cost_per_day, before.micro_usd, after.micro_usd);
        let tokens = passed(limits.tokens_per_day, before.tokens, after.tokens);
        cost.map(Passed::Cost).or(tokens.map(Passed::Tokens))
    }

    /// Looks again when the breaker closes.
    fn reopen_later(&self) {
        self.look_again_in(WINDOW + Duration::from_secs(1));
    }

    /// For what ends by time alone.
    pub fn look_again_in(&self, wait: Duration) {
        let capacity = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            capacity.admit(crate::clock::now().ticks);
        });
    }

    /// No agent runs, in no repository of this process.
    pub fn is_idle(&self) -> bool {
        self.lock().running.is_empty()
    }

    /// The day's money or tokens are spent: no run starts before tomorrow, or before the owner raises the cap.
    pub fn is_spent(&self) -> bool {
        let inner = self.lock();
        let today = crate::clock::now().wall.date_naive();
        let spent = inner.spent_on(today);
        inner.limits.cost_per_day.is_some_and(|cap| spent.micro_usd >= cap)
            || inner.limits.tokens_per_day.is_some_and(|cap| spent.tokens >= cap)
    }

    fn admit(&self, now: Ticks) {
        loop {
            let mut inner = self.lock();
            let Some(at) = inner.waiting.iter().position(|(asker, _)| inner.fits(asker, now))
            else {
                return;
            };
            let (asker, sender) =
                inner.waiting.remove(at).expect("BUG: the position was just found");
            inner.running.push(asker.clone());
            drop(inner);
            // A waiter that went away gives its place back by the permit's drop.
            drop(sender.send(Permit { capacity: self.clone(), asker }));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn spent_on(&self, day: NaiveDate) -> Used {
        let today = self.spent.values().filter(|spent| spent.day == day);
        today.fold(Used::default(), |sum, spent| Used {
            micro_usd: sum.micro_usd.saturating_add(spent.used.micro_usd),
            tokens: sum.tokens.saturating_add(spent.used.tokens),
        })
    }

    fn fits(&self, asker: &Asker, now: Ticks) -> bool {
        self.obstacle(asker, now).is_none()
    }

    fn obstacle(&self, asker: &Asker, now: Ticks) -> Option<Obstacle> {
        let count = |same: &dyn Fn(&Asker) -> bool| {
            u32::try_from(self.running.iter().filter(|running| same(running)).count())
                .unwrap_or(u32::MAX)
        };
        let spent = self.spent_on(crate::clock::now().wall.date_naive());
        if let Some(cap) = self.limits.cost_per_day.filter(|cap| spent.micro_usd >= *cap) {
            return Some(Obstacle::Cost { spent: spent.micro_usd, cap });
        }
        if let Some(cap) = self.limits.tokens_per_day.filter(|cap| spent.tokens >= *cap) {
            return Some(Obstacle::Tokens { spent: spent.tokens, cap });
        }
        let breaker = self.breakers.get(&asker.agent).and_then(|breaker| breaker.open_until);
        if let Some(until) = breaker.filter(|until| *until > now) {
            return Some(Obstacle::Failing { left: until.since(now) });
        }
        let Limits { all, per_repo, per_agent, .. } = self.limits;
        let in_repo = count(&|running| running.repo == asker.repo);
        let of_agent = count(&|running| running.agent == asker.agent);
        match count(&|_| true) {
            taken if taken >= all => Some(Obstacle::All { taken, limit: all }),
            _ if in_repo >= per_repo => Some(Obstacle::Repo { taken: in_repo, limit: per_repo }),
            _ if of_agent >= per_agent => {
                Some(Obstacle::Agent { taken: of_agent, limit: per_agent })
            }
            _ => None,
        }
    }
}

/// Why a run may not start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    Cost {
        spent: u64,
        cap: u64,
    },
    Tokens {
        spent: u64,
        cap: u64,
    },
    /// The breaker of the agent is open.
    Failing {
        left: Duration,
    },
    All {
        taken: u32,
        limit: u32,
    },
    Repo {
        taken: u32,
        limit: u32,
    },
    Agent {
        taken: u32,
        limit: u32,
    },
}

impl Obstacle {
    /// For the owner, about this agent.
    pub fn words(self, agent: &str) -> String {
        let dollars = |micro: u64| format!("${}.{:02}", micro / 1_000_000, micro / 10_000 % 100);
        match self {
            Self::Cost { spent, cap } => format!(
                "today's runs cost {}, and limits.cost_per_day_usd is {}",
                dollars(spent),
                dollars(cap)
            ),
            Self::Tokens { spent, cap } => {
                format!("today's runs used {spent} tokens, and limits.tokens_per_day is {cap}")
            }
            Self::Failing { .. } => {
                format!("{agent} failed {FAILURES} times and rests")
            }
            Self::All { taken, limit } => {
                format!("{taken} of {limit} places are taken (limits.parallel)")
            }
            Self::Repo { taken, limit } => {
                format!("{taken} of {limit} places of this repository are taken (limits.per_repo)")
            }
            Self::Agent { taken, limit } => {
                format!("{taken} of {limit} places of {agent} are taken (limits.per_agent)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker(agent: &str, repo: &str) -> Asker {
        Asker { agent: agent.to_owned(), repo: repo.to_owned() }
    }

    fn capacity(all: u32, per_repo: u32, per_agent: u32) -> Capacity {
        Capacity::new(Limits { all, per_repo, per_agent, cost_per_day: None, tokens_per_day: None })
    }

    // covers: SU-08
    #[test]
    fn every_limit_holds_and_the_longest_waiter_that_fits_is_next() {
        let capacity = capacity(3, 1, 2);
        let mut first = capacity.ask(asker("claude", "a"));
        let mut same_repo = capacity.ask(asker("codex", "a"));
        let mut second = capacity.ask(asker("claude", "b"));
        let mut third_claude = capacity.ask(asker("claude", "c"));
        let mut other = capacity.ask(asker("codex", "d"));
        let mut too_many = capacity.ask(asker("codex", "e"));
        let first = first.try_recv().expect("room for the first");
        let _second = second.try_recv().expect("another repository");
        let _other = other.try_recv().expect("whoever cannot run does not block the line");
        for (waiter, why) in
            [(&mut same_repo, "repository"), (&mut third_claude, "agent"), (&mut too_many, "all")]
        {
            assert!(waiter.try_recv().is_err(), "the limit per {why} must hold");
        }
        let why = |agent, repo| {
            let obstacle = capacity.obstacle(&asker(agent, repo), Ticks(0));
            obstacle.map(|obstacle| obstacle.words(agent))
        };
        assert_eq!(why("x", "e").unwrap(), "3 of 3 places are taken (limits.parallel)");
        drop(first);
        let _same_repo = same_repo.try_recv().expect("the longest waiter that fits");
        assert!(third_claude.try_recv().is_err() && too_many.try_recv().is_err());
    }

    #[test]
    fn a_run_that_is_alive_counts_and_a_waiter_that_left_does_not() {
        let capacity = capacity(1, 1, 1);
        let alive = capacity.count_in(asker("claude", "a"));
        drop(capacity.ask(asker("claude", "b")));
        let mut waiter = capacity.ask(asker("claude", "c"));
        assert!(waiter.try_recv().is_err());
        drop(alive);
        assert!(waiter.try_recv().is_ok(), "the one that left must not keep its place");
    }

    // covers: SU-06
    #[tokio::test(start_paused = true)]
    async fn five_failures_open_the_breaker_once_and_one_success_forgets() {
        let capacity = capacity(9, 9, 9);
        let at = |seconds: u64| Ticks(seconds * 1000);
        for second in 0..4 {
            assert_eq!(capacity.note_failure("codex", at(second)), None);
        }
        capacity.note_success("codex");
        for second in 0..4 {
            assert_eq!(capacity.note_failure("codex", at(second)), None, "the count began anew");
        }
        assert!(
            capacity.note_failure("codex", at(700)).is_none(),
            "older failures are outside the window"
        );
        let now = crate::clock::now().ticks;
        let opened: Vec<_> = (0..7).filter_map(|_| capacity.note_failure("claude", now)).collect();
        assert_eq!(opened, [WINDOW], "it opens once");
        assert!(
            capacity.ask(asker("claude", "a")).try_recv().is_err(),
            "nobody starts while it is open"
        );
        let obstacle = capacity.obstacle(&asker("claude", "a"), now).unwrap();
        assert_eq!(obstacle.words("claude"), "claude failed 5 times and rests");
        assert!(capacity.ask(asker("codex", "a")).try_recv().is_ok(), "others do");
    }

    // covers: SU-07
    #[test]
    fn past_the_days_cap_nobody_starts_and_it_is_told_once() {
        let capacity = capacity(9, 9, 9);
        let limits = Limits { cost_per_day: Some(1_000_000), ..capacity.lock().limits };
        capacity.set_limits(limits);
        let usd = |micro_usd| Used { micro_usd, tokens: 0 };
        let today = crate::clock::now().wall.date_naive();
        let yesterday = today.pred_opt().unwrap();
        capacity.set_spent("a", yesterday, usd(9_000_000));
        capacity.set_spent("b", today, usd(400_000));
        assert!(capacity.ask(asker("codex", "a")).try_recv().is_ok(), "yesterday does not count");
        assert_eq!(capacity.note_use("a", today, usd(500_000)), None);
        assert_eq!(capacity.note_use("a", today, usd(200_000)), Some(Passed::Cost(1_100_000)));
        assert_eq!(capacity.note_use("b", today, usd(200_000)), None, "once");
        let mut waiter = capacity.ask(asker("codex", "c"));
        assert!(waiter.try_recv().is_err());
        let obstacle = capacity.obstacle(&asker("codex", "c"), Ticks(0)).unwrap();
        assert_eq!(
            obstacle.words("codex"),
            "today's runs cost $1.30, and limits.cost_per_day_usd is $1.00"
        );
        capacity.set_limits(Limits { cost_per_day: Some(5_000_000), ..limits });
        assert!(waiter.try_recv().is_ok(), "a higher cap lets it go on");
    }

    // covers: SU-13
    #[test]
    fn tokens_have_a_cap_of_their_own() {
        let capacity = capacity(9, 9, 9);
        let limits = Limits { tokens_per_day: Some(1_000), ..capacity.lock().limits };
        capacity.set_limits(limits);
        let today = crate::clock::now().wall.date_naive();
        let tokens = |tokens| Used { micro_usd: 0, tokens };
        assert_eq!(capacity.note_use("a", today, tokens(900)), None);
        assert_eq!(capacity.note_use("b", today, tokens(100)), Some(Passed::Tokens(1_000)));
        assert!(capacity.ask(asker("codex", "a")).try_recv().is_err());
    }
}
