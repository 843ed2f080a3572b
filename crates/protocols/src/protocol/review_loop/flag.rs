//! The flag: bytes → a typed flag, and its judgement. It changes nothing and knows no files but the one it is given.

use super::table::{self, FlagStatus, Holder, Phase, Row};
use crate::model::{Rejection, RelPath, Timestamp, clip, without_bom};
use chrono::DateTime;
use serde_json::{Map, Value};
use std::time::Duration;

pub(super) const PATH: &str = ".agent-status.json";

/// SPEC GAP: §2 says nothing about clocks that run ahead; LP-06 allows two minutes.
const FUTURE_MAX: Duration = Duration::from_secs(120);

/// File systems stamp a write by a coarser clock than ours: by a few milliseconds, some by up to 2 s.
const WRITE_SLACK: Duration = Duration::from_secs(2);

/// `nextAgent` of a flag that asks for the owner (AutomationProtocol 2.1).
const ESCALATE: &str = "escalate";

/// What a flag says. Everything in it is a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Flag {
    pub(super) agent: String,
    pub(super) step: String,
    pub(super) status: String,
    pub(super) next_agent: String,
    pub(super) timestamp: Timestamp,
    /// Why the agent cannot go on; only with the status `blocked`.
    pub(super) blocker: Option<String>,
}

/// What the judge must know beside the flag.
#[derive(Clone, Debug)]
pub(super) struct FlagContext<'a> {
    pub(super) step: &'a str,
    pub(super) phase: Phase,
    pub(super) holder: Holder,
    pub(super) turn_opened: Timestamp,
    /// When the file was written, by its own stamp.
    pub(super) written: Timestamp,
    pub(super) age_max: Duration,
    /// Against which moment the age counts; `None` while the run that may have written it lives.
    pub(super) age_at: Option<Timestamp>,
    /// When we first saw these bytes.
    pub(super) seen: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept(&'static Row),
    /// The flag is wrong; the agent may try again.
    Refuse(Rejection),
    /// A known status where the table has no row (LP-03): the owner must look.
    Forbidden(Rejection),
    /// The agent needs something that only the owner can give (LP-35).
    Blocked(String),
}

/// LP-04: all five fields, non-empty strings; others are ignored.
pub(super) fn parse(bytes: &[u8]) -> Result<Flag, Rejection> {
    let file = RelPath::fixed(PATH);
    let wrong = |found: String, wanted: &str| Rejection::new("LP-04", &file, found, wanted);
    let text = std::str::from_utf8(without_bom(bytes))
        .map_err(|_| wrong(not_utf8(bytes), "JSON in UTF-8"))?;
    let fields = read_object(text).map_err(|(line, found)| {
        wrong(found, "one JSON object with each key once").at_line(line)
    })?;
    let field =
        |name: &str| string_field(&fields, name).map_err(|(found, wanted)| wrong(found, &wanted));
    let stamp = field("timestamp")?;
    let timestamp = DateTime::parse_from_rfc3339(&stamp).map_err(|_| {
        let found = format!("timestamp `{}`", clip(&stamp, 60));
        Rejection::new("LP-06", &file, found, "RFC 3339 with a zone, as 2026-01-01T00:00:00Z")
    })?;
    Ok(Flag {
        agent: field("agent")?,
        step: field("step")?,
        status: field("status")?,
        next_agent: field("nextAgent")?,
        timestamp: timestamp.to_utc(),
        blocker: fields.get("blocker").and_then(Value::as_str).map(str::to_owned),
    })
}

fn not_utf8(bytes: &[u8]) -> String {
    match bytes {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "UTF-16 with a byte-order mark".to_owned(),
        _ => "bytes that are not UTF-8".to_owned(),
    }
}

/// A JSON object whose keys are unique; serde_json alone would keep the last of two. Depth is bounded by the parser (128).
fn read_object(text: &str) -> Result<Map<String, Value>, (u64, String)> {
    struct Unique(Map<String, Value>);
    struct Visit;
    impl<'de> serde::de::Visitor<'de> for Visit {
        type Value = Unique;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Unique, A::Error> {
            let mut fields = Map::new();
            while let Some((name, value)) = map.next_entry::<String, Value>()? {
                if fields.insert(name.clone(), value).is_some() {
                    let twice = format!("the key `{}` twice", clip(&name, 40));
                    return Err(serde::de::Error::custom(twice));
                }
            }
            Ok(Unique(fields))
        }
    }
    impl<'de> serde::Deserialize<'de> for Unique {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_map(Visit)
        }
    }
    serde_json::from_str::<Unique>(text)
        .map(|unique| unique.0)
        .map_err(|error| (error.line() as u64, not_json(&error)))
}

/// What people can act on: the key that is there twice, or where the JSON ends to be JSON.
fn not_json(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => clip(&error.to_string(), 120),
        serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof
        | serde_json::error::Category::Io => {
            format!("not JSON (line {}, column {})", error.line(), error.column())
        }
    }
}

fn string_field(fields: &Map<String, Value>, name: &str) -> Result<String, (String, String)> {
    let wanted = format!("`{name}` as a non-empty string");
    match fields.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
        // SPEC GAP: upstream agents write `"step": 5`; it is the same step when it prints the same (LP-04).
        Some(Value::Number(number)) if name == "step" => Ok(number.to_string()),
        Some(Value::String(_)) => Err((format!("`{name}` empty"), wanted)),
        Some(other) => Err((format!("`{name}` = {}", clip(&other.to_string(), 60)), wanted)),
        None => Err((format!("no `{name}`"), wanted)),
    }
}

/// Judges a flag against the state of the loop, in the order in which the answers help the agent most.
pub(super) fn judge(flag: &Flag, bench: &FlagContext<'_>) -> Verdict {
    let claims = check_claims(flag, bench);
    match claims.and_then(|said| check_times(flag, bench).map(|()| said)) {
        Err(rejection) => Verdict::Refuse(rejection),
        Ok(StatusWord::Blocked) => check_blocked(flag),
        Ok(StatusWord::FlagStatus(said)) => match table::find(bench.phase, bench.holder, said) {
            Some(row) => {
                check_next(flag, row).map_or_else(Verdict::Refuse, |()| Verdict::Accept(row))
            }
            None => Verdict::Forbidden(forbidden(said, bench)),
        },
    }
}

/// The words of a flag's `status`.
enum StatusWord {
    FlagStatus(FlagStatus),
    Blocked,
}

impl StatusWord {
    /// The words of this protocol, and those that AutomationProtocol up to 2.1 has for the same (LP-35).
    fn parse(word: &str) -> Option<Self> {
        let said = match word {
            "blocked" => return Some(Self::Blocked),
            "not-approved" | "conditional" | "needs-revision" => FlagStatus::Reviewed,
            "revision-approved" => FlagStatus::Approved,
            "verified" => FlagStatus::VerifiedClean,
            word => return FlagStatus::parse(word).map(Self::FlagStatus),
        };
        Some(Self::FlagStatus(said))
    }
}

fn check_claims(flag: &Flag, bench: &FlagContext<'_>) -> Result<StatusWord, Rejection> {
    if flag.step != bench.step {
        let found = format!("step `{}`", clip(&flag.step, 40));
        return Err(refusal("LP-05", found, &format!("the loop's step `{}`", bench.step)));
    }
    if flag.agent != bench.holder.word() {
        let found = format!("agent `{}`", clip(&flag.agent, 40));
        return Err(refusal("LP-08", found, &format!("the turn holder `{}`", bench.holder.word())));
    }
    StatusWord::parse(&flag.status).ok_or_else(|| {
        let found = format!("status `{}`", clip(&flag.status, 40));
        refusal("LP-07", found, &format!("one of {}", allowed_words(bench)))
    })
}

fn check_times(flag: &Flag, bench: &FlagContext<'_>) -> Result<(), Rejection> {
    let stamp = || format!("timestamp {}", flag.timestamp.format("%Y-%m-%dT%H:%M:%SZ"));
    if flag.timestamp > bench.seen + FUTURE_MAX {
        return Err(refusal("LP-06", stamp(), "a time at most 2 min in the future"));
    }
    // LP-28: agents guess the time that they claim, so only the file's own stamp shows a flag of an earlier turn.
    if bench.written + WRITE_SLACK < bench.turn_opened {
        let time = |at: Timestamp| at.format("%Y-%m-%dT%H:%M:%SZ");
        let found = format!("a file written at {}", time(bench.written));
        let wanted = format!("one written after this turn began at {}", time(bench.turn_opened));
        return Err(refusal("LP-28", found, &wanted));
    }
    let age = bench.age_at.and_then(|at| (at - flag.timestamp).to_std().ok()).unwrap_or_default();
    if age > bench.age_max {
        let found = format!("{}, {} old", stamp(), duration(age));
        return Err(refusal("LP-06", found, &format!("at most {} old", duration(bench.age_max))));
    }
    Ok(())
}

/// Whole minutes; seconds below one minute.
fn duration(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

fn check_blocked(flag: &Flag) -> Verdict {
    if flag.next_agent != ESCALATE && Holder::parse(&flag.next_agent).is_none() {
        let found = format!("nextAgent `{}`", clip(&flag.next_agent, 40));
        return Verdict::Refuse(refusal("LP-07", found, ESCALATE));
    }
    let blocker = flag.blocker.as_deref().map(str::trim).filter(|text| !text.is_empty());
    Verdict::Blocked(blocker.map_or("it gives no reason".to_owned(), |text| clip(text, 400)))
}

fn check_next(flag: &Flag, row: &Row) -> Result<(), Rejection> {
    let named = Holder::parse(&flag.next_agent);
    let right = match row.next_agent() {
        Some(next) => named == Some(next),
        // SPEC GAP: §1 has no next agent after `verified-clean`; upstream prompts write `advance` (LP-07).
        None => named.is_some() || flag.next_agent == "advance",
    };
    let wanted = row.next_agent().map_or("claude-code or codex", Holder::word);
    let found = format!("nextAgent `{}`", clip(&flag.next_agent, 40));
    if right { Ok(()) } else { Err(refusal("LP-07", found, wanted)) }
}

fn forbidden(said: FlagStatus, bench: &FlagContext<'_>) -> Rejection {
    let (phase, holder) = (bench.phase.word(), bench.holder.word());
    let found = format!("status `{}` in phase `{phase}` with {holder} holding", said.word());
    refusal("LP-03", found, &format!("one of {}", allowed_words(bench)))
}

fn allowed_words(bench: &FlagContext<'_>) -> String {
    let words: Vec<_> = table::allowed(bench.phase, bench.holder)
        .map(|row| format!("`{}`", row.said.word()))
        .collect();
    words.join(", ")
}

fn refusal(rule: &str, found: String, wanted: &str) -> Rejection {
    Rejection::new(rule, &RelPath::fixed(PATH), found, wanted)
}
