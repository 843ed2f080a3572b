//! What the end of a run means beyond its protocol: its place is free, its agent may be failing everywhere, it cost money, and
//! one day its folder goes.

use super::Workspace;
use crate::capacity::{Passed, Used};
use crate::clock;
use crate::model::{Cause, Escalation, Key, Outcome, RuleId, RunEnd, Severity};
use crate::run::history::Today;
use std::time::Duration;

const CLEAR_EVERY: Duration = Duration::from_secs(86_400);

impl Workspace {
    pub(super) fn note_end(&mut self, end: &RunEnd) {
        // The place is free when this is dropped, which is when both of the following are known.
        let Some(running) = self.running.remove(&end.run) else { return };
        if let Some(agent) = &running.agent {
            self.note_failure(agent, &end.outcome);
        }
        let micro_usd = end.usage.cost_microusd.unwrap_or(0);
        self.note_use(Used { micro_usd, tokens: end.usage.tokens() });
    }

    /// SU-06: an agent that fails again and again, in whatever repository, is not started for a while.
    fn note_failure(&self, agent: &str, outcome: &Outcome) {
        let now = clock::now();
        let opened = match outcome {
            Outcome::Ok => {
                self.settings.capacity.note_success(agent);
                None
            }
            Outcome::Crash { .. }
            | Outcome::Timeout { .. }
            | Outcome::Lost
            | Outcome::Auth { .. } => self.settings.capacity.note_failure(agent, now.ticks),
            // The owner is asked, or time mends it: neither is a series of failures.
            Outcome::Stopped { .. }
            | Outcome::UsageLimit { .. }
            | Outcome::Provider { .. }
            | Outcome::NotFound { .. }
            | Outcome::Denied { .. } => None,
        };
        if let Some(pause) = opened {
            self.tell(breaker(agent, pause, outcome, now.ticks.0));
        }
    }

    /// SU-07, SU-13: past a cap of the day nobody is started any more until the next day, or until the cap is raised.
    fn note_use(&self, used: Used) {
        let now = clock::now().wall;
        let (capacity, day) = (&self.settings.capacity, now.date_naive());
        let Some(passed) = capacity.note_use(&self.runner.places.id.hex(), day, used) else {
            return;
        };
        let tomorrow = day.succ_opt().and_then(|day| day.and_hms_opt(0, 0, 1));
        let wait = tomorrow.and_then(|at| (at.and_utc() - now).to_std().ok());
        capacity.look_again_in(wait.unwrap_or(Duration::from_secs(86_400)));
        self.tell(too_expensive(passed, &day.to_string()));
    }

    /// What the runs of today have cost, from their folders: a restart forgets no money.
    pub(super) fn count_spent(&self) {
        let limits = &self.settings.config.limits;
        if limits.cost_per_day_usd.is_none() && limits.tokens_per_day.is_none() {
            return;
        }
        let now = clock::now().wall;
        let day = now.date_naive();
        let today = Today::default().look(&self.runner.places.runs(), now);
        let micro_usd = crate::capacity::micro_usd(today.cost_usd);
        let spent = Used { micro_usd, tokens: today.tokens };
        self.settings.capacity.set_spent(&self.runner.places.id.hex(), day, spent);
    }

    /// Once a day, beside the work.
    pub(super) fn clear_old_runs(&mut self) {
        let now = clock::now();
        let lately = self.cleared.is_some_and(|at| now.ticks.since(at) < CLEAR_EVERY);
        // Of a repository that is not ours, nothing goes.
        if lately || self.closed.is_some() {
            return;
        }
        self.cleared = Some(now.ticks);
        match self.journal.prune(now.wall - self.settings.config.limits.keep_journal) {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "old segments of the journal were deleted"),
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "old segments of the journal stay"
            ),
        }
        let runs = self.runner.places.runs();
        let before = now.wall - self.settings.config.limits.keep_runs;
        tokio::task::spawn_blocking(move || {
            let count = crate::run::clear(&runs, before);
            if count > 0 {
                tracing::info!(count, runs = %runs.display(), "old runs were cleared away");
            }
        });
    }

    pub(super) fn tell(&self, escalation: Escalation) {
        let now = clock::now();
        let escalation = crate::apply::with_journal(&escalation, &self.runner.places.journal());
        let key = Key::new(format!("shell-{}", now.ticks.0));
        if let Err(error) = self.runner.outbox.raise(&escalation, &key, now.wall) {
            tracing::error!(%error, summary = escalation.summary, "the owner cannot be told");
        }
        self.runner.notifier.nudge();
    }
}

fn breaker(agent: &str, pause: Duration, last: &Outcome, epoch: u64) -> Escalation {
    let minutes = pause.as_secs() / 60;
    let last = last.sentence();
    Escalation {
        cause: cause("SU-06", format!("breaker {agent}"), epoch),
        severity: Severity::Critical,
        holds: false,
        summary: format!("`{agent}` failed five times within {minutes} min; the last run {last}"),
        what: format!("Runs of `{agent}` fail one after the other, in whatever repository."),
        did: format!("No run of `{agent}` is started for {minutes} min."),
        wont: "We do not burn tries on an agent that cannot work.".to_owned(),
        resolve: "agency logs RUN (put the agent right; it is tried again by itself)".to_owned(),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: false,
    }
}

fn too_expensive(passed: Passed, day: &str) -> Escalation {
    let (rule, subject, key, used) = match passed {
        Passed::Cost(total) => {
            let dollars = format!("cost ${}.{:02}", total / 1_000_000, total / 10_000 % 100);
            ("SU-07", format!("cost of {day}"), "limits.cost_per_day_usd", dollars)
        }
        Passed::Tokens(total) => {
            let tokens = format!("used {total} tokens");
            ("SU-13", format!("tokens of {day}"), "limits.tokens_per_day", tokens)
        }
    };
    Escalation {
        cause: cause(rule, subject, 0),
        severity: Severity::Critical,
        holds: false,
        summary: format!("the runs of {day} have {used}; that is the cap"),
        what: format!("The agents have used up what you allowed for a day (`{key}`)."),
        did: "Runs that are alive go on; no further run is started today (UTC).".to_owned(),
        wont: "We spend no more than you allowed.".to_owned(),
        resolve: format!("raise {key} in agency.yaml (it is read again by itself), or wait"),
        options: Vec::new(),
        evidence: Vec::new(),
        everywhere: false,
    }
}

fn cause(rule: &str, subject: String, epoch: u64) -> Cause {
    Cause { protocol: "agency".to_owned(), rule: RuleId::new(rule), subject, epoch }
}
