//! What a channel should be told now, and what must wait. Pure: records, what was told, and the time go in.

use super::message::Kind;
use super::outbox::{Record, State};
use super::track::{Lane, Stage, Told};
use crate::config::Quiet;
use crate::model::{Severity, Timestamp};
use chrono::TimeDelta;
use std::time::Duration;

/// Reminders of one opening, after which silence is an answer, too.
const REPEATS_MAX: u32 = 12;
/// What holds work and was seen: once a day, for a month.
const ACKED_EVERY: Duration = Duration::from_secs(24 * 3600);
const ACKED_MAX: u32 = 30;

/// What holds for one channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub repeat: Duration,
    pub quiet: Option<Quiet>,
    /// Since when the channel is there.
    pub since: Timestamp,
    /// Does the severity go to this channel?
    pub routed: bool,
}

/// The next message about a cause on a channel, and when. `None`: nothing, unless the record changes.
pub(super) fn next(
    record: &Record,
    lane: &Lane,
    rules: &Rules,
    now: Timestamp,
) -> Option<(Kind, Timestamp)> {
    let (kind, at) = wanted(record, lane, rules, now)?;
    let under_way = lane.parcel.as_ref().filter(|parcel| !parcel.stage.is_settled());
    // A reminder that has not left yet gives way to real news; anything else is delivered first.
    if under_way.is_some_and(|p| {
        p.kind != Kind::Repeated || p.stage == Stage::Active || kind == Kind::Repeated
    }) {
        return None;
    }
    let quiet = rules.quiet.filter(|_| !record.is_urgent(kind));
    let at = quiet.and_then(|quiet| quiet.until(at.max(now))).unwrap_or(at);
    Some((kind, at))
}

fn wanted(
    record: &Record,
    lane: &Lane,
    rules: &Rules,
    now: Timestamp,
) -> Option<(Kind, Timestamp)> {
    if record.openings > lane.opening() {
        let history = record.state == State::Resolved && record.last_seen < rules.since;
        return (rules.routed && !(history && lane.seq() == 0)).then_some((Kind::Opened, now));
    }
    let told = lane.told.as_ref()?;
    if record.is_report() {
        return None;
    }
    if record.state == State::Resolved {
        return (lane.ended < told.opening).then_some((Kind::Resolved, now));
    }
    if !rules.routed {
        return None;
    }
    if (record.holds && !told.holds) || record.severity > told.severity {
        return Some((Kind::Repeated, now));
    }
    let (every, most) = reminders(record, rules)?;
    (lane.repeats < most).then(|| (Kind::Repeated, told.at + every))
}

fn reminders(record: &Record, rules: &Rules) -> Option<(Duration, u32)> {
    match record.state {
        State::Open => (record.severity > Severity::Notice).then_some((rules.repeat, REPEATS_MAX)),
        State::Acked => record.holds.then_some((ACKED_EVERY.max(rules.repeat), ACKED_MAX)),
        State::Resolved => None,
    }
}

/// What is noted when `kind` is told about `record`.
pub(super) fn told(record: &Record, lane: &Lane, kind: Kind, at: Timestamp) -> Told {
    // The end that is told is that of the opening that was told.
    let opening = if kind == Kind::Resolved { lane.opening() } else { record.openings };
    let (seq, holds, severity) = (lane.seq() + 1, record.holds, record.severity);
    Told { seq, kind, at, opening, holds, severity }
}

/// How many messages go alone (ES-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloodLimit {
    pub alone: usize,
    pub window: Duration,
}

impl Default for FloodLimit {
    fn default() -> Self {
        Self { alone: 10, window: Duration::from_secs(60) }
    }
}

/// The longest wait between two digests of a storm that does not end, in windows: an hour.
const GAP_MAX: u32 = 60;
const STORM_MEMORY: u32 = 360;

/// What one channel of one repository has said lately.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    /// Messages that went alone: when, and whether they held work.
    alone: Vec<(Timestamp, bool)>,
    digests: Vec<Timestamp>,
    /// Since when something waits for a digest.
    waiting_since: Option<Timestamp>,
}

/// One message that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub cause: String,
    pub kind: Kind,
    pub holds: bool,
    pub severity: Severity,
    pub first_seen: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Split {
    pub alone: Vec<Due>,
    pub digest: Vec<Due>,
    /// When the rest goes out as a digest.
    pub wake: Option<Timestamp>,
}

impl Flow {
    pub(super) fn said_alone(&mut self, at: Timestamp, holds: bool) {
        self.alone.push((at, holds));
    }

    pub(super) fn said_digest(&mut self, at: Timestamp) {
        self.digests.push(at);
    }

    /// Holds have room of their own: that work has stopped is heard in any storm.
    pub(super) fn split(&mut self, mut due: Vec<Due>, limit: FloodLimit, now: Timestamp) -> Split {
        self.forget(limit, now);
        due.sort_by(|a, b| order(a).cmp(&order(b)));
        let mut split = Split::default();
        let mut rest = Vec::new();
        let waits = self.waiting_since.is_some();
        for due in due {
            let said = self.alone.iter().filter(|(_, holds)| *holds == due.holds).count();
            let room = if due.holds { limit.alone } else { self.room(limit) };
            if said < room && (due.holds || !waits) {
                self.alone.push((now, due.holds));
                split.alone.push(due);
            } else {
                rest.push(due);
            }
        }
        self.gather(rest, split, limit, now)
    }

    /// Each digest of late halves what goes alone, so that a storm in waves is a few messages, too.
    fn room(&self, limit: FloodLimit) -> usize {
        limit.alone.checked_shr(self.digests.len() as u32).unwrap_or(0).max(1)
    }

    fn gather(
        &mut self,
        rest: Vec<Due>,
        mut split: Split,
        limit: FloodLimit,
        now: Timestamp,
    ) -> Split {
        if rest.is_empty() {
            self.waiting_since = None;
            return split;
        }
        let since = *self.waiting_since.get_or_insert(now);
        let gap = limit.window * 2_u32.saturating_pow(self.digests.len() as u32).min(GAP_MAX);
        let after_last = self.digests.last().map(|last| *last + gap);
        let at = after_last.map_or(since + limit.window, |after| after.max(since + limit.window));
        if now < at {
            split.wake = Some(at);
        } else {
            self.waiting_since = None;
            self.digests.push(now);
            split.digest = rest;
        }
        split
    }

    fn forget(&mut self, limit: FloodLimit, now: Timestamp) {
        // A clock that was set back must not silence anybody.
        let recent = |at: Timestamp, window: Duration| {
            let age = now - at;
            age >= TimeDelta::zero() && age < TimeDelta::from_std(window).unwrap_or(TimeDelta::MAX)
        };
        self.alone.retain(|(at, _)| recent(*at, limit.window));
        self.digests.retain(|at| recent(*at, limit.window * STORM_MEMORY));
        self.waiting_since = self.waiting_since.filter(|at| *at <= now);
    }
}

fn order(due: &Due) -> (bool, std::cmp::Reverse<Severity>, Timestamp, &str) {
    (!due.holds, std::cmp::Reverse(due.severity), due.first_seen, &due.cause)
}

#[cfg(test)]
mod tests;
