//! Hours in which a channel stays quiet. It knows the hours, not what may break them.

use super::value::text_that;
use super::walk::Spot;
use crate::model::Timestamp;
use chrono::{Local, Timelike};
use std::time::Duration;

const DAY: u16 = 24 * 60;

/// `22:00-07:00` by this machine's clock, `22:00-07:00 UTC` by the world's. From is in, to is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet {
    from: u16,
    to: u16,
    zone: Zone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    Local,
    Utc,
}

impl Quiet {
    /// Reads `HH:MM-HH:MM`, with ` UTC` or without. The two ends must differ.
    pub fn of(text: &str) -> Option<Self> {
        let (hours, zone) = match text.strip_suffix(" UTC") {
            Some(hours) => (hours, Zone::Utc),
            None => (text, Zone::Local),
        };
        let (from, to) = hours.split_once('-')?;
        let (from, to) = (minute(from)?, minute(to)?);
        (from != to).then_some(Self { from, to, zone })
    }

    /// Until when it is quiet; `None` when it is not.
    pub fn until(&self, at: Timestamp) -> Option<Timestamp> {
        let time = match self.zone {
            Zone::Local => at.with_timezone(&Local).time(),
            Zone::Utc => at.time(),
        };
        let left = self.minutes_left(u16::try_from(time.hour() * 60 + time.minute()).ok()?)?;
        let seconds = u64::from(left) * 60 - u64::from(time.second());
        Some(at + Duration::from_secs(seconds))
    }

    fn minutes_left(&self, now: u16) -> Option<u16> {
        let length = (self.to + DAY - self.from) % DAY;
        let passed = (now + DAY - self.from) % DAY;
        (passed < length).then(|| length - passed)
    }
}

/// `08:00` by this machine's clock, `08:00 UTC` by the world's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeOfDay {
    minute: u16,
    zone: Zone,
}

impl TimeOfDay {
    pub fn of(text: &str) -> Option<Self> {
        let (time, zone) = match text.strip_suffix(" UTC") {
            Some(time) => (time, Zone::Utc),
            None => (text, Zone::Local),
        };
        Some(Self { minute: minute(time)?, zone })
    }

    /// The last such moment, up to and including `now`.
    pub fn last(&self, now: Timestamp) -> Timestamp {
        let time = match self.zone {
            Zone::Local => now.with_timezone(&Local).time(),
            Zone::Utc => now.time(),
        };
        let day = 24 * 3600;
        let passed = i64::from(time.num_seconds_from_midnight()) - 60 * i64::from(self.minute);
        let nanos = i64::from(now.timestamp_subsec_nanos());
        now - chrono::TimeDelta::seconds((passed + day) % day)
            - chrono::TimeDelta::nanoseconds(nanos)
    }
}

pub(super) fn time_of_day(spot: &mut Spot<'_>) -> Option<TimeOfDay> {
    let wanted = "a time of day such as `08:00` (this machine's clock) or `08:00 UTC`";
    text_that(wanted, |text| TimeOfDay::of(text).is_some())(spot)
        .and_then(|text| TimeOfDay::of(&text))
}

fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let number = |part: &str| {
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse::<u16>().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

pub(super) fn quiet(spot: &mut Spot<'_>) -> Option<Quiet> {
    let wanted = "hours such as `22:00-07:00` (this machine's clock) or `22:00-07:00 UTC`";
    text_that(wanted, |text| Quiet::of(text).is_some())(spot).and_then(|text| Quiet::of(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(hours: &str, at: &str) -> Option<String> {
        let at = format!("2026-01-01T{at}Z").parse().unwrap();
        let until = Quiet::of(hours).unwrap().until(at)?;
        Some(until.format("%dT%H:%M:%S").to_string())
    }

    #[test]
    fn quiet_hours_may_span_midnight() {
        let night = "22:00-07:00 UTC";
        assert_eq!(until(night, "21:59:59"), None);
        assert_eq!(until(night, "22:00:00").as_deref(), Some("02T07:00:00"));
        assert_eq!(until(night, "06:59:59").as_deref(), Some("01T07:00:00"));
        assert_eq!(until(night, "07:00:00"), None);
        assert_eq!(until("12:00-13:30 UTC", "12:10:30").as_deref(), Some("01T13:30:00"));
        assert_eq!(until("12:00-13:30 UTC", "23:00:00"), None);
    }

    // covers: OP-09
    #[test]
    fn the_last_moment_of_a_time_of_day() {
        let last = |at: &str| {
            let at = format!("2026-01-02T{at}Z").parse().unwrap();
            let last = TimeOfDay::of("08:00 UTC").unwrap().last(at);
            last.format("%dT%H:%M:%S").to_string()
        };
        assert_eq!(last("07:59:59.5"), "01T08:00:00");
        assert_eq!(last("08:00:00"), "02T08:00:00");
        assert_eq!(last("23:30:10.25"), "02T08:00:00");
        for bad in ["", "8:00", "24:00", "08:00 CET"] {
            assert_eq!(TimeOfDay::of(bad), None, "{bad}");
        }
    }

    #[test]
    fn hours_that_are_not_hours_are_refused() {
        for bad in ["", "22-07", "22:00", "24:00-07:00", "22:60-07:00", "07:00-07:00", "7:00-8:00"]
        {
            assert_eq!(Quiet::of(bad), None, "{bad}");
        }
    }
}
