//! When a cause is told, repeated, ended, kept for the morning, or told together with others.

use super::*;
use crate::escalate::outbox::tests::record as critical_hold;
use crate::escalate::track::Parcel;

fn at(text: &str) -> Timestamp {
    format!("2026-01-{text}Z").parse().unwrap()
}

fn rules() -> Rules {
    let repeat = Duration::from_secs(4 * 3600);
    Rules { repeat, quiet: None, since: at("01T00:00:00"), routed: true }
}

fn warning() -> Record {
    Record { severity: Severity::Warning, holds: false, ..critical_hold("a1b2c3d4e5f6") }
}

/// Tells `kind` and delivers it at once.
fn tell(record: &Record, lane: &mut Lane, kind: Kind, now: Timestamp) {
    let told = told(record, lane, kind, now);
    lane.tell(&told);
    let parcel = Parcel::new("id".to_owned(), &told);
    lane.parcel = Some(Parcel { stage: Stage::Delivered, ..parcel });
}

/// All that a channel is told from `start` on, when it always delivers at once.
fn history(
    record: &Record,
    lane: &mut Lane,
    start: Timestamp,
    limit: Timestamp,
) -> Vec<(Kind, Timestamp)> {
    let (mut now, mut all) = (start, Vec::new());
    while let Some((kind, due)) = next(record, lane, &rules(), now).filter(|(_, due)| *due <= limit)
    {
        now = now.max(due);
        tell(record, lane, kind, now);
        all.push((kind, now));
        assert!(all.len() < 100, "no end: {all:?}");
    }
    all
}

// covers: ES-03 ES-07
#[test]
fn an_open_cause_is_repeated_up_to_a_cap() {
    let all = history(&warning(), &mut Lane::default(), at("01T00:00:00"), at("31T00:00:00"));
    assert_eq!(all.len(), 13, "{all:?}");
    assert_eq!(all[1], (Kind::Repeated, at("01T04:00:00")));
    let notice = Record { severity: Severity::Notice, ..warning() };
    let all = history(&notice, &mut Lane::default(), at("01T00:00:00"), at("31T00:00:00"));
    assert_eq!(all, [(Kind::Opened, at("01T00:00:00"))]);
}

// covers: ES-03
#[test]
fn an_acknowledged_hold_reminds_daily_and_nothing_else_does() {
    let acked = Record { state: State::Acked, ..critical_hold("a1b2c3d4e5f6") };
    let mut lane = Lane::default();
    let all = history(&acked, &mut lane, at("01T00:00:00"), at("04T12:00:00"));
    let days: Vec<Timestamp> = all.iter().skip(1).map(|(_, at)| *at).collect();
    assert_eq!(days, [at("02T00:00:00"), at("03T00:00:00"), at("04T00:00:00")]);
    let quiet = Record { state: State::Acked, ..warning() };
    assert_eq!(next(&quiet, &lane, &rules(), at("09T00:00:00")), None);
}

#[test]
fn opened_and_resolved_are_both_told_even_when_it_was_short() {
    let ended = Record { state: State::Resolved, ..warning() };
    let start = at("01T00:00:00");
    let all = history(&ended, &mut Lane::default(), start, start);
    assert_eq!(all, [(Kind::Opened, start), (Kind::Resolved, start)]);
    let late = Rules { since: at("02T00:00:00"), ..rules() };
    assert_eq!(next(&ended, &Lane::default(), &late, start), None, "a new channel gets no history");
    let back = Record { openings: 2, ..warning() };
    let mut lane = Lane::default();
    history(&ended, &mut lane, start, start);
    assert_eq!(next(&back, &lane, &rules(), start), Some((Kind::Opened, start)));
}

// covers: ES-03
#[test]
fn what_grows_worse_is_told_at_once() {
    let (mut lane, start) = (Lane::default(), at("01T00:00:00"));
    tell(&warning(), &mut lane, Kind::Opened, start);
    assert_eq!(next(&warning(), &lane, &rules(), start).unwrap().1, at("01T04:00:00"));
    let holds = Record { holds: true, ..warning() };
    assert_eq!(next(&holds, &lane, &rules(), start), Some((Kind::Repeated, start)));
    let critical = Record { severity: Severity::Critical, ..warning() };
    assert_eq!(next(&critical, &lane, &rules(), start), Some((Kind::Repeated, start)));
}

#[test]
fn news_replaces_a_reminder_that_has_not_left() {
    let start = at("01T00:00:00");
    let ended = Record { state: State::Resolved, ..warning() };
    for (kind, stage, news) in [
        (Kind::Repeated, Stage::Deferred, true),
        (Kind::Repeated, Stage::Active, false),
        (Kind::Opened, Stage::Deferred, false),
    ] {
        let mut lane = Lane::default();
        tell(&warning(), &mut lane, Kind::Opened, start);
        if kind == Kind::Repeated {
            tell(&warning(), &mut lane, kind, start);
        }
        lane.parcel.as_mut().unwrap().stage = stage;
        assert_eq!(next(&ended, &lane, &rules(), start).is_some(), news, "{kind:?} {stage:?}");
    }
}

// covers: ES-01
#[test]
fn quiet_hours_keep_what_is_not_critical() {
    let night = Rules { quiet: Quiet::of("22:00-07:00 UTC"), ..rules() };
    let (now, morning) = (at("01T23:00:00"), at("02T07:00:00"));
    let when = |record: &Record| next(record, &Lane::default(), &night, now).unwrap().1;
    assert_eq!(when(&warning()), morning);
    assert_eq!(when(&Record { severity: Severity::Critical, ..warning() }), now);
    assert_eq!(when(&Record { holds: true, ..warning() }), now);
    assert_eq!(when(&Record { state: State::Resolved, ..critical_hold("a1b2c3d4e5f6") }), morning);
}

#[test]
fn a_severity_that_goes_elsewhere_is_not_told_but_an_end_is() {
    let elsewhere = Rules { routed: false, ..rules() };
    let (mut lane, start) = (Lane::default(), at("01T00:00:00"));
    assert_eq!(next(&warning(), &lane, &elsewhere, start), None);
    tell(&warning(), &mut lane, Kind::Opened, start);
    assert_eq!(next(&warning(), &lane, &elsewhere, start), None);
    let ended = Record { state: State::Resolved, ..warning() };
    assert_eq!(next(&ended, &lane, &elsewhere, start), Some((Kind::Resolved, start)));
}

fn dues(range: std::ops::Range<usize>, holds: bool) -> Vec<Due> {
    let due = |n| Due {
        cause: format!("{n:05}"),
        kind: Kind::Opened,
        holds,
        severity: Severity::Warning,
        first_seen: at("01T00:00:00"),
    };
    range.map(due).collect()
}

// covers: ES-03
#[test]
fn a_storm_is_ten_messages_and_a_digest() {
    let (mut flow, limit, start) = (Flow::default(), FloodLimit::default(), at("01T00:00:00"));
    let split = flow.split(dues(0..10_000, false), limit, start);
    assert_eq!((split.alone.len(), split.digest.len()), (10, 0));
    assert_eq!(split.wake, Some(at("01T00:01:00")));
    let split = flow.split(dues(10..10_000, false), limit, at("01T00:00:59"));
    assert_eq!((split.alone.len(), split.digest.len()), (0, 0));
    let split = flow.split(dues(10..10_000, false), limit, at("01T00:01:00"));
    assert_eq!((split.alone.len(), split.digest.len(), split.wake), (0, 9_990, None));
    assert_eq!(flow.split(Vec::new(), limit, at("01T00:02:00")), Split::default());
}

// covers: ES-03
#[test]
fn a_hold_goes_alone_in_any_storm() {
    let (mut flow, limit, start) = (Flow::default(), FloodLimit::default(), at("01T00:00:00"));
    flow.split(dues(0..1000, false), limit, start);
    let mut due = dues(10..1000, false);
    due.extend(dues(5000..5001, true));
    let split = flow.split(due, limit, start);
    assert_eq!(split.alone, dues(5000..5001, true));
}

#[test]
fn a_storm_without_end_is_told_ever_more_rarely() {
    let (mut flow, limit) = (Flow::default(), FloodLimit::default());
    let mut said = 0;
    for minute in 0..24 * 60 {
        let now = at("01T00:00:00") + TimeDelta::minutes(minute);
        let split = flow.split(dues(0..100, false), limit, now);
        said += split.alone.len() + usize::from(!split.digest.is_empty());
    }
    assert!(said < 400, "{said} messages in a day");
}
